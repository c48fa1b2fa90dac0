"""Tokenizers: from raw text to tokens, and from running text to sentences.

whitespace    for text that is already tokenized
residues      for proteins: every letter is a token, in upper case, without white space
moses         the Moses rules of a language; ELMo's training data was tokenized by them
spacy         spaCy's rules of a language (extra `spacy`); in Chinese every character is a token,
              unless a segmenter is named, as in spacy:zh:jieba

The last two normalize typographic marks first, as Moses' normalize-punctuation does: see `MARKS`.
A name that ends in `:verbatim` keeps them.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, Final

from elmo_cli.errors.checks import Sentence, check_batch, check_sentence, check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line
from elmo_cli.options.text import TOKENIZERS, TextSettings

logger = logging.getLogger(__name__)

_WITH_LANGUAGE: Final = ("moses", "spacy")
_WITH_LETTERS: Final = (
    "cjk",
    "ja",
    "ko",
)  # languages whose letters Moses knows, without rules
_SEGMENTERS: Final = (
    ["char"],
    ["jieba"],
)  # segmenters of Chinese that may follow `spacy:zh:`
_VERBATIM: Final = "verbatim"
_FULL_WIDTH: Final = (
    "ja",
    "zh",
)  # languages that have some of `MARKS` as marks of their own
_QUOTES: Final = {**dict.fromkeys("‘’‚´", "'"), **dict.fromkeys("“”„«»", '"')}
MARKS: Final = str.maketrans({**_QUOTES, "–": "-", "—": " - ", "…": "..."})
"""Plain forms of quotes, apostrophes, dashes and the ellipsis, by Moses' normalize-punctuation.

