"""Inputs, cut into parts: stretches of bytes behind line ends, or of rows of Parquet."""

import fnmatch
import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, BinaryIO, Final, NamedTuple

from elmo_cli.errors import InputError, first_line
from elmo_cli.outputs.parts import open_location
from elmo_cli.text.entries import Fields, json_record, row_record
from elmo_cli.text.lines import (
    InvalidLine,
    Record,
    decode_line,
    decompressed,
    is_compressed,
    next_line,
)
from elmo_cli.text.records import FORMATS, checked_records
from elmo_cli.text.tokenizers import make_tokenizer

SUFFIXES: Final = {
    **{name: FORMATS[name].suffixes for name in ("text", "fasta", "jsonl")},
    "parquet": (".parquet",),
}
"""Formats of inputs, and the suffixes of their files; `.gz` may follow, but for Parquet."""
_BLANK: Final = b"\xef\xbb\xbf \t\r\n\v\f"
"""What may stand before the `>` of FASTA."""
_BUFFER_BYTES: Final = 1 << 20


class Input(NamedTuple):
    """A file, as it was when the parts were cut."""

    path: str
    """Absolute, or a URI."""
    size: int
    modified: str


class Part(NamedTuple):
    """A stretch of an input, which becomes one file."""

    number: int
    path: str
    start: int
    """Where it starts in the input: a byte, after decompression, or a row of Parquet."""
    stop: int
    first: int
    """The number in the whole input of its first record, from 0."""
    n_records: int
    line: int
    """The line of the file where it starts, or the row, from 1."""

    def __str__(self) -> str:
        records = f"{self.n_records:,} records from {self.line:,}"
        return f"part {self.number} ({self.path}, {records})"


@dataclass(frozen=True)
class Columns:
    """What is read of an input, and how."""

    input_format: str | None = None
    """One of `SUFFIXES`; None goes by the suffix of each file."""
    text_column: str = "text"
    key_column: str | None = None
    tokenizer: str = "whitespace"
    """Of texts, with its language: see `make_tokenizer`."""
    skip_errors: bool = False

    @property
    def fields(self) -> Fields:
        """What is read of a row."""
        return Fields((self.text_column,), self.key_column)

    def format_of(self, path: str) -> str:
        """The format of a file."""
        plain = path.lower().removesuffix(".gz")
        by_suffix = (name for name, suffixes in SUFFIXES.items() if plain.endswith(suffixes))
        return self.input_format or next(by_suffix, "text")


def find_inputs(patterns: tuple[str, ...]) -> list[Input]:
    """The files of these paths, URIs and patterns, those of a pattern sorted.

    Raises:
        InputError: there is no such file.
    """
    found: list[Input] = []
    for path in (path for pattern in patterns for path in _matching(pattern)):
        file_system, inner = open_location(path)
        info = file_system.get_file_info(inner)
        if not info.is_file:
            raise InputError(f"{path}: cannot read the input: expected a file, found none")
        found.append(Input(path, info.size, str(info.mtime_ns)))
    return found


def _matching(pattern: str) -> list[str]:
    if not glob.has_magic(pattern) or os.path.exists(pattern):
        return [pattern if "://" in pattern else os.path.abspath(pattern)]
    if "://" not in pattern:
        found = [os.path.abspath(path) for path in glob.glob(pattern, recursive=True)]
    else:
        from pyarrow.fs import FileSelector

        base = pattern[: pattern.index(next(filter(glob.has_magic, pattern)))].rpartition("/")[0]
        file_system, inner = open_location(base)
        infos = file_system.get_file_info(FileSelector(inner, recursive=True))
        paths = (f"{base}{info.path.removeprefix(inner)}" for info in infos if info.is_file)
        found = [path for path in paths if fnmatch.fnmatchcase(path, pattern)]
    return sorted(found) or [pattern]  # which is not there


