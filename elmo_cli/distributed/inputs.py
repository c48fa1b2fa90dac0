"""Inputs of distributed runs: their files, split into parts, and the records of a part.

A part is a stretch of bytes between line ends, or of rows of Parquet. The records of lines are
counted by the function that reads them later, so that the numbers agree for every content.
"""

import fnmatch
import glob
import io
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from elmo_cli.distributed.column_types import ColumnTypes
from elmo_cli.distributed.line_reader import HashingReader
from elmo_cli.errors import InputError, MissingInputError, OtherInputError, check_choice, first_line
from elmo_cli.outputs.folder import Folder, check_name, open_location
from elmo_cli.outputs.plan_file import Part
from elmo_cli.settings import TextSettings
from elmo_cli.text.entries import LINE, Entry
from elmo_cli.text.input_formats import FASTA, PARQUET, TEXT, InputFormat, find_format
from elmo_cli.text.parquet import parquet_entries, parquet_size
from elmo_cli.text.record_checks import checked_records
from elmo_cli.text.records import Record, Sentence
from elmo_cli.text.tables import TableError

_FORMATS: Final = ("text", "fasta", "jsonl", "parquet")
_TOKEN_BYTES: Final = 6
"""Approximate bytes of text per token, with the space. A residue of FASTA is 1 byte."""
_BUFFER_BYTES: Final = 1 << 20


def find_input_format(text: TextSettings, path: str) -> InputFormat:
    """Return the format of a file; raise an `InputError` if runs do not support it."""
    input_format = find_format(path, text.input_format)
    check_choice(f"{path}: format", input_format.name, _FORMATS)
    return input_format


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
    current = input_fingerprint(path)
    if current != fingerprint:
        raise OtherInputError(
            f"{path}: the file has changed since the plan was made: {fingerprint} then, "
            f"{current} now. Use --overwrite to start over."
        )


def _matching(pattern: str) -> list[str]:
    """Return the files of a pattern, or the pattern itself if it matches no file."""
    check_name(pattern)
    if "://" not in pattern:
        is_file = os.path.exists(pattern)
        paths = [pattern] if is_file else sorted(glob.glob(pattern, recursive=True))
        return [os.path.abspath(path) for path in paths or [pattern]]
    folder, _, name = pattern.rpartition("/")
    names = fnmatch.filter(Folder(folder).names(), name) if glob.has_magic(name) else []
    return [f"{folder}/{name}" for name in names] or [pattern]


class SplitInputs(NamedTuple):
    """Inputs, split into parts."""

    parts: list[Part]
    has_ids: bool
    """True if the records have ids."""
    column_types: str = ""
    """Types of the ids and of the kept columns; see `ColumnTypes.encode`."""


class _SplitFile(NamedTuple):
    stretches: list[tuple[int, int, int, int, str, str]]
    """Fields of a `Part` from `start` on."""
    has_ids: bool | None
    """None for a file without a valid record."""


def split_inputs(
    inputs: Iterable[tuple[str, str]], text: TextSettings, n_tokens: float
) -> SplitInputs:
    """Split inputs into parts of about `n_tokens` tokens. A compressed file is one part.

    Args:
        inputs: Paths and fingerprints; see `find_inputs`. They are read to their ends to count the
            records; only the footer of Parquet is read.
        text: How they are read.
        n_tokens: Tokens per part.

    Raises:
        InputError: An input cannot be read, or some have ids and others have none.
    """
    parts: list[Part] = []
    has_ids: dict[bool, str] = {}
    n_records, types = 0, ColumnTypes()
    for path, fingerprint in inputs:
        input_format = find_input_format(text, path)
        text.read_options().check(input_format.name, has_columns=input_format.has_columns)
        n_bytes = max(1, int(n_tokens * (1 if input_format.name == FASTA.name else _TOKEN_BYTES)))
        split_file = _split_rows if input_format.name == PARQUET.name else _split_lines
        split = split_file(path, input_format, text, n_bytes, types)
        for stretch in split.stretches:
            part = Part(len(parts), n_records, path, *stretch)
            parts.append(part._replace(fingerprint=fingerprint))
            n_records += part.n_records
        check_unchanged(path, fingerprint)
        if split.has_ids is not None:
            has_ids.setdefault(split.has_ids, path)
    if len(has_ids) > 1:
        raise InputError(
            f"{has_ids[False]}: expected records with ids, as in {has_ids[True]}, found none. "
            "Embed the inputs with ids and those without to two folders."
        )
    return SplitInputs(parts, True in has_ids, types.encode())


