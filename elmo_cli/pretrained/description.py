"""A model to what there is to know of it: its size, its files, their checksums and its card."""

from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from elmo_cli.errors import InputError
from elmo_cli.model.characters import N_CHARACTERS
from elmo_cli.model.options import ManyLangsOptions, parameters_by_part, read_options
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.pretrained.download import n_bytes_here
from elmo_cli.pretrained.loading import default_model, find_model
from elmo_cli.pretrained.model_files import FILE_NAMES, ModelFiles, sha256
from elmo_cli.pretrained.registry import BUNDLED, MODELS, PublishedModel, published_model
from elmo_cli.text.lines import read_text

_CARD_LINES: Final = 12


def describe_models(
    language: str | None = None, *, downloaded: bool = False
) -> list[dict[str, Any]]:
    """Describe the published models, those of English first.

    Args:
        language: its code (ISO 639), for the models of one language.
        downloaded: only those on this disk.
    """
    codes = sorted({model.language_code for model in MODELS if model.language_code})
    if language is not None and language.lower() not in codes:
        raise InputError(f"--language {language.lower()}: expected a code of {', '.join(codes)}")
    found = [
        _describe_published(model)
        for model in sorted(MODELS, key=lambda model: model.language_code != "en")
        if language is None or model.language_code == language.lower()
    ]
    return [model for model in found if not downloaded or model["state"] != "available"]


def describe_model(name: str | None = None) -> dict[str, Any]:
    """Describe a model of `find_model`; one that is not on this disk by what the registry says.

    Nothing is downloaded, but for a model of the hub.
    """
    shown = name or default_model()
    published = published_model(shown)
    found = {"name": shown} if published is None else _describe_published(published)
    if found.get("state") == "available":
        return found
    return found | _describe_files(find_model(name or None))


def _describe_published(model: PublishedModel) -> dict[str, Any]:
    n_bytes = n_bytes_here(model)
    state = "available" if n_bytes is None else "downloaded"
    return {
        "name": model.name,
        "parameters": model.parameters,
        "language": model.language,
        "language_code": model.language_code,
        "bytes": n_bytes or model.download_bytes,
        "state": "bundled" if model.name == BUNDLED else state,
        "trained_on": model.text,
    }


def _describe_files(files: ModelFiles) -> dict[str, Any]:
    options = read_options(files.options)
    n_words, n_characters = None, N_CHARACTERS
    if isinstance(options, ManyLangsOptions):
        from elmo_cli.model.many_langs import read_lexicons

        lexicons = read_lexicons(files.options.parent, options)
        n_words = lexicons.words.n_rows if lexicons.words else None
        n_characters = lexicons.characters.n_rows if lexicons.characters else 0
    elif files.vocabulary and (options.char_cnn is None or files.softmax):
        n_words = len(read_vocabulary(files.vocabulary))
    card: list[str] = []
    with suppress(OSError, UnicodeDecodeError):
        card = read_text(files.options.with_name("card.md")).splitlines()[:_CARD_LINES]
    parts = parameters_by_part(options, n_words, n_characters)
    paths = {
        role: {"path": str(path.absolute()), "bytes": path.stat().st_size, "sha256": sha256(path)}
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
