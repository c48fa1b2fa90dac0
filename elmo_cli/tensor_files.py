"""Named tensors in a file: safetensors where its name ends so, else HDF5.

Shapes are known before a value is read, and values come and go one tensor at a time.
A tensor has the same name in both formats; "/" parts names into groups. Reading
safetensors takes the package of that name, an extra of this one.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ElmoError, OutputError, WeightsError
from elmo_cli.integrity import safetensors_fault

Array = NDArray[Any]
Shape = tuple[int, ...]

HDF5_SUFFIXES: Final = (".hdf5", ".h5")
SAFETENSORS_SUFFIX: Final = ".safetensors"

_DTYPES: Final = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""The values of safetensors that are read."""
_LARGEST_RATIO: Final = 32
"""Bytes of values for a byte of a file: weights hardly compress."""
_RATIO_MATTERS_FROM: Final = 64 << 20
_CODES: Final = {name: code for code, name in _DTYPES.items()}


class TensorFile(Protocol):
    """An open file of tensors."""

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor or a group of that name."""

    def groups(self) -> list[str]:
        """The first parts of all names, sorted."""

    def names(self) -> list[str]:
        """The names of all tensors."""

    def dtype(self, name: str) -> str:
        """The type of a tensor's values, as numpy calls it."""

    def shape(self, name: str) -> Shape:
        """The shape of a tensor."""

    def describe(self, name: str) -> str:
        """What is there: the shape of a tensor of numbers, else words for a message."""

    def read(self, name: str) -> Array:
        """The values of a tensor, float32; the caller's own."""

    def read_rows(self, name: str, first: int, last: int) -> Array:
        """The rows from `first` to before `last` of a tensor, likewise."""


@contextmanager
def open_tensors(path: str | Path) -> Iterator[TensorFile]:
    """Open a file of tensors to read.

    Raises:
        WeightsError: the file is missing, of another kind or cut off.
        ElmoError: it is safetensors, and the package for it is not installed.
    """
    path = Path(path)
    if _is_safetensors(path):
        with _open_safetensors(path) as file:
            yield _SafetensorsFile(file)
    else:
        with _open_hdf5(path) as file:
            yield _Hdf5File(file)


def check_claim(path: str | Path, shapes: Iterable[Shape]) -> None:
    """Make sure that a file is not far too small for what it claims to hold.

    Compression and one tensor under many names could make it claim anything, and memory is
    taken before the values are read.

    Args:
        path: of the file.
        shapes: of the tensors that are to be read, as float32.

    Raises:
        WeightsError: it is too small.
    """
    n_bytes = 4 * sum(map(math.prod, shapes))
    size = Path(path).stat().st_size
    if n_bytes > max(_RATIO_MATTERS_FROM, _LARGEST_RATIO * size):
        raise WeightsError(
            f"{path}: refused, a file of {size:,} bytes that claims to hold {n_bytes:,}"
        )


@contextmanager
def damage_named(path: str | Path) -> Iterator[None]:
    """Turn what is raised for damaged structures or data into one error."""
    try:
        yield
    except WeightsError:
        raise
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise WeightsError(f"{path}: the weights file is damaged: {error}; get it again") from None


