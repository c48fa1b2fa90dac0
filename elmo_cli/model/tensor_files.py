"""Named tensors in a file: safetensors where its name ends so, else HDF5.

Shapes are known before a value is read, and values come and go one tensor at a time.
A tensor has the same name in both formats; "/" parts names into groups.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from elmo_cli.atomic import rename_synced
from elmo_cli.errors import OutputError, WeightsError
from elmo_cli.model.hdf5_tensors import (
    RATIO_MATTERS_FROM,
    open_hdf5,
    write_hdf5,
    write_hdf5_rows,
)
from elmo_cli.model.safetensors_tensors import open_safetensors, write_safetensors

Array = NDArray[Any]
Shape = tuple[int, ...]

HDF5_SUFFIXES: Final = (".hdf5", ".h5")
SAFETENSORS_SUFFIX: Final = ".safetensors"

_LARGEST_RATIO: Final = 32
"""Bytes of values for a byte of a file: weights hardly compress."""


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
    with (open_safetensors if _is_safetensors(path) else open_hdf5)(path) as file:
        yield file


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
    if n_bytes > max(RATIO_MATTERS_FROM, _LARGEST_RATIO * size):
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
    write = write_safetensors if _is_safetensors(path) else write_hdf5
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
    with replaced(path) as partial:
        write_hdf5_rows(partial, name, shape, rows)


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
        rename_synced(partial, path)
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"{path}: cannot be written: {reason}") from None
    finally:
        partial.unlink(missing_ok=True)


def _is_safetensors(path: Path) -> bool:
    return path.suffix == SAFETENSORS_SUFFIX
