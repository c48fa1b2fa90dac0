"""The names of very many numbered datasets, put into an HDF5 file when all are there.

HDF5 keeps the names of a group in memory, as one block, and once more to write it. So the first
datasets alone are named in the root while a run goes on; those that follow are in groups of a
thousand (`part_of_number`). In the end it is noted where all are (`DatasetAddresses`), and when
HDF5 has closed the file, its root gets a new index (`write_names`), byte by byte what HDF5 would
have written: the names, nodes of symbols, and a B-tree over these, at the end of the file; the
header of the names and the root of the tree where they were. See "B-trees (v1)", "Symbol Table
Node" and "Local Heaps" in the HDF5 File Format Specification, version 3.0.
"""

import io
import os
import struct
import tempfile
from array import array
from collections.abc import Callable, Container, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice
from typing import Any, BinaryIO, Final, NamedTuple

import h5py

from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.damage import check_count
from elmo_cli.outputs.numbered_texts import disk_named
from elmo_cli.outputs.superblock import Superblock, read_superblock, write_end
from elmo_cli.text.records import Shard

PARTS: Final = "parts"
"""The group of groups in which datasets are named until all are there."""

_PART_NAMES: Final = 1024
_ADDRESS: Final = struct.Struct("<Q")
_BLOCK: Final = 4096
"""Addresses that are read at once."""
_BUFFER_BYTES: Final = 1 << 20
_NONE: Final = (1 << 64) - 1
"""The address of nothing."""
_NO_FREE_BYTES: Final = 1
_HEADER_BYTES: Final = 24
"""Of a node of the tree."""
_SYMBOL: Final = struct.Struct("<QQ24x")
"""A name, by its place among the names, and the address of its dataset."""

Entry = tuple[bytes, int]
"""A name, and the address of its dataset."""


def part_of_number(number: int) -> str:
    """The group that a record's dataset is in until all are there."""
    return f"{PARTS}/{number // _PART_NAMES}"


