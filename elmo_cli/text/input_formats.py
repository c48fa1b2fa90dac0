"""Input formats: how the format of a file is found, and how its records are read.

Options for reading records.

Checks of the records of an input: their errors, their ids, and the lengths of their tokens.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO, Final, Literal, NamedTuple, Protocol

from elmo_cli.errors import InputError, check_choice
from elmo_cli.text.parsers import (
    DEFAULT_FIELDS,
    Entry,
    Fields,
    conllu_entries,
    fasta_entries,
    join_paragraphs,
    json_entries,
    text_entries,
    warn_about_wrapping,
)
from elmo_cli.text.records import Record
from elmo_cli.text.report import (
    LongTokens,
    TokenLimit,
    warn_about_blank_lines,
    warn_about_tokenizer,
)
from elmo_cli.text.sources import (
    HEAD_BYTES,
    LATIN1_ADVICE,
    begins_fasta,
    binary_error,
    check_input,
    decompressed,
    name_of,
    open_lines,
    open_text,
    text_type,
    unread_suffix,
    without_compression,
)
from elmo_cli.text.tables import (
    TableError,
    csv_entries,
    json_array_entries,
    parquet_entries,
    tsv_entries,
)
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading records."""

    text_column: str | None = None
    """Column of a table, or field of its rows, with the text; by default `tokens` or `text`."""
    id_column: str | None = None
    """Column of a table with the ids; by default `id`, if there is one."""
    keep_columns: tuple[str, ...] | None = ()
    """Columns that go into `Record.columns`; None for all others."""
    paragraphs: bool = False
    """True if the lines of a text until a blank line belong together."""
    token_limit: TokenLimit | None = None
    """Length of a token that the model reads; a warning counts longer tokens."""
    ids_name_datasets: bool = True
    """True if an id that cannot name a dataset of HDF5 is an error."""
    has_integer_ids: bool = False
    """True if the ids of CSV or TSV are the texts of integers."""
    ignores_ids: bool = False
    """True if ids are ignored, because nothing is named after them."""
    compares_ids: bool = True
    """True if a repeated id is an error, and an id if other records have none."""
    is_quiet: bool = False
    """True if no warning is logged, because the text has been read before."""

    @property
    def fields(self) -> Fields:
        """Columns that are read."""
        text = DEFAULT_FIELDS.text if self.text_column is None else (self.text_column,)
        is_required = self.id_column is not None and not self.ignores_ids
        identifier = None if self.ignores_ids else self.id_column or DEFAULT_FIELDS.id
        return Fields(text, identifier, is_required, self.keep_columns, self.has_integer_ids)

    def check(self, format_name: str, *, has_columns: bool) -> None:
        """Raise an `InputError` if an option has no effect with a format."""
        is_chosen = {
            "--text-column": self.text_column is not None,
            "--id-column": self.id_column is not None,
            "--keep-columns": self.keep_columns != (),
        }
        for option in is_chosen:
            if is_chosen[option] and not has_columns:
                raise InputError(f"{option} has no effect with {format_name}: it has no columns")
        if self.paragraphs and format_name != "text":
            raise InputError(f"--paragraphs requires text, found {format_name}")


DEFAULT_OPTIONS: Final = ReadOptions()


_MAX_NAME_BYTES: Final = 65_531
"""Maximum size of an id in npz: 2 bytes hold the length of a name, and `.npy` is part of it."""


def checked_records(
    entries: Iterable[Entry],
    name: str,
    skip_errors: bool,
    *,
    number_unit: str = "line",
    options: ReadOptions = DEFAULT_OPTIONS,
) -> Iterator[Record]:
    """Yield the records of entries after checking their ids.

    Args:
        entries: Entries of an input.
        name: Name of the input for error messages.
        skip_errors: Yield an invalid record with its error and without tokens and id.
        number_unit: Unit that the numbers of entries count in error messages.
        options: Options for ids and long tokens.

    Raises:
        InputError: an entry is invalid. The records before it have been yielded.
    """
    numbers: dict[str | None, int] = {}
    counts = _Counts(options)
    try:
        for entry in entries:
            number, record, error, _ = entry
            if options.ignores_ids:
                record = record._replace(id=None)
            if error is None and (record.error is None or record.id is not None):
                error = _invalid_id(record.id, names_datasets=options.ids_name_datasets)
                if error is None and options.compares_ids:
                    error = _other_id(record.id, number, numbers, number_unit)
            if error is not None:
                error = f"{name}, {number_unit} {number}: {error}"
                if not skip_errors:
                    raise InputError(error)
                record = Record(record.text, [], error=error)
            counts.add(entry)
            yield record
    except TableError as error:
        raise InputError(f"{name}: {error}") from None
    finally:  # Only the beginning of a text may be read.
        counts.warn(number_unit)