def _split_lines(
    path: str, input_format: InputFormat, text: TextSettings, n_bytes: int, types: ColumnTypes
) -> _SplitFile:
    """Split a file into stretches of lines, and add its columns to `types`."""
    # Tokens are not counted here, and a tokenizer takes longer than everything else.
    tokenizer = replace(text.make_tokenizer(), tokenize=_no_tokens)
    fields = text.read_options().fields
    is_record_per_line = input_format.name == TEXT.name and tokenizer.splits_by is None
    stretches, has_ids = [], input_format.has_ids
    with _open(path) as file:
        lines = HashingReader(path, file, splits_at_cr=input_format.splits_at_cr)
        limit = math.inf if lines.is_compressed else n_bytes
        while not lines.is_at_end:
            start, number = lines.position, lines.number
            if is_record_per_line:
                lines.pass_bytes(limit)
                n_records = lines.number - number
            else:
                taken = lines.take_bytes(limit, partial(_starts_record, input_format))
                n_records = 0
                for entry in input_format.entries(taken, tokenizer, fields):
                    n_records += 1
                    if entry.error is None and entry.record.error is None:
                        has_ids = has_ids or entry.record.id is not None
                        types.add(entry.record)
            n_lines = lines.number - number
            stretches.append((start, number, n_lines, n_records, "", lines.take_sha256()))
    return _SplitFile(stretches, has_ids)


def _no_tokens(text: str) -> Sentence:
    return []


def _starts_record(input_format: InputFormat, line: str) -> bool:
    if input_format.name == FASTA.name:
        return line.startswith(">")
    return input_format.name == TEXT.name or line != ""


def _split_rows(
    path: str, input_format: InputFormat, text: TextSettings, n_bytes: int, types: ColumnTypes
) -> _SplitFile:
    """Split a file into stretches of rows, and add its columns to `types`."""
    with _open(path) as file:
        size = parquet_size(file.raw, text.read_options().fields)
    n_rows, n_text_bytes, id_type, kept_types = size
    types.add_schema(id_type, kept_types)
    step = max(1, n_rows * n_bytes // max(1, n_text_bytes))
    sizes = ((start, min(step, n_rows - start)) for start in range(0, n_rows, step))
    stretches = [(start, start + 1, n_here, n_here, "", "") for start, n_here in sizes]
    return _SplitFile(stretches, id_type is not None)


def read_part(part: Part, text: TextSettings, *, has_ids: bool) -> Iterator[Record]:
    """Yield the records of a part. With `skip_errors`, invalid records have their `error`.

    Args:
        part: Part of a plan.
        text: How it is read.
        has_ids: Whether the records of the inputs have ids; a record of a table without an id is
            invalid then.

    Raises:
        InputError: A record is invalid, without `skip_errors`.
        OtherInputError: The bytes differ from the plan's. It is raised after the last record.
    """
    input_format = find_input_format(text, part.path)
    options = text.read_options(compares_ids=False, is_quiet=True)
    fields = options.fields
    fields = fields._replace(is_id_required=has_ids or fields.is_id_required)
    tokenizer, skip_errors = text.make_tokenizer(), text.skip_errors
    with _open(part.path) as file:
        if input_format.name == PARQUET.name:
            rows = range(part.start, part.start + part.n_records)
            entries = parquet_entries(file.raw, tokenizer, fields, rows=rows)
        else:
            lines = HashingReader(
                *(part.path, file),
                start=part.start,
                number=part.line,
                splits_at_cr=input_format.splits_at_cr,
            )
            taken = lines.take_lines(part.n_lines, skip_errors=skip_errors)
            entries = _numbered_from(part.line, input_format.entries(taken, tokenizer, fields))
        yield from checked_records(
            *(entries, part.path, skip_errors),
            number_unit=input_format.number_unit,
            options=options,
        )
        if input_format.name != PARQUET.name and lines.take_sha256() != part.sha256:
            raise OtherInputError(
                f"{part.path}: the lines of {part} have changed since the plan was made. Use "
                "--overwrite to start over."
            )


def _numbered_from(first: int, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries of lines, numbered from `first`, the line number of the first one."""
    for entry in entries:
        record = entry.record
        if LINE in record.attributes:
            line = int(str(record.attributes[LINE])) + first - 1
            record = record._replace(attributes={**record.attributes, LINE: line})
        yield entry._replace(line=entry.line + first - 1, record=record)


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
    except TableError as error:
        raise InputError(f"{path}: {error}") from None
