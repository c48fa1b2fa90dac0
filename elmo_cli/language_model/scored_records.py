"""Records of an input, each with what a language model computes for it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from elmo_cli.text.entries import LINE
from elmo_cli.text.records import Record, Sentence, id_value

_Key = TypeVar("_Key")
_Result = TypeVar("_Result")
Score = Callable[[Iterator[Sentence]], Iterator[_Result]]
"""Function that yields one result per sentence of a stream, in its order."""


@dataclass(frozen=True)
class ScoredRecord(Generic[_Result]):
    """Record with its result."""

    names: tuple[str | int, ...]
    """Values of the columns that name it: see `name_columns`."""
    record: Record
    result: _Result

    @property
    def kept_columns(self) -> Mapping[str, object]:
        """Other columns of the input."""
        return self.record.columns


def name_columns(*, has_ids: bool, is_split: bool) -> tuple[str, ...]:
    """Return the columns that name a record in a table: `id`, or else `line`, from 1.

    Sentences that were split from lines have the line of the file, and the number of the sentence.
    """
    return ("id",) if has_ids else ("line", "sentence_number") if is_split else ("line",)


def record_names(number: int, record: Record) -> tuple[str | int, ...]:
    """Return the values of `name_columns` for a record, whose number counts from 1."""
    identifier = id_value(record.id)
    if identifier is not None:
        return (identifier,)
    line = record.attributes.get(LINE)
    return (number,) if line is None else (int(str(line)) + 1, number)


def score_records(
    records: Iterable[Record], score: Score[_Result]
) -> Iterator[ScoredRecord[_Result]]:
    """Yield each record with the result for its tokens."""
    keyed = ((numbered, numbered[1].tokens) for numbered in enumerate(records, start=1))
    for (number, record), result in score_keyed(keyed, score):
        yield ScoredRecord(record_names(number, record), record, result)


def score_keyed(
    sentences: Iterable[tuple[_Key, Sentence]], score: Score[_Result]
) -> Iterator[tuple[_Key, _Result]]:
    """Yield the key of each sentence with its result."""
    waiting: deque[_Key] = deque()

    def tokens() -> Iterator[Sentence]:
        for key, sentence in sentences:
            waiting.append(key)
            yield sentence

    for result in score(tokens()):
        yield waiting.popleft(), result
