"""Attributes of an output, which record how it was made."""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message, Template, option_of
from elmo_cli.errors.wording import shown
from elmo_cli.files.json_form import parse_json
from elmo_cli.options.layers import layers_as_numbers
from elmo_cli.options.output import OutputSettings
from elmo_cli.options.shard import parse_shard
from elmo_cli.records import formats

Attributes = Mapping[str, str]

KEYS: Final = "keys"
"""Attribute of an output with ids, where the input format does not decide."""
_BOOLEAN_ATTRIBUTES: Final = ("forget_sentences", "keys", "normalize", "sentence_keys")
_INTEGERS: Final = (
    "batch_size",
    "input_records",
    "line_index",
    "n_skipped",
    "records",
    "tokens",
)
_OPTIONS: Final = {
    "elmo_cli_version": "version of elmo-cli",
    "format": "input format",
    "input_records": "number of input records",
    "input_sha256": "content of the input",
    "records_sha256": "ids, tokens or sentences of the input",
    "key_column": "{--id-column}",
    "model_sha256": "weights of the model",
    "normalization": "normalization",
    "options": "architecture",
    "output format": "{--format}",
    "sentence_keys": "{--use-sentence-keys}",
}
"""Names in messages of attributes that are not called like their option."""
_TEXTS: Final = (
    "compression",
    "format",
    "layout",
    "model",
    "model_sha256",
    "normalization",
    "pooling",
    "sentence_keys",
    "state",
    "tokenizer",
)
_COUNTS: Final = ("input_records", "records")
_LAYERS: Final = re.compile(r"[a-z_0-9]+|[0-9]{1,4}(,[0-9]{1,4})+")
_EXPECTED: Final = {
    **dict.fromkeys(_TEXTS, "a text"),
    **dict.fromkeys(_COUNTS, "a number"),
    "layers": "a choice of layers",
    "mix": "numbers",
    "gamma": "a number",
    "shard": "a shard such as 3/16",
    "words": "JSON of words",
}
"""Description of valid values, by the names of attributes that are checked."""


def option_name(attribute: str) -> Message | str:
    """Return the option that an attribute records, for a message."""
    if attribute in _OPTIONS:
        return Message(Template(_OPTIONS[attribute]))
    if re.fullmatch("[a-z_]+", attribute):
        return option_of(attribute)
    return attribute


def check_attributes(attributes: Mapping[str, Any], path: object) -> None:
    """Raise an `InputError` for a known attribute of another form than a run writes."""
    names = [name for name in attributes if name in _EXPECTED]
    if "mix" in attributes and "gamma" not in attributes:  # A mix needs it.
        names.append("gamma")
    for name in names:
        value = attributes.get(name)
        if isinstance(value, str) and _is_valid(name, text=value):
            continue
        found = "none" if value is None else " ".join(shown(repr(value)).split())
        raise InputError(
            f"{path}: the file is damaged: attribute {name}: expected "
            f"{_EXPECTED[name]}, found {found}"
        )


def _is_valid(name: str, text: str) -> bool:
    """Return whether a text is a valid value of an attribute in `_EXPECTED`."""
    try:
        if name in _COUNTS:
            return re.fullmatch("[0-9]{1,18}", text) is not None
        if name == "layers":
            return _LAYERS.fullmatch(text) is not None
        if name == "mix":
            return all(math.isfinite(float(number)) for number in text.split(","))
        if name == "gamma":
            return math.isfinite(float(text))
        if name == "shard":
            parse_shard(text)
        if name == "words":
            parse_json(text, dict[str, str], "words")
    except ValueError:  # An `InputError` is one.
        return False
    return True


def layers_of(attributes: Mapping[str, Any]) -> Any:
    """Return the layers of a file, one layer as its number: `2` for `top` of 3 layers.

    Without attributes of its model, they are returned as they are.
    """
    layers = attributes.get("layers")
    try:
        n_layers = 1 + int(json.loads(attributes["options"])["lstm"]["n_layers"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return layers
    return layers_as_numbers(str(layers), n_layers)


def has_own_tokens(attributes: Mapping[str, Any]) -> bool:
    """Return whether tokens can differ from a record's text, split at white space."""
    is_tokenized = any(
        name in attributes for name in ("tokenizer", "split_sentences", "words")
    )
    if is_tokenized:
        return True
    input_format = formats.INPUT_FORMATS_BY_NAME.get(str(attributes.get("format")))
    return input_format is not None and input_format.tokens_are_stored


def keeps_tokens(output: OutputSettings, attributes: Attributes) -> bool:
    """Return whether an output with these attributes has the tokens of each record."""
    return has_own_tokens(attributes) and not output.forget_sentences


def as_texts(attributes: Mapping[str, object]) -> dict[str, str]:
    """Return attributes as files store them."""
    return {name: str(value) for name, value in attributes.items()}


def with_types(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of a file with the types that `as_texts` has removed."""
    return {name: _with_type(name, value) for name, value in attributes.items()}


def _with_type(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        # Files of other programs may have values of NumPy.
        return value.item() if getattr(value, "shape", None) == () else value
    with suppress(ValueError):
        if name in _BOOLEAN_ATTRIBUTES and value in ("True", "False"):
            return value == "True"
        if name in _INTEGERS:
            return int(value)
        if name == "gamma":
            return float(value)
    return value