class _Counts:
    """Counts of what the records are warned about."""

    def __init__(self, options: ReadOptions) -> None:
        limit = options.token_limit
        self._is_quiet = options.is_quiet
        self._long_tokens = None if limit is None else LongTokens(limit)
        self._n_joined = self._first_joined = 0
        """Sentences of CoNLL-U without a blank line before them."""

    def add(self, entry: Entry) -> None:
        """Count what is found in an entry."""
        if self._long_tokens is not None:
            self._long_tokens.add(entry.record.tokens, entry.line)
        if entry.has_no_blank_line:
            self._first_joined = self._first_joined or entry.line
            self._n_joined += 1

    def warn(self, number_unit: str) -> None:
        """Log the warnings, once for all records. The numbers count `number_unit`s."""
        if self._is_quiet:
            return
        if self._long_tokens is not None:
            self._long_tokens.warn(number_unit)
        if self._n_joined:
            warn_about_blank_lines(self._first_joined, self._n_joined)


def _invalid_id(identifier: str | None, *, names_datasets: bool) -> str | None:
    """Return the error of an id alone, if any."""
    if identifier is None or not names_datasets:
        return None
    if "\0" in identifier:
        return f"the id {identifier[:60]!r} has a zero byte. Remove it."
    if (n_bytes := len(identifier.encode("utf-8", "surrogatepass"))) > _MAX_NAME_BYTES:
        return (
            f"the id {identifier[:60]!r} has {n_bytes:,} bytes, and a name has at most "
            f"{_MAX_NAME_BYTES:,}. Use --layout packed, Parquet or JSON lines."
        )
    if not _can_name_dataset(identifier):
        return (
            f"the id {identifier[:60]!r} cannot name a dataset of HDF5 or npz. Use --layout "
            "packed, Parquet or JSON lines."
        )
    return None


def _other_id(
    identifier: str | None, number: int, numbers: dict[str | None, int], number_unit: str
) -> str | None:
    """Return the error of an id among others, if any, and store its number in `numbers`.

    All records have an id, or none has. Ids are unique.
    """
    if numbers and (identifier is None) != (None in numbers):
        if identifier is None:
            return "expected an id, as before, found none"
        return f"expected no id, as before, found {identifier[:60]!r}"
    first = numbers.setdefault(identifier, number)
    if identifier is not None and first != number:
        return (
            f"the id {identifier[:60]!r} is that of {number_unit} {first} already. Make the ids "
            "unique."
        )
    return None


def _can_name_dataset(identifier: str) -> bool:
    return identifier not in ("", ".") and "/" not in identifier


_CHUNK_BYTES: Final = 1 << 16


class Parser(Protocol):
    """Function that parses the text of an input into entries."""

    def __call__(
        self, lines: Iterable[str], /, tokenizer: Tokenizer, fields: Fields = ...
    ) -> Iterator[Entry]:
        """Yield the entries of lines, or of pieces of any length."""


@dataclass(frozen=True)
class InputFormat:
    """Format of an input file."""

    name: str
    unit: str
    """Word for a record in messages."""
    suffixes: tuple[str, ...]
    """Suffixes of its files; the suffix of a compression may follow."""
    entries: Parser
    has_ids: bool | None
    """True if all records have ids, False if none has, None if the first record decides."""
    has_tokens: bool
    """True if its records are tokenized."""
    read_as: Literal["lines", "raw lines", "chunks", "file"] = "lines"
    """Input of `entries`: lines without or with the whitespace at their ends, pieces of any
    length, or the file itself."""
    splits_at_cr: bool = False
    """True if a lone CR ends a line in every file, not only in files without LF."""
    has_columns: bool = False
    """True if the columns with texts and ids can be chosen."""
    is_guess: bool = False
    """True if the format was chosen because nothing was known about the input."""

    @property
    def number_unit(self) -> str:
        """Unit that the numbers of records count in messages, such as lines."""
        return "line" if "line" in self.read_as else self.unit


