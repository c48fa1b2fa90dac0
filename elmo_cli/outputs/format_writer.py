"""Base of the writers, one per format, which add records to an open file."""

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.records.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RecordFilter:
    """Rule for what a run embeds and writes of each record. The base class keeps everything."""

    attributes: Attributes = MappingProxyType({})
    """Further attributes of the output. A run resumes only where they are equal."""
    writer_type: "type[FormatWriter] | None" = None
    """Writer that replaces the output format's writer. It cannot resume."""

    def begin(self) -> None:
        """Prepare to see all records. The method is called again if a run starts over."""

    def prepare(self, record: Record) -> Record:
        """Return the record to embed. The original record has been hashed already."""
        return record

    def select(self, record: Record, activations: "NDArray[Any]") -> "NDArray[Any]":
        """Return the activations of a prepared record that are written."""
        return activations

    def finish(self) -> None:
        """Raise an `ElmoError` if the output should not be kept. All records have been seen."""


class FormatWriter:
    """Base of the writers, one per format, which add records to an open file."""

    def __init__(
        self, file: Any, output_format: OutputSettings, attributes: Attributes
    ) -> None:
        self._file, self._format, self._attributes = file, output_format, attributes

    def skip(self, number: int, record: Record) -> None:
        """Pass over a record that the file contains already, from an earlier run."""

    def write(self, number: int, record: Record, values: "NDArray[Any]") -> None:
        """Add a record, by its number from 0, and its values (L, T, W) or (T, W).

        The values may share memory with others: a writer copies what it keeps.
        """
        raise NotImplementedError

    def describe(self, example: Record, values: "NDArray[Any]") -> None:
        """Take a record and its values, for a format whose columns and types a file always has."""

    def flush(self) -> None:
        """Write everything that is buffered."""

    def finish(self, attributes: Attributes) -> None:
        """Complete the file, with attributes that are known only at the end."""

    def publish(self, path: Path, rename: Callable[[], object]) -> None:
        """Give the finished file its name `path` by calling `rename`."""
        rename()

    def close(self) -> None:
        """Close the file."""
