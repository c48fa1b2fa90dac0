"""Entries of an input, whose keys name datasets: checked, and refused with their lines."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.text.lines import Record

_MAX_SHOWN_ERRORS = 5


class Entry(NamedTuple):
    """A record, and where it is in the input."""

    line: int
    """Number of its first line, from 1, or of the line with the error."""
    record: Record
    error: str | None = None
    """What is wrong with it in its format."""


class Keys:
    """The keys so far: each is new and can name a dataset, and all records have one, or none."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._are_there: bool | None = None

    def error(self, entry: Entry) -> str | None:
        """What is wrong with an entry, if anything; its key is noted."""
        key = entry.record.key
        if entry.error is not None or (entry.record.error is not None and key is None):
            return entry.error
        if self._are_there is None:
            self._are_there = key is not None
        if self._are_there != (key is not None):
            expected = "an" if self._are_there else "no"
            found = "none" if key is None else repr(key[:60])
            return f"expected {expected} id, as before, found {found}"
        if key is None:
            return None
        if key in ("", ".") or "/" in key or "\0" in key:
            return f"the id {key[:60]!r} cannot name a dataset of HDF5; leave out / and zero bytes"
        first = self._lines.setdefault(key, entry.line)
        return (
            f"the id {key[:60]!r} is that of line {first} already" if first != entry.line else None
        )


def checked_records(entries: Iterable[Entry], name: str, skip_errors: bool) -> Iterator[Record]:
    """The records of entries.

    Args:
        entries: of an input.
        name: of the input, for error messages.
        skip_errors: give an entry that is wrong as a record with its error, without tokens and
            without a key.

    Raises:
        InputError: an entry is wrong. It comes after the records before it, and names later
            errors too.
    """
    keys = Keys()
    entries = iter(entries)
    for entry in entries:
        error = keys.error(entry)
        if error is None:
            yield entry.record
        elif skip_errors:
            yield Record(entry.record.text, [], error=f"{name}, line {entry.line}: {error}")
        else:
            rest = _errors(entries, keys)
            raise InputError(f"{name}, line {entry.line}: {error}{_summary(rest)}")


def _errors(entries: Iterable[Entry], keys: Keys) -> Iterator[str]:
    """The errors of the rest, up to a line that cannot be read."""
    try:
        for entry in entries:
            error = keys.error(entry)
            if error is not None:
                yield f"line {entry.line}: {error}"
    except InputError:
        return


def _summary(errors: Iterator[str]) -> str:
    shown = "".join(f"; {error}" for error in islice(errors, _MAX_SHOWN_ERRORS - 1))
    n_more = sum(1 for _ in errors)
    return shown + (f"; and {n_more:,} more" if n_more else "")
