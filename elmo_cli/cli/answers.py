"""Queries on standard input, in lists of those that can be read without waiting."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from elmo_cli.errors import InputError
from elmo_cli.text.lines import open_lines
from elmo_cli.text.pipes import STANDARD_INPUT

_Item = TypeVar("_Item")
_Query = TypeVar("_Query")

MAX_CHUNK = 64
"""Maximum number of queries that are answered together."""


def read_queries(parse: Callable[[str], _Query]) -> Iterator[list[_Query]]:
    """Yield the parsed lines of standard input, in lists of lines that are ready together.

    Raises:
        InputError: A line cannot be parsed. The lines before it are yielded first.
    """
    with open_lines(STANDARD_INPUT) as (lines, is_ready):
        yield from in_chunks(lines, parse, is_ready, "standard input, line")


def in_chunks(
    items: Iterable[_Item],
    parse: Callable[[_Item], _Query],
    is_ready: Callable[[], bool],
    name: str,
) -> Iterator[list[_Query]]:
    """Yield parsed items in lists of items that can be read without waiting.

    Args:
        items: Items of an input, such as lines.
        parse: Function that parses an item.
        is_ready: Function that returns whether the next item can be read without waiting.
        name: Words before the number of an item in messages.

    Raises:
        InputError: An item cannot be parsed. The items before it have been yielded.
    """
    chunk: list[_Query] = []
    try:
        for number, item in enumerate(items, start=1):
            try:
                chunk.append(parse(item))
            except InputError as error:
                raise InputError(f"{name} {number}: {error}") from None
            if len(chunk) == MAX_CHUNK or not is_ready():
                yield chunk
                chunk = []
    except InputError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk
