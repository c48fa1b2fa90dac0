"""Both layouts of HDF5, written and read: AllenNLP's and the packed one.

docs/output.md describes the datasets, their shapes, `sentence_to_index`, and what HDF5 keeps in
memory. In the packed layout, datasets of texts exist where a record has a text. All datasets are
chunked and grow only at their end, so that memory and time per record stay constant.
"""

import logging
from functools import cache, cached_property, lru_cache
from typing import Any, Final

import h5py
from h5py import h5p, h5s, h5t
from numpy.typing import NDArray

from elmo_cli.errors.wording import first_line
from elmo_cli.files.resumable.paged_file import PagedFile
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.format_writer import FormatWriter
from elmo_cli.outputs.output_formats import keeps_tokens

TOKENS: Final = "tokens"

logger = logging.getLogger(__name__)

Array = NDArray[Any]

CHUNK_BYTES: Final = 1 << 19  # size before compression; HDF5's smallest cache holds two
_ZSTD: Final = 32015  # in the HDF Group's registry of filters
ARRAY_BYTES: Final = 150  # bytes of an array in memory in addition to its values, about

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
    """Writer of an HDF5 file, which is closed at a checkpoint, so that resumed runs are equal."""

    def __init__(
        self,
        file: PagedFile,
        settings: OutputSettings,
        attributes: Attributes,
        n_records: int,
    ) -> None:
        """Begin the file, or resume it; raise a `DamagedError` unless it has `n_records`."""
        super().__init__(file, settings, attributes)
        self._keeps_tokens = keeps_tokens(settings, attributes)
        self._n_records = n_records
        kind = settings.compression
        # Only the exponents of floats are similar, so bytes are shuffled.
        filters = {"compression": _ZSTD if kind == "zstd" else kind, "shuffle": True}
        # arguments of `create_dataset`
        self._filters: dict[str, Any] = filters if kind else {}
        if file.size == 0:
            with self._open("w") as begun:
                begun.attrs.update(attributes)
        with self._open("r") as begun:
            self._begin(begun)

    def _begin(self, file: h5py.File) -> None:
        """Prepare to add records to a file; raise a `DamagedError` unless it has `_n_records`."""
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
        # A file that could not be written cannot be opened. An exception of h5py that is alive
        # when Python ends would make HDF5 close the file object later, which crashes.
        if self._file.error is not None:
            raise self._file.error
        # HDF5 2 would cache 8 MB of chunks per dataset, and only the last chunk changes.
        return h5py.File(self._file, mode, rdcc_nbytes=2 * CHUNK_BYTES)


def checked_dataset(
    group: h5py.Group, name: str, kind: str, n_axes: tuple[int, ...]
) -> Any:
    """Return a dataset after checking its axes and its dtype; `kind` is `f`, `u1` or `i8`, ..."""
    try:
        dataset = group[name]
    except (
        KeyError,
        RuntimeError,
    ) as error:  # The name is missing, or its link is broken.
        raise DamagedError(f"{name}: {first_line(error)}") from None
    is_dataset = isinstance(dataset, h5py.Dataset) and dataset.dtype.str[1:].startswith(
        kind
    )
    if not is_dataset or dataset.ndim not in n_axes:
        raise DamagedError(f"{name}: expected {kind} of {n_axes} axes, found {dataset}")
    return dataset


def check_count(n_found: int, n_expected: int) -> None:
    """Raise a `DamagedError` unless a file contains the expected number of records."""
    if n_found != n_expected:
        raise DamagedError(f"expected {n_expected:,} records, found {n_found:,}")
