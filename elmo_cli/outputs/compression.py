"""Compression of datasets: what HDF5 has itself, and Zstandard by the package hdf5plugin."""

from typing import Any, Final

from elmo_cli.errors import ElmoError, InputError

COMPRESSIONS: Final = ("gzip", "lzf", "zstd")

CHUNK_BYTES: Final = 1 << 19
"""Of a chunk before compression: two fit into the least cache that HDF5 has for a dataset."""

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
            f'{name}: zstd needs a package that is not installed; pip install "elmo-cli[zstd]"'
        ) from None
