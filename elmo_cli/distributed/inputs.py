"""Inputs of distributed runs: their files, split into parts, and the records of a part.

A part is a stretch of bytes between line ends, or of rows of Parquet. The records of lines are
counted by the function that reads them later, so that the numbers agree for every content.

Types of the ids and kept columns of a folder: one type per column, in all parts.

Lines of an open file, read, counted and hashed by one class for planning and for embedding.
"""

import base64
import fnmatch
import glob
import hashlib
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, Final, NamedTuple

from elmo_cli.errors import InputError, MissingInputError, OtherInputError, check_choice, first_line
from elmo_cli.outputs.parts import Folder, Part, check_name, open_location
from elmo_cli.outputs.vector_rows import kept_names, type_of
from elmo_cli.settings import TextSettings
from elmo_cli.text.input_formats import (
    FASTA,
    PARQUET,
    TEXT,
    InputFormat,
    checked_records,
    find_format,
)
from elmo_cli.text.parsers import LINE, Entry
from elmo_cli.text.records import Record, Sentence, id_value
from elmo_cli.text.sources import LineReader, Source
from elmo_cli.text.tables import TableError, parquet_entries, parquet_size
from elmo_cli.text.text_settings import DEFAULT_ID

_BATCH_ROWS: Final = 1024


class ColumnTypes:
    """Types of columns by their names in the output, from the inputs as far as they are read.

    A column with values of several types gets texts, as in `ArrowColumns.kept_column`.
    """

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._ids: list[str] = []
        self._rows: list[Mapping[str, object]] = []

    def add(self, record: Record) -> None:
        """Add the id and the columns of a record."""
        if record.id is not None:
            self._ids.append(record.id)
        if record.columns:
            self._rows.append(record.columns)
        if _BATCH_ROWS in (len(self._ids), len(self._rows)):
            self._merge_batch()

    def add_schema(self, id_type: Any, kept_types: Mapping[str, Any]) -> None:
        """Add the types of the ids, if there are any, and of the kept columns of Parquet."""
        self._merge({} if id_type is None else {"id": _type_of_ids(id_type)})
        self._merge({new: kept_types[old] for old, new in kept_names(kept_types.keys()).items()})

    def encode(self) -> str:
        """Return the types as a text, which is empty without columns."""
        import pyarrow

        self._merge_batch()
        if not self._types:
            return ""
        types = {
            name: pyarrow.string() if pyarrow.types.is_null(column_type) else column_type
            for name, column_type in self._types.items()
        }
        return base64.b64encode(pyarrow.schema(types).serialize()).decode()

    def _merge_batch(self) -> None:
        if self._ids:
            self._merge({"id": type_of(list(map(id_value, self._ids)))})
        names = kept_names(dict.fromkeys(name for row in self._rows for name in row))
        types = {new: type_of([row.get(old) for row in self._rows]) for old, new in names.items()}
        self._merge(types)
        self._ids, self._rows = [], []

    def _merge(self, types: Mapping[str, Any]) -> None:
        for name, column_type in types.items():
            self._types[name] = _common_type(self._types.get(name, column_type), column_type)


def decode_types(text: str) -> dict[str, Any]:
    """Return the types by their columns; see `ColumnTypes.encode`."""
    import pyarrow

    if not text:
        return {}
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(base64.b64decode(text)))
    return dict(zip(schema.names, schema.types, strict=True))


def _type_of_ids(id_type: Any) -> Any:
    """Return the type of ids from a column of Parquet: an integer of 64 bits, or text."""
    import pyarrow

    id_type = id_type.value_type if pyarrow.types.is_dictionary(id_type) else id_type
    if not pyarrow.types.is_integer(id_type):
        return pyarrow.string()
    return id_type if pyarrow.types.is_uint64(id_type) else pyarrow.int64()


def _common_type(first: Any, second: Any) -> Any:
    """Return the type for the values of two types."""
    import pyarrow

    if first == second:
        return first
    schemas = [pyarrow.schema({"": each}) for each in (first, second)]
    try:
        return pyarrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pyarrow.ArrowException:
        return pyarrow.string()


