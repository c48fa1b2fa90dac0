"""Registry of the published models, with the addresses of their files.

A file has several URLs, because hosts disappear. They are tried in order. The publishers give no
checksums. The two checksums in this file were recorded by git-lfs for copies in public
repositories.
"""

from dataclasses import dataclass
from typing import Any, Final

from elmo_cli.pretrained.files import FILE_NAMES
from elmo_cli.text.report import Expected, TokenLimit

BUNDLED: Final = "mini"
"""Name of the model that comes with the package."""

_BILLION_WORDS = "1 Billion Word Benchmark, 0.8 billion tokens of news"


@dataclass(frozen=True)
class PublishedModel:
    """Published model with a name. URLs are tried in order, and archives before single files."""

    name: str
    language: str = "English"
    text: str | None = None
    """Training text."""
    parameters: int | None = None
    download_bytes: int | None = None
    """Approximate size of the download. None if it is unknown or nothing can be downloaded."""
    weights_sha256: str | None = None
    """Checksum of the weights file, if it is known."""
    archive: tuple[str, ...] = ()
    """Zip files that contain the options and the weights."""
    options: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    softmax: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    """Words of the softmax. They are unused by `elmo embed`."""
    aliases: tuple[str, ...] = ()
    """Names of the model in other tools."""

    @property
    def language_code(self) -> str | None:
        """Language code (ISO 639); None for proteins."""
        return _CODES.get(self.language)

    def urls(self, role: str) -> tuple[str, ...]:
        """Return the URLs of one of `options`, `weights`, `softmax` and `vocabulary`."""
        urls: tuple[str, ...] = getattr(self, role)
        return urls


def _allennlp(path: str) -> tuple[str, ...]:
    """Return the URLs of a file of AllenNLP's bucket: the present one, and the one in old code."""
    return (
        f"https://allennlp.s3.amazonaws.com/models/elmo/{path}",
        f"https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/{path}",
    )


def _nlpl_archive(path: str) -> tuple[str, str]:
    """Return the URLs of a zip file of the NLPL word vectors repository (University of Oslo)."""
    url = f"vectors.nlpl.eu/repository/{path}.zip"
    return f"https://{url}", f"http://{url}"


def _nlpl(number: int, language: str, **more: Any) -> PublishedModel:
    name, archive = f"nlpl-{number}-{language.lower()}", _nlpl_archive(f"20/{number}")
    return PublishedModel(name, language, archive=archive, **more)


_MANY_LANGS: Final = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "ca": "Catalan",
    "cs": "Czech",
    "cu": "Old Church Slavonic",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "grc": "Ancient Greek",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "la": "Latin",
    "lv": "Latvian",
    "nl": "Dutch",
    "nb": "Norwegian Bokmål",
    "nn": "Norwegian Nynorsk",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sv": "Swedish",
    "tr": "Turkish",
    "ug": "Uyghur",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese (traditional)",
}
"""Languages of ELMoForManyLangs, in the order of their numbers in NLPL's repository."""
_CODES: Final = {language: code for code, language in _MANY_LANGS.items()}
MANY_LANGS_PREFIX: Final = "many-langs-"
_WEB = "Wikipedia and web pages (CoNLL 2018), 20 million words"

_SMALL = "2x1024_128_2048cnn_1xhighway"
_MEDIUM = "2x2048_256_2048cnn_1xhighway"
_ORIGINAL = "2x4096_512_2048cnn_2xhighway"
_LARGE = "2x4096_512_2048cnn_2xhighway_5.5B"
_SEQVEC = "data.bioembeddings.com/public/embeddings/embedding_models/seqvec"
_SEQVEC_COPY = "maintenance.dallago.us/public/embeddings/embedding_models/seqvec"

