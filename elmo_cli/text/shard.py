"""A share of an input for each process of a job array."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from elmo_cli.errors import InputError


class Shard(NamedTuple):
    """One of `total` equal shares of an input: every `total`-th record from the `number`-th.

    Every n-th, and not one stretch after the other: so the share of each process is known
    without counting the input, which may be a stream, and long and short texts are shared
    out alike.
    """

    number: int = 1
    """From 1."""
    total: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def has(self, index: int) -> bool:
        """Whether a record of the input, by its number from 0, is part of it."""
        return index % self.total == self.number - 1

    def place(self, number: int) -> int:
        """The number in the input of the record with this number in the shard, both from 0."""
        return number * self.total + self.number - 1


WHOLE = Shard()


def parse_shard(text: str) -> Shard:
    """Read `3/16`.

    Raises:
        InputError: it is no such thing.
    """
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    shard = Shard(*map(int, found.groups())) if found else Shard(0, 0)
    if not 1 <= shard.number <= shard.total:
        raise InputError(f"shard {text!r}: expected I/N, I from 1 to N, such as 3/16")
    return shard


def check_shard(text: str, state: str | None) -> None:
    """Make sure that there is such a shard, and that sentences do not depend on one another.

    Raises:
        InputError: there is not, or they do.
    """
    parse_shard(text)
    if state == "carry":
        raise InputError(
            "--shard goes with --state zero or warm: carried states need all lines in their order; "
            "embed them without --shard"
        )


def shard_of(attributes: Mapping[str, Any]) -> Shard:
    """The shard that an output is of, by its attributes."""
    return parse_shard(attributes["shard"]) if "shard" in attributes else WHOLE
