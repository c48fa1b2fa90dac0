"""Inputs of distributed runs: their files, split into parts, and the records of a part.

A part is a stretch of bytes between line ends, or of rows of Parquet. The records of
lines are counted by the function that reads them later, so that the numbers agree for
every content. Inputs are compared by a hash of their bytes, because size and time may
stay when the content changes.

Ids and kept columns have one type per column in all parts, which is found while parts
are split.
"""

import fnmatch
import glob
import hashlib
import io
import logging
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from multiprocessing.pool import ThreadPool
from typing import Any, BinaryIO, Final, NamedTuple

from elmo_cli.errors.exceptions import (
    ElmoError,
    InputError,
    MissingInputError,
    OtherInputError,
    SettingsError,
)
from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import SAYS_ITS_KIND, counted, first_line
from elmo_cli.files.shared_folder import Folder, check_name_is_utf8, find_file_system
from elmo_cli.options.text import DEFAULT_ID, TextSettings
from elmo_cli.outputs.parquet_writer import type_of
from elmo_cli.outputs.parts import OTHER_FOLDER
from elmo_cli.outputs.sentence_rows import kept_names
from elmo_cli.records.columns_in_text import check_is_text
from elmo_cli.records.first_texts import texts_to_tokenize
from elmo_cli.records.formats import FORMATS, find_format
from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.records.open_records import check_records
from elmo_cli.records.parquet import Parquet
from elmo_cli.records.record import Record
from elmo_cli.text.choose_tokenizer import choose_tokenizer
from elmo_cli.text.evidence import EVIDENCE_LINES
from elmo_cli.text.line_reader import LineReader
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer

logger = logging.getLogger(__name__)

_TOKEN_BYTES: Final = 6
"""Approximate bytes of text per token, with the space. A residue of FASTA is 1."""
_BUFFER_BYTES: Final = 1 << 20
BATCH_ROWS: Final = 1024
_N_THREADS: Final = 16
"""Number of inputs that are hashed at the same time."""


class Input(NamedTuple):
    """An input with the SHA-256 of its bytes."""

    path: str
    sha256: str


class Part(NamedTuple):
    """A stretch of an input, which becomes one file."""

    number: int
    first: int
    """Index of its first record in all inputs."""
    path: str
    start: int
    """Byte of the file at which it starts, or row of Parquet, from 0."""
    line: int
    """Line of the file at which it starts, or row, from 1."""
    n_lines: int
    n_records: int
    sha256: str = ""
    """SHA-256 of its bytes, after decompression. Parquet has none."""

    def __str__(self) -> str:
        records = f"{self.n_records:,} records from {self.line:,}"
        return f"part {self.number} ({self.path}, {records})"


class ColumnTypes:
    """Types of columns by their names in the output.

    A column with several types of values becomes text.
    """

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._batch: list[tuple[str | int | None, Mapping[str, object]]] = []
        # first input with ids (True), and first one without
        self.has_ids: dict[bool, str] = {}

    def add(self, record: Record) -> None:
        """Add the id and the columns of a record."""
        self._batch.append((record.id_value, record.columns))
        if len(self._batch) == BATCH_ROWS:
            self._merge_batch()

    def add_schema(self, id_type: Any, kept_types: Mapping[str, Any]) -> None:
        """Add the types of the kept columns of Parquet, and of its ids, if any."""
        if id_type is not None:
            self._merge("id", _type_of_ids(id_type))
        for old_name, name in kept_names(kept_types.keys()).items():
            self._merge(name, kept_types[old_name])

    def merged(self) -> dict[str, Any]:
        """Return the types so far; columns without a value are texts."""
        import pyarrow

        self._merge_batch()
        for name, column_type in self._types.items():
            if pyarrow.types.is_null(column_type):
                self._types[name] = pyarrow.string()
        return dict(self._types)

    def _merge_batch(self) -> None:
        ids = [each for each, _ in self._batch if each is not None]
        if ids:
            self._merge("id", type_of(ids))
        rows = [row for _, row in self._batch]
        names = kept_names(dict.fromkeys(chain.from_iterable(rows)))
        for old_name, name in names.items():
            self._merge(name, type_of([row.get(old_name) for row in rows]))
        self._batch.clear()

    def _merge(self, name: str, column_type: Any) -> None:
        if name in self._types:
            column_type = _common_type(self._types[name], column_type)
        self._types[name] = column_type


