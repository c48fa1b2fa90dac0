"""Shards: one of N interleaved shares of an input."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.text.records import Progress, Record


class Shard(NamedTuple):
    """One of `total` shares of an input: every `total`-th record, beginning with the `number`-th.

    Interleaved shares need no count of the input, which may be a stream. They also distribute
    long and short sentences evenly.
    """

    number: int = 1
    """Number of the shard, from 1."""
    total: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def has(self, index: int) -> bool:
        """Return whether a record of the input, given by its number from 0, is in the shard."""
        return index % self.total == self.number - 1

    def number_in_input(self, number: int) -> int:
        """Return the number in the input of a record of the shard, both from 0."""
        return number * self.total + self.number - 1


WHOLE: Final = Shard()
"""The only shard of an undivided input."""


def parse_shard(text: str) -> Shard:
    """Parse the name of a shard, such as `3/16`."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    shard = Shard(*map(int, match.groups())) if match else Shard(0, 0)
    if not 1 <= shard.number <= shard.total:
        raise InputError(f"shard {text!r}: expected I/N, I from 1 to N, such as 3/16")
    return shard


def shard_of(attributes: Mapping[str, Any]) -> Shard:
    """Return the shard that an output file holds, by its attributes."""
    return parse_shard(attributes["shard"]) if "shard" in attributes else WHOLE


class ShardReader:
    """Reader for the records of a shard. It hashes all records of the input."""

    def __init__(
        self,
        records: Iterable[Record],
        shard: Shard = WHOLE,
        prepare: Callable[[Record], Record] = lambda record: record,
    ) -> None:
        """Read a shard of these records, and call `prepare` for each record of the shard."""
        self._records = iter(records)
        self._shard, self._prepare = shard, prepare
        self._digest = hashlib.sha256()
        self._n_read = 0

    @property
    def progress(self) -> Progress:
        """Progress in the input."""
        return Progress(self._n_read, self._digest.hexdigest())

    def read(self, n_records: int | None = None) -> Iterator[tuple[Record, Progress]]:
        """Yield the records of the shard, each with the progress after it.

        Args:
            n_records: Number of records of the input after which to stop; None reads to the end.
        """
        rest = None if n_records is None else n_records - self._n_read
        for record in islice(self._records, rest):
            self._digest.update(record.text.encode("utf-8", "surrogatepass") + b"\n")
            self._n_read += 1
            if self._shard.has(self._n_read - 1):
                yield self._prepare(record), self.progress
