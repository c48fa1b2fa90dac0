"""Named tensors in a file: safetensors where its name ends so, else HDF5.

Shapes are known before a value is read, and values come one tensor at a time. A tensor
has the same name in both formats; "/" parts names into groups. Safetensors take the
package of that name, an extra of this one.
"""

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import EllipsisType
from typing import Any, Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.atomic import replaced
from elmo_cli.errors import WeightsError, first_line, load_extra

Array = NDArray[Any]
Shape = tuple[int, ...]

HDF5_SUFFIXES: Final = (".hdf5", ".h5")
SAFETENSORS_SUFFIX: Final = ".safetensors"
SUFFIXES: Final = (*HDF5_SUFFIXES, SAFETENSORS_SUFFIX)

BILM: Final = "the weights of a biLM"
SOFTMAX: Final = "a softmax"

_DAMAGE: Final = (KeyError, OSError, RuntimeError, TypeError, ValueError)
"""What h5py raises where a file is damaged."""


class TensorFile:
    """An open file of tensors. Its methods raise a `WeightsError` where it is damaged."""

    def __init__(self, path: Path, tensors: Mapping[str, Any]) -> None:
        """Take h5py's data sets, or the slices of safetensors, by their names."""
        self.path = path
        self.names = list(tensors)
        self._tensors = tensors

    def is_half(self, name: str) -> bool:
        """Whether the values of a tensor are float16."""
        tensor = self._tensors[name]
        if isinstance(tensor, h5py.Dataset):
            return bool(tensor.dtype == np.float16)
        return bool(tensor.get_dtype() == "F16")

    def check_kind(self, *kinds: str) -> None:
        """Raise a `WeightsError` for a file that seems to hold none of these."""
        names = {name.partition("/")[0] for name in self.names}
        if names & {"char_embed", "embedding", "RNN_0"}:
            found = BILM
        elif "softmax" in names:
            found = SOFTMAX
        elif names & {"sentence_to_index", "0"}:
            found = "activations, as `elmo embed` writes them"
        else:
            found = ", ".join(sorted(names)[:5]) or "nothing"
        if found not in kinds:
            raise WeightsError(f"{self.path}: expected {kinds[0]}, found {found}")

    def check_shapes(self, expected: Mapping[str, Shape], source: str) -> None:
        """Raise a `WeightsError` that names all tensors without the shapes of `source`."""
        found = {name: self._shape(name) for name in expected}
        mismatches = [
            f"{name}: expected {shape}, found {found[name]}"
            for name, shape in expected.items()
            if found[name] != shape
        ]
        if mismatches:
            raise WeightsError(f"{self.path} does not fit {source}: {'; '.join(mismatches)}")

    def _shape(self, name: str) -> Shape | str:
        if name not in self._tensors:
            return "nothing"
        tensor = self._tensors[name]
        return tuple(tensor.shape if isinstance(tensor, h5py.Dataset) else tensor.get_shape())

    def read(self, name: str, rows: slice | EllipsisType = ...) -> Array:
        """The values of a tensor, or some of its rows: float32, a copy."""
        with _errors_named(self.path):
            values = self._tensors[name][rows]
            if not isinstance(values, np.ndarray):
                values = values.float().numpy().copy()  # of a view of the file, which may change
            return np.asarray(values, dtype=np.float32)


@contextmanager
def open_tensors(path: str | Path) -> Iterator[TensorFile]:
    """Open a file of tensors to read; a `WeightsError` if it is missing or damaged."""
    path = Path(path)
    if path.suffix == SAFETENSORS_SUFFIX:
        safetensors = load_extra(str(path), "safetensors", "safetensors")
        with _errors_named(path, (OSError, safetensors.SafetensorError)):
            file = safetensors.safe_open(path, framework="pt")  # numpy has no bfloat16
    else:
        with _errors_named(path):
            file = h5py.File(path, "r")
    with file:
        with _errors_named(path):
            tensors = _find_tensors(file)
        yield TensorFile(path, tensors)


def _find_tensors(file: Any) -> dict[str, Any]:
    """All tensors of a file; none that a link leads to or whose values another file has."""
    if not isinstance(file, h5py.File):
        return {name: file.get_slice(name) for name in sorted(file.keys())}
    found = {}

    def keep(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external):
            found[name] = item

    file.visititems(keep)  # which follows no links
    return found


@contextmanager
def _errors_named(path: Path, errors: tuple[type[Exception], ...] = _DAMAGE) -> Iterator[None]:
    """Name damage: around calls of h5py and safetensors alone, whose errors can mean only that."""
    try:
        yield
    except errors as error:
        if isinstance(error, OSError) and error.errno:
            reason = os.strerror(error.errno)
            raise WeightsError(f"{path}: cannot read the weights: {reason}") from None
        reason = first_line(error)
        message = f"{path}: the weights file is damaged, or is none: {reason}; get it again"
        raise WeightsError(message) from None


# Writing.


def write_tensors(
    path: str | Path,
    tensors: Iterable[tuple[str, Array]],
    dtype: str,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file of tensors, put together in memory; it appears when it is complete.

    Its values are `float32` or `float16`; `metadata` are the attributes of an HDF5 file.
    """
    path = Path(path)
    content: bytes | memoryview
    if path.suffix == SAFETENSORS_SUFFIX:
        safetensors = load_extra(str(path), "safetensors.numpy", "safetensors")
        values = {name: np.ascontiguousarray(array, dtype) for name, array in tensors}
        content = safetensors.save(values, dict(metadata or {}) or None)
    else:
        buffer = io.BytesIO()
        with h5py.File(buffer, "w") as file:
            file.attrs.update(metadata or {})
            for name, array in tensors:
                file.create_dataset(name, data=array, dtype=dtype)
        content = buffer.getbuffer()
    # Not by the libraries: HDF5 crashes on a full disk, and files of `save_file` are their owner's.
    with replaced(path) as partial:
        partial.write_bytes(content)
