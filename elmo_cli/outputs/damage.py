"""Damaged files of activations: what is checked of them, and what it is called."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import h5py

from elmo_cli.errors import ElmoError, InputError, first_line

DAMAGE: Final = (
    *(ArithmeticError, AttributeError, LookupError, OSError, RecursionError, RuntimeError),
    *(TypeError, ValueError),
)
"""What h5py, numpy and json raise for structures and values that are not as they should be."""

_LARGEST_RATIO: Final = 1032
"""Bytes for a byte of a file: what gzip can do at most."""
_RATIO_MATTERS_FROM: Final = 64 << 20


@contextmanager
def damage_named(path: str | Path) -> Iterator[None]:
    """Turn what is raised for damaged structures or data into one error."""
    try:
        yield
    except ElmoError:
        raise
    except DAMAGE as error:
        raise InputError(f"{path}: the file is damaged: {first_line(error)}") from None


def check_claim(dataset: Any, shape: tuple[int, ...]) -> None:
    """Make sure that a file is not far too small for a part of a dataset that is to be read.

    Raises:
        ValueError: it is; or the dataset is none of numbers.
    """
    if getattr(dataset, "shape", None) is None or dataset.dtype.kind not in "fiu":
        raise ValueError("expected a dataset of numbers, found something else")
    n_bytes = math.prod(shape) * dataset.dtype.itemsize
    chunk_bytes = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    claimed = max(n_bytes, chunk_bytes)
    if claimed > _RATIO_MATTERS_FROM and claimed > _LARGEST_RATIO * (size := _file_bytes(dataset)):
        raise ValueError(f"refused, a file of {size:,} bytes that claims to hold {n_bytes:,}")


def _file_bytes(dataset: Any) -> int:
    """The size of the file that a dataset is in, or of those that a virtual one is made of."""
    if not dataset.is_virtual:
        return int(dataset.file.id.get_filesize())
    folder = Path(dataset.file.filename).parent
    return sum((folder / name).stat().st_size for name in {s[1] for s in dataset.virtual_sources()})


def check_kind(
    dataset: Any, kind: str, n_axes: tuple[int, ...], *, or_virtual: bool = False
) -> None:
    """Make sure that a dataset has values of its own, of a kind and with so many axes.

    Args:
        dataset: what a name leads to.
        kind: of values, as numpy has it: `f` or `i8`.
        n_axes: how many axes it may have.
        or_virtual: it may also be made of others, which are checked elsewhere.

    Raises:
        ValueError: it has not; its values lie in other files, for one.
    """
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
        raise ValueError("expected a dataset of numbers, found something else")
    dtype = dataset.dtype
    if not dtype.str[1:].startswith(kind) or dataset.ndim not in n_axes:
        raise ValueError(f"{dataset.name} has {dtype} values of the shape {dataset.shape}")
    properties = dataset.id.get_create_plist()
    if (properties.get_layout() == h5py.h5d.VIRTUAL and not or_virtual) or (
        properties.get_layout() == h5py.h5d.CONTIGUOUS and properties.get_external_count()
    ):
        raise ValueError(f"{dataset.name} has values of another file")


def check_count(n_found: int, n_expected: int) -> None:
    """Make sure that a file holds as many records as it should.

    Raises:
        ValueError: it does not.
    """
    if n_found != n_expected:
        raise ValueError(f"expected {n_expected:,} records, found {n_found:,}")


def checked_texts(found: Any) -> dict[str, str]:
    """What should be a mapping of texts to texts.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError("expected names and texts, found something else")
    return found


def check_string(dataset: Any) -> None:
    """Make sure that a dataset holds one string of variable length.

    Raises:
        ValueError: it holds anything else.
    """
    if not isinstance(dataset, h5py.Dataset) or dataset.shape != (1,) or dataset.chunks:
        raise ValueError("expected a dataset of one string, found something else")
    kind = h5py.check_string_dtype(dataset.dtype)
    if kind is None or kind.length is not None:
        raise ValueError(f"expected a string, found {dataset.dtype} values")


def has_name(file: h5py.Group, name: str) -> bool:
    """Whether there is such a name, wherever it leads: not to be found out by going there."""
    return bool(file.id.links.exists(name.encode()))


def part_of(file: h5py.Group, name: str) -> Any:
    """What has a name in a file itself.

    Raises:
        ValueError: the name leads elsewhere.
        KeyError: there is none.
    """
    if file.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
        raise ValueError(f"{name} is a link")
    return file[name]