def _type_of_ids(id_type: Any) -> Any:
    """Return the type of ids from a Parquet column: an integer of 64 bits, or text."""
    import pyarrow

    if pyarrow.types.is_dictionary(id_type):
        id_type = id_type.value_type
    # Float ids become integers: see `records.rows`.
    if not (pyarrow.types.is_integer(id_type) or pyarrow.types.is_floating(id_type)):
        return pyarrow.string()
    return id_type if pyarrow.types.is_uint64(id_type) else pyarrow.int64()


def _common_type(first: Any, second: Any) -> Any:
    import pyarrow

    schemas = [pyarrow.schema({"": each}) for each in (first, second)]
    try:
        unified = pyarrow.unify_schemas(schemas, promote_options="permissive")
        return unified.field(0).type
    except pyarrow.ArrowException:
        return pyarrow.string()


class HashingReader:
    """Reader of the lines of an open file, which hashes the lines it has yielded."""

    def __init__(
        self,
        path: str,
        file: BinaryIO,
        input_format: InputFormat,
        *,
        start: int = 0,
        number: int = 1,
    ) -> None:
        """Read from the line `number`, at the byte `start` after decompression."""
        self.lines = LineReader(
            path, file, first=number, splits_at_cr=input_format.splits_at_cr
        )
        self.lines.seek(start)
        self.position = start  # offset of the next line
        self._format = input_format
        self._digest = hashlib.sha256()
        self._next: bytes | None = None

    def peek(self) -> bytes:
        """Return the next line, or empty bytes after the last one."""
        if self._next is None:
            self._next = self.lines.next_line()
        return self._next

    def take(self, n_bytes: float = math.inf) -> Iterator[bytes]:
        """Yield at least `n_bytes` of lines, up to a line that starts a record."""
        end = self.position + n_bytes
        line = self.peek()
        while line and (self.position < end or not self._starts_record(line)):
            self._digest.update(line)
            self.position += len(line)
            self._next = None
            yield line
            line = self._next = self.lines.next_line()

    @property
    def number(self) -> int:
        """Number of the next line."""
        if self._next is None:
            return self.lines.number + 1
        return self.lines.number

    def take_sha256(self) -> str:
        """Return the hash of the lines since the last call."""
        sha256 = self._digest.hexdigest()
        self._digest = hashlib.sha256()
        return sha256

    def _starts_record(self, line: bytes) -> bool:
        return self._format.starts_record(line.decode("utf-8", "replace").strip())


def find_input_format(text: TextSettings, path: str) -> InputFormat:
    """Return the format of a file; raise an `InputError` if runs do not support it."""
    source = Source(path)
    input_format = find_format(source, text.input_format)
    if input_format.is_plain and text.input_format is None:
        check_is_text(source)
    if not input_format.has_parts:
        problem = f"{path}: {input_format.name} cannot be distributed"
        others = ", ".join(each.name for each in FORMATS.values() if each.has_parts)
        raise InputError(f"{problem}. Convert it to {others}.")
    return input_format


def find_inputs(patterns: tuple[str, ...], folder: Folder) -> list[Input]:
    """Find and hash the files of paths, URIs and patterns.

    Files in the output `folder` are skipped.
    """
    paths = find_paths(patterns, folder)
    with ThreadPool(_N_THREADS) as pool:
        hashes = pool.map(sha256_of, paths)
    return [Input(path, sha256) for path, sha256 in zip(paths, hashes, strict=True)]


def find_paths(patterns: tuple[str, ...], folder: Folder) -> list[str]:
    """Find the files of paths, URIs and patterns outside the output `folder`."""
    paths: list[str] = []
    for pattern in patterns:
        found = _matching_files(pattern)
        outside = [path for path in found if not folder.holds(path)]
        if not outside:
            raise InputError(
                f"{pattern}: the input is in the output folder. {OTHER_FOLDER}"
            )
        n_inside = len(found) - len(outside)
        if n_inside:
            left_out = counted(n_inside, "file")
            logger.warning(
                "%s: skipped %s in the output folder",
                pattern,
                left_out,
                extra=SAYS_ITS_KIND,
            )
        paths += outside
    return paths


