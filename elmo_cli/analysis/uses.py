"""Files of activations to the uses of words: each a token, its vector and its place.

Several layers become one vector by their mean; the token layer is left out of it, unless it is all
that there is, for it finds words of like spelling first.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.cosine import Occurrence
from elmo_cli.errors import InputError, shown
from elmo_cli.outputs.reader import Activations
from elmo_cli.text.records import Record
from elmo_cli.text.target_words import target_positions

Array = NDArray[Any]


class Vectors(NamedTuple):
    """A record of a file, and its vectors."""

    number: int
    """From 0."""
    record: Record
    positions: Sequence[int]
    """The tokens that have a vector: all, or those of some words."""
    vectors: Array
    """Theirs, shape (n, W); (1, W) where all tokens are pooled."""


class Use(NamedTuple):
    """A word in a sentence of a file."""

    occurrence: Occurrence
    record: int
    """The number of its sentence, from 0."""
    vector: Array
    """Shape (W,)."""


def find_uses(
    activations: Activations, words: Mapping[str, str], layers: str | None = None
) -> dict[str, list[Use]]:
    """Find all uses of words in a file of tokens, in its order, by the name of the word.

    `words` are their forms, as they are written, and the name of each.
    """
    check_pooling(activations, pooled=False)
    found: dict[str, list[Use]] = {name: [] for name in words.values()}
    for number, record, positions, vectors in read_vectors(activations, layers):
        for index, vector in zip(positions, vectors, strict=True):
            if record.tokens[index] in words:
                use = Use(Occurrence(record.tokens, index), number, vector.copy())
                found[words[record.tokens[index]]].append(use)
    return found


def read_vectors(activations: Activations, layers: str | None = None) -> Iterator[Vectors]:
    """The records of a file that have tokens, in their order.

    Left out are blank lines, and those whose text AllenNLP's layout does not keep: of equal
    sentences, it has that of the last one.

    The mean of `layers` is taken, numbers with commas between; if not given, of all but the
    token layer.
    """
    rows = layer_rows(activations, layers)
    is_pooled = "pooling" in activations.attributes
    for number, (record, values) in enumerate(activations.records()):
        vectors = np.atleast_2d(mean_of(values, rows))  # (n, W), pooled too
        positions = [0] if is_pooled and record.tokens else target_positions(record)
        if len(positions) == len(vectors):
            yield Vectors(number, record, positions, vectors)
        elif record.tokens:
            raise InputError(
                f"{activations.paths[0]}, line {number + 1:,}: expected {len(positions):,} tokens, "
                f"as its sentence has, found {len(vectors):,}"
            )
        elif len(vectors) and not activations.has_sentences:
            raise InputError(
                f"{activations.paths[0]}: expected a file with its tokens, found none, as in FASTA "
                "or after --forget-sentences"
            )


def record_name(activations: Activations, number: int) -> str:
    """The key or the line of a record, from 1; after its file, where there are several."""
    path, line = activations.source(number)
    name = activations.key(number) or str(line + 1)
    return name if len(activations.paths) == 1 else f"{path}:{name}"


def check_pooling(activations: Activations, *, pooled: bool) -> None:
    """Make sure that a file has a vector a sentence, or a vector a token."""
    path, pooling = activations.paths[0], activations.attributes.get("pooling")
    if pooled and pooling is None:
        raise InputError(
            f"{path}: expected a vector a sentence, as of `elmo embed --pooling mean`, found a "
            "vector a token"
        )
    if not pooled and pooling is not None:
        raise InputError(
            f"{path}: expected a vector a token, found one a sentence, by --pooling {pooling}, "
            "which `elmo neighbours --sentence` searches"
        )


def layer_rows(activations: Activations, layers: str | None = None) -> list[int] | None:
    """Which layers of a file become one vector, as places on the axis of layers.

    None where the file has one layer or mix, and no such axis.
    """
    name = stored_layers(activations)
    if name == "all" and len(activations):
        there = list(range(len(activations[0])))
    else:
        there = [int(part) for part in name.split(",")] if "," in name else []
    if not there:
        if layers not in (None, name):
            raise InputError(
                f"{activations.paths[0]}: layers {shown(layers)!r}: the file has {name} alone"
            )
        return None
    if layers is None:
        return [place for place, number in enumerate(there) if number] or [0]
    wanted = [part.strip() for part in layers.split(",")]
    if not set(wanted) <= set(map(str, there)):
        found = ",".join(map(str, there))
        raise InputError(
            f"{activations.paths[0]}: layers {shown(layers)!r}: expected some of {found}, which "
            "the file has"
        )
    return [there.index(int(part)) for part in wanted]


def stored_layers(activations: Activations) -> str:
    """The choice of layers that a file was made with; AllenNLP's, of all layers, do not say."""
    name = activations.attributes.get("layers")
    if name is None and len(activations) and activations[0].ndim < 3:
        raise InputError(
            f"{activations.paths[0]}: expected all layers, as the file does not say which it has; "
            "found one"
        )
    return "all" if name is None else str(name)


def has_token_layer(activations: Activations, layers: str | None = None) -> bool:
    """Whether the vectors hold the token layer, which knows a word by its spelling."""
    layer_rows(activations, layers)  # refuses layers that are not there
    name = stored_layers(activations) if layers is None else layers
    if layers is None and "," in name:  # the mean of several leaves it out
        return False
    return name in ("average", "sum", "mix", "word_emb") or "0" in name.split(",")


def mean_of(values: Array, rows: list[int] | None) -> Array:
    """The mean of layers, (n, T, W) or (n, W), at some places; None takes values as they are."""
    if rows is None:
        return values
    found: Array = values[rows[0]]
    return found if len(rows) == 1 else values[rows].mean(axis=0, dtype=np.float32)
