"""Records of an input: how they are read, their type, checks of sentences, shards of an input."""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from types import MappingProxyType
from typing import NamedTuple

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.shard import WHOLE, Shard


class NumericId(str):
    """Id that is an integer in its input, and again in outputs that have integers."""

    __slots__ = ()


class Span(NamedTuple):
    """Part of a record: one of its sentences or words."""

    text: str
    n_tokens: int


class Record(NamedTuple):
    """Record of an input: a line, a FASTA sequence, a CoNLL-U sentence, a row of a table."""

    text: str  # text that is hashed: the line, or the header and the sequence of FASTA
    tokens: Sentence
    id: str | None = None  # name of its dataset in the output; None for its number
    attributes: Mapping[str, object] = MappingProxyType({})
    """Attributes of its dataset in the output."""
    error: str | None = None
    """Reason why the record is skipped, with `skip_errors`. The record has no tokens then."""
    columns: Mapping[str, object] = MappingProxyType({})
    """Other columns of a table that are kept, by their names."""
    sentences: Sequence[Span] = ()
    """Sentences, each computed by itself. Without any, the whole record is one."""
    words: Sequence[Span] = ()  # words that the input gives, each tokenized by itself
    word_columns: Sequence[Mapping[str, object]] = ()
    """The `columns` of each word, if each is a row of the input."""
    lemmas: Sequence[str] = ()  # lemma of each token in CoNLL-U; empty in other formats

    def split(self) -> list[Sentence]:
        """Return the tokens of each sentence; at least one list."""
        if not self.sentences:
            return [self.tokens]
        ends = list(accumulate(span.n_tokens for span in self.sentences))
        return [
            self.tokens[start:end] for start, end in zip([0, *ends], ends, strict=False)
        ]


def id_value(identifier: str | None) -> str | int | None:
    """Return an id as its input had it, so that an output joins the input."""
    return int(identifier) if isinstance(identifier, NumericId) else identifier


def renamed_columns(names: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """Return the names of kept columns in the output: `input_NAME` where it has such a column."""
    new_names: dict[str, str] = {}
    for name in names:
        new = name
        while new in taken or (new != name and new in names):
            new = f"input_{new}"
        new_names[name] = new
    return new_names


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
