"""HDF5 files whose bytes are whole and whose content is not what it should be.

`damaged_hdf5` is `damaged` of hostile.py for them: links, other types and shapes, sizes that no
file has, values of other files, odd attributes; and half the time, changed bytes.
"""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from hostile import damaged

SECRET, PIPE = "secret.hdf5", "pipe"
"""Files beside a hostile one, to which it may lead."""

_TYPES = ("f4", "f8", "f2", "i8", "u1", "c8", "S5", "V3", "?")
_SIZES = (0, 1, 2, 3, 5, 32, 1000, 2**20, 2**31, 2**40, 2**60)
_TEXTS = (
    *("", "-1", "0", "1", "2", "3", "4", "5", "7", "9" * 20, "9" * 5000, "1e9", "x", "\u0663"),
    *("True", "False", "packed", "allennlp", "text", "fasta", "float16", "float32", "float64"),
    *("gzip", "zstd", "mean", "1/2", "2/2", "1/3", "3/2", "1/999999999", "0" * 64, "x" * 100_000),
    *("{}", "[]", "null", '{"a": 1}', '{"0": "fault"}', '{"sequence 1": "fault"}'),
    *('{"sequence x": "fault"}', '{"sequence 99999999999999999": ""}', "[" * 100_000, '{"a"'),
)
_VALUES: tuple[Any, ...] = (
    *(3, -1, 2**63 - 1, float("inf"), float("nan"), b"\xff", h5py.Empty("f4"), True),
    *(np.zeros(3), np.zeros((2, 2), "S3"), np.array(["a", "b"], object), np.zeros(0)),
)


def damaged_hdf5(content: bytes, number: int) -> bytes:
    """A hostile file made of a whole one, the same for the same number."""
    if number % 2:
        return damaged(content, number)
    chance = random.Random(number)
    buffer = BytesIO(content)
    with suppress(*_REFUSED), h5py.File(buffer, "r+") as file:
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            with suppress(*_REFUSED):
                _CHANGES[chance.randrange(len(_CHANGES))](file, chance)
    content = buffer.getvalue()
    return damaged(content, number) if number % 8 == 0 else content


_REFUSED = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError)
"""What h5py says where a change cannot be made."""


def make_neighbours(folder: Path) -> None:
    """The files to which hostile ones may lead."""
    import os

    if not (folder / PIPE).exists():
        os.mkfifo(folder / PIPE)
    with h5py.File(folder / SECRET, "w") as file:
        file["0"] = np.ones((3, 2, 32), np.float32)


def _name(file: h5py.File, chance: random.Random) -> str:
    name: str = chance.choice(sorted(file))
    return name


def _holder(file: h5py.File, chance: random.Random) -> Any:
    """What attributes belong to: mostly the file."""
    return file if chance.random() < 0.8 else file[_name(file, chance)]


def _delete(file: h5py.File, chance: random.Random) -> None:
    del file[_name(file, chance)]


def _rename(file: h5py.File, chance: random.Random) -> None:
    new = chance.choice(("0", "1", "2", "4", "99", "-1", "x", "offsets", "sentence_to_index", "é"))
    file.move(_name(file, chance), new)


def _swap(file: h5py.File, chance: random.Random) -> None:
    one, other = _name(file, chance), _name(file, chance)
    file.move(one, "swapped")
    if one != other:
        file.move(other, one)
    file.move("swapped", other)


def _retype(file: h5py.File, chance: random.Random) -> None:
    name = _name(file, chance)
    values = file[name][()]
    del file[name]
    file[name] = values.astype(chance.choice(_TYPES))


def _reshape(file: h5py.File, chance: random.Random) -> None:
    name = _name(file, chance)
    dtype, shape = file[name].dtype, list(file[name].shape)
    change = chance.randrange(3)
    if change == 0 and shape:
        shape[chance.randrange(len(shape))] = chance.choice(_SIZES[:7])
    elif change == 1:
        shape.append(chance.choice((1, 2)))
    else:
        shape = shape[1:]
    del file[name]
    file[name] = np.zeros(shape, dtype)


