"""What both layouts of HDF5 share: compression, and files that are damaged."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import h5py

from elmo_cli.errors import InputError, first_line
from elmo_cli.outputs.formats import FormatWriter, OutputFormat
from elmo_cli.text.lines import Record, checked_sentence

CHUNK_BYTES: Final = 1 << 19
"""Size of a chunk before compression: two fit into the smallest cache that HDF5 has for one
dataset."""

_ZSTD: Final = 32015
"""The number of the filter, as the HDF Group registers it."""


class DamagedError(Exception):
    """A check of a file found something that no run writes."""


@contextmanager
def damage_named(path: str | Path) -> Iterator[None]:
    """Turn errors of HDF5 and of our checks into one `InputError` that names the file.

    Nothing else is caught: a bug of ours must not be called a damaged file.
    """
    try:
        yield
    except (OSError, DamagedError) as error:
        raise InputError(f"{path}: the file is damaged: {first_line(error)}") from None


class Hdf5Writer(FormatWriter):
    """Adds records to a file of HDF5."""

    def __init__(
        self, file: h5py.File, output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._settings: dict[str, Any] = {}  # of `create_dataset`
        if output_format.compression is not None:
            kind = output_format.compression
            self._settings["compression"] = _ZSTD if kind == "zstd" else kind
            self._settings["shuffle"] = True  # the exponents of floats are alike, and little else
        file.attrs.update(attributes)

    def flush(self) -> None:
        """Pass on what HDF5 holds."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def checked_dataset(group: h5py.Group, name: str, kind: str, n_axes: tuple[int, ...]) -> Any:
    """A dataset of a file, or a `DamagedError`.

    Args:
        kind: of its values, as numpy has it: `f`, or `i8`; `O` for strings.
        n_axes: how many axes it may have.
    """
    try:
        dataset = group[name]
    except (KeyError, RuntimeError) as error:  # of HDF5: no such name, or one that leads nowhere
        raise DamagedError(f"{name}: {first_line(error)}") from None
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
        raise DamagedError(f"{name}: expected a dataset, found something else")
    if not dataset.dtype.str[1:].startswith(kind) or dataset.ndim not in n_axes:
        raise DamagedError(f"{name} has {dataset.dtype} values of the shape {dataset.shape}")
    return dataset


def known_record(text: str, key: str | None, attributes: dict[str, str], tokens: str) -> Record:
    """A record as a file has it; `tokens` are JSON, or "" where white space separates them."""
    if not tokens:
        return Record(text, text.split(), key, attributes)
    try:
        return Record(text, list(checked_sentence(json.loads(tokens))), key, attributes)
    except ValueError as error:
        raise DamagedError(f"tokens: {error}") from None


def check_count(n_found: int, n_expected: int) -> None:
    """Raise a `DamagedError` unless a file holds as many records as it should."""
    if n_found != n_expected:
        raise DamagedError(f"expected {n_expected:,} records, found {n_found:,}")
