"""Named tensors in HDF5."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import WeightsError, system_reason

Array = NDArray[Any]
Shape = tuple[int, ...]

RATIO_MATTERS_FROM: Final = 64 << 20


class _Hdf5Tensors:
    """A `TensorFile`."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def _find(self, name: str) -> h5py.Dataset | h5py.Group | None:
        """What is there, if anything. Not by way of links, which may lead to any other file."""
        item = self._file
        for part in name.split("/"):
            if not isinstance(item, h5py.Group) or not item.id.links.exists(part.encode()):
                return None
            if item.id.links.get_info(part.encode()).type != h5py.h5l.TYPE_HARD:
                raise WeightsError(
                    f"{self._file.filename}: expected values in the file itself, found a link at "
                    f"{part} of {name}"
                )
            item = item[part]
        return item

    def groups(self) -> list[str]:
        return list(self._file)

    def names(self) -> list[str]:
        found: list[str] = []

        def visit(name: str, item: h5py.Dataset | h5py.Group) -> None:
            if isinstance(item, h5py.Dataset):
                found.append(name)

        self._file.visititems(visit)
        return found

    def dtype(self, name: str) -> str:
        return str(self._tensor(name).dtype.name)

    def shape(self, name: str) -> Shape:
        shape: Shape | None = self._tensor(name).shape
        return shape or ()

    def _tensor(self, name: str) -> h5py.Dataset:
        item = self._find(name)
        if not isinstance(item, h5py.Dataset):
            raise KeyError(name)
        return item

    def describe(self, name: str) -> str:
        found = self._find(name)
        if found is None:
            return "nothing"
        if not isinstance(found, h5py.Dataset):
            return "a group"
        if found.dtype.kind not in "fiu":
            return f"{found.dtype} values"
        if found.shape is None:
            return "no values"
        if found.is_virtual or found.external:
            return "values of another file"
        chunk_bytes = math.prod(found.chunks or ()) * found.dtype.itemsize
        if chunk_bytes > max(RATIO_MATTERS_FROM, 2 * found.nbytes):
            return f"{found.shape} in chunks of {chunk_bytes:,} bytes"
        stored = found.id.get_storage_size()
        if found.compression is None and stored < found.nbytes:
            return f"{found.shape} with {stored:,} bytes of data"
        return f"{found.shape}"

    def read(self, name: str) -> Array:
        dataset = self._tensor(name)
        values = np.empty(dataset.shape, dtype=np.float32)
        if dataset.size:
            dataset.read_direct(values)
        return values

    def read_rows(self, name: str, first: int, last: int) -> Array:
        # numpy converts float16 faster than HDF5 does.
        return np.asarray(self._tensor(name)[first:last], dtype=np.float32)


@contextmanager
def open_hdf5(path: Path) -> Iterator[_Hdf5Tensors]:
    """Open a file of weights to read.

    Raises:
        WeightsError: it is missing, of another kind or cut off.
    """
    with _opened(path) as file:
        yield _Hdf5Tensors(file)


def _opened(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise WeightsError(f"{path}: no such weights file") from None
    except OSError as error:
        raise WeightsError(f"{path}: {_unreadable_hdf5(path, error)}") from None


def _unreadable_hdf5(path: Path, error: OSError) -> str:
    message = str(error)
    if path.is_dir():
        return "expected a weights file (HDF5), found a directory"
    cut_off = re.search(r"truncated file: eof = (\d+),.*stored_eof = (\d+)", message)
    if cut_off:
        found, expected = cut_off.groups()
        return (
            f"the weights file is cut off: expected {int(expected):,} bytes, "
            f"found {int(found):,}; get it again"
        )
    if "signature not found" in message:
        return "expected a weights file (HDF5), found something else"
    return f"cannot read the weights: {system_reason(error)}"


def write_hdf5(
    path: Path,
    shapes: Mapping[str, Shape],
    tensors: Iterable[tuple[str, Array]],
    dtype: np.dtype[Any],
    metadata: Mapping[str, str],
) -> None:
    """Write tensors one by one; see `tensor_files.write_tensors`."""
    with _created(path) as file:
        with _disk_named():
            file.attrs.update(metadata)
        for name, values in tensors:
            with _disk_named():
                file.create_dataset(name, shape=shapes[name], data=values, dtype=dtype)


def write_hdf5_rows(path: Path, name: str, shape: Shape, rows: Iterable[Array]) -> None:
    """Write one tensor by and by; see `tensor_files.write_rows`."""
    with _created(path) as file:
        with _disk_named():
            dataset = file.create_dataset(name, shape=shape, dtype="float32")
        first = 0
        for values in rows:
            with _disk_named():
                dataset[first : first + len(values)] = values
            first += len(values)


@contextmanager
def _created(path: Path) -> Iterator[h5py.File]:
    """A new file, closed at the end."""
    file = h5py.File(path, "w")
    try:
        yield file
    except BaseException:
        with suppress(OSError, RuntimeError, ValueError):  # the disk is still full
            file.close()
        raise
    with _disk_named():
        file.close()


@contextmanager
def _disk_named() -> Iterator[None]:
    """Turn what HDF5 raises when it cannot write into `OSError`; not around what is computed."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise OSError(str(error)) from None