def _claim(file: h5py.File, chance: random.Random) -> None:
    """A size that the file does not have, with chunks or without."""
    name = _name(file, chance)
    dtype, shape = file[name].dtype, list(file[name].shape)
    shape[chance.randrange(len(shape))] = chance.choice(_SIZES)
    del file[name]
    settings: dict[str, Any] = {}
    if chance.random() < 0.5:
        settings = {"chunks": tuple(min(n, 64) or 1 for n in shape), "compression": "gzip"}
    file.create_dataset(name, tuple(shape), dtype, **settings)


def _resize(file: h5py.File, chance: random.Random) -> None:
    dataset = file[_name(file, chance)]
    dataset.resize(chance.choice((0, 1, 2, len(dataset) - 1, len(dataset) + 1, 2**40, 2**60)), 0)


def _link(file: h5py.File, chance: random.Random) -> None:
    name, other = _name(file, chance), _name(file, chance)
    links: tuple[Any, ...] = (
        h5py.SoftLink("/nowhere"),
        h5py.SoftLink(f"/{name}"),
        h5py.SoftLink(f"/{other}"),
        h5py.ExternalLink(SECRET, "0"),
        h5py.ExternalLink(SECRET, "nowhere"),
        h5py.ExternalLink("nowhere.hdf5", "0"),
        h5py.ExternalLink(PIPE, "0"),
        h5py.ExternalLink("/dev/zero", "0"),
        h5py.ExternalLink(".", "0"),
        file["/"],
        file[other],
    )
    link = chance.choice(links)
    del file[name]
    file[name] = link


def _borrow(file: h5py.File, chance: random.Random) -> None:
    """Values of another file."""
    name = _name(file, chance)
    dtype, shape = file[name].dtype, file[name].shape
    del file[name]
    if chance.random() < 0.5:
        layout = h5py.VirtualLayout(shape, dtype)
        layout[...] = h5py.VirtualSource(SECRET, "0", shape=shape)
        file.create_virtual_dataset(name, layout)
        return
    other = chance.choice((PIPE, "/dev/zero", "/etc/passwd", "nowhere"))
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    file.create_dataset(name, shape, dtype, external=[(other, 0, n_bytes)])


def _set_values(file: h5py.File, chance: random.Random) -> None:
    """Other values: of offsets, texts, the index."""
    name = _name(file, chance)
    dataset = file[name]
    if h5py.check_string_dtype(dataset.dtype):
        index = json.loads(dataset[0])
        key = chance.choice(sorted(index) or ["a"])
        index[key] = chance.choice((*_TEXTS, 3, None, [], {}))
        dataset[0] = chance.choice((json.dumps(index), *_TEXTS, "\x00"))
        return
    place = chance.randrange(len(dataset))
    number = chance.choice((-1, 0, 1, 2, 3, 200, 255, 2**31, 2**40, 2**62))
    kind = dataset.dtype
    dataset[place] = np.int64(number).astype(kind) if chance.random() < 0.8 else dataset[0] + 1


def _add(file: h5py.File, chance: random.Random) -> None:
    name = chance.choice(("5", "99", "x", "a/b", "keys", "attributes", "sentences", "0/0"))
    values = (np.zeros((3, 1, 32), np.float32), np.zeros(6, np.int64), np.zeros(3, np.uint8))
    file[name] = chance.choice((*values, "text"))


def _drop_attribute(file: h5py.File, chance: random.Random) -> None:
    holder = _holder(file, chance)
    del holder.attrs[chance.choice(sorted(holder.attrs))]


def _set_attribute(file: h5py.File, chance: random.Random) -> None:
    holder = _holder(file, chance)
    names = [*holder.attrs, "skipped", "pooling", "compression", "original_id", "sentence_keys"]
    value = chance.choice(_TEXTS) if chance.random() < 0.7 else chance.choice(_VALUES)
    holder.attrs[chance.choice(names)] = value


_CHANGES: tuple[Callable[[h5py.File, random.Random], None], ...] = (
    *(_delete, _rename, _swap, _retype, _reshape, _claim, _resize, _link, _link, _borrow),
    *(_set_values, _set_values, _add, _drop_attribute, _set_attribute, _set_attribute),
    _set_attribute,
)
