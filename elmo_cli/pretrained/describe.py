"""Descriptions of models, for `elmo models` and `elmo info`."""

import re
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.wording import did_you_mean, with_question
from elmo_cli.files.text_files import read_text
from elmo_cli.model.characters import N_CHARACTERS
from elmo_cli.model.many_langs_config import ManyLangsArchitecture
from elmo_cli.model.parameter_counts import parameters_by_part
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.pretrained.cache import n_bytes_downloaded
from elmo_cli.pretrained.checksums import sha256
from elmo_cli.pretrained.find_model import find_files_by_name
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.registry import (
    BUNDLED,
    MODELS,
    PublishedModel,
    default_model,
    language_code,
    published_model,
)
from elmo_cli.pretrained.require_softmax import with_softmax_in_weights
from elmo_cli.pretrained.roles import FILE_NAMES
from elmo_cli.pretrained.tensor_names import check_readable, has_tensor

_NO_PARAGRAPH: Final = ("|", "- ", "* ", "---")
"""Beginnings of tables, lists and the metadata of the hub."""


NOT_HERE: Final = ("available", "import")
"""Statuses of a model that is not on this disk. One to import cannot be downloaded."""


def describe_models(
    language: str | None = None, *, downloaded: bool = False
) -> list[dict[str, Any]]:
    """Describe the published models, English ones first.

    The language is a code (ISO 639) or a name, such as French, by default any. With
    `downloaded`, only the models on this disk are described.
    """
    models = sorted(MODELS, key=lambda model: model.language_code != "en")
    if language is not None:
        code = _language_code(language)
        models = [model for model in models if model.language_code == code]
    described = [_describe_published(model) for model in models]
    if downloaded:
        described = [model for model in described if model["status"] not in NOT_HERE]
    return described


def _language_code(language: str) -> str:
    """Return the code of a language that is given by its code or its name.

    Raise a `SettingsError` for a language without a model.
    """
    names = {
        model.language: model.language_code
        for model in MODELS
        if model.language_code is not None
    }
    code = language_code(language)
    if code not in names.values():
        raise SettingsError(
            with_question(
                "{--language} {language}: no model", did_you_mean(language, names)
            ),
            remedy="The codes are {codes}.",
            language=language,
            codes=", ".join(sorted(names.values())),
        )
    return code


def describe_model(name: str | None = None) -> dict[str, Any]:
    """Describe a model by its name or path, by default the default model.

    Only a model of the hub is downloaded.
    """
    shown_name = name or default_model()
    published = published_model(shown_name)
    if published is None:
        return {"name": shown_name, **_describe_files(find_files_by_name(name or None))}
    description = _describe_published(published)
    if description["status"] in NOT_HERE:
        return description
    return {**description, **_describe_files(find_files_by_name(name or None))}


def _describe_published(model: PublishedModel) -> dict[str, Any]:
    """Describe a model by its registry entry, and say whether it is on this disk."""
    n_bytes = n_bytes_downloaded(model)
    if model.name == BUNDLED:
        status = "bundled"
    elif n_bytes is None and not model.urls:
        status = "import"
    elif n_bytes is None:
        status = "available"
    else:
        status = "downloaded"
    return {
        "name": model.name,
        "parameters": model.parameters,
        "language": model.language,
        "language_code": model.language_code,
        "bytes": n_bytes or model.download_bytes,
        "status": status,
        "trained_on": model.text,
    }


def _describe_files(files: ModelFiles) -> dict[str, Any]:
    """Describe a model by its files: their paths, its size, architecture and card."""
    if files.weights.suffix != ".pkl":
        check_readable(files.weights)
    files = with_softmax_in_weights(files)
    architecture = files.architecture
    n_characters = N_CHARACTERS
    if isinstance(architecture, ManyLangsArchitecture):
        n_words, n_characters = _count_lexicons(files, architecture)
    else:
        n_words = _count_words(files)
    parts = parameters_by_part(
        architecture, n_words, n_characters, projects=_has_projection(files)
    )
    return {
        "layers": architecture.n_layers,
        "width": architecture.width,
        "directions": architecture.directions,
        "words": n_words,
        "parameters": sum(parts.values()),
        "parts": parts,
        "options": asdict(architecture),
        "files": _describe_paths(files),
        "card": _read_card(files),
    }


def _count_lexicons(
    files: ModelFiles, architecture: ManyLangsArchitecture
) -> tuple[int | None, int]:
    """Return the numbers of words and of characters that have a vector."""
    from elmo_cli.model.lexicons import read_lexicons

    lexicons = read_lexicons(files.options.parent, architecture)
    n_words = lexicons.words.n_rows if lexicons.words else None
    n_characters = lexicons.characters.n_rows if lexicons.characters else 0
    return n_words, n_characters


def _count_words(files: ModelFiles) -> int | None:
    """Return the number of words that a model reads or predicts, or None."""
    uses_words = files.architecture.char_cnn is None or files.softmax is not None
    if uses_words and files.vocabulary is not None:
        return len(read_vocabulary(files.vocabulary))
    return None


def _has_projection(files: ModelFiles) -> bool:
    """Return whether the character CNN ends with a projection.

    bilm-tf may omit it if the filters are as many as the projection is wide.
    """
    architecture = files.architecture
    if isinstance(architecture, ManyLangsArchitecture) or architecture.char_cnn is None:
        return True
    if architecture.char_cnn.n_filters != architecture.lstm.projection_dim:
        return True
    return has_tensor(files.weights, "CNN_proj/W_proj")


def _describe_paths(files: ModelFiles) -> dict[str, dict[str, Any]]:
    described = {}
    for role in FILE_NAMES:
        path = getattr(files, role)
        if path is not None:
            described[role] = {
                "path": str(path.absolute()),
                "bytes": path.stat().st_size,
                "sha256": sha256(path),
            }
    return described


def _read_card(files: ModelFiles) -> list[str]:
    """Return the title and the first paragraph of the card next to options.json.

    A model without a card has no lines.
    """
    path = files.options.with_name("card.md")
    card = ""
    with suppress(OSError, UnicodeDecodeError):
        if path.is_file():
            card = read_text(path)
    shown: list[str] = []
    for block in re.split(r"\n\s*\n", card.strip()):
        if block.startswith("#"):
            if not shown:
                shown.append(block)
        elif not block.startswith(_NO_PARAGRAPH):
            shown.append(block)
            break
    return "\n\n".join(shown).splitlines()
