"""Attributes of an output as readers use them, checked when the file is opened."""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from elmo_cli.errors import InputError, shown
from elmo_cli.json_form import parse_json
from elmo_cli.text.shards import parse_shard


class _Check(NamedTuple):
    expected: str
    accepts: Callable[[str], object]
    """Function that returns a false value, or raises a `ValueError`, for an invalid text."""


def _matches(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern, re.ASCII).fullmatch


def _are_numbers(text: str) -> bool:
    return all(map(math.isfinite, map(float, text.split(","))))


_TEXT: Final = _Check("a text", lambda text: True)
_COUNT: Final = _Check("a number", _matches(r"\d{1,18}"))
_CHECKS: Final[Mapping[str, _Check]] = {
    **dict.fromkeys(("model", "model_sha256", "state", "pooling", "format"), _TEXT),
    **dict.fromkeys(("layout", "compression", "sentence_keys", "tokenizer"), _TEXT),
    **dict.fromkeys(("records", "input_records"), _COUNT),
    "layers": _Check("a choice of layers", _matches(r"[a-z_\d]+|\d{1,4}(,\d{1,4})+")),
    "mix": _Check("numbers", _are_numbers),
    "gamma": _Check("a number", lambda text: math.isfinite(float(text))),
    "shard": _Check("a shard such as 3/16", parse_shard),
    "words": _Check(
        "JSON of words", lambda text: parse_json(text, dict[str, str], "words") is not None
    ),
}


def check_attributes(attributes: Mapping[str, Any], path: object) -> None:
    """Raise an `InputError` for an attribute of another form than a run writes.

    Args:
        attributes: Attributes of an output; unknown ones are ignored.
        path: Name of the output, for the error.
    """
    names = [*attributes, *(["gamma"] if "mix" in attributes else [])]
    for name in filter(_CHECKS.__contains__, names):
        value, check = attributes.get(name), _CHECKS[name]
        with suppress(ValueError):  # An `InputError` is one.
            if isinstance(value, str) and check.accepts(value):
                continue
        text = "none" if value is None else shown(repr(value))
        one_line = " ".join(text.split())
        raise InputError(
            f"{path}: the file is damaged: attribute {name}: expected {check.expected}, found "
            f"{one_line}"
        )