def _no_entries(
    lines: Iterable[str], tokenizer: Tokenizer, fields: Fields = DEFAULT_FIELDS
) -> Iterator[Entry]:
    """Raise an error, because a file of the format has no lines."""
    raise InputError("Parquet has no lines. Name a file, and read it by `open_records`.")


TEXT: Final = InputFormat("text", "line", (), text_entries, has_ids=False, has_tokens=False)
CONLLU: Final = InputFormat(
    *("conllu", "sentence", (".conllu",), conllu_entries),
    has_ids=None,
    has_tokens=True,
    splits_at_cr=True,
)
FASTA: Final = InputFormat(
    *("fasta", "sequence", (".fasta", ".fa", ".faa", ".fas"), fasta_entries),
    has_ids=True,
    has_tokens=True,
    splits_at_cr=True,
)
JSON_LINES: Final = InputFormat(
    *("jsonl", "record", (".jsonl", ".ndjson"), json_entries),
    has_ids=None,
    has_tokens=False,
    has_columns=True,
)
JSON_ARRAY: Final = replace(
    JSON_LINES, name="json", suffixes=(".json",), entries=json_array_entries, read_as="chunks"
)
CSV: Final = InputFormat(
    *("csv", "row", (".csv",), csv_entries),
    has_ids=None,
    has_tokens=False,
    read_as="raw lines",
    splits_at_cr=True,
    has_columns=True,
)
TSV: Final = replace(CSV, name="tsv", suffixes=(".tsv", ".tab"), entries=tsv_entries)
PARQUET: Final = InputFormat(
    *("parquet", "row", (".parquet", ".pq"), _no_entries),
    has_ids=None,
    has_tokens=False,
    read_as="file",
    has_columns=True,
)
FORMATS: Final = {
    each.name: each for each in (TEXT, FASTA, CONLLU, JSON_LINES, JSON_ARRAY, CSV, TSV, PARQUET)
}


def find_format(
    source: object, name: str | None = None, tokenizer: Tokenizer = WHITESPACE
) -> InputFormat:
    """Return the format of an input by its name, its content or the suffix of its path.

    Raises:
        InputError: the name is unknown, the type of the file is not read, or the tokenizer has no
            effect with the format.
    """
    if name is None:
        input_format = _guess_format(source)
    else:
        check_choice("format", name, tuple(FORMATS))
        input_format = FORMATS[name]
    if tokenizer != WHITESPACE and input_format.has_tokens:
        raise InputError(f"--tokenizer has no effect with {input_format.name}, which has tokens")
    if tokenizer.splits_by is not None and input_format.name != TEXT.name:
        raise InputError(f"--split-sentences requires text, found {input_format.name}")
    return input_format


def _guess_format(source: object) -> InputFormat:
    """Return the format of an input by the beginning of a file, or by its suffix; else text."""
    if not isinstance(source, (str, Path)):
        return replace(TEXT, is_guess=True)
    head = _read_head(source)
    content = text_type(head)
    if content != PARQUET.name and (error := binary_error(source, head)):
        raise error
    path = without_compression(str(source))
    for each in FORMATS.values():
        if path.endswith(each.suffixes):
            return each
    if content:
        return FORMATS[content]
    if unread := unread_suffix(path):
        advice = f"{unread[1]} To read it as lines of text, use --input-format text."
        raise InputError(f"{source}: {unread[0]} is not read. {advice}")
    return replace(TEXT, is_guess=not head)


def _read_head(source: str | Path) -> bytes:
    """Return the first bytes of a file, decompressed, or nothing if it cannot be read."""
    if not Path(source).is_file():
        return b""
    try:
        with open(source, "rb") as file:
            return decompressed(file).read(HEAD_BYTES)
    except Exception:  # The reader of the whole file explains the error.
        return b""


class Records(NamedTuple):
    """Records of an open file."""

    records: Iterator[Record]
    is_ready: Callable[[], bool]
    """Function that returns whether the next record can be read without a long wait."""
    has_ids: bool
    """True if the records have ids."""