MODELS: Final = (
    PublishedModel(
        name=BUNDLED,
        text="public-domain and freely licensed text, 71.2 million tokens",
        parameters=5_550_672,
    ),
    PublishedModel(
        name="small",
        text=_BILLION_WORDS,
        parameters=13_593_296,
        download_bytes=54_402_800,
        weights_sha256="747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229",
        options=_allennlp(f"{_SMALL}/elmo_{_SMALL}_options.json"),
        weights=_allennlp(f"{_SMALL}/elmo_{_SMALL}_weights.hdf5"),
    ),
    PublishedModel(
        name="medium",
        text=_BILLION_WORDS,
        parameters=28_027_728,
        download_bytes=112_100_000,
        options=_allennlp(f"{_MEDIUM}/elmo_{_MEDIUM}_options.json"),
        weights=_allennlp(f"{_MEDIUM}/elmo_{_MEDIUM}_weights.hdf5"),
    ),
    PublishedModel(
        name="original",
        text=_BILLION_WORDS,
        parameters=93_600_848,
        download_bytes=374_435_128,
        weights_sha256="a6b92b9ccbb13fe489faacd2221c795d4bebe84b75f8aded9d85ea464fa5c994",
        options=(
            *_allennlp(f"{_ORIGINAL}/elmo_{_ORIGINAL}_options.json"),
            "https://huggingface.co/lysandre/elmo/resolve/main/options.json",
        ),
        weights=(
            *_allennlp(f"{_ORIGINAL}/elmo_{_ORIGINAL}_weights.hdf5"),
            "https://huggingface.co/lysandre/elmo/resolve/main/weights.hdf5",
        ),
        softmax=_allennlp(f"{_ORIGINAL}/elmo_{_ORIGINAL}_softmax_weights.hdf5"),
        vocabulary=(
            *_allennlp(f"{_ORIGINAL}/vocab-2016-09-10.txt"),
            *_allennlp("vocab-2016-09-10.txt"),
        ),
    ),
    PublishedModel(
        name="original-5.5b",
        text="Wikipedia and WMT 2008-2012 news, 5.5 billion tokens",
        parameters=93_600_848,
        download_bytes=374_400_000,
        options=_allennlp(f"{_LARGE}/elmo_{_LARGE}_options.json"),
        weights=_allennlp(f"{_LARGE}/elmo_{_LARGE}_weights.hdf5"),
        softmax=_allennlp(f"{_LARGE}/elmo_{_LARGE}_softmax_weights.hdf5"),
        vocabulary=_allennlp(f"{_LARGE}/tf_checkpoint/vocab-enwiki-news-500000.txt"),
        aliases=("5.5b", "large"),
    ),
    PublishedModel(
        name="portuguese",
        language="Portuguese",
        options=_allennlp("contributed/pt/elmo_pt_options.json"),
        weights=_allennlp("contributed/pt/elmo_pt_weights.hdf5"),
        aliases=("pt",),
    ),
    PublishedModel(
        name="pubmed",
        text="PubMed",
        parameters=93_600_848,
        download_bytes=374_400_000,
        options=_allennlp(f"contributed/pubmed/elmo_{_ORIGINAL}_options.json"),
        weights=_allennlp(f"contributed/pubmed/elmo_{_ORIGINAL}_weights_PubMed_only.hdf5"),
    ),
    PublishedModel(
        name="seqvec",
        language="proteins",
        text="UniRef50",
        parameters=93_600_848,
        download_bytes=374_400_000,
        archive=(
            "https://lbs.cent.uw.edu.pl/static/files/seqvec.zip",
            "https://web.archive.org/web/20220324054637/https://rostlab.org/~deepppi/seqvec.zip",
        ),
        options=(f"http://{_SEQVEC}/options.json", f"http://{_SEQVEC_COPY}/options.json"),
        weights=(f"http://{_SEQVEC}/weights.hdf5", f"http://{_SEQVEC_COPY}/weights.hdf5"),
    ),
    _nlpl(209, "English"),
    _nlpl(201, "German"),
    _nlpl(202, "Swedish"),
    _nlpl(203, "Latin"),
    _nlpl(212, "Russian", text="Araneum, lemmas", download_bytes=1_500_000_000),
    *(
        PublishedModel(
            f"{MANY_LANGS_PREFIX}{code}", language, _WEB, archive=_nlpl_archive(f"11/{n}")
        )
        for n, (code, language) in enumerate(_MANY_LANGS.items(), start=136)
    ),
)


def published_model(name: str) -> PublishedModel | None:
    """Return the model with a name or an alias, ignoring case, or None."""
    for model in MODELS:
        if name.lower() in (model.name, *model.aliases):
            return model
    return None


def model_of_url(url: str) -> PublishedModel | None:
    """Return the model that has a file at a URL, or None."""
    for model in MODELS:
        if any(url in model.urls(role) for role in FILE_NAMES):
            return model
    return None


def expected_input(model: str, token_limit: TokenLimit | None) -> Expected:
    """Return the input that a model expects. Its language is known of published models only."""
    published = published_model(model)
    return Expected(token_limit, model, published.language if published else None)
