"""The input of a run: its records, hashed as they are read, and the share of a shard."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from elmo_cli.text.lines import Record
from elmo_cli.text.shard import WHOLE, Shard


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
        self._digest.update(hashed_text(record.text))
        self._n_read += 1
        return record if self._shard.has(self._n_read - 1) else None


def hashed_text(text: str) -> bytes:
    """What the text of a record adds to the hash of an input."""
    return text.encode("utf-8", "surrogatepass") + b"\n"
