"""Base of both layouts of HDF5: compression, reopening after a checkpoint, damaged files."""

from functools import cached_property
from typing import Any, Final

import h5py

from elmo_cli.errors import first_line
from elmo_cli.outputs.formats import Attributes, FormatWriter, OutputFormat
from elmo_cli.outputs.resumable_file import ResumableFile

CHUNK_BYTES: Final = 1 << 19
"""Size of a chunk before compression: two fit into the smallest cache that HDF5 has for one
dataset."""

_ZSTD: Final = 32015
"""Number of the filter in the HDF Group's registry."""


class DamagedError(OSError):
    """Error of a check that found something that no run writes."""


class Hdf5Writer(FormatWriter):
    """Writer of an HDF5 file, which is closed at a checkpoint and reopened after it.

    What it writes next depends on the bytes of the file alone, as in a run that resumes.
    """

    def __init__(
        self, file: ResumableFile, output_format: OutputFormat, attributes: Attributes
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._settings: dict[str, Any] = {}  # arguments of `create_dataset`
        if output_format.compression is not None:
            kind = output_format.compression
            self._settings["compression"] = _ZSTD if kind == "zstd" else kind
            self._settings["shuffle"] = True  # Only the exponents of floats are similar.
        if file.state is None:
            with self._open("w") as begun:
                begun.attrs.update(attributes)

    def flush(self) -> None:
        """Write what is buffered, and close the file until the next record."""
        self.close()

    def finish(self, attributes: Attributes) -> None:
        """Add these attributes, and close the file."""
        self._hdf5.attrs.update(attributes)
        self.close()

    def close(self) -> None:
        """Close the file."""
        if "_hdf5" in vars(self):
            self._hdf5.close()
            del self._hdf5

    @cached_property
    def _hdf5(self) -> h5py.File:
        """File, opened for writing when it is closed."""
        return self._open("r+")

    def _open(self, mode: str) -> h5py.File:
        # A file that could not be written cannot be opened. An exception of h5py that is alive
        # when Python ends would make HDF5 close the file object later, which crashes.
        if self._file.error is not None:
            raise self._file.error
        # HDF5 2 would cache 8 MB of chunks per dataset, and only the last chunk changes.
        return h5py.File(self._file, mode, rdcc_nbytes=2 * CHUNK_BYTES)


def checked_dataset(group: h5py.Group, name: str, kind: str, n_axes: tuple[int, ...]) -> Any:
    """Return a dataset after checking it.

    Args:
        kind: Kind or type of its values as NumPy names it: `f`, `i8`, ...

    Raises:
        DamagedError: The dataset is missing or has another kind or shape.
    """
    try:
        dataset = group[name]
    except (KeyError, RuntimeError) as error:  # The name is missing, or its link is broken.
        raise DamagedError(f"{name}: {first_line(error)}") from None
    is_dataset = isinstance(dataset, h5py.Dataset) and dataset.dtype.str[1:].startswith(kind)
    if not is_dataset or dataset.ndim not in n_axes:
        raise DamagedError(f"{name}: expected {kind} of {n_axes} axes, found {dataset}")
    return dataset


def check_count(n_found: int, n_expected: int) -> None:
    """Raise a `DamagedError` unless a file contains the expected number of records."""
    if n_found != n_expected:
        raise DamagedError(f"expected {n_expected:,} records, found {n_found:,}")
