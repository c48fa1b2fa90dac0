"""Shard of an input: every N-th record, from the I-th on."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from elmo_cli.errors.exceptions import SettingsError


class Shard(NamedTuple):
    """Every `total`-th record of an input from the `number`-th on.

    It is known without the number of records.
    """

    number: int = 1
    total: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def has(self, index: int) -> bool:
        """Return whether a record of the input is in the shard, by its index from 0."""
        return index % self.total == self.number - 1

    def index_in_input(self, index: int) -> int:
        """Return the index in the input of a record of the shard, both from 0."""
        return index * self.total + self.number - 1


WHOLE: Final = Shard()


def parse_shard(text: str) -> Shard:
    """Parse the name of a shard, such as `3/16`."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text), re.ASCII)
    if match is not None:
        shard = Shard(number=int(match[1]), total=int(match[2]))
        if 1 <= shard.number <= shard.total:
            return shard
    raise SettingsError(
        "{--shard}: expected I/N, I from 1 to N, such as 3/16, found {text}",
        text=repr(text),
    )


def shard_of(attributes: Mapping[str, Any]) -> Shard:
    """Return the shard that an output file holds, by its attributes."""
    if "shard" not in attributes:
        return WHOLE
    return parse_shard(attributes["shard"])
