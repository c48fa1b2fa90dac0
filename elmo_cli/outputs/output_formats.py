"""The formats of output files, and which one a name asks for."""

from pathlib import Path
from typing import Final

from elmo_cli.errors import InputError, check_choice
from elmo_cli.text.lines import STANDARD_INPUT

STANDARD_OUTPUT: Final = STANDARD_INPUT

DTYPES: Final = ("float32", "float16")
"""Data types of the stored values."""
SUFFIXES: Final = {
    "hdf5": (".hdf5", ".h5"),
    "jsonl": (".jsonl",),
    "tsv": (".tsv",),
    "npz": (".npz",),
    "npy": (".npy",),
    "safetensors": (".safetensors",),
    "parquet": (".parquet",),
}
OUTPUT_FORMATS: Final = tuple(SUFFIXES)
TEXT_FORMATS: Final = ("jsonl", "tsv")
"""Those that are written line by line, also to standard output."""


def check_dtype(dtype: str | None) -> None:
    """Raise an `InputError` for a data type that is not supported; None is not given."""
    if dtype is not None:
        check_choice("dtype", dtype, DTYPES)


def has_odd_suffix(path: str | Path) -> bool:
    """Whether a name ends like that of a format which is none of these, as `.csv` or `.gz`."""
    suffix = Path(path).suffix.lower()
    return suffix != "" and not any(suffix in known for known in SUFFIXES.values())


def find_output_format(path: str | Path, name: str | None = None, *, pooled: bool = False) -> str:
    """The format of an output file, which can hold what it is to hold.

    Args:
        path: of the file, or `-` for standard output.
        name: of the format; None goes by the suffix of the path, and is hdf5 without one.
        pooled: whether there is one vector a record.

    Raises:
        InputError: there is no format of that name, or it does not go with the rest.
    """
    if name is not None and name not in SUFFIXES:
        raise InputError(f"format {name!r}: expected {', '.join(OUTPUT_FORMATS)}")
    suffix = Path(path).suffix.lower()
    by_suffix = next((form for form, known in SUFFIXES.items() if suffix in known), "hdf5")
    found = name or by_suffix
    if str(path) == STANDARD_OUTPUT and found not in TEXT_FORMATS:
        raise InputError(
            f"format {found} cannot go to standard output; --format jsonl or --format tsv can"
        )
    if found == "npy" and not pooled:
        raise InputError(
            "format npy is one array of one vector a line, of `elmo embed --pooling`; write .npz"
        )
    return found
