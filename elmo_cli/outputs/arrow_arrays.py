"""Arrays of Arrow for vectors, which are lists of fixed size."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.optional_imports import load_pyarrow

CHUNK_RECORDS: Final = 8
"""Number of records whose levels Parquet computes together.

The levels of a whole row group would be new memory each time, which the kernel fills
with zeros.
"""


def vectors_array(vectors: AnyArray) -> Any:
    """Return vectors (n, W) as an array of Arrow."""
    pyarrow = load_pyarrow()
    flat = pyarrow.array(vectors.reshape(-1))
    return pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def nested_array(block: Sequence[AnyArray], *, pooled: bool) -> Any:
    """Return arrays as nested Arrow lists, of fixed size but for the axis of tokens."""
    pyarrow = load_pyarrow()
    flat = np.concatenate([values.reshape(-1) for values in block])
    nested = pyarrow.array(flat)
    sizes = block[0].shape
    token_axis = None if pooled else len(sizes) - 2
    for axis in reversed(range(len(sizes))):
        if axis == token_axis:
            offsets = _offsets_of_token_lists(block, axis)
            nested = pyarrow.ListArray.from_arrays(offsets, nested)
        else:
            nested = pyarrow.FixedSizeListArray.from_arrays(nested, sizes[axis])
    return nested


def _offsets_of_token_lists(
    block: Sequence[AnyArray], token_axis: int
) -> NDArray[np.int32]:
    """Return where the lists of tokens begin: each record has one per layer."""
    n_layers = 1
    if token_axis == 1:
        n_layers = block[0].shape[0]
    lengths = [values.shape[token_axis] for values in block]
    offsets = np.cumsum([0, *np.repeat(lengths, n_layers)])
    return offsets.astype(np.int32)


def chunked_nested_array(arrays: Sequence[AnyArray], *, pooled: bool) -> Any:
    """Return the arrays of many records as a column of Arrow; see `nested_array`."""
    pyarrow = load_pyarrow()
    chunks = []
    for start in range(0, len(arrays), CHUNK_RECORDS):
        block = arrays[start : start + CHUNK_RECORDS]
        chunks.append(nested_array(block, pooled=pooled))
    return pyarrow.chunked_array(chunks)
