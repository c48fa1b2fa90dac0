"""An output file to activations: by number, by name or one after another, of either layout."""

import operator
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, SupportsIndex, overload

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ElmoError, InputError
from elmo_cli.outputs.allennlp_file import AllenNlpFile
from elmo_cli.outputs.compression import check_readable
from elmo_cli.outputs.damage import check_count, damage_named
from elmo_cli.outputs.object_header import check_attributes
from elmo_cli.outputs.packed_file import PackedFile
from elmo_cli.outputs.packed_layout import LAYOUT, PACKED
from elmo_cli.outputs.recognition import open_hdf5
from elmo_cli.text.lines import Record

Array = NDArray[Any]


class _LayoutFile(Protocol):
    """An open file, whose records are numbered from 0."""

    n_records: int
    n_known_at_once: int
    """So many records are best asked for what is known of them, before their shapes."""
    has_keys: bool
    has_sentences: bool
    pooled: bool

    @property
    def dtype(self) -> np.dtype[Any]: ...
    def shapes(self, start: int, stop: int) -> list[tuple[int, ...]]: ...
    def block(self, start: int, stop: int) -> list[Array]: ...
    def blocks(self, start: int) -> Iterator[list[Array]]: ...
    def text(self, number: int) -> str | None: ...
    def key(self, number: int) -> str | None: ...
    def known(self, start: int, stop: int) -> list[Record]: ...
    def find(self, name: str) -> int | None: ...
    def close(self) -> None: ...


def open_activations(path: str | Path) -> "Activations":
    """Open a file that `elmo embed` or `allennlp elmo` wrote, of either layout.

    Raises:
        InputError: the file is missing, or is none of these.
    """
    return Activations(path)


class Activations:
    """The activations of a file, read when they are asked for.

        with open_activations("vectors.hdf5") as activations:
            activations[0]                  # the first line: float32, (L, T, W)
            activations[-10:]               # a list, the last ten
            activations["The cat sat ."]    # the line of that text, the last of equal ones
            for values in activations: ...  # all lines in their order

    Records, which are lines of text or sequences of FASTA, are numbered from 0. Where they have
    keys (the ids of FASTA), the keys take the place of sentences. Shapes are (L, T, W), or (T, W)
    where one layer was chosen or mixed, without the T where tokens were pooled.

    A context manager. It can be pickled and used after a fork: each process opens the file for
    itself.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._open()
        self.layout: str = self.attributes.get(LAYOUT, "allennlp")
        """`allennlp` or `packed`."""

    def __len__(self) -> int:
        return self._file.n_records

    @overload
    def __getitem__(self, which: SupportsIndex | str) -> Array: ...
    @overload
    def __getitem__(self, which: slice) -> list[Array]: ...
    def __getitem__(self, which: SupportsIndex | str | slice) -> Array | list[Array]:
        """Read a record by its number, key or sentence, or those of a slice, as a list.

        Raises:
            IndexError: there is no such number.
            KeyError: there is no such key or sentence.
        """
        if isinstance(which, str):
            which = self.number_of(which)
        if not isinstance(which, slice):
            number = self._number(which)
            with self._damage_named():
                return self._file.block(number, number + 1)[0]
        start, stop, step = which.indices(len(self))
        with self._damage_named():
            if step == 1:
                return self._file.block(start, max(start, stop))
            return [self._file.block(number, number + 1)[0] for number in range(start, stop, step)]

    def __iter__(self) -> Iterator[Array]:
        return chain.from_iterable(self._blocks(0))

    def _blocks(self, start: int) -> Iterator[list[Array]]:
        blocks = self._file.blocks(start)
        while True:
            with self._damage_named():
                block = next(blocks, None)
            if block is None:
                return
            yield block

    def __contains__(self, name: object) -> bool:
        """Whether there is a record of that key or sentence."""
        return isinstance(name, str) and self._find(name) is not None

    def number_of(self, name: str) -> int:
        """The number of a record by its key, or by its sentence where there are no keys.

        Of equal sentences, the number of the last one. The first call reads all names.

        Raises:
            KeyError: there is none.
        """
        number = self._find(name)
        if number is None:
            raise KeyError(name)
        return number

    def _find(self, name: str) -> int | None:
        with self._damage_named():
            return self._file.find(name)

    def sentence(self, number: int) -> str | None:
        """The text of a record, if the file has it.

        AllenNLP's layout has that of the last of equal sentences only.
        """
        number = self._number(number)
        with self._damage_named():
            return self._file.text(number)

    def key(self, number: int) -> str | None:
        """The key of a record, if it has one."""
        number = self._number(number)
        with self._damage_named():
            return self._file.key(number)

    @property
    def dtype(self) -> str:
        """The type of the values, `float32` or `float16`."""
        with self._damage_named():
            return str(self._file.dtype)

    @property
    def has_keys(self) -> bool:
        """Whether records have keys."""
        return self._file.has_keys

    @property
    def has_sentences(self) -> bool:
        """Whether the file knows sentences."""
        return self._file.has_sentences

    def records(self, start: int = 0) -> Iterator[tuple[Record, Array]]:
        """The records from a number on, as a writer takes them: what is known of each, its values.

        With little in memory, however many there are.
        """
        for block in self._blocks(start):
            with self._damage_named():
                known = self._file.known(start, start + len(block))
            yield from zip(known, block, strict=True)
            start += len(block)

    def forms(self) -> Iterator[tuple[Record, tuple[int, ...]]]:
        """All records in their order, what is known of each and its shape; no value is read."""
        for start in range(0, len(self), self._file.n_known_at_once):
            stop = min(start + self._file.n_known_at_once, len(self))
            with self._damage_named():
                known = self._file.known(start, stop)
                shapes = self._file.shapes(start, stop)
            yield from zip(known, shapes, strict=True)

    def close(self) -> None:
        """Close the file."""
        self._layout_file.close()
        self._hdf5.close()

    def __enter__(self) -> "Activations":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., "Activations"], tuple[Path]]:
        return open_activations, (self.path,)

    def _open(self) -> None:
        self._process = os.getpid()
        self._hdf5 = open_hdf5(self.path)
        try:
            with self._damage_named():
                check_attributes(self._hdf5)
                self.attributes: dict[str, Any] = dict(self._hdf5.attrs)
                """What the file says of its making."""
                check_readable(str(self.path), self.attributes.get("compression"))
                self._layout_file = _open_layout(self._hdf5, self.attributes)
        except ElmoError:
            self._hdf5.close()
            raise

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        if not self._hdf5:
            raise InputError(f"{self.path}: the file is closed; open it again")
        with damage_named(self.path):
            yield

    @property
    def _file(self) -> _LayoutFile:
        if self._process != os.getpid():  # HDF5 cannot share a file with the parent process
            self._open()
        return self._layout_file

    def _number(self, which: SupportsIndex) -> int:
        number = operator.index(which)
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(f"record {number}: {self.path} has {len(self):,}")
        return place


def _open_layout(file: h5py.File, attributes: Mapping[str, Any]) -> _LayoutFile:
    """What reads a file.

    Raises:
        ValueError: it holds not as many records as it says, or is of no layout that is known.
    """
    layout = attributes.get(LAYOUT, "allennlp")
    if layout not in ("allennlp", PACKED):
        raise ValueError(f"its layout is {layout!r}")
    found: _LayoutFile = PackedFile(file) if layout == PACKED else AllenNlpFile(file)
    if "records" in attributes and attributes.get("sentence_keys") != "True":
        check_count(found.n_records, int(attributes["records"]))
    return found