def read_first_texts_of(path: str, settings: TextSettings) -> list[str]:
    """Return the texts to tokenize in the first records of a file.

    Errors are left for the reader of the whole file to report.
    """
    text = TextInput(
        source=Source(path),
        settings=settings,
        format=find_input_format(settings, path),
        tokenizer=WHITESPACE,
    )

    def read(text: TextInput) -> Iterable[Record]:
        if isinstance(text.format, Parquet):
            return text.format.parse_file(file.raw, text)
        reader = HashingReader(path, file, text.format)
        decode = partial(reader.lines.decode, skip_errors=True)
        return text.format.parse(map(decode, reader.take()), text)

    texts: list[str] = []
    with suppress(ElmoError), _open(path) as file:
        texts += islice(texts_to_tokenize(text, read), EVIDENCE_LINES)
    return texts


def sha256_of(path: str) -> str:
    """Return the hash of a file."""
    digest = hashlib.sha256()
    with _open(path) as file:
        while content := file.read(_BUFFER_BYTES):
            digest.update(content)
    return digest.hexdigest()


def _matching_files(pattern: str) -> list[str]:
    """Return the files of a pattern, or the pattern itself if it matches no file."""
    check_name_is_utf8(pattern)
    if "://" not in pattern:
        paths = [pattern]
        if not os.path.exists(pattern):
            paths = sorted(glob.glob(pattern, recursive=True)) or [pattern]
        return [os.path.abspath(path) for path in paths]
    folder, _, name_pattern = pattern.rpartition("/")
    names: list[str] = []
    if glob.has_magic(name_pattern):
        names = fnmatch.filter(Folder(folder).names(), name_pattern)
    return [f"{folder}/{name}" for name in names] or [pattern]


def split_inputs(
    paths: Iterable[str], text: TextSettings, n_tokens: float
) -> tuple[list[Part], dict[str, Any]]:
    """Split inputs into parts of about `n_tokens` tokens.

    A compressed file is one part. The types of the kept columns, and of the column `id`
    if there are ids, are returned too.
    """
    parts: list[Part] = []
    n_records = 0
    types = ColumnTypes()
    split_texts = set[bool]()  # whether the texts of records are split
    for path in paths:
        input_format = find_input_format(text, path)
        split_texts.add(text.split_sentences and input_format.has_columns)
        if len(split_texts) > 1:
            problem = "{path}: {--split-sentences} requires text alone, or tables alone"
            remedy = "Embed them to two folders."
            raise SettingsError(Message(problem, remedy=remedy, path=path))
        input_format.check_settings(text)
        # A residue of FASTA is a token of one byte.
        token_bytes = 1 if input_format.has_sequences else _TOKEN_BYTES
        n_bytes = max(1, int(n_tokens * token_bytes))
        source = TextInput(
            source=Source(path),
            settings=text,
            format=input_format,
            tokenizer=choose_tokenizer(text, "lines"),
        )
        if isinstance(input_format, Parquet):
            parts_of_input = _split_rows(source, input_format, n_bytes, types)
        else:
            parts_of_input = _split_lines(source, n_bytes, types)
        for part in parts_of_input:
            parts.append(part._replace(number=len(parts), first=n_records))
            n_records += part.n_records
    if len(types.has_ids) > 1:
        raise InputError(
            f"{types.has_ids[False]}: no ids, but the records of {types.has_ids[True]} "
            "have ids. Embed the inputs with ids and those without to two folders."
        )
    return parts, types.merged()


