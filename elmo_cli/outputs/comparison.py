"""Comparison of files by their attributes: with other files, or with a run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import shown
from elmo_cli.options.tokenizer_names import recorded_tokenizer
from elmo_cli.outputs.attributes import layers_of, option_name

SHARED_ATTRIBUTES: Final = (
    "model_sha256",
    "state",
    "layers",
    "mix",
    "gamma",
    "pooling",
)
"""Attributes that must be equal in files that are read as one."""
_COLUMNS: Final = ("id_column", "text_column", "word_column")
"""Attributes that an output has only if they were chosen. Those of earlier versions
lack them. The hash of the records shows what they leave open."""
_NOT_COMPARED: Final = {"model"}
"""Attributes that others say better: the weights."""
_INPUT_FORMAT: Final = "format"
_BY_FORMAT: Final = {"forget_sentences", "keys"}
"""Attributes that are often not chosen, but follow from the input format."""


def check_same(
    described: Sequence[tuple[object, Mapping[str, Any]]], names: Iterable[str]
) -> None:
    """Raise an `InputError` unless files agree in the attributes with these `names`.

    Each file is described by its path and its attributes.
    """
    first_path, first = described[0]
    expected = _with_tokenizer(first)
    for path, attributes in described[1:]:
        found = _with_tokenizer(attributes)
        for name in names:
            there = expected.get(name, "none")
            here = found.get(name, "none")
            if there == here:
                continue
            if name == "layers" and layers_of(first) == layers_of(attributes):
                continue
            remedy = "Write {path} again with the options of {first_path}."
            shell_remedy = None
            has_layers = "layers" in first and "mix" not in first
            if name == "tokenizer" or (name == "layers" and has_layers):
                remedy = f"Write {{path}} again with {{--{name} {there}}}."
                # An option of `elmo embed`: the running command may lack it.
                shell_remedy = f"Write {{path}} again with --{name} {{there}}."
            raise InputError(
                "{first_path} and {path} cannot be read together: {option} is "
                "{there} in {first_path} and {here} in {path}",
                remedy=remedy,
                shell_remedy=shell_remedy,
                first_path=first_path,
                path=path,
                option=option_name(name),
                there=shown(there),
                here=shown(here),
            )


def is_other_input(there: Mapping[str, str], here: Mapping[str, str]) -> bool:
    """Return whether an output (`there`) and a run (`here`) have different inputs.

    Only the format of the input tells, before it is read.
    """
    return there.get(_INPUT_FORMAT) != here.get(_INPUT_FORMAT)


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> list[Message]:
    """Describe the attributes that differ in an output (`there`) and a run (`here`)."""
    there = _with_tokenizer(there)
    here = _with_tokenizer(here)
    differing = []
    names = {*there, *here} - _NOT_COMPARED
    if "normalization" not in there or "normalization" not in here:
        # The full name of the tokenizer says it better.
        names.discard("normalization")
    for name in _COLUMNS:
        if name not in there or name not in here:
            names.discard(name)
    if is_other_input(there, here):
        names -= _BY_FORMAT
    for name in sorted(names, key=lambda name: (name != _INPUT_FORMAT, name)):
        if there.get(name) != here.get(name):
            message = Message(
                "{option} (it has {there}, this run has {here})",
                option=option_name(name),
                there=shown(there.get(name, "none")),
                here=shown(here.get(name, "none")),
            )
            differing.append(message)
    return differing


def _with_tokenizer(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with the tokenizer's full name, by default `whitespace`."""
    return {**attributes, "tokenizer": recorded_tokenizer(attributes) or "whitespace"}
