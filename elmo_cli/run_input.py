"""The input of a run: its records, hashed as they are read, and the share of a shard."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.text import Record


class Shard(NamedTuple):
    """One of `total` equal shares of an input: every `total`-th record from the `number`-th.

    Every n-th, and not one stretch after the other: so the share of each process is known
    without counting the input, which may be a stream, and long and short texts are shared
    out alike.
    """

    number: int = 1
    """From 1."""
    total: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def has(self, index: int) -> bool:
        """Whether a record, by its number from 0, is part of it."""
        return index % self.total == self.number - 1


WHOLE = Shard()


def parse_shard(text: str) -> Shard:
    """Read `3/16`.

    Raises:
        InputError: it is no such thing.
    """
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    shard = Shard(*map(int, found.groups())) if found else Shard(0, 0)
    if not 1 <= shard.number <= shard.total:
        raise InputError(f"shard {text!r}: expected a number of how many, such as 3/16")
    return shard


class Place(NamedTuple):
    """How far an input is read."""

    n_records: int
    sha256: str
    """Of the texts of these records, each with a line feed."""


class RunInput:
    """The records of a shard in their order, each with the place where it ends.

    An iterator that hashes all records of the input, those of other shards too.
    """

    def __init__(self, records: Iterable[Record], shard: Shard = WHOLE) -> None:
        self._records = iter(records)
        self._shard = shard
        self._digest = hashlib.sha256()
        self._n_read = 0

    @property
    def place(self) -> Place:
        """How far it is read."""
        return Place(self._n_read, self._digest.hexdigest())

    def __iter__(self) -> "RunInput":
        return self

    def __next__(self) -> tuple[Record, Place]:
        while True:
            record = self._read()
            if record is not None:
                return record, self.place

    def skip_to(self, n_records: int) -> Iterator[Record]:
        """Read on until so many records of the input are read, or it ends.

        Yields:
            Those of the shard.
        """
        while self._n_read < n_records:
            try:
                record = self._read()
            except StopIteration:
                return
            if record is not None:
                yield record

    def _read(self) -> Record | None:
        """The next record; None if another shard has it."""
        record = next(self._records)
        self._digest.update(record.text.encode("utf-8", "surrogatepass") + b"\n")
        index, self._n_read = self._n_read, self._n_read + 1
        if not self._shard.has(index):
            return None
        if record.key is None and self._shard.total > 1:
            return record._replace(key=str(index))  # its number in the whole input
        return record
