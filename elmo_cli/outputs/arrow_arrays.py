"""Arrays of Arrow for vectors, which are lists of fixed size."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

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
    nested = pyarrow.array(np.concatenate([values.reshape(-1) for values in block]))
    sizes = list(block[0].shape)
    token_axis = None if pooled else len(sizes) - 2
    for axis in reversed(range(len(sizes))):
        if axis != token_axis:
            nested = pyarrow.FixedSizeListArray.from_arrays(nested, sizes[axis])
            continue
        n_lists = sizes[0] if axis else 1  # one list of tokens per layer
        lengths = np.repeat([values.shape[axis] for values in block], n_lists)
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        nested = pyarrow.ListArray.from_arrays(ends, nested)
    return nested


def chunked_nested_array(arrays: Sequence[AnyArray], *, pooled: bool) -> Any:
    """Return the arrays of many records as a column of Arrow; see `nested_array`."""
    pyarrow = load_pyarrow()
    chunks = []
    for start in range(0, len(arrays), CHUNK_RECORDS):
        block = arrays[start : start + CHUNK_RECORDS]
        chunks.append(nested_array(block, pooled=pooled))
    return pyarrow.chunked_array(chunks)
