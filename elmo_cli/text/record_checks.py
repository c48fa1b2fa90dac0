"""Checks of the records of an input: their errors, their ids, and the lengths of their tokens."""

from collections.abc import Iterable, Iterator
from typing import Final

from elmo_cli.errors import InputError
from elmo_cli.text.advice import LongTokens, warn_about_blank_lines
from elmo_cli.text.entries import Entry
from elmo_cli.text.read_options import DEFAULT_OPTIONS, ReadOptions
from elmo_cli.text.records import Record
from elmo_cli.text.tables import TableError

_MAX_NAME_BYTES: Final = 65_531
"""Maximum size of an id in npz: 2 bytes hold the length of a name, and `.npy` is part of it."""


def checked_records(
    entries: Iterable[Entry],
    name: str,
    skip_errors: bool,
    *,
    number_unit: str = "line",
    options: ReadOptions = DEFAULT_OPTIONS,
) -> Iterator[Record]:
    """Yield the records of entries after checking their ids.

    Args:
        entries: Entries of an input.
        name: Name of the input for error messages.
        skip_errors: Yield an invalid record with its error and without tokens and id.
        number_unit: Unit that the numbers of entries count in error messages.
        options: Options for ids and long tokens.

    Raises:
        InputError: an entry is invalid. The records before it have been yielded.
    """
    numbers: dict[str | None, int] = {}
    counts = _Counts(options)
    try:
        for entry in entries:
            number, record, error, _ = entry
            if options.ignores_ids:
                record = record._replace(id=None)
            if error is None and (record.error is None or record.id is not None):
                error = _invalid_id(record.id, names_datasets=options.ids_name_datasets)
                if error is None and options.compares_ids:
                    error = _other_id(record.id, number, numbers, number_unit)
            if error is not None:
                error = f"{name}, {number_unit} {number}: {error}"
                if not skip_errors:
                    raise InputError(error)
                record = Record(record.text, [], error=error)
            counts.add(entry)
            yield record
    except TableError as error:
        raise InputError(f"{name}: {error}") from None
    finally:  # Only the beginning of a text may be read.
        counts.warn(number_unit)


class _Counts:
    """Counts of what the records are warned about."""

    def __init__(self, options: ReadOptions) -> None:
        limit = options.token_limit
        self._is_quiet = options.is_quiet
        self._long_tokens = None if limit is None else LongTokens(limit)
        self._n_joined = self._first_joined = 0
        """Sentences of CoNLL-U without a blank line before them."""

    def add(self, entry: Entry) -> None:
        """Count what is found in an entry."""
        if self._long_tokens is not None:
            self._long_tokens.add(entry.record.tokens, entry.line)
        if entry.has_no_blank_line:
            self._first_joined = self._first_joined or entry.line
            self._n_joined += 1

    def warn(self, number_unit: str) -> None:
        """Log the warnings, once for all records. The numbers count `number_unit`s."""
        if self._is_quiet:
            return
        if self._long_tokens is not None:
            self._long_tokens.warn(number_unit)
        if self._n_joined:
            warn_about_blank_lines(self._first_joined, self._n_joined)


def _invalid_id(identifier: str | None, *, names_datasets: bool) -> str | None:
    """Return the error of an id alone, if any."""
    if identifier is None or not names_datasets:
        return None
    if "\0" in identifier:
        return f"the id {identifier[:60]!r} has a zero byte. Remove it."
    if (n_bytes := len(identifier.encode("utf-8", "surrogatepass"))) > _MAX_NAME_BYTES:
        return (
            f"the id {identifier[:60]!r} has {n_bytes:,} bytes, and a name has at most "
            f"{_MAX_NAME_BYTES:,}. Use --layout packed, Parquet or JSON lines."
        )
    if not _can_name_dataset(identifier):
        return (
            f"the id {identifier[:60]!r} cannot name a dataset of HDF5 or npz. Use --layout "
            "packed, Parquet or JSON lines."
        )
    return None


def _other_id(
    identifier: str | None, number: int, numbers: dict[str | None, int], number_unit: str
) -> str | None:
    """Return the error of an id among others, if any, and store its number in `numbers`.

    All records have an id, or none has. Ids are unique.
    """
    if numbers and (identifier is None) != (None in numbers):
        if identifier is None:
            return "expected an id, as before, found none"
        return f"expected no id, as before, found {identifier[:60]!r}"
    first = numbers.setdefault(identifier, number)
    if identifier is not None and first != number:
        return (
            f"the id {identifier[:60]!r} is that of {number_unit} {first} already. Make the ids "
            "unique."
        )
    return None


def _can_name_dataset(identifier: str) -> bool:
    return identifier not in ("", ".") and "/" not in identifier
