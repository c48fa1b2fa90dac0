"""Records with the results that a language model has for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from elmo_cli.records.open_records import Records
from elmo_cli.records.record import Record
from elmo_cli.runs.pipeline import per_item
from elmo_cli.types import Sentence

WriteRows = Callable[
    [Iterable[Sequence[object]], Mapping[str, object], Sequence[object]], object
]
"""Function that writes rows of a record.

It gets the rows, the columns of the input that each of them repeats, and the values of
`name_columns`, with which each begins.
"""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ScoredRecord(Generic[_Result]):
    """Record with its result."""

    names: tuple[str | int, ...]
    """Values of `name_columns`."""
    record: Record
    result: _Result


def name_columns(read: Records, *, is_split: bool) -> tuple[str, ...]:
    """Return the names of the columns that identify a record.

    These are its `id`, followed by `line` if ids may repeat; or its `line`, followed by
    `sentence_number` if lines are split into sentences.
    """
    if read.has_ids:
        return ("id", "line") if read.is_numbered else ("id",)
    return ("line", "sentence_number") if is_split else ("line",)


def record_names(number: int, record: Record) -> tuple[str | int, ...]:
    """Return the values of `name_columns` for a record, whose number counts from 1."""
    names: list[str | int] = []
    identifier = record.id_value
    if identifier is not None:
        names.append(identifier)
    if record.line is not None:
        names.append(record.line)
    if identifier is None:
        names.append(number)
    return tuple(names)


def score_records(
    records: Iterable[Record], score: Callable[[Iterator[Sentence]], Iterable[_Result]]
) -> Iterator[ScoredRecord[list[_Result]]]:
    """Yield each record with the results for its sentences.

    `score` gets the sentences of all records as one stream, and keeps their order.
    """
    scored = per_item(records, Record.split, score)
    for number, (record, results) in enumerate(scored, start=1):
        yield ScoredRecord(record_names(number, record), record, results)
