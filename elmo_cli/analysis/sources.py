"""One open file of vectors: its attributes, target words and layers.

The mean of several layers is one vector. It excludes the token layer, which finds words of similar
spelling first, unless the file has no other layer.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.target_words import WORDS
from elmo_cli.analysis.usage_files import UsagesFile
from elmo_cli.errors import InputError, shown
from elmo_cli.outputs.reader import Activations

Array = NDArray[Any]
Source = Activations | UsagesFile


def paths_of(source: Source) -> list[Path | str]:
    """Return the paths of a source."""
    return [source.path] if isinstance(source, UsagesFile) else source.paths


def check_agreement(first: Source, other: Source, names: Sequence[str]) -> None:
    """Raise an `InputError` unless two sources agree in these attributes."""
    for name in names:
        values = [source.attributes.get(name) for source in (first, other)]
        if values[0] != values[1]:
            paths = [paths_of(source)[0] for source in (first, other)]
            raise InputError(
                f"{paths[0]} and {paths[1]} cannot be read together: {name} is "
                f"{shown(values[0])} in the first and {shown(values[1])} in the second."
            )


def forms_of(source: Source) -> Mapping[str, str]:
    """Return the target word of each form. It is empty if a file has the vectors of all tokens."""
    if isinstance(source, UsagesFile):
        return source.forms
    forms: dict[str, str] = json.loads(source.attributes.get(WORDS, "{}"))
    return forms


def has_targets(source: Source) -> bool:
    """Return whether a file has the vectors of target words only."""
    return isinstance(source, UsagesFile) or WORDS in source.attributes


def check_pooling(source: Source, *, pooled: bool) -> None:
    """Raise an `InputError` unless a file has one vector per sentence, or one per token."""
    path, pooling = paths_of(source)[0], source.attributes.get("pooling")
    if pooled and pooling is None:
        raise InputError(
            f"{path}: expected one vector per sentence, found one per token. `elmo embed --pooling "
            "mean` writes the former."
        )
    if not pooled and pooling is not None:
        raise InputError(
            f"{path}: expected one vector per token, found one per sentence, by --pooling "
            f"{pooling}. `elmo neighbours --sentence` searches it."
        )


def layer_rows(source: Source, layers: str | None = None) -> list[int] | None:
    """Return the indices, on the axis of layers, of the layers whose mean is taken.

    Return None for a file with one layer or mix, which has no axis of layers.
    """
    path, name = paths_of(source)[0], stored_layers(source)
    stored = layer_numbers(source)
    if not stored:
        if layers not in (None, name):
            has = "one vector per occurrence" if name is None else f"only {name}"
            raise InputError(f"{path}: layers {shown(layers)!r}: the file has {has}")
        return None
    if layers is None:
        return [index for index, number in enumerate(stored) if number] or [0]
    chosen = [part.strip() for part in layers.split(",")]
    if not set(chosen) <= set(map(str, stored)):
        numbers = ",".join(map(str, stored))
        raise InputError(f"{path}: layers {shown(layers)!r}: the file has only layers {numbers}")
    return [stored.index(int(part)) for part in chosen]


def layer_numbers(source: Source) -> list[int]:
    """Return the numbers of the layers of a file. The list is empty without an axis of layers."""
    name = stored_layers(source)
    if isinstance(source, UsagesFile):
        return [int(layer) for layer in source.layers]
    if name == "all" and len(source):
        return list(range(len(source[0])))
    return [int(part) for part in (name or "").split(",")] if "," in (name or "") else []


def stored_layers(source: Source) -> str | None:
    """Return the selection of layers that a file was written with, or None if it is not recorded.

    HDF5 files without the attribute count as files of AllenNLP with all layers.
    """
    name = source.attributes.get("layers")
    if isinstance(source, UsagesFile):
        return ",".join(source.layers) if name is None and source.layers else name
    if name is None and len(source) and source[0].ndim < 3:
        raise InputError(
            f"{source.paths[0]}: the file does not record which layer it has. Only files with all "
            "layers may omit it."
        )
    return "all" if name is None else str(name)


def has_token_layer(source: Source, layers: str | None = None) -> bool:
    """Return whether the vectors contain the token layer, which depends on spelling only."""
    stored = stored_layers(source) or ""
    if stored:
        layer_rows(source, layers)  # Raise an error for layers that are missing.
    name = stored if layers is None else layers
    if layers is None and "," in name:  # The mean excludes it.
        return False
    return name in ("average", "sum", "mix", "word_emb") or "0" in name.split(",")


def mean_of(values: Array, rows: list[int] | None) -> Array:
    """Return the mean of some layers of (n, T, W) or (n, W). With None, return the values."""
    if rows is None:
        return values
    first: Array = values[rows[0]]
    return first if len(rows) == 1 else values[rows].mean(axis=0, dtype=np.float32)
