"""Named tensors in a file: safetensors where its name ends so, else HDF5.

Shapes are known before a value is read, and values come one tensor at a time. A tensor
has the same name in both formats; "/" parts names into groups. Safetensors take the
package of that name, an extra of this one.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import EllipsisType
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.atomic import replaced
from elmo_cli.errors import WeightsError, load_extra, system_reason

Array = NDArray[Any]
Shape = tuple[int, ...]

HDF5_SUFFIXES: Final = (".hdf5", ".h5")
SAFETENSORS_SUFFIX: Final = ".safetensors"
SUFFIXES: Final = (*HDF5_SUFFIXES, SAFETENSORS_SUFFIX)

BILM: Final = "the weights of a biLM"
SOFTMAX: Final = "a softmax"

_DTYPES: Final = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""The values of safetensors that are read."""


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Name damage: around calls of h5py and safetensors alone, whose errors can mean only that."""
    try:
        yield
    except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> WeightsError:
    return WeightsError(f"{path}: the weights file is damaged: {error}; get it again")


class TensorFile:
    """An open file of tensors, HDF5. Its methods raise a `WeightsError` where it is damaged."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file

    def __contains__(self, name: str) -> bool:
        """Whether there is a tensor or a group of that name."""
        return self._find(name) is not None

    def _find(self, name: str) -> h5py.Dataset | h5py.Group | None:
        """What is there, if anything. Links, which may lead to any other file, are nothing."""
        item = self._file
        with _damage_named(self._path):
            for part in name.split("/"):
                is_group = isinstance(item, h5py.Group)
                if not is_group or not isinstance(item.get(part, getlink=True), h5py.HardLink):
                    return None
                item = item[part]
        return item

    def names(self) -> list[str]:
        """The names of all tensors."""
        found: list[str] = []

        def visit(name: str, item: h5py.Dataset | h5py.Group) -> None:
            if isinstance(item, h5py.Dataset):
                found.append(name)

        with _damage_named(self._path):
            self._file.visititems(visit)
        return found

    def kind(self) -> str:
        """What the file seems to hold."""
        if any(name in self for name in ("char_embed", "embedding", "RNN_0")):
            return BILM
        if "softmax" in self:
            return SOFTMAX
        if "sentence_to_index" in self or "0" in self:
            return "activations, as `elmo embed` writes them"
        return ", ".join(sorted({name.split("/")[0] for name in self.names()})[:5]) or "nothing"

    def dtype(self, name: str) -> str:
        """The type of a tensor's values, as numpy calls it."""
        return str(self._file[name].dtype.name)

    def shape(self, name: str) -> Shape:
        """The shape of a tensor."""
        return tuple(self._file[name].shape)

    def describe(self, name: str) -> Shape | str:
        """What is there: the shape of a tensor of numbers, else words for a message."""
        found = self._find(name)
        if found is None:
            return "nothing"
        if not isinstance(found, h5py.Dataset):
            return "a group"
        with _damage_named(self._path):
            if found.is_virtual or found.external:
                return "values of another file"
            if found.dtype.kind not in "fiu" or found.shape is None:
                return f"{found.dtype} values"
            return tuple(found.shape)

    def read(self, name: str, rows: slice | EllipsisType = ...) -> Array:
        """The values of a tensor that was described, or some of its rows: float32, a copy."""
        with _damage_named(self._path):
            return np.asarray(self._file[name][rows], dtype=np.float32)


class _SafetensorsFile(TensorFile):
    def __init__(self, path: Path, file: Any) -> None:
        super().__init__(path, file)
        self._names = sorted(file.keys())

    def __contains__(self, name: str) -> bool:
        return any(f"{known}/".startswith(f"{name}/") for known in self._names)

    def names(self) -> list[str]:
        return self._names

    def dtype(self, name: str) -> str:
        code: str = self._file.get_slice(name).get_dtype()
        return _DTYPES.get(code, code)

    def shape(self, name: str) -> Shape:
        return tuple(self._file.get_slice(name).get_shape())

    def describe(self, name: str) -> Shape | str:
        if name not in self._names:
            return "a group" if name in self else "nothing"
        dtype = self.dtype(name)
        return self.shape(name) if dtype in _DTYPES.values() else f"{dtype} values"

    def read(self, name: str, rows: slice | EllipsisType = ...) -> Array:
        # A copy: the tensor is a view of the file, which may change or go.
        return np.array(self._file.get_tensor(name)[rows].float().numpy())


