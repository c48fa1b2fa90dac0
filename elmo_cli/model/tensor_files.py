"""Files of named tensors: HDF5 and safetensors.

A file whose name ends in .safetensors is read by the package of that name (an extra),
any other by h5py. A tensor has one name in both formats, in which "/" separates groups.
Shapes are known before a value is read, and values are read one tensor at a time. Large
tensors are mapped where possible: their memory is pages of the file, which processes
share and which the system can drop. A page that a process writes to becomes private, so
that the file never changes.
"""

import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import EllipsisType
from typing import Any, Final

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.errors.missing_files import (
    empty_file_error,
    is_empty_file,
    unreadable_file_error,
)
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line, system_reason
from elmo_cli.files.atomic import new_file
from elmo_cli.files.named_pipes import refuse_named_pipe
from elmo_cli.files.open_hdf5 import open_hdf5_to_read

Shape = tuple[int, ...]

BILM: Final = "the weights of a biLM"
SOFTMAX: Final = "a softmax"

HDF5_SUFFIXES: Final = (".hdf5", ".h5")
SAFETENSORS_SUFFIX: Final = ".safetensors"
WEIGHTS_SUFFIXES: Final = (*HDF5_SUFFIXES, SAFETENSORS_SUFFIX)

MIN_MAPPED_BYTES = 1 << 20
"""Minimum size of a mapped tensor: a mapping takes whole pages and a file
descriptor."""
MAX_ITEMS: Final = 20_000
"""Maximum number of datasets and groups: HDF5 is slow with many."""
_MAX_DEPTH: Final = 10
"""Maximum number of groups around a dataset."""
_LENGTH_BYTES: Final = 8
"""Size of the number at the start of a safetensors file, and its alignment."""
_HALF: Final = ("float16", "F16")
"""Names of float16 in HDF5 and in safetensors."""
_DAMAGE: Final = (KeyError, OSError, RuntimeError, TypeError, ValueError)
"""Errors that h5py raises for a damaged file."""
_REMEDY: Final = "Give weights.hdf5 or softmax.hdf5 of a model."
"""Remedy of a file of another format."""
_Datasets = dict[str, h5py.Dataset]
"""Datasets of a file, by their names."""


