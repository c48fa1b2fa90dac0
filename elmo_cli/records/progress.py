"""Progress in an input, which shows whether a resumed run reads the same records."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.shard import WHOLE, Shard
from elmo_cli.records.record import Record


class Progress(NamedTuple):
    """Number of records read so far, and SHA-256 of their texts with line feeds."""

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
        prepare: Callable[[Record], Record] | None = None,
    ) -> None:
        """Read a shard of these records, each one changed by `prepare`."""
        self._records = iter(records)
        self._shard = shard
        self._prepare = prepare
        self._digest = hashlib.sha256()
        self._n_read = 0
        self.error: InputError | None = None
        """Error of the input that ended the reading."""

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
        """Yield the records of the shard, up to an error of the input.

        Args:
            n_records: Number of records of the input, of all shards, after which the
                reading stops. None reads all.
            checkpoint_tokens: Tokens between two checkpoints, at least.
            checkpoint_records: A checkpoint follows a multiple of so many records.
        """
        n_rest = None if n_records is None else n_records - self._n_read
        is_whole = self._shard == WHOLE
        n_tokens_since = 0
        n_records_since = 0
        try:
            for record in islice(self._records, n_rest):
                content = record.text.encode("utf-8", "surrogatepass")
                self._digest.update(content + b"\n")
                self._n_read += 1
                if not is_whole and not self._shard.has(self._n_read - 1):
                    continue
                if self._prepare is not None:
                    record = self._prepare(record)
                n_tokens_since += len(record.tokens) or 1
                n_records_since += 1
                if (
                    n_tokens_since >= checkpoint_tokens
                    and n_records_since % checkpoint_records == 0
                ):
                    yield ReadRecord(record, self._n_read, self.progress)
                    n_tokens_since = 0
                    n_records_since = 0
                else:
                    yield ReadRecord(record, self._n_read)
        except InputError as error:
            self.error = error
