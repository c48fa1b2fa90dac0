"""Records with the results for their sentences."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from elmo_cli.errors.checks import Sentence
from elmo_cli.records.open_records import Records
from elmo_cli.records.record import LINE, Record, id_value

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ScoredRecord(Generic[_Result]):
    """Record with its result."""

    names: tuple[str | int, ...]  # values of `name_columns`
    record: Record
    result: _Result


def name_columns(read: Records, *, is_split: bool) -> tuple[str, ...]:
    """Return the columns that name a record: `id`, and `line` if ids may repeat, or else `line`."""
    if read.has_ids:
        return ("id", "line") if read.is_numbered else ("id",)
    return ("line", "sentence_number") if is_split else ("line",)


def record_names(number: int, record: Record) -> tuple[str | int, ...]:
    """Return the values of `name_columns` for a record, whose number counts from 1."""
    identifier, line = id_value(record.id), record.attributes.get(LINE)
    lines = () if line is None else (int(str(line)) + 1,)
    return (*lines, number) if identifier is None else (identifier, *lines)


def score_records(
    records: Iterable[Record], score: Callable[[Iterator[Sentence]], Iterator[_Result]]
) -> Iterator[ScoredRecord[list[_Result]]]:
    """Yield each record with the results for its sentences; `score` keeps their order."""
    waiting: deque[Record] = deque()

    def sentences() -> Iterator[Sentence]:
        for record in records:
            waiting.append(record)
            yield from record.split()

    results = score(sentences())
    for number, first in enumerate(results, start=1):
        record = waiting.popleft()
        others = islice(results, max(len(record.sentences) - 1, 0))
        yield ScoredRecord(record_names(number, record), record, [first, *others])