def write_tensors(
    path: str | Path,
    shapes: Mapping[str, Shape],
    tensors: Iterable[tuple[str, Array]],
    dtype: str,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file of tensors, which appears under its name when it is complete.

    Args:
        path: until then, it is called `NAME.partial`.
        shapes: of all tensors, by name.
        tensors: the names and values, in the order of `shapes`, one in memory at a time.
        dtype: of the values in the file, `float32` or `float16`.
        metadata: text about the file; the attributes of an HDF5 file.

    Raises:
        OutputError: the file cannot be written.
    """
    path = Path(path)
    write = write_safetensors if _is_safetensors(path) else _write_hdf5
    with replaced(path) as partial:
        write(partial, shapes, tensors, np.dtype(dtype), metadata or {})


def write_rows(path: str | Path, name: str, shape: Shape, rows: Iterable[Array]) -> None:
    """Write an HDF5 file of one tensor, some of its rows in memory at a time.

    Args:
        path: as in `write_tensors`.
        name: of the tensor.
        shape: of the tensor.
        rows: the rows in their order, float, shape (n, ...) each.

    Raises:
        OutputError: the file cannot be written.
    """
    with replaced(path) as partial, h5py.File(partial, "w") as file:
        dataset = file.create_dataset(name, shape=shape, dtype="float32")
        first = 0
        for values in rows:
            dataset[first : first + len(values)] = values
            first += len(values)


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Give the name `NAME.partial`, whose file becomes `path` when it is complete.

    Raises:
        OutputError: it cannot be written.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except ElmoError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # HDF5 has them all
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{path}: cannot be written: {reason}") from None
    finally:
        partial.unlink(missing_ok=True)


def _is_safetensors(path: Path) -> bool:
    return path.suffix == SAFETENSORS_SUFFIX


# HDF5.


class _Hdf5File:
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
        if chunk_bytes > max(_RATIO_MATTERS_FROM, 2 * found.nbytes):
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


def _open_hdf5(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise WeightsError(f"{path}: no such weights file") from None
    except OSError as error:
        raise WeightsError(f"{path}: {_unreadable_hdf5(path, str(error))}") from None


def _unreadable_hdf5(path: Path, message: str) -> str:
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
    return f"cannot read the weights: {message}"


def _write_hdf5(
    path: Path,
    shapes: Mapping[str, Shape],
    tensors: Iterable[tuple[str, Array]],
    dtype: np.dtype[Any],
    metadata: Mapping[str, str],
) -> None:
    with h5py.File(path, "w") as file:
        file.attrs.update(metadata)
        for name, values in tensors:
            file.create_dataset(name, shape=shapes[name], data=values, dtype=dtype)


# Safetensors.


class _SafetensorsFile:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._names = sorted(file.keys())

    def __contains__(self, name: str) -> bool:
        return any(f"{known}/".startswith(f"{name}/") for known in self._names)

    def groups(self) -> list[str]:
        return sorted({name.split("/")[0] for name in self._names})

    def names(self) -> list[str]:
        return list(self._names)

    def dtype(self, name: str) -> str:
        code: str = self._file.get_slice(name).get_dtype()
        return _DTYPES.get(code, code)

    def shape(self, name: str) -> Shape:
        return tuple(self._file.get_slice(name).get_shape())

    def describe(self, name: str) -> str:
        if name not in self._names:
            return "a group" if name in self else "nothing"
        dtype = self.dtype(name)
        return f"{self.shape(name)}" if dtype in _CODES else f"{dtype} values"

    def read(self, name: str) -> Array:
        # A copy: the tensor is a view of the file, which may change or go.
        return np.array(self._file.get_tensor(name).float().numpy())

    def read_rows(self, name: str, first: int, last: int) -> Array:
        return np.array(self._file.get_slice(name)[first:last].float().numpy())


def _open_safetensors(path: Path) -> Any:
    if path.is_dir():
        raise WeightsError(f"{path}: expected a weights file (safetensors), found a directory")
    try:
        fault = safetensors_fault(path)
    except FileNotFoundError:
        raise WeightsError(f"{path}: no such weights file") from None
    except OSError as error:
        raise WeightsError(f"{path}: cannot read the weights: {error.strerror}") from None
    if fault is not None:
        raise WeightsError(f"{path}: {fault}; get it again")
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ElmoError(
            f"{path}: safetensors files take a package that is not installed; "
            'pip install "elmo-cli[safetensors]"'
        ) from None
    try:
        return safe_open(path, framework="pt")  # numpy has no bfloat16
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path}: the weights file is damaged: {error}; get it again") from None


def write_safetensors(
    path: Path,
    shapes: Mapping[str, Shape],
    tensors: Iterable[tuple[str, Array]],
    dtype: np.dtype[Any],
    metadata: Mapping[str, str],
) -> None:
    """Write the header, then the values: the package writes only what is all in memory."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + math.prod(shape) * dtype.itemsize
        header[name] = {
            "dtype": _CODES[dtype.name],
            "shape": list(shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the values are aligned
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, values in tensors:
            file.write(np.ascontiguousarray(values, dtype.newbyteorder("<")).data)
