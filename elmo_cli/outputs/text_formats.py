"""Activations as lines of text: JSON lines, or tab-separated values.

JSON lines, an object a record:

    {"number": 0, "sentence": "The cat sat", "activations": [[...], ...]}

with `key` and the attributes of a record that has them (FASTA) in place of `number`.
Tab-separated, under a line of names: a row a record if tokens are pooled, else a row a
token; and where there are several layers, a row a layer of each.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.standard_output import StandardOutput
from elmo_cli.text.lines import Record
from elmo_cli.text.records import WHOLE, shard_of

Array = NDArray[Any]

_DIGITS: Final = {2: 5, 4: 9, 8: 17}
"""Decimal digits that a float of so many bytes needs to be read back as it was."""


class TextLayout:
    """Writes either; see `form.Layout`."""

    def __init__(self, name: str, *, pooled: bool, forget_sentences: bool) -> None:
        self._is_json = name == "jsonl"
        self._pooled = pooled
        self._forget_sentences = forget_sentences
        self._sink: CheckpointedFile | StandardOutput
        self._shard = WHOLE

    def open(
        self,
        sink: CheckpointedFile | StandardOutput,
        attributes: Mapping[str, str],
        n_records: int,
    ) -> None:
        """Begin the file, or go on at its end."""
        self._sink = sink
        self._shard = shard_of(attributes)
        sink.seek(0, 2)

    def skip(self, number: int, record: Record) -> None:
        """Nothing: the file has it."""

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the line or the lines of a record."""
        if self._forget_sentences:  # of a key the tokens are known by themselves
            tokens = record.tokens if record.key is not None else []
            record = record._replace(text="", tokens=tokens)
        place = self._shard.place(number)
        if self._is_json:
            text = json_line(place, record, values, with_sentence=not self._forget_sentences)
        else:
            names = tsv_names(record, values, self._pooled) if number == 0 else ""
            text = names + tsv_lines(place, record, values, self._pooled)
        self._sink.write(text.encode("utf-8", "surrogatepass"))

    def flush(self) -> None:
        """Nothing is held."""

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Nothing belongs at the end."""

    def close(self) -> None:
        """Nothing is open."""


def json_line(number: int, record: Record, values: Array, *, with_sentence: bool) -> str:
    """A record as a line of JSON."""
    facts: dict[str, Any] = {"number": number} if record.key is None else {"key": record.key}
    facts |= record.attributes
    if with_sentence and record.key is None:
        facts["sentence"] = record.text
    start = json.dumps(facts, ensure_ascii=False)[:-1]
    return f'{start}, "activations": {_json_numbers(values)}}}\n'


def _json_numbers(values: Array) -> str:
    """An array as nested lists; null for what is no number."""
    if values.ndim > 1:
        return "[" + ", ".join(_json_numbers(part) for part in values) + "]"
    text = "[" + _numbers(values, ", ") + "]"
    return text if np.isfinite(values).all() else re.sub("-?(inf|nan)", "null", text)


def _numbers(values: Array, separator: str) -> str:
    one = f"%.{_DIGITS[values.itemsize]}g"
    return separator.join([one] * len(values)) % tuple(values.tolist())


def tsv_names(record: Record, values: Array, pooled: bool) -> str:
    """The line of names above the rows: that of each column before the values, and 0, 1, ..."""
    names = ["key" if record.key is not None else "number"]
    if not pooled:
        names += ["position", "token"]
    elif record.key is None:
        names += ["sentence"]
    names += ["layer"] if _has_layers(values, pooled) else []
    return "\t".join([*names, *map(str, range(values.shape[-1]))]) + "\n"


def tsv_lines(number: int, record: Record, values: Array, pooled: bool) -> str:
    """The rows of a record, tokens in their order and the layers of each."""
    has_layers = _has_layers(values, pooled)
    parts = values if has_layers else values[np.newaxis]  # (L, T, W), or (L, W)
    if pooled:
        heads = [[record.key] if record.key is not None else [str(number), " ".join(record.tokens)]]
        parts = parts[np.newaxis]  # (1, L, W)
    else:
        parts = np.moveaxis(parts, 1, 0)  # (T, L, W)
        known = len(record.tokens) == len(parts)
        tokens = record.tokens if known else [""] * len(parts)
        heads = [[record.key or str(number), str(i), token] for i, token in enumerate(tokens)]
    lines = []
    for head, layers in zip(heads, parts, strict=True):
        for layer, row in enumerate(layers):
            numbers = [str(layer)] if has_layers else []
            lines.append("\t".join([*head, *numbers, _numbers(row, "\t")]) + "\n")
    return "".join(lines)


def _has_layers(values: Array, pooled: bool) -> bool:
    return bool(values.ndim == (2 if pooled else 3))
