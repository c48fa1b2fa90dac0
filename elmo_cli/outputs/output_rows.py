"""Rows of an output: what JSON lines and Parquet write of a record."""

from typing import Any, Final, NamedTuple

ColumnValues = dict[str, list[Any]]
"""Values of each column, one per row."""

VECTOR: Final = "vector"
"""Column with the vector of a token, if there is one layer."""
LAYER_PREFIX: Final = "layer_"
"""Begin of the names of columns with the vector of a token in one of several layers."""
ACTIVATIONS: Final = "activations"
"""Column with the activations of a sentence."""
SENTENCE_NUMBER: Final = "sentence_number"
"""Column with the number of a sentence, if lines were split into sentences."""
INTEGERS: Final = ("index", "line", SENTENCE_NUMBER, "position")
"""Columns of an output itself that contain integers."""


class Rows(NamedTuple):
    """Rows of a record."""

    n: int
    """Number of the rows."""
    own: ColumnValues
    """Columns of the output itself."""
    kept: ColumnValues
    """Columns that are kept from the input."""
    vectors: dict[str, Any]
    """Arrays of the rows, by their column."""
    n_bytes: int
    """Bytes in memory, about."""
