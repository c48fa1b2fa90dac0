"""Compression of datasets: what HDF5 has itself, and Zstandard by the package hdf5plugin."""

import math
from typing import Any, Final

from elmo_cli.errors import ElmoError, InputError

COMPRESSIONS: Final = ("gzip", "lzf", "zstd")

CHUNK_BYTES: Final = 1 << 19
"""Of a chunk before compression: two fit into the least cache that HDF5 has for a dataset."""

_LARGEST_RATIO: Final = 1032
"""Bytes for a byte of a file: what gzip can do at most."""
_RATIO_MATTERS_FROM: Final = 64 << 20

_ZSTD: Final = 32015
"""The number of the filter, as the HDF Group registers it."""


def dataset_settings(compression: str | None) -> dict[str, Any]:
    """What `create_dataset` is given to compress a dataset; nothing for None.

    Bytes are shuffled first, the like ones of all values together: the exponents of floats
    are alike, and little else is.

    Raises:
        InputError: there is no such compression.
        ElmoError: the package for it is not installed.
    """
    if compression is None:
        return {}
    if compression not in COMPRESSIONS:
        raise InputError(f"compression {compression!r}: expected {', '.join(COMPRESSIONS)}")
    if compression == "zstd":
        _load_zstd("compression zstd")
        return {"compression": _ZSTD, "shuffle": True}
    return {"compression": compression, "shuffle": True}


def check_claim(dataset: Any, shape: tuple[int, ...]) -> None:
    """Make sure that a file is not far too small for a part of a dataset that is to be read.

    Raises:
        ValueError: it is; or the dataset is none of numbers.
    """
    if getattr(dataset, "shape", None) is None or dataset.dtype.kind not in "fiu":
        raise ValueError("expected a dataset of numbers, found something else")
    n_bytes = math.prod(shape) * dataset.dtype.itemsize
    chunk_bytes = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    size = dataset.file.id.get_filesize()
    if max(n_bytes, chunk_bytes) > max(_RATIO_MATTERS_FROM, _LARGEST_RATIO * size):
        raise ValueError(f"refused, a file of {size:,} bytes that claims to hold {n_bytes:,}")


def check_readable(name: str, compression: str | None) -> None:
    """Make sure that a file can be read that says that it is compressed so.

    Raises:
        ElmoError: a package for it is not installed.
    """
    if compression == "zstd":
        _load_zstd(name)


def _load_zstd(name: str) -> None:
    try:
        import hdf5plugin  # noqa: F401 (importing it tells HDF5 of its filters)
    except ImportError:
        raise ElmoError(
            f'{name}: zstd takes a package that is not installed; pip install "elmo-cli[zstd]"'
        ) from None