class HashingReader:
    """Reader that knows its position in a file, and hashes the lines that it has read."""

    def __init__(
        self,
        path: str,
        file: BinaryIO,
        *,
        start: int = 0,
        number: int = 1,
        splits_at_cr: bool = False,
    ) -> None:
        """Read lines from a position in the file.

        Args:
            path: Path of the file, for messages.
            file: Open file, at its beginning.
            start: Offset of the first line, in decompressed bytes.
            number: Number of the first line, from 1.
            splits_at_cr: End a line at a lone CR too, as in FASTA.
        """
        self._lines = LineReader(path, file, first=number, splits_at_cr=splits_at_cr)
        self._lines.seek(start)
        self.number = number
        """Number of the next line."""
        self.position = start
        """Offset of the next line, in decompressed bytes."""
        self.is_compressed = self._lines.is_compressed
        """True if the file is decompressed."""
        self._digest = hashlib.sha256()
        self._next: bytes | None = None

    @property
    def is_at_end(self) -> bool:
        """True after the last line."""
        return not self._peek()

    def take_sha256(self) -> str:
        """Return the hash of the lines since the last call."""
        sha256, self._digest = self._digest.hexdigest(), hashlib.sha256()
        return sha256

    def take_lines(self, n_lines: int, *, skip_errors: bool) -> Iterator[str]:
        """Yield the next lines without the whitespace at their ends; see `LineReader.decode`."""
        for _ in range(n_lines):
            line = self._peek()
            if not line:
                return
            text = self._lines.decode(line, skip_errors=skip_errors)
            self._advance(line)
            yield text

    def take_bytes(self, n_bytes: float, starts_record: Callable[[str], bool]) -> Iterator[str]:
        """Yield the next lines, of at least `n_bytes`, up to a line that starts a record."""
        end = self.position + n_bytes
        while line := self._peek():
            text = self._lines.decode(line, skip_errors=True)
            if self.position >= end and starts_record(text):
                return
            self._advance(line)
            yield text

    def pass_bytes(self, n_bytes: float) -> None:
        """Read lines of at least `n_bytes` without decoding them."""
        end = self.position + n_bytes
        while self.position < end and (line := self._peek()):
            self._advance(line)

    def _peek(self) -> bytes:
        if self._next is None:
            self._next = self._lines.next_line()
        return self._next

    def _advance(self, line: bytes) -> None:
        self._next = None
        self._digest.update(line)
        self.position += len(line)
        self.number += 1


_FORMATS: Final = ("text", "fasta", "jsonl", "parquet")
_TOKEN_BYTES: Final = 6
"""Approximate bytes of text per token, with the space. A residue of FASTA is 1 byte."""
_BUFFER_BYTES: Final = 1 << 20


def find_input_format(text: TextSettings, path: str) -> InputFormat:
    """Return the format of a file; raise an `InputError` if runs do not support it."""
    input_format = find_format(Source(path), text.input_format)
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
        text.check_format(input_format.name, has_columns=input_format.has_columns)
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
                for entry in input_format.entries(taken, tokenizer, text):
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
        size = parquet_size(file.raw, text)
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
    if has_ids:
        text = replace(text, id_column=text.id_column or DEFAULT_ID)
    tokenizer, skip_errors = text.make_tokenizer(), text.skip_errors
    with _open(part.path) as file:
        if input_format.name == PARQUET.name:
            rows = range(part.start, part.start + part.n_records)
            entries = parquet_entries(file.raw, tokenizer, text, rows=rows)
        else:
            lines = HashingReader(
                *(part.path, file),
                start=part.start,
                number=part.line,
                splits_at_cr=input_format.splits_at_cr,
            )
            taken = lines.take_lines(part.n_lines, skip_errors=skip_errors)
            entries = _numbered_from(part.line, input_format.entries(taken, tokenizer, text))
        yield from checked_records(
            entries,
            part.path,
            skip_errors=skip_errors,
            ids="any",
            number_unit=input_format.number_unit,
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