Moses writes a single quote that is not between two letters as `"`. Here it is `'`, as in the script
for the 1 Billion Word Benchmark. Moses' other rules, for white space, ASCII and the order of marks,
are left out, so that each word is normalized by itself, and ASCII stays as it is.
"""


def normalize(text: str) -> str:
    """Replace the typographic marks of a text by their plain forms; see `MARKS`."""
    return text.translate(MARKS)


@dataclass(frozen=True)
class Tokenizer:
    """Tokenizer, and optionally a splitter of text into sentences: see `make_tokenizer`."""

    name: str = "whitespace"  # name with the language, such as `moses:fr`
    # function that splits a sentence into tokens
    tokenize: Callable[[str], list[str]] = str.split
    splits_by: str | None = None  # language whose rules split a text into sentences
    normalization: str | None = None  # `moses` if `MARKS` are normalized before

    def to_attributes(self) -> dict[str, str]:
        """Return the attributes of an output file that name the tokenizer."""
        attributes = {
            "tokenizer": self.name.removesuffix(f":{_VERBATIM}"),
            "normalization": self.normalization,
            "split_sentences": self.splits_by,
        }
        return {
            name: text
            for name, text in attributes.items()
            if text and text != "whitespace"
        }

    def split_sentences(self, text: str) -> list[str]:
        """Split a text into sentences; without `splits_by`, it is the only one."""
        if self.splits_by is None:
            return [text]
        return list(
            filter(
                None, map(str.strip, _load_sentencex().segment(self.splits_by, text))
            )
        )

    def tokenize_sentences(self, text: str) -> list[list[str]]:
        """Split a text into sentences, and each sentence into tokens."""
        return list(map(self.tokenize, self.split_sentences(text)))


WHITESPACE: Final = Tokenizer()


@lru_cache(maxsize=8)  # spaCy is slow to load.
def make_tokenizer(
    name: str, language: str | None = None, *, split_sentences: bool = False
) -> Tokenizer:
    """Make a tokenizer from its name, such as `moses`, `spacy:de` or `spacy:zh:jieba`.

    `language` is a code for names without one, English by default. Its rules split sentences.
    """
    kind, *codes = str(name).split(":")
    is_verbatim = kind != "whitespace" and codes[-1:] == [_VERBATIM]
    codes = codes[:-1] if is_verbatim else codes
    is_segmented = kind == "spacy" and codes[:1] == ["zh"] and codes[1:] in _SEGMENTERS
    if kind not in TOKENIZERS or len(codes) > (kind in _WITH_LANGUAGE) + is_segmented:
        raise SettingsError(
            f"--tokenizer {name!r}: unknown. Use {', '.join(TOKENIZERS)}, or a language with moses "
            "or spacy, such as spacy:de, or spacy:zh with a segmenter, such as spacy:zh:jieba."
        )
    code = (codes[0] if codes else "") or language or "en"
    if not re.fullmatch("[a-z]{2,3}", code):
        raise SettingsError(
            f"--language {code!r}: not a code of ISO 639. Use one such as fr."
        )
    if split_sentences:
        _load_sentencex()
    splits_by = code if split_sentences else None
    if kind == "whitespace":
        return Tokenizer(splits_by=splits_by)
    if kind == "residues":
        return Tokenizer(kind, split_residues, splits_by)
    function = _spacy(code, *codes[1:]) if kind == "spacy" else _moses(code)
    name = ":".join([kind, code, *codes[1:]])
    if code in _FULL_WIDTH:
        return Tokenizer(name, function, splits_by)
    if is_verbatim:
        return Tokenizer(f"{name}:{_VERBATIM}", function, splits_by)
    return Tokenizer(name, partial(_normalize_first, function), splits_by, "moses")


def chosen_tokenizer(
    settings: TextSettings,
    model_language: str | None = None,
    default: str = "whitespace",
    trained: str | None = None,
) -> Tokenizer:
    """Make the tokenizer of a text, of the model's language if the settings name none.

    `trained`, the tokenizer of the model's training, comes before `default`, but not before
    what the settings name.
    """
    if trained is not None and not settings.chooses_tokenizer:
        default = trained
    return make_tokenizer(
        settings.tokenizer or default,
        settings.language or model_language,
        split_sentences=settings.split_sentences,
    )


def _normalize_first(function: Callable[[str], list[str]], text: str) -> list[str]:
    return function(normalize(text))


def recorded_tokenizer(attributes: Mapping[str, object]) -> str | None:
    """Return the name of the tokenizer in the attributes of a file or model.

    Older versions normalized no marks, and recorded no normalization.
    """
    if not isinstance(name := attributes.get("tokenizer"), str):
        return None
    kind, *codes = name.split(":")
    keeps_marks = kind not in _WITH_LANGUAGE or not set(_FULL_WIDTH).isdisjoint(codes)
    return (
        name if keeps_marks or "normalization" in attributes else f"{name}:{_VERBATIM}"
    )


def tokenize(
    text: str, tokenizer: str = "moses", language: str | None = None
) -> list[str]:
    """Return the tokens of a sentence: `don't` becomes `don` and `'t`. Nothing is escaped.

    `moses` and `spacy` make typographic quotes, dashes and the ellipsis plain first.

    Args:
        text: One sentence.
        tokenizer: `moses`, `spacy` or `whitespace`.
        language: Language code of the sentence; English by default.

    Raises:
        ElmoError: `text` is no string, or the tokenizer is unknown or not installed.
    """
    check_type("text", text, str, "a string")
    return make_tokenizer(tokenizer, language).tokenize(text)


def split_residues(sequence: str) -> list[str]:
    """Split a sequence into its residues, in upper case and without white space, as SeqVec does."""
    return list("".join(sequence.split()).upper())


def _moses(language: str) -> Callable[[str], list[str]]:
    from sacremoses import MosesTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    if language not in (*NonbreakingPrefixes().available_langs, *_WITH_LETTERS):
        problem = "Moses has no rules for this language, so those of English are used"
        remedy = f"Check the code, or use spacy:{language} if spaCy supports it."
        logger.warning("Warning: tokenizer moses:%s: %s. %s", language, problem, remedy)
    return partial(MosesTokenizer(lang=language).tokenize, escape=False)


def _spacy(language: str, segmenter: str | None = None) -> Callable[[str], list[str]]:
    spacy = load_extra("tokenizer spacy", "spacy", "spacy")
    settings = {"nlp": {"tokenizer": {"segmenter": segmenter}}} if segmenter else {}
    try:
        if segmenter == "jieba":
            import_module("jieba").setLogLevel(
                logging.WARNING
            )  # It logs to standard error.
        make_doc = spacy.blank(language, config=settings).make_doc
    except (
        ImportError
    ) as error:  # The language, or a package that it needs, is missing.
        reason = first_line(error)
        if segmenter is not None and isinstance(error, ModuleNotFoundError):
            reason += f". Install it with `pip install {segmenter}`."
        unknown = "spaCy does not support this language. Check the code, or use moses."
        problem = unknown if "E048" in reason else f"spaCy cannot make it: {reason}"
        raise SettingsError(f"--tokenizer spacy:{language}: {problem}") from None
    return lambda text: [token.text for token in make_doc(text) if not token.is_space]


def _load_sentencex() -> Any:
    return load_extra("--split-sentences", "sentencex", "sentences")


def tokenize_texts(
    texts: Iterable[object], tokenize: Callable[[str], Sentence], name: str = "texts"
) -> Iterator[Sentence]:
    """Yield the tokens of each text of a batch or stream: a raw text or a list of tokens."""
    for index, text in enumerate(check_batch(texts, name)):
        expected = "a string or a list of tokens"
        yield (
            tokenize(text)
            if isinstance(text, str)
            else check_sentence(text, f"{name}[{index}]", expected)
        )
