"""Attributes of an output, which record how it was made."""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import shown
from elmo_cli.files.json_form import parse_json
from elmo_cli.options.shard import parse_shard

# attribute of an output with ids, where the input format does not decide
KEYS: Final = "keys"


Attributes = Mapping[str, str]


_FLAGS: Final = ("forget_sentences", "keys", "normalize", "sentence_keys")


_INTEGERS: Final = (
    "batch_size",
    "input_records",
    "line",
    "n_skipped",
    "records",
    "tokens",
)


# Input formats whose tokens are stored next to the sentence.
_FORMATS_WITH_TOKENS: Final = ("conllu", "jsonl", "json", "csv", "tsv", "parquet")


_OPTIONS: Final = {
    "elmo_cli_version": "version of elmo-cli",
    "format": "input format",
    "input_records": "number of input records",
    "input_sha256": "content of the input",
    "key_column": "--id-column",
    "model_sha256": "weights of the model",
    "normalization": "normalization",
    "options": "options of the model",
    "output format": "--format",
    "sentence_keys": "--use-sentence-keys",
}
"""Names in messages of attributes that are not called like the option that they record."""


def option_name(attribute: str) -> str:
    """Return the option that an attribute records, for a message."""
    return _OPTIONS.get(attribute, "--" + attribute.replace("_", "-"))


_TEXT: Final = ("a text", lambda text: True)


_COUNT: Final = ("a number", re.compile(r"[0-9]{1,18}").fullmatch)


_LAYERS: Final = re.compile(r"[a-z_0-9]+|[0-9]{1,4}(,[0-9]{1,4})+")


_CHECKS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    **dict.fromkeys(
        ("model", "model_sha256", "state", "pooling", "format", "layout"), _TEXT
    ),
    **dict.fromkeys(
        ("compression", "sentence_keys", "tokenizer", "normalization"), _TEXT
    ),
    **dict.fromkeys(("records", "input_records"), _COUNT),
    "layers": ("a choice of layers", _LAYERS.fullmatch),
    "mix": (
        "numbers",
        lambda text: all(map(math.isfinite, map(float, text.split(",")))),
    ),
    "gamma": ("a number", lambda text: math.isfinite(float(text))),
    "shard": ("a shard such as 3/16", parse_shard),
    "words": (
        "JSON of words",
        lambda text: parse_json(text, dict[str, str], "words") is not None,
    ),
}
"""Description of valid texts, and a function that returns a false value, or raises a `ValueError`,
for an invalid text."""


def check_attributes(attributes: Mapping[str, Any], path: object) -> None:
    """Raise an `InputError` for a known attribute of another form than a run writes."""
    names = [
        *attributes,
        *(["gamma"] if "mix" in attributes else []),
    ]  # A mix needs it.
    for name in filter(_CHECKS.__contains__, names):
        value, (expected, accepts) = attributes.get(name), _CHECKS[name]
        with suppress(ValueError):  # An `InputError` is one.
            if isinstance(value, str) and accepts(value):
                continue
        found = "none" if value is None else " ".join(shown(repr(value)).split())
        raise InputError(
            f"{path}: the file is damaged: attribute {name}: expected {expected}, found {found}"
        )


def has_own_tokens(attributes: Mapping[str, Any]) -> bool:
    """Return whether the tokens of an output can differ from its text split at white space."""
    is_tokenized = any(
        name in attributes for name in ("tokenizer", "split_sentences", "words")
    )
    return is_tokenized or attributes.get("format") in _FORMATS_WITH_TOKENS


def as_text(attributes: Mapping[str, object]) -> dict[str, str]:
    """Return attributes as files store them."""
    return {name: str(value) for name, value in attributes.items()}


def with_types(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of a file with the types that `as_text` has removed."""
    return {name: _with_type(name, value) for name, value in attributes.items()}


def _with_type(name: str, value: Any) -> Any:
    if not isinstance(value, str):  # Other programs' files may have values of NumPy.
        return value.item() if getattr(value, "shape", None) == () else value
    with suppress(ValueError):
        if name in _FLAGS and value in ("True", "False"):
            return value == "True"
        if name in _INTEGERS:
            return int(value)
        if name == "gamma":
            return float(value)
    return value