def _split_lines(text: TextInput, n_bytes: int, types: ColumnTypes) -> Iterator[Part]:
    """Yield parts of a file of lines, numbered 0.

    Its ids and columns are added to `types`.
    """
    path = text.source.name
    input_format = text.format
    splits_by = None if input_format.has_columns else text.tokenizer.splits_by
    # Tokens are not counted here, and a tokenizer takes longer than everything else.
    without_tokens = Tokenizer(tokenize=lambda _: [], splits_by=splits_by)
    text = replace(text, tokenizer=without_tokens)
    is_record_per_line = input_format.is_plain and splits_by is None
    has_ids: bool | None = None  # None until a record tells it
    if input_format.ids != "by_first_record":
        has_ids = input_format.ids == "always"
    with _open(path) as file:
        reader = HashingReader(path, file, input_format)
        limit = math.inf if reader.lines.is_compressed else n_bytes
        while reader.peek():
            start = reader.position
            number = reader.number
            n_records = 0
            taken = reader.take(limit)
            if is_record_per_line:
                n_records = sum(1 for _ in taken)
            else:
                lines = map(partial(reader.lines.decode, skip_errors=True), taken)
                for record in input_format.parse(lines, text):
                    n_records += 1
                    if record.error is None:
                        has_ids = has_ids or record.id is not None
                        types.add(record)
            yield Part(
                number=0,
                first=0,
                path=path,
                start=start,
                line=number,
                n_lines=reader.number - number,
                n_records=n_records,
                sha256=reader.take_sha256(),
            )
    if has_ids is not None:
        types.has_ids.setdefault(has_ids, path)


def _split_rows(
    text: TextInput, input_format: Parquet, n_bytes: int, types: ColumnTypes
) -> Iterator[Part]:
    """Yield parts of a file of rows; see `_split_lines`."""
    path = text.source.name
    with _open(path) as file:
        footer = input_format.read_footer(file.raw, text)
    types.add_schema(footer.id_type, footer.kept_types)
    types.has_ids.setdefault(footer.id_type is not None, path)
    step = max(1, footer.n_rows * n_bytes // max(1, footer.n_text_bytes))
    for start in range(0, footer.n_rows, step):
        n_here = min(step, footer.n_rows - start)
        yield Part(
            number=0,
            first=0,
            path=path,
            start=start,
            line=start + 1,
            n_lines=n_here,
            n_records=n_here,
        )


def read_part(part: Part, settings: TextSettings, *, has_ids: bool) -> Iterator[Record]:
    """Yield the records of a part. With `skip_errors`, invalid ones have an `error`.

    With `has_ids`, a record of a table without an id is invalid. An `OtherInputError`
    is raised after the last record if the bytes differ from the plan's.
    """
    input_format = find_input_format(settings, part.path)
    if has_ids:
        settings = replace(settings, id_column=settings.id_column or DEFAULT_ID)
    text = TextInput(
        source=Source(part.path),
        settings=settings,
        format=input_format,
        tokenizer=choose_tokenizer(settings, "lines"),
    )
    with _open(part.path) as file:
        if isinstance(input_format, Parquet):
            rows = range(part.start, part.start + part.n_records)
            yield from check_records(
                input_format.parse_file(file.raw, text, rows=rows), text
            )
            return
        reader = HashingReader(
            part.path, file, input_format, start=part.start, number=part.line
        )
        # A damaged plan has any number.
        n_lines = min(max(part.n_lines, 0), sys.maxsize)
        taken = islice(reader.take(), n_lines)
        decode = partial(reader.lines.decode, skip_errors=settings.skip_errors)
        records = input_format.parse(map(decode, taken), text)
        yield from check_records(records, text)
        if reader.take_sha256() != part.sha256:
            raise changed_error(part.path)


def changed_error(path: str) -> OtherInputError:
    """Return the error for an input that is not the plan's any more."""
    return OtherInputError(
        f"{path}: the file has changed since the plan was made. {OTHER_FOLDER}"
    )


@contextmanager
def _open(path: str) -> Iterator[io.BufferedReader]:
    """Open a file. Errors of the file in the block name it."""
    file_system, inner = find_file_system(path)
    from pyarrow import ArrowInvalid

    try:
        if not file_system.get_file_info(inner).is_file:
            raise MissingInputError(f"{path}: no such file")
        with io.BufferedReader(
            file_system.open_input_file(inner), _BUFFER_BYTES
        ) as file:
            yield file
    except ElmoError:
        raise
    except (ArrowInvalid, OSError) as error:
        raise InputError(
            f"{path}: cannot read the input: {first_line(error)}"
        ) from error
