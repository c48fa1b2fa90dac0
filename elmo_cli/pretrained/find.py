"""Models by name, folder, zip file or two files: their files, biLM and description."""

import logging
import os
import re
import shutil
import zipfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import (
    ElmoError,
    MissingModelError,
    ModelError,
    SettingsError,
)
from elmo_cli.errors.wording import did_you_mean
from elmo_cli.files.text_files import read_text
from elmo_cli.model.characters import N_CHARACTERS
from elmo_cli.model.many_langs_options import ManyLangsOptions
from elmo_cli.model.parameter_counts import parameters_by_part
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.pretrained import cache
from elmo_cli.pretrained.files import (
    FILE_NAMES,
    TOKEN_ENCODER,
    ModelFiles,
    check_kind,
    has_tensor,
    only_file,
    read_folder,
    sha256,
)
from elmo_cli.pretrained.registry import (
    BUNDLED,
    MANY_LANGS_PREFIX,
    MODELS,
    PublishedModel,
    model_of_url,
    published_model,
)

if TYPE_CHECKING:
    from elmo_cli.model.bilm import BiLm

logger = logging.getLogger(__name__)
_PATH: Final = re.compile(
    r"[~.]|.*[/\\]|[A-Za-z]:|.*\.(zip|hdf5|safetensors|json)$", re.DOTALL
)
_HUB_NAME: Final = re.compile(r"(hf:)?\w[\w.-]*/[\w.-]+(@|$)")


def choose_model(
    model: str | Path | ModelFiles | None = None,
    options_file: str | Path | None = None,
    weight_file: str | Path | None = None,
    vocabulary_file: str | Path | None = None,
    softmax_file: str | Path | None = None,
    *,
    with_softmax: bool = False,
) -> ModelFiles:
    """Find the files of a model from any of the ways to give one.

    `options_file` alone is a `model`. Without a vocabulary or softmax, the file next to the weights
    is used. `with_softmax` requires a softmax, and a vocabulary next to it or to the weights.
    """
    if isinstance(model, ModelFiles):
        files = model
    elif weight_file is None and (model is None or options_file is None):
        name = options_file if model is None else model
        files = find_model(name, with_softmax=with_softmax and softmax_file is None)
    elif options_file is None or weight_file is None or model is not None:
        raise ModelError(
            "Give either --options-file and --weight-file, or --model, or none."
        )
    else:
        files = _find_two_files(options_file, weight_file)
    if vocabulary_file is not None:
        files = replace(
            files, vocabulary=cache.local_file(vocabulary_file, "vocabulary")
        )
    if softmax_file is not None:
        check_kind(softmax := cache.local_file(softmax_file, "softmax"))
        files = replace(files, softmax=softmax)
    if with_softmax:
        return _check_softmax(files)
    if vocabulary_file is not None and files.parsed_options.char_cnn is not None:
        problem = "the model reads characters and takes no vocabulary"
        raise SettingsError(f"{files.name}: {problem}. Remove --vocabulary-file.")
    return files


def _find_two_files(options_file: str | Path, weight_file: str | Path) -> ModelFiles:
    options = cache.local_file(options_file, "options")
    weights = cache.local_file(weight_file, "weights")
    if weights.suffix != ".pkl":
        check_kind(weights)
    models = [model_of_url(str(file)) for file in (options_file, weight_file)]
    model = models[0] if models[0] == models[1] else None
    vocabulary, softmax = (
        only_file(weights.parent, role) for role in ("vocabulary", "softmax")
    )
    name, language = (
        (model.name, model.language_code) if model else (str(weight_file), None)
    )
    return ModelFiles(name, options, weights, vocabulary, softmax, language)


def _check_softmax(files: ModelFiles) -> ModelFiles:
    """Return the files with their softmax and its vocabulary, which must exist."""
    files = with_own_softmax(files)
    if files.softmax is None:
        remedy = f"Add softmax.hdf5 next to {files.weights}, or give --softmax-file."
        raise MissingModelError(
            f"{files.name}: predicting words requires a softmax. {remedy}"
        )
    vocabulary = files.vocabulary or only_file(files.softmax.parent, "vocabulary")
    if vocabulary is None:
        remedy = f"Add vocab.txt next to {files.softmax}, or give --vocabulary-file."
        raise MissingModelError(
            f"{files.name}: the softmax requires its vocabulary. {remedy}"
        )
    return replace(files, vocabulary=vocabulary)


def with_own_softmax(files: ModelFiles) -> ModelFiles:
    """Return the files with the weights as the softmax, if one file has both."""
    if files.softmax is not None or files.weights.suffix == ".pkl":
        return files
    has_both = has_tensor(files.weights, "softmax/W")
    return replace(files, softmax=files.weights) if has_both else files


