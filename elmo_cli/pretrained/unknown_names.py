"""Errors for names that are no model's, with what the user may have meant."""

import re
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import MissingModelError
from elmo_cli.errors.messages import literal
from elmo_cli.errors.wording import did_you_mean
from elmo_cli.options.model import is_device
from elmo_cli.pretrained.hub import HUB_NAME
from elmo_cli.pretrained.registry import (
    MANY_LANGS_PREFIX,
    MODELS,
    PublishedModel,
    published_model,
)

_PATH: Final = re.compile(
    r"[~.]|.*[/\\]|[A-Za-z]:|.*\.(zip|hdf5|safetensors|json)$", re.DOTALL
)
"""Names that look like a path."""


def known_model(name: str) -> PublishedModel:
    """Return the published model with a name; raise an error for an unknown name."""
    model = published_model(name)
    if model is None:
        raise _no_such_name_error(name, or_a_path="")
    return model


def no_such_model_error(name: str | Path, start: str = "") -> MissingModelError:
    """Return the error for a name or path that leads to no model.

    Its message begins with `start`.
    """
    text = str(name)
    if is_device(text):
        return MissingModelError(
            "{start}{name}: no such model",
            remedy=f"For a device, use {{--device {text}}}.",
            start=start,
            name=text,
        )
    if "://" in text:
        remedies = ["Download it with another program, and give its path as the model."]
        if not text.endswith(".zip"):
            two_files = (
                "Use {--options-file} and {--weight-file} with the URLs of the two "
                "files."
            )
            remedies = [two_files, *remedies]
        return MissingModelError(
            "{start}{url}: a URL is not a model",
            remedy=remedies,
            start=start,
            url=text,
        )
    if isinstance(name, Path) or _PATH.match(text):
        if HUB_NAME.match(text):
            remedy = f"If it is in the hub, use hf:{literal(text)}."
        else:
            remedy = "`elmo models` lists the models that have a name."
        return MissingModelError(
            "{start}{name}: no such model folder or zip file",
            remedy=remedy,
            start=start,
            name=text,
        )
    return _no_such_name_error(
        text, start=start, or_a_path=", or give a folder or hf:OWNER/NAME"
    )


def _no_such_name_error(
    name: str, *, start: str = "", or_a_path: str
) -> MissingModelError:
    """Return the error for a name that no published model has, with similar names."""
    names = [model.name for model in MODELS]
    question = did_you_mean(name, names)
    if name.startswith(MANY_LANGS_PREFIX):
        remedy = "`elmo models --all` lists the codes."
    elif question:
        remedy = f"{question} `elmo models` lists all names."
    else:
        remedy = f"Choose one that `elmo models` lists{or_a_path}."
    return MissingModelError(
        "{start}{name}: no such model", remedy=remedy, start=start, name=name
    )