def cut(path: str, columns: Columns, n_bytes: int) -> Iterator[Part]:
    """Cut an input into parts, each numbered from 0 in this input alone.

    Args:
        path: of the input, which is read to its end to count the records; of Parquet, the footer.
        columns: what is read of it.
        n_bytes: of text in a part, about; compressed data is never cut.

    Raises:
        InputError: it cannot be read.
    """
    if columns.format_of(path) == "parquet":
        with _open_parquet(path, columns) as (file, names):
            n_rows = file.metadata.num_rows
            groups = map(file.metadata.row_group, range(file.num_row_groups))
            leaves = [group.column(i) for group in groups for i in range(group.num_columns)]
            n_text = sum(
                leaf.total_uncompressed_size
                for leaf in leaves
                if leaf.path_in_schema.partition(".")[0] == names[0]
            )
        step = max(1, n_rows * n_bytes // max(1, n_text))
        for number, start in enumerate(range(0, n_rows, step)):
            stop = min(start + step, n_rows)
            yield Part(number, path, start, stop, start, stop - start, start + 1)
        return
    with _open_stream(path) as stream:
        limit = None if is_compressed(path) else n_bytes
        yield from _cut_lines(path, stream, limit, columns.format_of(path))


def _cut_lines(path: str, stream: BinaryIO, limit: int | None, input_format: str) -> Iterator[Part]:
    number = start = position = first = n_records = 0
    start_line, is_text = 1, input_format == "text"
    for line_number in count(1):
        line = next_line(path, stream, line_number)
        content = line.lstrip(_BLANK)
        is_new = content.startswith(b">") if input_format == "fasta" else bool(content or is_text)
        if not line or (is_new and limit is not None and position - start >= limit):
            if position > start:
                yield Part(number, path, start, position, first, n_records, start_line)
            if not line:
                return
            number, start, first = number + 1, position, first + n_records
            n_records, start_line = 0, line_number
        position += len(line)
        # A sequence before any header is a record too, if one in error.
        n_records += is_new or (first == n_records == 0 and content != b"")


def read_part(part: Part, columns: Columns) -> Iterator[Record]:
    """The records of a part; with `skip_errors`, those that cannot be read have their `error`.

    Raises:
        InputError: one cannot be read.
    """
    input_format = columns.format_of(part.path)
    if input_format == "parquet":
        yield from _read_rows(part, columns)
        return
    tokenizer = make_tokenizer(columns.tokenizer)
    with _open_stream(part.path) as stream:
        if not is_compressed(part.path):  # which is never cut
            stream.seek(part.start)
        lines = _lines(part, stream, columns.skip_errors)
        if input_format != "jsonl":
            name = f"{part.path}, after line {part.line - 1:,}" if part.line > 1 else part.path
            entries = FORMATS[input_format].entries(lines, tokenizer)
            yield from checked_records(entries, name, columns.skip_errors)
            return
        for number, line in enumerate(lines, part.line):
            if line or isinstance(line, InvalidLine):
                found = json_record(line, columns.fields, tokenizer)
                yield _checked(*found, f"{part.path}, line {number}", columns)


def _lines(part: Part, stream: BinaryIO, skip_errors: bool) -> Iterator[str]:
    position = part.start
    for number in count(part.line):
        line = next_line(part.path, stream, number) if position < part.stop else b""
        if not line:
            return
        position += len(line)
        yield decode_line(part.path, line, number, skip_errors=skip_errors)


def _checked(record: Record, error: str | None, where: str, columns: Columns) -> Record:
    if error is None:
        return record
    if not columns.skip_errors:
        raise InputError(f"{where}: {error}")
    return record._replace(error=f"{where}: {error}")


def _read_rows(part: Part, columns: Columns) -> Iterator[Record]:
    tokenizer = make_tokenizer(columns.tokenizer)
    with _open_parquet(part.path, columns) as (file, names):
        end = 0
        for group in range(file.num_row_groups):
            start, end = end, end + file.metadata.row_group(group).num_rows
            if end <= part.start or start >= part.stop:
                continue
            first = max(part.start, start)
            rows = file.read_row_group(group, columns=names)
            rows = rows.slice(first - start, part.stop - first)
            for batch in rows.to_batches(max_chunksize=1024):
                for row in batch.to_pylist():
                    first += 1
                    found = row_record(row, columns.fields, tokenizer)
                    yield _checked(*found, f"{part.path}, row {first}", columns)


@contextmanager
def _open_stream(path: str) -> Iterator[BinaryIO]:
    file_system, inner = open_location(path)
    try:
        with io.BufferedReader(file_system.open_input_file(inner), _BUFFER_BYTES) as file:
            yield decompressed(path, file)
    except (EOFError, gzip.BadGzipFile, zlib.error, OSError) as error:
        raise InputError(f"{path}: cannot read the input: {first_line(error)}") from None


@contextmanager
def _open_parquet(path: str, columns: Columns) -> Iterator[tuple[Any, list[str]]]:
    """Open a file of Parquet: give it, and the names of the columns that are read."""
    import pyarrow
    from pyarrow import parquet

    file_system, inner = open_location(path)
    names = [name for name in (columns.text_column, columns.key_column) if name is not None]
    try:
        with file_system.open_input_file(inner) as opened:
            file = parquet.ParquetFile(opened)
            there = file.schema_arrow.names
            missing = [name for name in names if name not in there]
            if missing:
                found = ", ".join(there[:20])
                raise InputError(f"{path}: expected a column {missing[0]!r}, found {found}")
            yield file, names
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: cannot read the input: {first_line(error)}") from None
