"""Progress in an input: how many records were read, and a hash of their texts."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.shard import WHOLE, Shard
from elmo_cli.records.record import Record


class Progress(NamedTuple):
    """Number of records read of an input, and SHA-256 of their texts, each with a line feed."""

    n_records: int
    sha256: str


class ReadRecord(NamedTuple):
    """Record that was read from an input, with its number from 1."""

    record: Record
    number: int
    checkpoint: Progress | None = None
    """Progress in the input after the record, if a checkpoint follows it."""


class ShardReader:
    """Reader for the records of a shard. It hashes all records of the input."""

    def __init__(
        self,
        records: Iterable[Record],
        shard: Shard = WHOLE,
        prepare: Callable[[Record], Record] = lambda record: record,
    ) -> None:
        """Read a shard of these records, each one changed by `prepare`."""
        self._records = iter(records)
        self._shard, self._prepare = shard, prepare
        self._digest = hashlib.sha256()
        self._n_read = 0
        self.error: InputError | None = None

    @property
    def progress(self) -> Progress:
        """Progress in the input."""
        return Progress(self._n_read, self._digest.hexdigest())

    def read(
        self,
        n_records: int | None = None,
        checkpoint_tokens: float = math.inf,
        checkpoint_records: int = 1,
    ) -> Iterator[ReadRecord]:
        """Yield the records of the shard among the first `n_records`, up to an error of the input.

        After `checkpoint_tokens` tokens, a multiple of `checkpoint_records` has a checkpoint.
        """
        rest = None if n_records is None else n_records - self._n_read
        tokens_since = records_since = 0
        is_whole = self._shard == WHOLE
        try:
            for record in islice(self._records, rest):
                self._digest.update(
                    record.text.encode("utf-8", "surrogatepass") + b"\n"
                )
                self._n_read += 1
                if not (is_whole or self._shard.has(self._n_read - 1)):
                    continue
                record = self._prepare(record)
                tokens_since += len(record.tokens) or 1
                records_since += 1
                if (
                    tokens_since < checkpoint_tokens
                    or records_since % checkpoint_records
                ):
                    yield ReadRecord(record, self._n_read)
                else:
                    yield ReadRecord(record, self._n_read, self.progress)
                    tokens_since = records_since = 0
        except InputError as error:
            self.error = error
