"""Inputs, cut into parts: stretches of bytes behind line ends, or of rows of Parquet."""

import codecs
import fnmatch
import glob
import io
import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, chain, count, islice
from typing import Any, Final, NamedTuple

from elmo_cli.errors import InputError, check_choice, first_line
from elmo_cli.outputs.parts import Folder, open_location
from elmo_cli.settings import TextSettings
from elmo_cli.text.entries import Entry, Fields, json_entries, row_record
from elmo_cli.text.input_formats import FORMATS, find_format
from elmo_cli.text.lines import LineReader, read_lines
from elmo_cli.text.records import Record

_FORMATS: Final = ("text", "fasta", "jsonl", "parquet")
DEFAULT_TEXT_COLUMN: Final = "text"
_TOKEN_BYTES: Final = 6
"""Of text, about, with the space; of a residue 1."""
_BUFFER_BYTES: Final = 1 << 20


class Part(NamedTuple):
    """A stretch of an input, which becomes one file."""

    number: int
    first: int
    """The number in the whole input of its first record, from 0."""
    path: str
    start: int
    """The byte of the file where it starts, or the row of Parquet."""
    line: int
    """The line of the file where it starts, or the row, from 1."""
    n_lines: int
    n_records: int

    def __str__(self) -> str:
        records = f"{self.n_records:,} records from {self.line:,}"
        return f"part {self.number} ({self.path}, {records})"


def format_name(text: TextSettings, path: str) -> str:
    """Return the name of the format of a file; raise an `InputError` if it is not offered."""
    if text.input_format is None and path.lower().endswith(".parquet"):
        return "parquet"
    name = text.input_format or find_format(path).name
    check_choice(f"{path}: format", name, _FORMATS)
    return name


def _text_column(text: TextSettings) -> str:
    return text.text_column or DEFAULT_TEXT_COLUMN


def find_inputs(patterns: tuple[str, ...]) -> list[tuple[str, str]]:
    """The files of these paths, URIs and patterns, those of a pattern sorted; and their states."""
    found: list[tuple[str, str]] = []
    for path in chain.from_iterable(map(_matching, patterns)):
        file_system, inner = open_location(path)
        info = file_system.get_file_info(inner)
        if not info.is_file:
            raise InputError(f"{path}: cannot read the input: expected a file, found none")
        found.append((path, f"{info.size:,} bytes of {info.mtime}"))
    return found


def _matching(pattern: str) -> list[str]:
    """The files of a pattern, or the pattern where there are none."""
    if "://" not in pattern:
        is_file = os.path.exists(pattern)
        found = [pattern] if is_file else sorted(glob.glob(pattern, recursive=True))
        return [os.path.abspath(path) for path in found or [pattern]]
    folder, _, wanted = pattern.rpartition("/")
    names = fnmatch.filter(Folder(folder).names(), wanted) if glob.has_magic(wanted) else []
    return [f"{folder}/{name}" for name in names] or [pattern]


def cut(paths: Iterable[str], text: TextSettings, n_tokens: float) -> list[Part]:
    """Cut inputs into parts of about so many tokens; compressed data is never cut.

    They are read to their ends to count the records; of Parquet, the footer.
    """
    parts: list[Part] = []
    n_records = 0
    for path in paths:
        input_format = format_name(text, path)
        n_bytes = max(1, int(n_tokens * (1 if input_format == "fasta" else _TOKEN_BYTES)))
        cut_one = _cut_rows if input_format == "parquet" else _cut_lines
        for stretch in cut_one(path, text, n_bytes):
            parts.append(Part(len(parts), n_records, path, *stretch))
            n_records += parts[-1].n_records
    return parts


def _cut_lines(path: str, text: TextSettings, n_bytes: int) -> Iterator[tuple[int, int, int, int]]:
    """Stretches of lines: what `Part` has from `start` on."""
    is_text, is_fasta = (format_name(text, path) == name for name in ("text", "fasta"))
    start = position = n_records = 0
    start_line = 1
    with _open(path) as file:
        reader = LineReader(path, file, splits_at_cr=is_fasta)
        limit = math.inf if reader.is_compressed else n_bytes
        for number in count(1):
            line = reader.next_line()
            content = line.removeprefix(codecs.BOM_UTF8).strip()
            is_new = is_text or (content[:1] == b">" if is_fasta else content != b"")
            if position > start and (not line or (is_new and position - start >= limit)):
                yield start, start_line, number - start_line, n_records
                start, start_line, n_records = position, number, 0
            if not line:
                return
            position += len(line)
            n_records += is_new


