"""What both layouts of HDF5 share: a writer that resumes, and checks of datasets.

docs/hdf5.md describes the datasets, their shapes, `sentence_to_index`, and what HDF5
keeps in memory. All datasets are chunked and grow only at their end, so that memory and
time per record stay constant.
"""

from functools import cache, cached_property, lru_cache
from typing import Any, Final

import h5py
from h5py import h5p, h5s, h5t

from elmo_cli.errors.wording import first_line
from elmo_cli.files.resumable.paged_file import PagedFile
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes, keeps_tokens
from elmo_cli.outputs.format_writer import FormatWriter

TOKENS: Final = "tokens"
"""Attribute of a dataset, or name of a dataset, with the tokens of records."""
CHUNK_BYTES: Final = 1 << 19
"""Size of a chunk before compression. HDF5's smallest cache holds two."""
_ZSTD: Final = 32015
"""Number of Zstandard in the HDF Group's registry of filters."""

CREATION: Final = h5p.create(h5p.DATASET_CREATE)
CREATION.set_obj_track_times(False)  # Equal runs write equal bytes.
LINK: Final = h5p.create(h5p.LINK_CREATE)
LINK.set_create_intermediate_group(True)  # A "/" in a sentence makes a group.
# Each object of HDF5 takes microseconds.
make_type = cache(h5t.py_create)
make_space = lru_cache(maxsize=1024)(h5s.create_simple)


class DamagedError(OSError):
    """Error of a check that found something that no run writes."""


class Hdf5Writer(FormatWriter):
    """Writer that closes its file at a checkpoint, so that resumed runs are equal."""

    def __init__(
        self,
        file: PagedFile,
        settings: OutputSettings,
        attributes: Attributes,
        n_records: int,
    ) -> None:
        """Begin an empty file, or resume one that should have `n_records`.

        If it has another number, a `DamagedError` is raised.
        """
        super().__init__(file, settings, attributes)
        self._keeps_tokens = keeps_tokens(settings, attributes)
        self._n_records = n_records
        self._filters = _filters(settings.compression)
        """Arguments of `create_dataset`."""
        if file.size == 0:
            with self._open("w") as begun:
                begun.attrs.update(attributes)
        with self._open("r") as begun:
            self._begin(begun)

    def _begin(self, file: h5py.File) -> None:
        """Prepare to add records; raise a `DamagedError` if some are missing."""
        raise NotImplementedError

    def finish(self, attributes: Attributes) -> None:
        """Add these attributes, and close the file."""
        self._hdf5.attrs.update(attributes)
        self.close()

    def close(self) -> None:
        """Close the file until the next record."""
        if "_hdf5" in vars(self):
            self._hdf5.close()
            del self._hdf5

    @cached_property
    def _hdf5(self) -> h5py.File:
        """File, opened for writing when it is closed."""
        return self._open("r+")

    def _open(self, mode: str) -> h5py.File:
        # A file that could not be written cannot be opened. An exception of h5py that
        # is alive when Python ends would make HDF5 close the file object later, which
        # crashes.
        if self._file.error is not None:
            raise self._file.error
        # HDF5 2 would cache 8 MB of chunks per dataset, and only the last chunk
        # changes.
        return h5py.File(self._file, mode, rdcc_nbytes=2 * CHUNK_BYTES)


def _filters(compression: str | None) -> dict[str, Any]:
    if compression is None:
        return {}
    # Only the exponents of floats are similar, so bytes are shuffled.
    return {
        "compression": _ZSTD if compression == "zstd" else compression,
        "shuffle": True,
    }


def checked_dataset(
    group: h5py.Group, name: str, kind: str, n_axes: tuple[int, ...]
) -> Any:
    """Return a dataset after checking its axes and dtype: `f`, `u1`, `i8` or `O`."""
    try:
        dataset = group[name]
    except (KeyError, RuntimeError) as error:
        # The name is missing, or its link is broken.
        raise DamagedError(f"{name}: {first_line(error)}") from error
    is_expected = (
        isinstance(dataset, h5py.Dataset)
        and dataset.dtype.str[1:].startswith(kind)
        and dataset.ndim in n_axes
    )
    if not is_expected:
        raise DamagedError(f"{name}: expected {kind} of {n_axes} axes, found {dataset}")
    return dataset


def check_count(n_found: int, n_expected: int) -> None:
    """Raise a `DamagedError` unless a file contains the expected number of records."""
    if n_found != n_expected:
        raise DamagedError(f"expected {n_expected:,} records, found {n_found:,}")


def checked_name(name: str | bytes) -> str:
    """Return the name of a dataset, which h5py gives as bytes if it is not UTF-8."""
    if isinstance(name, bytes):
        raise DamagedError(f"a name that is not UTF-8: {name[:60]!r}")
    return name