class TensorFile(ABC):
    """An open file of tensors.

    Its methods raise a `WeightsError` for a damaged file.
    """

    def __init__(
        self,
        path: Path,
        names: Collection[str],
        others: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.names = list(names)
        self._others = others or {}
        """What is in the place of a tensor but cannot be read, such as a link."""

    @abstractmethod
    def _dtype(self, name: str) -> str:
        """Return the data type of a tensor: `float32` in HDF5, `F32` in safetensors."""

    @abstractmethod
    def _shape(self, name: str) -> Shape:
        """Return the shape of a tensor."""

    @abstractmethod
    def _rows(self, name: str, rows: slice | EllipsisType) -> AnyArray:
        """Return rows of a tensor as an array that does not change with the file."""

    @abstractmethod
    def _float32_offset(self, name: str) -> int | None:
        """Return the offset of a tensor in the file, or None for other than float32."""

    def is_half(self, name: str) -> bool:
        """Return whether the values of a tensor are float16."""
        return self._dtype(name) in _HALF

    def check_kind(self, *kinds: str) -> None:
        """Raise a `WeightsError` for a file that contains no tensor of these kinds."""
        groups = {name.partition("/")[0] for name in self.names}
        contents = []
        if groups & {"char_embed", "embedding", "RNN_0"}:
            contents.append(BILM)
        if "softmax" in groups:  # One file may have both.
            contents.append(SOFTMAX)
        if groups & {"sentence_to_index", "0"}:
            contents.append("activations, as `elmo embed` writes them")
        if set(contents) & set(kinds):
            return
        if contents:
            found = contents[0]
        elif groups:
            found = ", ".join(sorted(groups)[:5])
        else:
            found = "no tensors"
        remedy = "Choose weights.hdf5 of a model." if BILM in kinds else None
        raise WeightsError(
            f"{self.path}: expected {kinds[0]}, found {found}", remedy=remedy
        )

    def check_whole(self) -> None:
        """Raise a `WeightsError` for what is no tensor in this file, such as a link."""
        if self._others:
            name, kind = next(iter(self._others.items()))
            raise WeightsError(
                f"{self.path}: {name}: expected a tensor in this file, found {kind}"
            )

    def check_shapes(self, expected: Mapping[str, Shape], source: str) -> None:
        """Raise a `WeightsError` that names all tensors whose shapes do not fit."""
        mismatches = []
        for name, shape in expected.items():
            found: Shape | str = self._others.get(name, "no tensor")
            if name in self.names:
                found = self._shape(name)
            if found != shape:
                mismatches.append(f"{name}: expected {shape}, found {found}")
        if mismatches:
            raise WeightsError(
                f"{self.path} does not fit {source}: {'; '.join(mismatches)}"
            )

    def read(self, name: str, rows: slice | EllipsisType = ...) -> AnyArray:
        """Read a tensor of floats, or some of its rows, as a float32 copy."""
        with _reporting_damage(self.path):
            dtype = self._dtype(name)
            if not dtype.lstrip("<>").startswith(("f", "F", "BF")):
                raise WeightsError(
                    f"{self.path}: {name}: expected floats, found {dtype}"
                )
            return np.asarray(self._rows(name, rows), dtype=np.float32)

    def load(self, name: str, shape: Shape) -> Tensor:
        """Read a tensor as float32, or map the pages of the file if it is large."""
        if 4 * math.prod(shape) >= MIN_MAPPED_BYTES:
            # Some file systems cannot map files.
            with _reporting_damage(self.path), suppress(OSError):
                offset = self._float32_offset(name)
                if offset is not None and offset % 4 == 0:
                    return torch.from_numpy(
                        np.memmap(
                            self.path, np.float32, mode="c", offset=offset, shape=shape
                        )
                    )
        return torch.from_numpy(self.read(name))


class _Hdf5File(TensorFile):
    """File of tensors in HDF5."""

    def __init__(
        self, path: Path, datasets: Mapping[str, h5py.Dataset], others: dict[str, str]
    ) -> None:
        super().__init__(path, datasets, others)
        self._datasets = datasets

    def _dtype(self, name: str) -> str:
        return str(self._datasets[name].dtype)

    def _shape(self, name: str) -> Shape:
        return tuple(self._datasets[name].shape)

    def _rows(self, name: str, rows: slice | EllipsisType) -> AnyArray:
        values: AnyArray = self._datasets[name][rows]
        return values

    def _float32_offset(self, name: str) -> int | None:
        if self._dtype(name) != "float32":
            return None
        offset: int | None = self._datasets[name].id.get_offset()
        return offset


class _SafetensorsFile(TensorFile):
    """File of tensors in safetensors."""

    def __init__(self, path: Path, slices: Mapping[str, Any]) -> None:
        super().__init__(path, slices)
        self._slices = slices

    def _dtype(self, name: str) -> str:
        return str(self._slices[name].get_dtype())

    def _shape(self, name: str) -> Shape:
        return tuple(self._slices[name].get_shape())

    def _rows(self, name: str, rows: slice | EllipsisType) -> AnyArray:
        # A view would change with the file.
        values: AnyArray = self._slices[name][rows].float().numpy().copy()
        return values

    def _float32_offset(self, name: str) -> int | None:
        if self._dtype(name) != "F32":
            return None
        # Tensors follow a header in JSON, whose size comes first.
        with open(self.path, "rb") as file:
            n_bytes = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            header = json.loads(file.read(n_bytes))
        return _LENGTH_BYTES + n_bytes + int(header[name]["data_offsets"][0])


@contextmanager
def open_tensors(path: str | Path, remedy: str = _REMEDY) -> Iterator[TensorFile]:
    """Open a file of tensors. Raise a `WeightsError` if it is missing or damaged.

    `remedy` is that of a file of another format.
    """
    path = Path(path)
    if path.suffix == SAFETENSORS_SUFFIX:
        safetensors = load_extra(str(path), "safetensors", "safetensors")
        with _reporting_damage(path, (OSError, safetensors.SafetensorError)):
            refuse_named_pipe(path)
            # NumPy has no bfloat16.
            file = safetensors.safe_open(path, framework="pt")
        with file:
            with _reporting_damage(path):
                slices = {name: file.get_slice(name) for name in sorted(file.keys())}
            yield _SafetensorsFile(path, slices)
    else:
        with _reporting_damage(path, remedy=remedy):
            file = open_hdf5_to_read(path)
        with file:
            with _reporting_damage(path):
                datasets, others = _find_datasets(file)
                others |= _find_links(file)
            yield _Hdf5File(path, datasets, others)


def is_finite(values: Tensor) -> bool:
    """Return whether all values are finite, in a tenth of the time of `isfinite`."""
    return all(extreme.isfinite() for extreme in values.aminmax())


def _find_datasets(file: h5py.File) -> tuple[_Datasets, dict[str, str]]:
    """Return all datasets with values in a file, and the kinds of other items."""
    datasets: _Datasets = {}
    others: dict[str, str] = {}
    n_items = 0

    def add(name: str, item: h5py.Dataset | h5py.Group | h5py.Datatype) -> None:
        nonlocal n_items
        n_items += 1
        _check_size(file, name, n_items)
        if isinstance(item, h5py.Group):
            if len(item) == 0:
                others[name] = "an empty group"
        elif isinstance(item, h5py.Datatype):
            others[name] = "a data type"
        elif item.is_virtual:
            others[name] = "a virtual dataset"
        elif item.external:
            others[name] = "a dataset in other files"
        elif item.shape is None:
            others[name] = "a dataset without values"
        else:
            datasets[name] = item

    file.visititems(add)  # It follows no links.
    return datasets, others


def _find_links(file: h5py.File) -> dict[str, str]:
    """Return the kinds of the links in a file, which are not followed."""
    links: dict[str, str] = {}

    def add(encoded: bytes, info: Any) -> None:
        name = encoded.decode("utf-8", "replace")
        _check_size(file, name, n_items=len(links) + 1)
        if info.type == h5py.h5l.TYPE_SOFT:
            links[name] = "a soft link"
        elif info.type != h5py.h5l.TYPE_HARD:
            links[name] = "an external link"

    file.id.links.visit(add, info=True)
    return links


def _check_size(file: h5py.File, name: str, n_items: int) -> None:
    """Raise a `WeightsError` for a file of too many or too deeply nested items."""
    if n_items <= MAX_ITEMS and name.count("/") <= _MAX_DEPTH:
        return
    many = f"{MAX_ITEMS:,} datasets and groups, as activations may have"
    problem = f"it has more than {many}, or more than {_MAX_DEPTH} nested groups"
    raise WeightsError(f"{file.filename}: not a model's weights: {problem}")


@contextmanager
def _reporting_damage(
    path: Path,
    errors: tuple[type[Exception], ...] = _DAMAGE,
    remedy: str = _REMEDY,
) -> Iterator[None]:
    """Convert errors of h5py and safetensors, which mean damage, to our own.

    `remedy` is that of a file of another format.
    """
    try:
        yield
    except WeightsError:
        raise
    except errors as error:
        raise _weights_error(path, error, remedy) from None


def _weights_error(path: Path, error: Exception, remedy: str) -> Exception:
    """Return the error for a file that h5py or safetensors cannot read."""
    if isinstance(error, FileNotFoundError):
        return unreadable_file_error(path, "weights", error=error, kind=WeightsError)
    if isinstance(error, OSError) and error.errno:
        return WeightsError(
            f"{path}: cannot read the weights: {system_reason(error)}",
            remedy="Give the file in it." if path.is_dir() else None,
        )
    if is_empty_file(path):
        return empty_file_error(path, WeightsError, remedy="Copy or download it again.")
    if "signature not found" in str(error):
        expected = "expected weights in HDF5 or safetensors"
        problem = f"{path}: {expected}, found something else"
        if path.suffix == ".hdf5":
            return WeightsError(problem, remedy="Copy or download it again.")
        return WeightsError(problem, remedy=remedy)
    if "truncated file" in str(error):
        problem = f"{path}: the file is incomplete"
        return WeightsError(problem, remedy="Copy or download it again.")
    reason = f"not a valid weights file: {first_line(error)}"
    return WeightsError(f"{path}: {reason}", remedy="Copy or download it again.")


def write_tensors(
    path: str | Path,
    tensors: Iterable[tuple[str, AnyArray]],
    dtype: str,
    metadata: Mapping[str, str] | None = None,
    *,
    overwrite: bool = True,
) -> None:
    """Write a file of tensors as `float32` or `float16`.

    `metadata` are attributes in HDF5. Without `overwrite`, an existing file is kept.
    """
    path = Path(path)
    contents: list[bytes | memoryview]
    if path.suffix == SAFETENSORS_SUFFIX:
        safetensors = load_extra(str(path), "safetensors.numpy", "safetensors")
        values = {name: np.ascontiguousarray(array, dtype) for name, array in tensors}
        contents = _with_metadata(safetensors.save(values), metadata or {})
    else:
        buffer = io.BytesIO()
        with h5py.File(buffer, "w") as hdf5:
            hdf5.attrs.update(metadata or {})
            for name, array in tensors:
                # HDF5 takes no space for a dataset without data, and reads zeros.
                data = array if array.any() else None
                hdf5.create_dataset(name, array.shape, dtype=dtype, data=data)
        contents = [buffer.getbuffer()]
    # The content was made in memory, because HDF5 crashes on a full disk, and because
    # only its owner can read a file of safetensors' `save_file`.
    with new_file(path, overwrite=overwrite) as file:
        file.writelines(contents)


def _with_metadata(
    content: bytes, metadata: Mapping[str, str]
) -> list[bytes | memoryview]:
    """Return the pieces of a safetensors file with metadata.

    The package writes metadata in a random order, so that equal files would differ.
    """
    if not metadata:
        return [content]
    n_bytes = int.from_bytes(content[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + n_bytes
    header = {"__metadata__": dict(metadata)}
    header |= json.loads(content[_LENGTH_BYTES:start])
    line = json.dumps(header, separators=(",", ":")).encode()
    # The values begin at a multiple of 8 bytes.
    line += b" " * (-len(line) % _LENGTH_BYTES)
    length = len(line).to_bytes(_LENGTH_BYTES, "little")
    return [length, line, memoryview(content)[start:]]
