"""Chunks of lines or rows, which a command answers together.

A chunk ends where the next row would have to be waited for, so that whoever types or
pipes rows has the answers to the first ones before the last ones are there.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from elmo_cli.errors.exceptions import InputError

_Row = TypeVar("_Row")
_Query = TypeVar("_Query")

MAX_CHUNK: Final = 64
"""Maximum number of rows in a chunk."""


def parse_in_chunks(
    rows: Iterable[_Row],
    parse: Callable[[_Row], _Query],
    is_ready: Callable[[], bool],
    name_of: Callable[[int, _Row], str],
) -> Iterator[list[_Query]]:
    """Yield parsed rows in chunks.

    The first row that cannot be read or parsed is an error after the chunk of the rows
    before it.

    Args:
        rows: Rows, read as they are needed.
        parse: Function that parses a row, or raises an `InputError`.
        is_ready: Function that says whether the next row can be read without waiting.
        name_of: Function that returns the beginning of a row's error, such as
            `pairs.csv, line 3`, by its number from 1 and the row.
    """
    chunk: list[_Query] = []
    error: InputError | None = None
    try:
        for number, row in enumerate(rows, start=1):
            chunk.append(_parse(row, parse, name=name_of(number, row)))
            if len(chunk) == MAX_CHUNK or not is_ready():
                yield chunk
                chunk = []
    except InputError as raised:
        error = raised
    if chunk:
        yield chunk
    if error is not None:
        raise error


def _parse(row: _Row, parse: Callable[[_Row], _Query], name: str) -> _Query:
    """Parse a row, or raise an error that names it."""
    try:
        return parse(row)
    except InputError as error:
        # A `SettingsError` stays one, because it has a status of its own.
        raise type(error)("{name}: {error}", name=name, error=error) from None
