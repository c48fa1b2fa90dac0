"""Comparison of files by their attributes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import shown
from elmo_cli.outputs.attributes import option_name
from elmo_cli.text.tokenizers import recorded_tokenizer

SHARED_ATTRIBUTES: Final = (
    "model_sha256",
    "state",
    "layers",
    "mix",
    "gamma",
    "pooling",
    "format",
)
"""Attributes that must be equal in files that are read as one."""


def with_tokenizer(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with the full name of the tokenizer, which is whitespace by default."""
    return {**attributes, "tokenizer": recorded_tokenizer(attributes) or "whitespace"}


def check_same(
    described: Sequence[tuple[object, Mapping[str, Any]]], names: Iterable[str]
) -> None:
    """Raise an `InputError` unless files, each a path and its attributes, agree in `names`."""
    (first_path, first), *others = [
        (path, with_tokenizer(each)) for path, each in described
    ]
    for path, attributes in others:
        for name in names:
            there, here = first.get(name, "none"), attributes.get(name, "none")
            if there != here:
                how = (
                    f"--tokenizer {there}"
                    if name == "tokenizer"
                    else f"options of {first_path}"
                )
                raise InputError(
                    f"{first_path} and {path} cannot be read together: {option_name(name)} is "
                    f"{shown(there)} in {first_path} and {shown(here)} in {path}. "
                    f"Write {path} with {how}."
                )


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """Describe the attributes, except `model`, that differ between an output and a run (`here`)."""
    there, here = with_tokenizer(there), with_tokenizer(here)
    return [
        f"{option_name(name)} ({shown(there.get(name, 'none'))}, "
        f"not {shown(here.get(name, 'none'))})"
        for name in sorted({*there, *here} - {"model", "normalization"})
        if there.get(name) != here.get(name)
    ]