def load_bilm(files: ModelFiles) -> "BiLm":
    """Build a model from its files, in float32."""
    options = files.parsed_options
    if isinstance(options, ManyLangsOptions):
        from elmo_cli.model.lexicons import read_lexicons
        from elmo_cli.model.many_langs import read_many_langs

        token_encoder = files.weights.with_name(TOKEN_ENCODER)
        lexicons = read_lexicons(files.weights.parent, options)
        return read_many_langs(files.weights, token_encoder, options, lexicons)
    from elmo_cli.model.weights import read_weights

    if options.char_cnn is not None:
        return read_weights(files.weights, options)
    if files.vocabulary is None:
        problem = "a word-level model (without char_cnn) requires its vocabulary"
        remedy = f"Add vocab.txt next to {files.weights}."
        raise MissingModelError(f"{files.options}: {problem}. {remedy}")
    return read_weights(files.weights, options, read_vocabulary(files.vocabulary))


def default_model() -> str:
    """Return the name or path of the default model."""
    return os.environ.get("ELMO_MODEL") or BUNDLED


@dataclass(frozen=True)
class ResolvedModel:
    """A model that a user named, as far as it is known without a download."""

    language: str | None = None  # code (ISO 639)
    tokenizer: str | None = None
    """Tokenizer of its training text. None if it is unknown, as for published models."""
    files: ModelFiles | None = None


def resolve_model(
    model: str | Path | ModelFiles | None,
    options_file: str | Path | None,
    weight_file: str | Path | None,
    *others: str | Path | None,
) -> ResolvedModel:
    """Resolve a model before its text is opened. Only a model of the hub is downloaded."""
    if weight_file is not None and options_file is not None and model is None:
        published = model_of_url(str(options_file))
        is_local = os.path.isfile(options_file)
    else:
        name = next(
            each for each in (model, options_file, default_model()) if each is not None
        )
        published, is_local = (
            published_model(name) if isinstance(name, str) else None,
            True,
        )
    if published is not None:
        return ResolvedModel(published.language_code)
    with suppress(ElmoError):  # `choose_model` reports the errors of a model later.
        if is_local:
            files = choose_model(model, options_file, weight_file, *others)
            # The softmax of a model of the hub may have to be downloaded.
            is_complete = not str(model).startswith(cache.HUB_PREFIX)
            return ResolvedModel(
                files.language, files.tokenizer, files if is_complete else None
            )
    return ResolvedModel()


def find_model(
    name: str | Path | None = None, *, with_softmax: bool = False
) -> ModelFiles:
    """Find the files of a model, and download them, with the softmax if `with_softmax`.

    The name is in the registry or on the hub, or the path of a folder or zip file. A `Path` is
    never a name. None is the environment variable ELMO_MODEL, else the bundled model.
    """
    source = "ELMO_MODEL: " if name is None else ""
    name = default_model() if name is None else name
    check_type("model", name, (str, os.PathLike), "a name or a path")
    if name == "":  # Its Path would be the current folder.
        raise ModelError(
            "the name of the model is empty. Give a name, a folder or a zip file."
        )
    if isinstance(name, str) and (published := published_model(name)):
        if os.path.isdir(name):
            logger.warning(
                "Warning: %s is the published model. The folder is ./%s.", name, name
            )
        return cache.download_model(published, with_softmax=with_softmax)
    if isinstance(name, str) and name.startswith(cache.HUB_PREFIX):
        return cache.find_in_hub(name, with_softmax=with_softmax)
    path = Path(os.path.expanduser(name))  # An unknown user is left unchanged.
    if os.path.isdir(path):
        return read_folder(path, str(name))
    check_kind(path)
    if not os.path.isfile(path):
        raise no_such_model(name, source)
    if path.suffix != ".zip" and not zipfile.is_zipfile(path):
        problem = "expected a name, a folder or a zip file, found another file"
        remedy = (
            "Give the folder that has the options.json and the weights of the model."
        )
        raise ModelError(f"{path}: {problem}. {remedy}")
    return read_folder(cache.unpacked(path), str(name))


def find_pretrained(name: str | Path, revision: str | None = None) -> ModelFiles:
    """Find a model by a name or path of `find_model`, or as `OWNER/NAME` on the hub."""
    check_type("name", name, (str, os.PathLike), "a name or a path")
    is_known = isinstance(name, Path) or published_model(name) or os.path.exists(name)
    if not is_known and _HUB_NAME.match(str(name)):
        in_hub = cache.HUB_PREFIX + str(name).removeprefix(cache.HUB_PREFIX)
        return find_model(f"{in_hub}@{revision}" if revision else in_hub)
    if revision is not None:
        raise ModelError(
            f"{name}: only models of the hub have revisions. Remove the revision."
        )
    return find_model(name)


def known_model(name: str) -> PublishedModel:
    """Return the published model with a name; raise a `ModelError` for an unknown name."""
    model = published_model(name)
    if model is None:
        raise no_such_model(name, takes_path=False)
    return model


