"""Checks of the records of an input: their errors, their ids, and the lengths of their tokens."""

from collections.abc import Iterable, Iterator

from elmo_cli.errors import InputError
from elmo_cli.text.advice import LongTokens
from elmo_cli.text.entries import Entry
from elmo_cli.text.read_options import DEFAULT_OPTIONS, ReadOptions
from elmo_cli.text.records import Record
from elmo_cli.text.tables import TableError


def checked_records(
    entries: Iterable[Entry],
    name: str,
    skip_errors: bool,
    *,
    place: str = "line",
    options: ReadOptions = DEFAULT_OPTIONS,
) -> Iterator[Record]:
    """Yield the records of entries after checking their ids.

    Args:
        entries: Entries of an input.
        name: Name of the input for error messages.
        skip_errors: Yield an invalid record with its error and without tokens and id.
        place: Word for what the numbers of entries count in error messages.
        options: Options for ids and long tokens.

    Raises:
        InputError: an entry is invalid. The records before it have been yielded.
    """
    numbers: dict[str | None, int] = {}
    long_tokens = LongTokens(options.token_limit) if options.token_limit else None
    try:
        for number, record, error in entries:
            if error is None and (record.error is None or record.id is not None):
                error = _id_error(record.id, number, numbers, place, options.ids_name_datasets)
            if error is not None:
                error = f"{name}, {place} {number}: {error}"
                if not skip_errors:
                    raise InputError(error)
                record = Record(record.text, [], error=error)
            if long_tokens is not None:
                long_tokens.add(record.tokens, number)
            yield record
    except TableError as error:
        raise InputError(f"{name}: {error}") from None
    if long_tokens is not None:
        long_tokens.warn(place)


def _id_error(
    identifier: str | None,
    number: int,
    numbers: dict[str | None, int],
    place: str,
    names_datasets: bool,
) -> str | None:
    """Return the error of an id, if any, and store its number in `numbers`.

    All records have an id, or none has. Ids are unique.
    """
    if numbers and (identifier is None) != (None in numbers):
        if identifier is None:
            return "expected an id, as before, found none"
        return f"expected no id, as before, found {identifier[:60]!r}"
    if identifier is not None and names_datasets and not _can_name_dataset(identifier):
        return f"the id {identifier[:60]!r} cannot name a dataset of HDF5. Remove / and zero bytes."
    first = numbers.setdefault(identifier, number)
    if identifier is not None and first != number:
        return f"the id {identifier[:60]!r} is that of {place} {first} already"
    return None


def _can_name_dataset(identifier: str) -> bool:
    return identifier not in ("", ".") and "/" not in identifier and "\0" not in identifier
