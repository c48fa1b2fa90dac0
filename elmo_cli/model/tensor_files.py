"""Files of named tensors: HDF5 and safetensors."""

import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import EllipsisType
from typing import Any, Final

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.errors.missing_files import not_read
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line, system_reason
from elmo_cli.files.atomic import replaced
from elmo_cli.files.hdf5 import open_hdf5_to_read

BILM: Final = "the weights of a biLM"

SOFTMAX: Final = "a softmax"

Array = NDArray[Any]


Shape = tuple[int, ...]


HDF5_SUFFIXES: Final = (".hdf5", ".h5")


SAFETENSORS_SUFFIX: Final = ".safetensors"


WEIGHTS_SUFFIXES: Final = (*HDF5_SUFFIXES, SAFETENSORS_SUFFIX)


MIN_MAPPED_BYTES = 1 << 20
"""Minimum size of a mapped tensor: a mapping takes whole pages and a file descriptor."""


MAX_ITEMS: Final = 20_000  # datasets and groups; HDF5 is slow with many


_MAX_DEPTH: Final = 10  # groups around a dataset


_DAMAGE: Final = (KeyError, OSError, RuntimeError, TypeError, ValueError)
"""Errors that h5py raises for a damaged file."""


class TensorFile:
    """An open file of tensors. Its methods raise a `WeightsError` for a damaged file."""

    def __init__(self, path: Path, tensors: Mapping[str, Any]) -> None:
        """Wrap the datasets of h5py, or the slices of safetensors, by their names."""
        self.path = path
        self.names = list(tensors)
        self._tensors = tensors

    def _dtype(self, name: str) -> str:
        """Return the data type of a tensor: `float32` in HDF5, `F32` in safetensors."""
        tensor = self._tensors[name]
        return str(
            tensor.dtype if isinstance(tensor, h5py.Dataset) else tensor.get_dtype()
        )

    def is_half(self, name: str) -> bool:
        """Return whether the values of a tensor are float16."""
        return self._dtype(name) in ("float16", "F16")

    def check_kind(self, *kinds: str) -> None:
        """Raise a `WeightsError` for a file that contains no tensor of these kinds."""
        names = {name.partition("/")[0] for name in self.names}
        contents = []
        if names & {"char_embed", "embedding", "RNN_0"}:
            contents.append(BILM)
        if "softmax" in names:  # One file may have both.
            contents.append(SOFTMAX)
        if names & {"sentence_to_index", "0"}:
            contents.append("activations, as `elmo embed` writes them")
        if not set(contents) & set(kinds):
            shown = (
                contents[0]
                if contents
                else ", ".join(sorted(names)[:5]) or "no tensors"
            )
            raise WeightsError(f"{self.path}: expected {kinds[0]}, found {shown}")

    def check_shapes(self, expected: Mapping[str, Shape], source: str) -> None:
        """Raise a `WeightsError` that names all tensors whose shapes differ from `source`."""
        mismatches = [
            f"{name}: expected {shape}, found {found}"
            for name, shape in expected.items()
            if (found := self._shape(name)) != shape
        ]
        if mismatches:
            raise WeightsError(
                f"{self.path} does not fit {source}: {'; '.join(mismatches)}"
            )

    def _shape(self, name: str) -> Shape | str:
        if name not in self._tensors:
            return "no tensor"
        tensor = self._tensors[name]
        return tuple(
            tensor.shape if isinstance(tensor, h5py.Dataset) else tensor.get_shape()
        )

    def read(self, name: str, rows: slice | EllipsisType = ...) -> Array:
        """Read a tensor of floats, or some of its rows, as a float32 copy."""
        dtype = self._dtype(name)
        if not dtype.lstrip("<>").startswith(("f", "F", "BF")):
            raise WeightsError(f"{self.path}: {name}: expected floats, found {dtype}")
        with _reporting_damage(self.path):
            values = self._tensors[name][rows]
            if not isinstance(values, np.ndarray):
                # A view would change with the file.
                values = values.float().numpy().copy()
            return np.asarray(values, dtype=np.float32)

    def load(self, name: str, shape: Shape) -> Tensor:
        """Read a tensor as float32, or map the pages of the file if it is large."""
        values: Array | None = None
        with (
            _reporting_damage(self.path),
            suppress(OSError),
        ):  # Some file systems cannot map files.
            offset = self._offset(name)
            if (
                4 * math.prod(shape) >= MIN_MAPPED_BYTES
                and offset is not None
                and offset % 4 == 0
            ):
                values = np.memmap(self.path, np.float32, "c", offset, shape)
        return torch.from_numpy(self.read(name) if values is None else values)

    def _offset(self, name: str) -> int | None:
        """Return the offset of a tensor in the file; None if it is not contiguous float32."""
        if self._dtype(name) not in ("float32", "F32"):
            return None
        tensor = self._tensors[name]
        if isinstance(tensor, h5py.Dataset):
            offset: int | None = tensor.id.get_offset()
            return offset
        with open(self.path, "rb") as file:
            n_bytes = int.from_bytes(file.read(8), "little")
            return (
                8
                + n_bytes
                + int(json.loads(file.read(n_bytes))[name]["data_offsets"][0])
            )