def remove_model(name: str) -> tuple[Path, int]:
    """Delete the files of a published model. Return their folder and size in bytes."""
    if name.startswith(cache.HUB_PREFIX):
        raise ModelError(
            f"{name}: the hub's own package stores it. See `hf cache --help`."
        )
    model = known_model(name)
    if model.name == BUNDLED:
        raise ModelError(
            f"{BUNDLED}: the model is bundled with elmo-cli and cannot be removed."
        )
    folder = cache.published_folder(model)
    if not folder.is_dir():
        raise ModelError(
            f"{model.name}: the model is not downloaded: {folder} is missing."
        )
    n_bytes = sum(file.stat().st_size for file in folder.iterdir())
    shutil.rmtree(folder)
    return folder, n_bytes


def no_such_model(
    name: str | Path, source: str = "", *, takes_path: bool = True
) -> ModelError:
    """Return the error for an unknown name. Its message begins with `source`."""
    text = str(name)
    looks_like_path = isinstance(name, Path) or _PATH.match(text)
    if takes_path and "://" in text:
        remedy = "Use --options-file and --weight-file with the URLs of the two files."
        return MissingModelError(f"{source}{text}: a URL is not a model. {remedy}")
    if takes_path and looks_like_path:
        remedy = (
            f". If it is in the hub, use hf:{text}." if _HUB_NAME.match(text) else ""
        )
        return MissingModelError(
            f"{source}{text}: no such model folder or zip file{remedy}"
        )
    names = [model.name for model in MODELS]
    if text.startswith(MANY_LANGS_PREFIX):
        advice = " `elmo models --all` lists the codes."
    elif advice := did_you_mean(text, names):
        advice += " `elmo models` lists all names."
    else:
        listed = ", ".join(
            name for name in names if not name.startswith(MANY_LANGS_PREFIX)
        )
        advice = f" Choose one of {listed}, {MANY_LANGS_PREFIX}CODE (see `elmo models`)"
        advice += ", or give the path of a folder." if takes_path else "."
    return MissingModelError(f"{source}{text}: no such model.{advice}")


def describe_models(
    language: str | None = None, *, downloaded: bool = False
) -> list[dict[str, Any]]:
    """Describe the published models, English ones first. The language is a code (ISO 639)."""
    models = sorted(MODELS, key=lambda model: model.language_code != "en")
    if language is not None:
        language = language.lower()
        codes = sorted({model.language_code for model in models if model.language_code})
        if language not in codes:
            raise SettingsError(
                f"--language {language}: expected a code of {', '.join(codes)}"
            )
        models = [model for model in models if model.language_code == language]
    described = map(_describe_published, models)
    return [
        model for model in described if not downloaded or model["state"] != "available"
    ]


def describe_model(name: str | None = None) -> dict[str, Any]:
    """Describe a model by its name or path. Only a model of the hub is downloaded."""
    name = name or None
    known = published_model(name or default_model())
    description = (
        _describe_published(known) if known else {"name": name or default_model()}
    )
    is_missing = description.get("state") == "available"
    return (
        description if is_missing else description | _describe_files(find_model(name))
    )


def _describe_published(model: PublishedModel) -> dict[str, Any]:
    n_bytes = cache.n_bytes_downloaded(model)
    status = "available" if n_bytes is None else "downloaded"
    return {
        "name": model.name,
        "parameters": model.parameters,
        "language": model.language,
        "language_code": model.language_code,
        "bytes": n_bytes or model.download_bytes,
        "state": "bundled" if model.name == BUNDLED else status,
        "trained_on": model.text,
    }


def _describe_files(files: ModelFiles) -> dict[str, Any]:
    files = with_own_softmax(files)
    options, characters = files.parsed_options, files.parsed_options.char_cnn
    n_words, n_characters, projects = None, N_CHARACTERS, True
    if isinstance(options, ManyLangsOptions):
        from elmo_cli.model.lexicons import read_lexicons

        lexicons = read_lexicons(files.options.parent, options)
        n_words = lexicons.words.n_rows if lexicons.words else None
        n_characters = lexicons.characters.n_rows if lexicons.characters else 0
    else:
        if characters and characters.n_filters == options.lstm.projection_dim:
            projects = has_tensor(
                files.weights, "CNN_proj/W_proj"
            )  # bilm-tf may omit it.
        if files.vocabulary and (characters is None or files.softmax):
            n_words = len(read_vocabulary(files.vocabulary))
    card: list[str] = []
    card_file = files.options.with_name("card.md")
    with suppress(OSError, UnicodeDecodeError):
        card = read_text(card_file).splitlines()[:12] if card_file.is_file() else []
    parts = parameters_by_part(options, n_words, n_characters, projects=projects)
    paths = {
        role: {
            "path": str(path.absolute()),
            "bytes": path.stat().st_size,
            "sha256": sha256(path),
        }
        for role in FILE_NAMES
        if (path := getattr(files, role)) is not None
    }
    return {
        "layers": options.n_layers,
        "width": options.width,
        "words": n_words,
        "parameters": sum(parts.values()),
        "parts": parts,
        "options": asdict(options),
        "files": paths,
        "card": card,
    }