class DatasetAddresses:
    """Where in a file the dataset of each number is. Kept on the disk, 8 bytes each."""

    def __init__(
        self, file: h5py.File, shard: Shard, n_records: int, others: Container[bytes]
    ) -> None:
        """Note all datasets in the root and its parts.

        Args:
            file: with both.
            shard: of which the datasets are.
            n_records: how many there are.
            others: names in the root that are no numbers.

        Raises:
            OutputError: the disk is full.
            ValueError: one is missing, or of another name.
        """
        self._shard, self._n_records, self._others = shard, n_records, others
        self._n_found = 0
        with disk_named():
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (`close` does)
        try:
            for group in chain([file], file[PARTS].values()):
                self._note_all(group)
            check_count(self._n_found, n_records)
        except BaseException:
            self.close()
            raise

    def entries(self) -> Iterator[Entry]:
        """All names in their order as texts: 0, 1, 10, 100, 101, 11, 2, ..."""

        @lru_cache(maxsize=32)  # one for each number of digits would do
        def block(number: int) -> "array[int]":
            start = number * _BLOCK * _ADDRESS.size
            return array("Q", os.pread(self._file.fileno(), _BLOCK * _ADDRESS.size, start))

        for place in _in_order_of_text(self._shard.place(self._n_records - 1)):
            if self._shard.has(place):
                number = place // self._shard.total
                yield b"%d" % place, block(number // _BLOCK)[number % _BLOCK]

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _note_all(self, group: h5py.Group) -> None:
        def note(name: bytes, link: Any) -> BaseException | None:
            try:
                self._note(name, link)
            except BaseException as error:  # HDF5 cannot bear one; given to it, it stops
                return error
            return None

        fault, _ = group.id.links.iterate(note, info=True)
        if fault is not None:
            raise fault

    def _note(self, name: bytes, link: Any) -> None:
        if name in self._others:
            return
        place = int(name[:18]) if name.isdigit() else -1
        number = place // self._shard.total
        is_record = 0 <= number < self._n_records and self._shard.has(place)
        if link.type != h5py.h5l.TYPE_HARD or b"%d" % place != name or not is_record:
            raise ValueError(f"{name[:40]!r} names no record")
        with disk_named():
            os.pwrite(self._file.fileno(), _ADDRESS.pack(link.u), number * _ADDRESS.size)
        self._n_found += 1


def _in_order_of_text(last: int) -> Iterator[int]:
    """The numbers from 0 to the last one, as their digits are sorted."""
    yield 0
    number = 1
    for _ in range(last):
        yield number
        if number * 10 <= last:
            number *= 10
        else:
            if number == last:
                number //= 10
            number += 1
            while number % 10 == 0:
                number //= 10


def write_names(sink: CheckpointedFile, entries: Callable[[], Iterable[Entry]]) -> None:
    """Give the root of a file these names and no others.

    Args:
        sink: the file, closed by HDF5.
        entries: gives all names in their order, twice.

    Raises:
        ValueError: the file is damaged.
    """
    superblock = read_superblock(sink)
    start = superblock.free
    sink.seek(start)
    file = io.BufferedWriter(sink, _BUFFER_BYTES)
    try:
        file.write(bytes(8))  # the empty name
        for name, _ in entries():
            file.write(_padded(name))
        n_bytes = file.tell() - start
        level, depth = _write_tree(file, entries(), superblock)
        end = file.tell()
    finally:
        file.detach()  # what is left goes to the file
    sink.seek(superblock.tree)
    sink.write(_node(level, 0, len(level.keys), depth, 2 * superblock.n_internal))
    sink.seek(superblock.heap)
    sink.write(struct.pack("<4s4xQQQ", b"HEAP", n_bytes, _NO_FREE_BYTES, start))
    write_end(sink, superblock, end)


class _Level(NamedTuple):
    """Nodes of equal length, one after another."""

    start: int
    n_bytes: int
    """Of a node."""
    keys: "array[int]"
    """The place of the last name of each, among the names."""


def _write_tree(
    file: BinaryIO, entries: Iterable[Entry], superblock: Superblock
) -> tuple[_Level, int]:
    """Write all of the tree but its root; give the level below that, and how deep it goes."""
    level = _write_symbols(file, entries, 2 * superblock.n_leaf)
    depth, n_most = 0, 2 * superblock.n_internal
    while len(level.keys) > n_most:
        level, depth = _write_level(file, level, depth, n_most), depth + 1
    return level, depth


def _write_symbols(file: BinaryIO, entries: Iterable[Entry], n_most: int) -> _Level:
    """Write the nodes of symbols, full ones but for the last."""
    rest, place = iter(entries), 8
    level = _Level(file.tell(), 8 + n_most * _SYMBOL.size, array("Q"))
    while some := list(islice(rest, n_most)):
        node = [struct.pack("<4sBxH", b"SNOD", 1, len(some))]
        last = place
        for name, address in some:
            node.append(_SYMBOL.pack(place, address))
            last, place = place, place + len(_padded(name))
        file.write(b"".join(node).ljust(level.n_bytes, b"\0"))
        level.keys.append(last)
    return level


def _write_level(file: BinaryIO, below: _Level, depth: int, n_most: int) -> _Level:
    """Write the nodes of the tree over a level, full ones but for the last."""
    n_bytes = _HEADER_BYTES + n_most * 16 + 8
    level = _Level(file.tell(), n_bytes, below.keys[n_most - 1 :: n_most])
    if len(below.keys) % n_most:
        level.keys.append(below.keys[-1])
    for number in range(len(level.keys)):
        before = level.start + (number - 1) * n_bytes if number else _NONE
        after = level.start + (number + 1) * n_bytes if number + 1 < len(level.keys) else _NONE
        first = number * n_most
        n_children = min(n_most, len(below.keys) - first)
        file.write(_node(below, first, n_children, depth, n_most, before, after))
    return level


def _node(
    below: _Level,
    first: int,
    n_children: int,
    depth: int,
    n_most: int,
    before: int = _NONE,
    after: int = _NONE,
) -> bytes:
    """A node of the tree: keys, with the children whose names lie between them."""
    parts = [
        struct.pack("<4sBBHQQ", b"TREE", 0, depth, n_children, before, after),
        _ADDRESS.pack(below.keys[first - 1] if first else 0),
    ]
    for child in range(first, first + n_children):
        parts.append(struct.pack("<QQ", below.start + child * below.n_bytes, below.keys[child]))
    return b"".join(parts).ljust(_HEADER_BYTES + n_most * 16 + 8, b"\0")


def _padded(name: bytes) -> bytes:
    """A name as it lies among the names: with a zero, up to a multiple of 8 bytes."""
    return name.ljust(-(-(len(name) + 1) // 8) * 8, b"\0")
