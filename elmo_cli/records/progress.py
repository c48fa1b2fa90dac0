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
    """Number of records read so far, and hashes of them."""

    n_records: int
    text_sha256: str
    """SHA-256 of their texts with line feeds."""
    records_sha256: str | None = None
    """SHA-256 of all that an output depends on: texts, ids, tokens, sentences and so
    on. None in an output of a version that did not write it."""

    def has_same_texts(self, earlier: "Progress") -> bool:
        """Return whether an earlier run has read the same number of the same texts."""
        return self[:2] == earlier[:2]

    def has_same_records(self, earlier: "Progress") -> bool:
        """Return whether an earlier run has read the same records, as far as known."""
        if not self.has_same_texts(earlier):
            return False
        if earlier.records_sha256 is None:
            return True
        return self.records_sha256 == earlier.records_sha256


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
        *,
        hashes_lemmas: bool = False,
    ) -> None:
        """Read a shard of these records, each one changed by `prepare`.

        With `hashes_lemmas`, the output depends on the lemmas of the records.
        """
        self._records = iter(records)
        self._shard = shard
        self._prepare = prepare
        self._hashes_lemmas = hashes_lemmas
        self._text_digest = hashlib.sha256()
        self._record_digest = hashlib.sha256()
        self._n_read = 0
        self.error: InputError | None = None
        """Error of the input that ended the reading."""

    @property
    def progress(self) -> Progress:
        """Progress in the input."""
        return Progress(
            self._n_read,
            text_sha256=self._text_digest.hexdigest(),
            records_sha256=self._record_digest.hexdigest(),
        )

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
                text = record.text.encode("utf-8", "surrogatepass")
                self._text_digest.update(text + b"\n")
                content = _content_of(record, with_lemmas=self._hashes_lemmas)
                self._record_digest.update(content)
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


def _content_of(record: Record, *, with_lemmas: bool) -> bytes:
    """Return all that an output depends on, in a form that shows where each part ends.

    JSON would take twice as long.
    """
    text = record.text
    tokens = record.tokens
    joined = "\0".join(tokens)
    if joined.count("\0") >= max(1, len(tokens)):  # A token has a zero byte.
        joined = ascii(tokens)
    header = (
        f"{len(text)} {len(joined)} {len(tokens)} {record.id!a} "
        f"{record.original_id!a} {record.line} {record.error is None}"
    )
    if record.sentences:
        header += f" sentences {[span.n_tokens for span in record.sentences]}"
    if record.words:
        words = [(word.text, word.tokens, word.is_whole) for word in record.words]
        header += f" words {words!a}"
    if record.places:
        header += f" places {[tuple(place) for place in record.places]!a}"
    if with_lemmas:
        header += f" lemmas {list(record.lemmas)!a}"
    return f"{header}\n{text}{joined}".encode("utf-8", "surrogatepass")
