"""Named tensors in safetensors; reading takes the package of that name, an extra of this one."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ElmoError, WeightsError
from elmo_cli.pretrained.integrity import safetensors_fault

Array = NDArray[Any]
Shape = tuple[int, ...]

_DTYPES: Final = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""The values of safetensors that are read."""
_CODES: Final = {name: code for code, name in _DTYPES.items()}


class _SafetensorsTensors:
    """A `TensorFile`."""

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


@contextmanager
def open_safetensors(path: Path) -> Iterator[_SafetensorsTensors]:
    """Open a file of weights to read.

    Raises:
        WeightsError: it is missing, of another kind or damaged.
        ElmoError: the package for it is not installed.
    """
    with _opened(path) as file:
        yield _SafetensorsTensors(file)


def _opened(path: Path) -> Any:
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
            f"{path}: safetensors files need a package that is not installed; "
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
