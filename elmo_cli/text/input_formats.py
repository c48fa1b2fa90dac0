"""Input formats: how the records of a file are found and read."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Final, NamedTuple

from elmo_cli.errors import InputError, check_choice
from elmo_cli.text.entries import (
    Entry,
    conllu_entries,
    fasta_entries,
    json_entries,
    text_entries,
)
from elmo_cli.text.lines import name_of, open_lines
from elmo_cli.text.records import Record
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, warn_about_tokenizer


@dataclass(frozen=True)
class InputFormat:
    """Format of an input file."""

    name: str
    unit: str
    """Word for a record in messages."""
    suffixes: tuple[str, ...]
    """Suffixes of its files; `.gz` may follow."""
    entries: Callable[[Iterable[str], Tokenizer], Iterator[Entry]]
    """Function that parses lines into entries."""
    has_ids: bool | None
    """True if all records have ids, False if none has, None if the first record decides."""
    has_tokens: bool
    """Whether its records are tokenized."""


TEXT: Final = InputFormat("text", "line", (), text_entries, has_ids=False, has_tokens=False)
CONLLU: Final = InputFormat(
    "conllu", "sentence", (".conllu",), conllu_entries, has_ids=None, has_tokens=True
)
JSON_LINES: Final = InputFormat(
    "jsonl", "record", (".jsonl", ".ndjson"), json_entries, has_ids=None, has_tokens=False
)
_FASTA_SUFFIXES: Final = (".fasta", ".fa", ".faa", ".fas")
FASTA: Final = InputFormat(
    "fasta", "sequence", _FASTA_SUFFIXES, fasta_entries, has_ids=True, has_tokens=True
)
FORMATS: Final = {format_.name: format_ for format_ in (TEXT, FASTA, CONLLU, JSON_LINES)}


def find_format(
    source: object, name: str | None = None, tokenizer: Tokenizer = WHITESPACE
) -> InputFormat:
    """Return the format of an input by its name, or by the suffix of its path.

    The format is text where neither decides.

    Raises:
        InputError: the name is unknown, or the tokenizer has no effect with the format.
    """
    if name is None:
        path = str(source).lower().removesuffix(".gz") if isinstance(source, (str, Path)) else ""
        found = next((each for each in FORMATS.values() if path.endswith(each.suffixes)), TEXT)
    else:
        check_choice("format", name, tuple(FORMATS))
        found = FORMATS[name]
    if tokenizer != WHITESPACE and found.has_tokens:
        raise InputError(f"--tokenizer has no effect with {found.name}, which has tokens")
    if tokenizer.splits_by is not None and found is not TEXT:
        raise InputError(f"--split-sentences requires text, found {found.name}")
    return found


class Records(NamedTuple):
    """Records of an open file."""

    records: Iterator[Record]
    is_ready: Callable[[], bool]
    """Function that returns whether the next record can be read without a long wait."""
    has_ids: bool
    """Whether the records have ids."""


@contextmanager
def open_records(
    source: IO[str] | str | Path,
    input_format: InputFormat,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    tokenizer: Tokenizer = WHITESPACE,
    skip_errors: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Records]:
    """Open the records of a file, given by its path or already open as text: see `open_lines`.

    With `skip_errors`, an invalid record is yielded with its `error`.
    """
    opened = open_lines(source, on_bytes, skip_errors=skip_errors, should_stop=should_stop)
    with opened as (lines, is_ready):
        entries = input_format.entries(lines, tokenizer)
        records = checked_records(entries, name_of(source), skip_errors)
        if tokenizer.tokenize is WHITESPACE.tokenize and not input_format.has_tokens:
            records = warn_about_tokenizer(records)
        has_ids, first = input_format.has_ids, []
        if has_ids is None:
            for record in records:
                first.append(record)
                if record.error is None:
                    break
            has_ids = any(record.id is not None for record in first)
        yield Records(chain(first, records), is_ready, has_ids)


def checked_records(entries: Iterable[Entry], name: str, skip_errors: bool) -> Iterator[Record]:
    """Yield the records of entries after checking their ids.

    Args:
        entries: Entries of an input.
        name: Name of the input for error messages.
        skip_errors: Yield an invalid record with its error and without tokens and id.

    Raises:
        InputError: an entry is invalid. The records before it have been yielded.
    """
    lines: dict[str | None, int] = {}
    for line, record, error in entries:
        if error is None and (record.error is None or record.id is not None):
            error = _id_error(record.id, line, lines)
        if error is None:
            yield record
        elif skip_errors:
            yield Record(record.text, [], error=f"{name}, line {line}: {error}")
        else:
            raise InputError(f"{name}, line {line}: {error}")


def _id_error(identifier: str | None, line: int, lines: dict[str | None, int]) -> str | None:
    """Return the error of an id, if any, and store its line in `lines`.

    All records have an id, or none has. Ids are unique and can name a dataset.
    """
    if lines and (identifier is None) != (None in lines):
        if identifier is None:
            return "expected an id, as before, found none"
        return f"expected no id, as before, found {identifier[:60]!r}"
    if identifier is not None and not _can_name_dataset(identifier):
        return (
            f"the id {identifier[:60]!r} cannot name a dataset of HDF5; leave out / and zero bytes"
        )
    first = lines.setdefault(identifier, line)
    if identifier is not None and first != line:
        return f"the id {identifier[:60]!r} is that of line {first} already"
    return None


def _can_name_dataset(identifier: str) -> bool:
    return identifier not in ("", ".") and "/" not in identifier and "\0" not in identifier
