"""Inputs of distributed runs: their files, cut into parts, and the records of a part.

A part is a stretch of bytes between line ends, or of rows of Parquet. The records of lines are
counted by the function that reads them later, so that both agree for every content.
"""

import fnmatch
import glob
import io
import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain
from typing import Any, Final

from elmo_cli.distributed.line_reader import HashingReader
from elmo_cli.errors import InputError, MissingInputError, OtherInputError, check_choice, first_line
from elmo_cli.outputs.folder import Folder, check_name, open_location
from elmo_cli.outputs.plan_file import Part
from elmo_cli.settings import TextSettings
from elmo_cli.text.entries import Entry, Fields, json_entries, row_record
from elmo_cli.text.input_formats import FORMATS, find_format
from elmo_cli.text.records import Record, Sentence
from elmo_cli.text.tokenizers import Tokenizer

_FORMATS: Final = ("text", "fasta", "jsonl", "parquet")
DEFAULT_TEXT_COLUMN: Final = "text"
_TOKEN_BYTES: Final = 6
"""Bytes of text per token, about, with the space. A residue of FASTA is 1."""
_BUFFER_BYTES: Final = 1 << 20


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
    """Find the files of paths, URIs and patterns. Those of a pattern are sorted.

    Returns:
        Path and fingerprint of each file: see `input_fingerprint`.
    """
    paths = chain.from_iterable(map(_matching, patterns))
    return [(path, input_fingerprint(path)) for path in paths]


def input_fingerprint(path: str) -> str:
    """Return the size and time of a file, to notice a change.

    Raises:
        InputError: The file is missing.
    """
    file_system, inner = open_location(path)
    info = file_system.get_file_info(inner)
    if not info.is_file:
        raise MissingInputError(f"{path}: cannot read the input: expected a file, found none.")
    return f"{info.size:,} bytes of {info.mtime}"


def check_unchanged(path: str, fingerprint: str) -> None:
    """Raise an `OtherInputError` for a file that does not have the fingerprint of the plan."""
    found = input_fingerprint(path)
    if found != fingerprint:
        raise OtherInputError(
            f"{path}: the file has changed since the plan was made: {fingerprint} then, "
            f"{found} now. Use --overwrite to start over."
        )


def _matching(pattern: str) -> list[str]:
    """Return the files of a pattern, or the pattern itself if it matches no file."""
    check_name(pattern)
    if "://" not in pattern:
        is_file = os.path.exists(pattern)
        found = [pattern] if is_file else sorted(glob.glob(pattern, recursive=True))
        return [os.path.abspath(path) for path in found or [pattern]]
    folder, _, wanted = pattern.rpartition("/")
    names = fnmatch.filter(Folder(folder).names(), wanted) if glob.has_magic(wanted) else []
    return [f"{folder}/{name}" for name in names] or [pattern]


def cut(inputs: Iterable[tuple[str, str]], text: TextSettings, n_tokens: float) -> list[Part]:
    """Cut inputs into parts of about `n_tokens` tokens. Compressed files are not cut.

    Args:
        inputs: Paths and fingerprints; see `find_inputs`. They are read to their ends to count the
            records; only the footer of Parquet is read.
        text: How they are read.
        n_tokens: Tokens per part.
    """
    parts: list[Part] = []
    n_records = 0
    for path, fingerprint in inputs:
        input_format = format_name(text, path)
        n_bytes = max(1, int(n_tokens * (1 if input_format == "fasta" else _TOKEN_BYTES)))
        cut_one = _cut_rows if input_format == "parquet" else _cut_lines
        for stretch in cut_one(path, text, n_bytes):
            part = Part(len(parts), n_records, path, *stretch)
            parts.append(part._replace(fingerprint=fingerprint))
            n_records += part.n_records
        check_unchanged(path, fingerprint)
    return parts


_Stretch = tuple[int, int, int, int, str, str]
"""Fields of a `Part` from `start` on."""


def _cut_lines(path: str, text: TextSettings, n_bytes: int) -> Iterator[_Stretch]:
    """Yield stretches of lines."""
    # Tokens are not counted, and a tokenizer takes longer than all the rest.
    tokenizer = replace(text.make_tokenizer(), tokenize=_no_tokens)
    input_format = format_name(text, path)
    is_record_per_line = input_format == "text" and tokenizer.splits_by is None
    with _open(path) as file:
        lines = HashingReader(path, file, splits_at_cr=input_format == "fasta")
        limit = math.inf if lines.is_compressed else n_bytes
        while not lines.is_at_end:
            start, number = lines.position, lines.number
            if is_record_per_line:
                lines.pass_bytes(limit)
                n_records = lines.number - number
            else:
                taken = lines.take_bytes(limit, partial(_starts_record, input_format))
                entries = _line_entries(path, text, taken, tokenizer)
                n_records = sum(1 for _ in _checked(entries, path, "line", 1, skip_errors=True))
            yield start, number, lines.number - number, n_records, "", lines.take_sha256()