@contextmanager
def open_records(
    source: IO[str] | str | Path,
    input_format: InputFormat,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    tokenizer: Tokenizer = WHITESPACE,
    skip_errors: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    options: ReadOptions = DEFAULT_OPTIONS,
) -> Iterator[Records]:
    """Open the records of a file, given by its path or already open as text: see `open_lines`.

    With `skip_errors`, an invalid record is yielded with its `error`.
    """
    options.check(input_format.name, has_columns=input_format.has_columns)
    name, fields = name_of(source), options.fields
    with _open_parsed(source, input_format, on_bytes, skip_errors, should_stop) as opened:
        parsed, is_ready = opened
        if input_format.name == TEXT.name:
            if options.paragraphs:
                parsed = join_paragraphs(parsed)
            elif not options.is_quiet:
                parsed = warn_about_wrapping(parsed)
        if input_format.is_guess:
            parsed = _refuse_other_formats(parsed, name)
        if input_format.read_as == "file":
            entries = parquet_entries(Path(str(source)), tokenizer, fields, on_bytes)
        else:
            entries = input_format.entries(parsed, tokenizer, fields)
        records = checked_records(
            *(entries, name, skip_errors),
            number_unit=input_format.number_unit,
            options=options,
        )
        is_split = tokenizer.tokenize is WHITESPACE.tokenize and not input_format.has_tokens
        if is_split and not options.is_quiet:
            records = warn_about_tokenizer(records)
        has_ids, first = input_format.has_ids and not options.ignores_ids, []
        if has_ids is None:
            for record in records:
                first.append(record)
                if record.error is None:
                    break
            has_ids = any(record.id is not None for record in first)
        yield Records(chain(first, records), is_ready, has_ids)


@contextmanager
def _open_parsed(
    source: IO[str] | str | Path,
    input_format: InputFormat,
    on_bytes: Callable[[int], object],
    skip_errors: bool,
    should_stop: Callable[[], bool],
) -> Iterator[tuple[Iterator[str], Callable[[], bool]]]:
    """Open what a format parses: lines or chunks, and see `Records.is_ready`."""
    if input_format.read_as == "file":
        if isinstance(source, (str, Path)):
            check_input(source)
        if not isinstance(source, (str, Path)) or not Path(source).is_file():
            raise InputError(f"{name_of(source)}: {input_format.name} needs a file, not a stream")
        yield iter(()), lambda: True
    elif input_format.read_as == "chunks" and isinstance(source, (str, Path)):
        with open_text(source, should_stop) as file:
            yield _read_chunks(source, file, on_bytes), lambda: True
    else:
        opened = open_lines(
            *(source, on_bytes),
            skip_errors=skip_errors,
            should_stop=should_stop,
            splits_at_cr=input_format.splits_at_cr,
            keep_ends=input_format.read_as == "raw lines",
        )
        with opened as lines:
            yield lines


def _read_chunks(
    path: str | Path, file: BinaryIO, on_bytes: Callable[[int], object]
) -> Iterator[str]:
    """Yield the text of an open file in pieces, whatever its lines are."""
    stream = decompressed(file)
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    position = n_chunks = 0
    while True:
        chunk = stream.readline(_CHUNK_BYTES)
        if not n_chunks and (refusal := binary_error(path, chunk)):
            raise refusal
        try:
            yield decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            byte = f"0x{error.object[error.start]:02x}"
            raise InputError(
                f"{name_of(path)}: not valid UTF-8 (byte {byte}). {LATIN1_ADVICE}"
            ) from None
        n_chunks += 1
        before = position
        position = position + len(chunk) if stream is file else file.tell()
        on_bytes(position - before)
        if not chunk:
            return


def _refuse_other_formats(lines: Iterable[str], name: str) -> Iterator[str]:
    """Yield the lines of a text.

    Raises:
        InputError: the first line seems to belong to another format than text.
    """
    is_first = True
    for number, line in enumerate(lines, start=1):
        if is_first and line:
            is_first = False
            content = line.encode("utf-8", "replace")
            other_format = "fasta" if begins_fasta(line) else text_type(content)
            if other_format:
                raise InputError(
                    f"{name}, line {number}: it seems to be {other_format}, not text. Use "
                    f"--input-format {other_format}, or --input-format text to read one sentence "
                    "per line."
                )
        yield line
