"""Input files to records, in each format that can be read."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from elmo_cli.errors import InputError
from elmo_cli.text.fasta import count_fasta, read_fasta
from elmo_cli.text.lines import Record, count_lines, line_record, name_of, open_lines


@dataclass(frozen=True)
class InputFormat:
    """A way to write records in lines."""

    name: str
    unit: str
    """What messages call a record."""
    suffixes: tuple[str, ...]
    """Of the files that are taken for it; `.gz` may follow."""
    has_keys: bool
    """Whether records have names of their own, so that none needs a number or an index."""
    read: Callable[[Iterable[str], str, bool], Iterator[Record]]
    """Lines, the input's name for error messages and whether faults are skipped -> records."""
    count: Callable[[bytes], tuple[int, int]]
    """A piece of a file -> about how many records and tokens it holds."""

    def check_sentence_keys(self, use_sentence_keys: bool) -> None:
        """Make sure that records are not to be named in two ways.

        Raises:
            InputError: they are.
        """
        if use_sentence_keys and self.has_keys:
            raise InputError(
                f"--use-sentence-keys is for text; datasets of {self.name} are named by their id"
            )


TEXT = InputFormat(
    "text",
    "line",
    (),
    has_keys=False,
    read=lambda lines, name, skip_errors: map(line_record, lines),
    count=count_lines,
)
FASTA = InputFormat(
    "fasta",
    "sequence",
    (".fasta", ".fa", ".faa", ".fas"),
    has_keys=True,
    read=read_fasta,
    count=count_fasta,
)
FORMATS = {format_.name: format_ for format_ in (TEXT, FASTA)}


def find_format(source: object, name: str | None = None) -> InputFormat:
    """The format of an input.

    Args:
        source: its path, or a file that is open.
        name: of the format; None goes by the suffix of the path, and is text without one.

    Raises:
        InputError: there is no format of that name.
    """
    if name is not None:
        if name not in FORMATS:
            raise InputError(f"format {name!r}: expected {' or '.join(FORMATS)}")
        return FORMATS[name]
    path = str(source).lower().removesuffix(".gz") if isinstance(source, (str, Path)) else ""
    return next((format_ for format_ in FORMATS.values() if path.endswith(format_.suffixes)), TEXT)


@contextmanager
def open_records(
    source: IO[str] | str | Path,
    input_format: InputFormat,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    skip_errors: bool = False,
) -> Iterator[Iterator[Record]]:
    """The records of a file, given by its path or already open as text; see `open_lines`.

    With `skip_errors`, one that is at fault is a record with its `fault`.
    """
    with open_lines(source, on_bytes, skip_errors=skip_errors) as lines:
        yield input_format.read(lines, name_of(source), skip_errors)
