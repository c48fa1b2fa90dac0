"""Registry of the published models, which models.json lists with their addresses.

A file has several URLs, because hosts disappear. They are tried in order. The
publishers give no checksums. The two checksums in the list were recorded by git-lfs for
copies in public repositories.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elmo_cli.pretrained.roles import role_of

BUNDLED: Final = "mini"
MANY_LANGS_PREFIX: Final = "many-langs-"
"""Beginning of the names of ELMoForManyLangs' models. A language code follows."""


@dataclass(frozen=True)
class PublishedModel:
    """Published model with a name: an object of models.json."""

    name: str
    language: str = "English"
    language_code: str | None = None
    """Language code (ISO 639); None for proteins."""
    aliases: Sequence[str] = ()
    """Names of the model in other tools."""
    text: str | None = None
    """Text that it was trained on."""
    parameters: int | None = None
    download_bytes: int | None = None
    """Approximate size of the download. None if unknown or if there is no download."""
    weights_sha256: str | None = None
    """SHA-256 of the HDF5 file of weights, if it is known."""
    files: Sequence[str] = ("options.json", "weights.hdf5")
    """Names of the files in a mirror, the weights last."""
    page: str | None = None
    """Page that has the files of a model without URLs, which users import."""
    urls: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """URLs of the files, by their roles as in `FILE_NAMES`, in the order in which they
    are tried. `archive` is a zip file with the options and the weights, which is tried
    first.
    """

    def known_sha256(self, name: str) -> str | None:
        """Return the SHA-256 that a file of this name must have, or None if unknown."""
        return self.weights_sha256 if role_of(name) == "weights" else None


MODELS: Final = tuple(
    PublishedModel(**model)
    for model in json.loads(
        Path(__file__).with_name("models.json").read_text(encoding="utf-8")
    )
)
"""All published models, the bundled one first."""


def default_model() -> str:
    """Return the default model's name or path: ELMO_MODEL, else the bundled one."""
    return os.environ.get("ELMO_MODEL") or BUNDLED


def is_default_named() -> bool:
    """Return whether ELMO_MODEL names the default model."""
    return bool(os.environ.get("ELMO_MODEL"))


def published_model(name: str) -> PublishedModel | None:
    """Return the model with a name or an alias, ignoring case, or None."""
    for model in MODELS:
        if name.lower() in (model.name, *model.aliases):
            return model
    return None


def language_name(code: str) -> str | None:
    """Return the English name of a language that a published model is for, or None."""
    for model in MODELS:
        if model.language_code == code:
            return model.language
    return None


def language_code(language: str) -> str:
    """Return the code of a language that a published model is for, ignoring case.

    Its name or code is given. Others are returned as they are.
    """
    for model in MODELS:
        code = model.language_code
        if code and language.casefold() in (code, model.language.casefold()):
            return code
    return language


def model_of_url(url: str) -> PublishedModel | None:
    """Return the model that has a file at a URL, or None."""
    for model in MODELS:
        if any(url in urls for urls in model.urls.values()):
            return model
    return None