@contextmanager
def open_tensors(path: str | Path) -> Iterator[TensorFile]:
    """Open a file of tensors. Raise a `WeightsError` if it is missing or damaged."""
    path = Path(path)
    if path.suffix == SAFETENSORS_SUFFIX:
        safetensors = load_extra(str(path), "safetensors", "safetensors")
        with _reporting_damage(path, (OSError, safetensors.SafetensorError)):
            file = safetensors.safe_open(path, framework="pt")  # NumPy has no bfloat16.
    else:
        with _reporting_damage(path):
            file = open_hdf5_to_read(path)
    with file:
        with _reporting_damage(path):
            tensors = _find_tensors(file)
        yield TensorFile(path, tensors)


def _find_tensors(file: Any) -> dict[str, Any]:
    """Return all tensors of a file, without links and external data."""
    if not isinstance(file, h5py.File):
        return {name: file.get_slice(name) for name in sorted(file.keys())}
    datasets, numbers = {}, count(1)

    def add(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if next(numbers) > MAX_ITEMS or name.count("/") > _MAX_DEPTH:
            many = f"{MAX_ITEMS:,} datasets and groups, as activations may have"
            problem = (
                f"it has more than {many}, or more than {_MAX_DEPTH} nested groups"
            )
            raise WeightsError(f"{file.filename}: not a model's weights: {problem}")
        if isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external):
            datasets[name] = item

    file.visititems(add)  # It follows no links.
    return datasets


@contextmanager
def _reporting_damage(
    path: Path, errors: tuple[type[Exception], ...] = _DAMAGE
) -> Iterator[None]:
    """Convert errors of h5py and safetensors, which can only mean damage, to a `WeightsError`."""
    try:
        yield
    except WeightsError:
        raise
    except errors as error:
        if isinstance(error, FileNotFoundError):
            raise not_read(path, "weights", error, WeightsError) from None
        if isinstance(error, OSError) and error.errno:
            remedy = ". Give the file in it." if Path(path).is_dir() else ""
            reason = f"cannot read the weights: {system_reason(error)}{remedy}"
            raise WeightsError(f"{path}: {reason}") from None
        if "signature not found" in str(error) and path.stat().st_size:
            remedy = (
                "Download it again."
                if path.suffix == ".hdf5"
                else "Give the HDF5 file."
            )
            raise WeightsError(
                f"{path}: not HDF5, nor named .safetensors. {remedy}"
            ) from None
        reason = f"not a valid weights file: {first_line(error)}"
        raise WeightsError(f"{path}: {reason}. Download it again.") from None


def write_tensors(
    path: str | Path,
    tensors: Iterable[tuple[str, Array]],
    dtype: str,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file of tensors as `float32` or `float16`. `metadata` are attributes in HDF5."""
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
    # In memory: HDF5 crashes on a full disk, and only the owner can read `save_file`'s file.
    with replaced(path) as partial:
        partial.write_bytes(content)