@contextmanager
def open_tensors(path: str | Path) -> Iterator[TensorFile]:
    """Open a file of tensors to read.

    Raises:
        WeightsError: the file is missing, of another kind or cut off.
        ElmoError: it is safetensors, and the package for it is not installed.
    """
    path = Path(path)
    is_safetensors = path.suffix == SAFETENSORS_SUFFIX
    if path.is_dir():
        kind = "safetensors" if is_safetensors else "HDF5"
        raise WeightsError(f"{path}: expected a weights file ({kind}), found a directory")
    if not os.path.exists(path):
        raise WeightsError(f"{path}: no such weights file")
    if is_safetensors:
        with _open_safetensors(path) as file:
            yield _SafetensorsFile(path, file)
    else:
        with _open_hdf5(path) as file:
            yield TensorFile(path, file)


def _open_safetensors(path: Path) -> Any:
    safetensors = load_extra(str(path), "safetensors", "safetensors")
    try:
        return safetensors.safe_open(path, framework="pt")  # numpy has no bfloat16
    except (safetensors.SafetensorError, OSError) as error:
        raise _damaged(path, error) from None


def _open_hdf5(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        message, reason = str(error), system_reason(error)
    if "truncated file" in message:
        raise WeightsError(f"{path}: the weights file is cut off; get it again")
    if "signature not found" in message:
        raise WeightsError(f"{path}: expected a weights file (HDF5), found something else")
    raise WeightsError(f"{path}: cannot read the weights: {reason}")


# Writing.


def write_tensors(
    path: str | Path,
    tensors: Iterable[tuple[str, Array]],
    dtype: str,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file of tensors, which appears under its name when it is complete.

    Args:
        path: ends in .safetensors, or it is HDF5.
        tensors: names and values; of HDF5, one in memory at a time.
        dtype: of the values in the file, `float32` or `float16`.
        metadata: text about the file; the attributes of an HDF5 file.

    Raises:
        OutputError: the file cannot be written.
        ElmoError: it is safetensors, and the package for it is not installed.
    """
    path = Path(path)
    if path.suffix == SAFETENSORS_SUFFIX:
        safetensors = load_extra(str(path), "safetensors.numpy", "safetensors")
        values = {name: np.ascontiguousarray(array, dtype) for name, array in tensors}
        content = safetensors.save(values, dict(metadata or {}) or None)
        # Not by its `save_file`, whose files only their owner may read.
        with replaced(path) as partial:
            partial.write_bytes(content)
        return
    with replaced(path) as partial, _new_hdf5(partial) as file:
        with _disk_named():
            file.attrs.update(metadata or {})
        for name, array in tensors:
            with _disk_named():
                file.create_dataset(name, data=array, dtype=dtype)


def write_rows(path: str | Path, name: str, shape: Shape, rows: Iterable[Array]) -> None:
    """Write an HDF5 file of one tensor, some of its rows in memory at a time.

    Args:
        rows: in their order, float, shape (n, ...) each.

    Raises:
        OutputError: the file cannot be written.
    """
    with replaced(path) as partial, _new_hdf5(partial) as file:
        with _disk_named():
            dataset = file.create_dataset(name, shape=shape, dtype="float32")
        first = 0
        for values in rows:
            with _disk_named():
                dataset[first : first + len(values)] = values
            first += len(values)


@contextmanager
def _new_hdf5(path: Path) -> Iterator[h5py.File]:
    """A new file, closed at the end."""
    file = h5py.File(path, "x")
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
