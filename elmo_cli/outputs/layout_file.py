"""What every layout of a file offers to its reader."""

from typing import Protocol

from elmo_cli.arrays import AnyArray
from elmo_cli.records.record import Record


class LayoutFile(Protocol):
    """Open file of one layout, whose records are counted from 0."""

    n_records: int
    has_ids: bool
    """True if records have ids."""
    has_sentences: bool
    """True if the file contains sentences."""
    has_each_sentence: bool
    """True if equal sentences are all stored, and not only the last one."""
    is_ordered: bool
    """True if the records have the order of the input."""

    def values(self, start: int, stop: int) -> list[AnyArray]:
        """Read the activations of records from `start` on, before `stop`.

        These are as many as are best read together, and at least one.
        """

    def records(self, start: int, stop: int) -> list[Record]:
        """Read records without activations, as many as `values` returns."""

    def find(self, name: str) -> int | None:
        """Return the index of a record by its id, or of the last with that text."""
