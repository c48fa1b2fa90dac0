"""Base of the writers, one per format, which add records to an open file."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.records.record import Record

if TYPE_CHECKING:
    from elmo_cli.arrays import AnyArray


class FormatWriter:
    """Base of the writers, one per format, which add records to an open file.

    A writer implements `write`, and of the other methods those that its format needs.
    """

    def __init__(
        self, file: Any, settings: OutputSettings, attributes: Attributes
    ) -> None:
        self._file = file
        self._settings = settings
        self._attributes = attributes

    def skip_written(self, index: int, record: Record) -> None:
        """Take note of a record that the file contains already, from an earlier run."""

    def write(self, index: int, record: Record, values: "AnyArray") -> None:
        """Add a record, by its index from 0, and its values (L, T, W) or (T, W).

        The values may share memory with others: a writer copies what it keeps.
        """
        raise NotImplementedError

    def describe(self, example: Record, values: "AnyArray") -> None:
        """Take a record and its values as an example, in case there are no records.

        Formats with columns and types have them in a file without rows too.
        """

    def flush(self) -> None:
        """Write everything that is buffered."""

    def finish(self, attributes: Attributes) -> None:
        """Complete the file, with attributes that are known only at the end."""

    def publish(self, path: Path, rename: Callable[[], object]) -> None:
        """Give the finished file its name `path` by calling `rename`."""
        rename()

    def close(self) -> None:
        """Close the file."""
