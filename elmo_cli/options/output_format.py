"""Formats of outputs, and what each of them can do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

FileFormat = Literal["hdf5", "jsonl", "npz", "npy", "parquet"]


@dataclass(frozen=True)
class OutputFormat:
    """Format of an output."""

    name: FileFormat
    """Value of `--format`, and the suffix of files without its dot."""
    title: str
    """Name in messages."""
    can_resume: bool = False
    """True if an interrupted run resumes from its last checkpoint."""
    has_layouts: bool = False
    """True if there are layouts, compressions and names of datasets to choose from."""
    has_named_arrays: bool = False
    """True if ids name arrays, so that they must be valid names and not repeat."""
    has_rows: bool = False
    """True if there are rows, which have ids and columns of the input."""
    has_fixed_columns: bool = False
    """True if all rows have the same typed columns."""
    has_ids_beside: bool = False
    """True if a file next to the output has the ids."""
    needs_pooling: bool = False
    """True if each record has to have one vector."""
    needs_pyarrow: bool = False
    can_stream: bool = False
    """True if it can go to standard output, a record at a time."""
    text_bytes: int | None = None
    """Bytes of a number that is written as text, about; None for binary numbers."""


HDF5: Final = OutputFormat(
    name="hdf5",
    title="HDF5",
    can_resume=True,
    has_layouts=True,
    has_named_arrays=True,
)
JSON_LINES: Final = OutputFormat(
    name="jsonl", title="jsonl", has_rows=True, can_stream=True, text_bytes=14
)
NPZ: Final = OutputFormat(name="npz", title="npz", has_named_arrays=True)
NPY: Final = OutputFormat(
    name="npy", title="npy", has_ids_beside=True, needs_pooling=True
)
PARQUET: Final = OutputFormat(
    name="parquet",
    title="parquet",
    has_rows=True,
    has_fixed_columns=True,
    needs_pyarrow=True,
)

OUTPUT_FORMATS_BY_NAME: Final[dict[str, OutputFormat]] = {
    each.name: each for each in (HDF5, JSON_LINES, NPZ, NPY, PARQUET)
}
"""Formats by their names."""
_SUFFIXES: Final = {
    ".h5": HDF5,
    ".ndjson": JSON_LINES,
    ".pq": PARQUET,
    **{f".{name}": each for name, each in OUTPUT_FORMATS_BY_NAME.items()},
}


def format_of_suffix(path: str | Path) -> OutputFormat | None:
    """Return the format that a path's suffix names; without a suffix it is HDF5."""
    suffix = Path(path).suffix.lower()
    return HDF5 if suffix == "" else _SUFFIXES.get(suffix)