def _cut_rows(path: str, text: TextSettings, n_bytes: int) -> Iterator[tuple[int, int, int, int]]:
    """Stretches of rows: what `Part` has from `start` on."""
    with _open(path) as file:
        footer = _parquet(path, file, text).metadata.to_dict()
    leaves = (leaf for group in footer["row_groups"] for leaf in group["columns"])
    n_text = sum(
        leaf["total_uncompressed_size"]
        for leaf in leaves
        if leaf["path_in_schema"].partition(".")[0] == _text_column(text)
    )
    n_rows = footer["num_rows"]
    step = max(1, n_rows * n_bytes // max(1, n_text))
    for start in range(0, n_rows, step):
        n_here = min(step, n_rows - start)
        yield start, start + 1, n_here, n_here


def read_part(part: Part, text: TextSettings) -> Iterator[Record]:
    """The records of a part; with `skip_errors`, those that cannot be read have their `error`."""
    input_format, tokenizer = format_name(text, part.path), text.make_tokenizer()
    fields = Fields((_text_column(text),), text.id_column)
    unit, lines = "line", _lines(part, text)
    entries: Iterable[Entry]
    if input_format == "parquet":
        unit, rows = "row", enumerate(_rows(part, text), start=1)
        entries = (Entry(n, *row_record(row, fields, tokenizer)) for n, row in rows)
    elif input_format == "jsonl":
        entries = json_entries(lines, tokenizer, fields)
    else:
        entries = FORMATS[input_format].entries(lines, tokenizer)
    for number, record, error, _ in entries:
        if error is not None:
            error = f"{part.path}, {unit} {part.line - 1 + number}: {error}"
            if not text.skip_errors:
                raise InputError(error)
            record = Record(record.text, [], error=error)
        yield record


def _lines(part: Part, text: TextSettings) -> Iterator[str]:
    with _open(part.path) as file:
        is_fasta = format_name(text, part.path) == "fasta"
        reader = LineReader(part.path, file, first=part.line, splits_at_cr=is_fasta)
        reader.seek(part.start)
        yield from islice(read_lines(reader, skip_errors=text.skip_errors), part.n_lines)


def _rows(part: Part, text: TextSettings) -> Iterator[dict[str, Any]]:
    names = [name for name in (_text_column(text), text.id_column) if name is not None]
    with _open(part.path) as opened:
        file = _parquet(part.path, opened, text)
        groups = range(file.num_row_groups)
        ends = [0, *accumulate(file.metadata.row_group(group).num_rows for group in groups)]
        first = bisect_right(ends, part.start) - 1
        stop = bisect_left(ends, part.start + part.n_records)
        table = file.read_row_groups(range(first, stop), columns=names)
        for batch in table.slice(part.start - ends[first], part.n_records).to_batches(1024):
            yield from batch.to_pylist()


@contextmanager
def _open(path: str) -> Iterator[io.BufferedReader]:
    """Open a file; errors of it in the block name it."""
    file_system, inner = open_location(path)
    from pyarrow import ArrowInvalid

    try:
        with io.BufferedReader(file_system.open_input_file(inner), _BUFFER_BYTES) as file:
            yield file
    except (ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: cannot read the input: {first_line(error)}") from None


def _parquet(path: str, file: io.BufferedReader, text: TextSettings) -> Any:
    """A file of Parquet, made sure that it has the columns."""
    from pyarrow import parquet

    found = parquet.ParquetFile(file.raw)
    names = found.schema_arrow.names
    for name in (_text_column(text), text.id_column):
        if name is not None and name not in names:
            shown = ", ".join(names[:20])
            raise InputError(f"{path}: expected a column {name!r}, found {shown}")
    return found