def _no_tokens(text: str) -> Sentence:
    return []


def _starts_record(input_format: str, line: str) -> bool:
    if input_format == "fasta":
        return line.startswith(">")
    return input_format == "text" or line != ""


def _cut_rows(path: str, text: TextSettings, n_bytes: int) -> Iterator[_Stretch]:
    """Yield stretches of rows."""
    column = _text_column(text)
    with _open(path) as file:
        footer = _parquet(path, file, text).metadata.to_dict()
    leaves = (leaf for group in footer["row_groups"] for leaf in group["columns"])
    # Leaves of a list are called `column.list.element`, and a column may have dots in its name.
    n_text = sum(
        leaf["total_uncompressed_size"]
        for leaf in leaves
        if f"{leaf['path_in_schema']}.".startswith(f"{column}.")
    )
    n_rows = footer["num_rows"]
    step = max(1, n_rows * n_bytes // max(1, n_text))
    for start in range(0, n_rows, step):
        n_here = min(step, n_rows - start)
        yield start, start + 1, n_here, n_here, "", ""


def read_part(part: Part, text: TextSettings) -> Iterator[Record]:
    """Yield the records of a part. With `skip_errors`, invalid records have their `error`.

    Raises:
        OtherInputError: The bytes differ from the plan's. It is raised after the last record.
    """
    tokenizer, skip_errors = text.make_tokenizer(), text.skip_errors
    if format_name(text, part.path) == "parquet":
        fields = Fields((_text_column(text),), text.id_column)
        rows = enumerate(_rows(part, text), start=1)
        entries: Iterable[Entry] = (
            Entry(n, *row_record(row, fields, tokenizer)) for n, row in rows
        )
        yield from _checked(entries, part.path, "row", part.line, skip_errors=skip_errors)
        return
    with _open(part.path) as file:
        is_fasta = format_name(text, part.path) == "fasta"
        lines = HashingReader(
            *(part.path, file), start=part.start, number=part.line, splits_at_cr=is_fasta
        )
        taken = lines.take_lines(part.n_lines, skip_errors=skip_errors)
        entries = _line_entries(part.path, text, taken, tokenizer)
        yield from _checked(entries, part.path, "line", part.line, skip_errors=skip_errors)
        if lines.take_sha256() != part.sha256:
            raise OtherInputError(
                f"{part.path}: the lines of {part} have changed since the plan was made. Use "
                "--overwrite to start over."
            )


def _line_entries(
    path: str, text: TextSettings, lines: Iterator[str], tokenizer: Tokenizer
) -> Iterator[Entry]:
    input_format = format_name(text, path)
    if input_format == "jsonl":
        return json_entries(lines, tokenizer, Fields((_text_column(text),), text.id_column))
    return FORMATS[input_format].entries(lines, tokenizer)


def _checked(
    entries: Iterable[Entry], path: str, unit: str, first: int, *, skip_errors: bool
) -> Iterator[Record]:
    """Yield the records of entries.

    Raises:
        InputError: An entry is invalid, without `skip_errors`.
    """
    for number, record, error, _ in entries:
        if error is None:
            yield record
            continue
        reason = f"{path}, {unit} {first - 1 + number}: {error}"
        if not skip_errors:
            raise InputError(reason)
        yield Record(record.text, [], error=reason)


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
    """Open a file. Errors of the file in the block name it."""
    file_system, inner = open_location(path)
    from pyarrow import ArrowInvalid

    try:
        with io.BufferedReader(file_system.open_input_file(inner), _BUFFER_BYTES) as file:
            yield file
    except (ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: cannot read the input: {first_line(error)}") from None


def _parquet(path: str, file: io.BufferedReader, text: TextSettings) -> Any:
    """Open a file of Parquet, and check that it has the columns."""
    from pyarrow import parquet

    found = parquet.ParquetFile(file.raw)
    names = found.schema_arrow.names
    for name in (_text_column(text), text.id_column):
        if name is not None and name not in names:
            shown = ", ".join(names[:20])
            raise InputError(f"{path}: expected a column {name!r}, found {shown}")
    return found
