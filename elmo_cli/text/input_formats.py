"""Formats of inputs: what each one is, which one an input has, and its records.

`open_input` opens a source, decides its format once, and chooses its tokenizer. `open_records`
parses the records of the result. A new format is one `InputFormat` in `FORMATS`, with its parser.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, takewhile
from pathlib import Path, PurePath
from typing import IO, Final, Literal, NamedTuple

from elmo_cli.errors import InputError, SettingsError, check_choice
from elmo_cli.text.parsers import (
    LINE,
    ORIGINAL_ID,
    TO_ONE_SENTENCE_PER_LINE,
    Entry,
    conllu_entries,
    fasta_entries,
    group_words,
    json_entries,
    text_entries,
)
from elmo_cli.text.records import (
    ALL_COLUMNS,
    DEFAULT_SETTINGS,
    NO_ID,
    NumericId,
    Record,
    TextSettings,
)
from elmo_cli.text.report import UNKNOWN, Expected, InputReport, Sample
from elmo_cli.text.sources import AS_TEXT, Source, binary_error
from elmo_cli.text.tables import (
    TableError,
    delimited_entries,
    has_integer_ids,
    json_array_entries,
    parquet_entries,
)
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class InputFormat:
    """Format of an input file."""

    name: str
    unit: str
    """Word for a record in messages."""
    suffixes: tuple[str, ...]
    """Suffixes of its files; the suffix of a compression may follow."""
    entries: Callable[[Iterable[str], Tokenizer, TextSettings], Iterator[Entry]]
    """Parser of lines."""
    is_like: Callable[[Sequence[str]], object] = lambda lines: False
    """Function that recognizes the first lines of a file, none of them blank. It recognizes only
    beginnings that are unlikely in plain text."""
    has_ids: bool | None = None
    """True if all records have ids, False if none has, None if the first record decides."""
    has_tokens: bool = False
    number_unit: str = "line"
    """Unit that the numbers of records count in messages."""
    delimiter: str | None = None
    """Usual character between the fields of CSV or TSV."""
    keeps_ends: bool = False
    """True if lines are parsed with the whitespace at their ends."""
    splits_at_cr: bool = False
    """True if a lone CR ends a line in every file, not only in files without LF."""
    has_columns: bool = False
    """True if the columns with texts and ids can be chosen."""
    is_guess: bool = False
    """True if the format was chosen because nothing was known about the input."""


_FASTA_HEADER: Final = re.compile(r">[^\s>]")


def _is_fasta(lines: Sequence[str]) -> object:
    is_sequence = len(lines) > 1 and re.fullmatch(r"[A-Za-z*-]+", lines[1])
    return is_sequence and _FASTA_HEADER.match(lines[0])


def _is_jsonl(lines: Sequence[str]) -> object:
    if not lines[0].startswith('{"'):
        return False
    try:
        row = json.loads(lines[0])
    except (ValueError, RecursionError):  # A long line is cut off, so it is no valid JSON.
        return re.match(r'\{"(text|tokens|id)":', lines[0])
    return isinstance(row, dict) and ("text" in row or "tokens" in row)


def _is_conllu(lines: Sequence[str]) -> object:
    first = next((line for line in lines if not line.startswith("#")), "")
    return re.match(r"1(-\d+)?\t[^\t]+(\t[^\t]*){7}", first)


TEXT: Final = InputFormat("text", "line", (), text_entries, has_ids=False)
FASTA: Final = InputFormat(
    "fasta",
    "sequence",
    (".fasta", ".fa", ".faa", ".fas"),
    fasta_entries,
    _is_fasta,
    has_ids=True,
    has_tokens=True,
    splits_at_cr=True,
)
CONLLU: Final = InputFormat(
    "conllu",
    "sentence",
    (".conllu",),
    conllu_entries,
    _is_conllu,
    has_tokens=True,
    splits_at_cr=True,
)
JSON_LINES: Final = InputFormat(
    "jsonl", "record", (".jsonl", ".ndjson"), json_entries, _is_jsonl, has_columns=True
)
JSON_ARRAY: Final = InputFormat(
    "json",
    "record",
    (".json",),
    json_array_entries,
    lambda lines: re.match(r"\[\s*\{\s*\"", "\n".join(lines)),
    number_unit="record",
    keeps_ends=True,
    has_columns=True,
)
CSV: Final = InputFormat(
    "csv",
    "row",
    (".csv",),
    partial(delimited_entries, delimiter=","),
    delimiter=",",
    keeps_ends=True,
    splits_at_cr=True,
    has_columns=True,
)
TSV: Final = replace(
    CSV,
    name="tsv",
    suffixes=(".tsv", ".tab"),
    entries=partial(delimited_entries, delimiter="\t"),
    delimiter="\t",
)
PARQUET: Final = InputFormat(
    "parquet",
    "row",
    (".parquet", ".pq"),
    lambda lines, tokenizer, settings: iter(()),  # It has no lines; see `parquet_entries`.
    lambda lines: lines[0].startswith("PAR1\x15"),
    number_unit="row",
    has_columns=True,
)
FORMATS: Final = {
    each.name: each for each in (TEXT, FASTA, CONLLU, JSON_LINES, JSON_ARRAY, CSV, TSV, PARQUET)
}

_COMPRESSED_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes that may follow the suffix of a format."""
_CONLL: Final = (
    "If its columns 1 and 2 are those of CoNLL-U (ID and FORM), use --input-format conllu. "
    f"Otherwise {TO_ONE_SENTENCE_PER_LINE}"
)
_FASTQ: Final = """`awk 'NR%4==1 {print ">" substr($0, 2)} NR%4==2' FILE > FILE.fasta`"""
_PANDOC: Final = "Convert it, for example with `pandoc FILE -t plain --wrap=none -o FILE.txt`."
_UNREAD_SUFFIXES: Final = {
    **dict.fromkeys((".conll", ".iob", ".bio"), ("CoNLL other than CoNLL-U", _CONLL)),
    **dict.fromkeys((".fastq", ".fq"), ("FASTQ", f"Convert it to FASTA with {_FASTQ}.")),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("HTML", _PANDOC)),
    ".xml": ("XML", AS_TEXT),
}
"""Types of files that are not read, with advice, by their suffixes."""


def find_format(source: Source, name: str | None = None) -> InputFormat:
    """Return the format of an input by its name, its content or the suffix of its path."""
    if name is not None:
        check_choice("format", name, tuple(FORMATS))
        return FORMATS[name]
    if source.path is None:
        return replace(TEXT, is_guess=True)
    content = _recognize(source.head.decode("utf-8-sig", "replace"))
    if content is not PARQUET and (error := binary_error(source.name, source.head)):
        raise error
    path = source.path.lower()
    for suffix in _COMPRESSED_SUFFIXES:
        path = path.removesuffix(suffix)
    by_suffix = next((each for each in FORMATS.values() if path.endswith(each.suffixes)), None)
    if found := by_suffix or content:
        return found
    if unread := _UNREAD_SUFFIXES.get(PurePath(path).suffix):
        advice = f"{unread[1]} To read it as lines of text, use --input-format text."
        raise InputError(f"{source.name}: {unread[0]} is not read. {advice}")
    return replace(TEXT, is_guess=not source.head)


def _recognize(text: str) -> InputFormat | None:
    """Return the format of a text by its beginning, or None for plain text."""
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text) if line.strip()]
    return next((each for each in FORMATS.values() if lines and each.is_like(lines)), None)


@dataclass(frozen=True)
class TextInput:
    """Input that can be read: its source, and everything that was decided about it."""

    source: Source
    settings: TextSettings
    format: InputFormat
    tokenizer: Tokenizer
    trained: str | None = None
    """Tokenizer of the model's training text, if it is known and the format has no tokens."""

    @property
    def splits_lines(self) -> bool:
        """True if each sentence of a line is a record."""
        return self.tokenizer.splits_by is not None and not self.format.has_columns

    @property
    def splits_records(self) -> bool:
        """True if a record may have several sentences."""
        return self.tokenizer.splits_by is not None and self.format.has_columns


def open_input(
    source: Source | IO[str] | str | Path,
    settings: TextSettings = DEFAULT_SETTINGS,
    tokenizer: Tokenizer | None = None,
    *,
    trained: str | None = None,
    language: str | None = None,
    default: str = WHITESPACE.name,
) -> TextInput:
    """Open an input and decide its format and its tokenizer.

    If neither `tokenizer` nor `settings` name one, `trained` is used, with which the model was
    trained; else `moses` for a format with columns, whose texts are raw, or else `default`.
    """
    source = source if isinstance(source, Source) else Source(source)
    input_format = find_format(source, settings.input_format)
    trained = None if input_format.has_tokens else trained
    if tokenizer is None:
        default = default_tokenizer(input_format, default)
        default = default if trained is None or settings.chooses_tokenizer else trained
        tokenizer = settings.make_tokenizer(language, default)
    else:
        settings = replace(settings, tokenizer=tokenizer.name)
    if input_format.has_tokens and tokenizer.splits_by is not None:
        raise SettingsError(
            f"--split-sentences requires text or a table, found {input_format.name}"
        )
    if input_format.has_tokens and tokenizer.name != WHITESPACE.name:
        raise SettingsError(f"--tokenizer has no effect with {input_format.name}, which has tokens")
    if tokenizer.splits_by is not None and input_format.name == TEXT.name:
        input_format = replace(input_format, unit="sentence")
    return TextInput(source, settings, input_format, tokenizer, trained)


def default_tokenizer(input_format: InputFormat, default: str = WHITESPACE.name) -> str:
    """Return the tokenizer of a format: tables have raw text, other formats have `default`."""
    if input_format.has_tokens:
        return WHITESPACE.name
    return "moses" if input_format.has_columns else default


class Records(NamedTuple):
    """Records of an open input."""

    records: Iterator[Record]
    is_ready: Callable[[], bool]
    """Function that returns whether the next record can be read without a long wait."""
    has_ids: bool
    is_numbered: bool
    """True if the records have their `LINE` because their ids repeat, or may repeat in a stream."""
    example: Record
    """First valid record, or an invented one of an empty input, with its id and columns."""


_IF_TABLE: Final = ". If it is a table, use --input-format csv, or tsv with tabs."

IdUse = Literal["datasets", "rows", "all", "any", "none"]
"""Use of ids: `datasets`, they are unique and name datasets of HDF5 or npz; `rows`, records get
their `LINE` if ids repeat; `all`, ids may repeat, but all records have one, or none has; `any`,
records may lack them; `none`, they are not read."""


@contextmanager
def open_records(
    text: TextInput,
    expected: Expected = UNKNOWN,
    *,
    ids: IdUse = "all",
    finds_integers: bool = False,
    is_quiet: bool = False,
    on_bytes: Callable[[int], object] = lambda count: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Records]:
    """Open the records of an input; see `Source.lines` for the functions that are called.

    Warnings compare it with the input that a model expects. `finds_integers` reads the ids of CSV
    and TSV as integers if all of them look so.
    """
    input_format, settings = text.format, text.settings
    advice = _IF_TABLE if input_format.name == TEXT.name else ""
    has_columns = input_format.has_columns
    settings.check_format(input_format.name, has_columns=has_columns, advice=advice)
    if settings.id_column == NO_ID and input_format.has_ids is None:
        ids = "none"
    if ids == "none" and settings.word_column is None:
        text = replace(text, settings=replace(settings, id_column=NO_ID))
    with text.source:
        is_numbered = ids == "rows" and _ids_may_repeat(text, should_stop)
        entries, is_ready = _open_entries(text, on_bytes, should_stop, finds_integers)
        entries = group_words(entries, text.tokenizer) if settings.word_column else entries
        records = checked_records(
            entries,
            text.source.name,
            skip_errors=settings.skip_errors,
            ids="none" if input_format.has_ids is False else ids,
            number_unit=input_format.number_unit,
            report=None if is_quiet else _make_report(text, expected),
        )
        has_ids, first = input_format.has_ids and ids != "none", list[Record]()
        example = _example(text, has_ids=has_ids)
        if has_ids is None:
            for record in records:
                first.append(record)
                if record.error is None:
                    example = record
                    break
            has_ids = any(record.id is not None for record in [*first, example])
        if first:
            records = chain(first, records)
        if is_numbered := is_numbered and has_ids:
            records = map(_with_number, records, count())
        yield Records(records, is_ready, has_ids, is_numbered, example)


def _make_report(text: TextInput, expected: Expected) -> InputReport:
    is_text = text.format.name == TEXT.name and not text.settings.paragraphs
    is_split_at_spaces = text.tokenizer.tokenize is WHITESPACE.tokenize
    sample = Sample(is_text, is_split_at_spaces and not text.format.has_tokens, expected)
    sample.is_table = text.format.has_columns and text.tokenizer.splits_by is None
    return InputReport(sample, text.format.number_unit)


def _with_number(record: Record, number: int) -> Record:
    return record._replace(attributes={**record.attributes, LINE: number})


def _example(text: TextInput, *, has_ids: bool | None) -> Record:
    """Return an invented record for an input without valid ones."""
    keep_columns = text.settings.keep_columns
    columns = dict.fromkeys(keep_columns if keep_columns != ALL_COLUMNS else ())
    attributes = {LINE: 0} if text.splits_lines else {}
    identifier = "" if has_ids or (has_ids is None and text.settings.id_column) else None
    return Record("", [""], identifier, attributes, columns=columns)


def _ids_may_repeat(text: TextInput, should_stop: Callable[[], bool]) -> bool:
    """Return whether ids of a file repeat, and go back to its beginning; True for a stream."""
    if text.format.has_ids is False or not text.source.is_file:
        return text.format.has_ids is not False
    settings = replace(text.settings, skip_errors=True, keep_columns=())
    tokenizer = replace(text.tokenizer, tokenize=lambda _: [], splits_by=None)
    text = replace(text, settings=settings, tokenizer=tokenizer)
    seen, may_repeat = set[str](), False
    with suppress(InputError, TableError):  # Errors are reported later.
        entries, _ = _open_entries(text, lambda _: None, should_stop, finds_integers=False)
        entries = group_words(entries, tokenizer) if settings.word_column else entries
        ids = (each.record.id for each in entries if not (each.error or each.record.error))
        for number, identifier in enumerate(takewhile(bool, ids)):
            seen.add(str(identifier))
            if may_repeat := len(seen) == number:
                break
    text.source.rewind()
    return may_repeat


def _open_entries(
    text: TextInput,
    on_bytes: Callable[[int], object],
    should_stop: Callable[[], bool],
    finds_integers: bool,
) -> tuple[Iterator[Entry], Callable[[], bool]]:
    """Return the entries of an input, and see `Records.is_ready`."""
    source, input_format, settings = text.source, text.format, text.settings
    if input_format.name == PARQUET.name:
        if not source.is_file:
            source.check()
            raise InputError(f"{source.name}: {input_format.name} needs a file, not a stream")
        file, size = source.open(), source.size or 0
        entries = parquet_entries(file, text.tokenizer, settings, size=size, on_bytes=on_bytes)
        return entries, lambda: True
    is_numeric = finds_integers and source.is_file and _has_integer_ids(text)
    lines, is_ready = source.lines(
        on_bytes,
        skip_errors=settings.skip_errors,
        should_stop=should_stop,
        splits_at_cr=input_format.splits_at_cr,
        keep_ends=input_format.keeps_ends,
    )
    if input_format.is_guess:
        check_first = partial(_refuse_other_formats, source.name)
        entries = text_entries(lines, text.tokenizer, settings, check_first)
    else:
        entries = input_format.entries(lines, text.tokenizer, settings)
    return (map(_with_integer_id, entries) if is_numeric else entries), is_ready


def _refuse_other_formats(name: str, number: int, line: str) -> None:
    """Raise an `InputError` if the first line of a stream seems to be no text."""
    other = FASTA if _FASTA_HEADER.match(line) else _recognize(line)
    if other is not None:
        raise InputError(
            f"{name}, line {number}: it seems to be {other.name}, not text. Use --input-format "
            f"{other.name}, or --input-format text to read one sentence per line."
        )


def _has_integer_ids(text: TextInput) -> bool:
    """Return whether all ids of a CSV or TSV file are integers, and go back to its beginning."""
    if text.format.delimiter is None:
        return False
    lines, _ = text.source.lines(skip_errors=True, splits_at_cr=True, keep_ends=True)
    are_integers = has_integer_ids(lines, text.settings, text.format.delimiter)
    text.source.rewind()
    return are_integers


def _with_integer_id(entry: Entry) -> Entry:
    identifier = entry.record.id
    numeric = None if identifier is None else NumericId(identifier.removesuffix(".0"))
    return entry._replace(record=entry.record._replace(id=numeric))


def checked_records(
    entries: Iterable[Entry],
    name: str,
    *,
    skip_errors: bool = False,
    ids: IdUse = "all",
    number_unit: str = "line",
    report: InputReport | None = None,
) -> Iterator[Record]:
    """Yield the records of entries after checking their ids; the report sees all entries.

    An invalid entry is an `InputError`, or with `skip_errors` a record with only its text and the
    error.
    """
    numbers: dict[str | None, int] = {}
    n_ids, is_complete = 0, False
    try:
        for entry in entries:
            number, record, error, _ = entry
            if ids == "none":
                record = record if record.id is None else record._replace(id=None)
            elif error is None and (record.error is None or record.id is not None):
                error = _id_error(record, number, numbers, number_unit, ids)
                n_ids += error is None and record.id is not None
            if error is not None:
                error = f"{name}, {number_unit} {number}: {error}"
                if not skip_errors:
                    raise InputError(error)
                record = Record(record.text, [], error=error)
            if report is not None:
                report.see(entry)
            yield record
        is_complete = True
    except TableError as error:
        raise InputError(f"{name}: {error}") from None
    finally:  # Only the beginning of a text may be read.
        if report is not None:
            report.end(is_complete=is_complete)
            if (n := n_ids + (None in numbers) - len(numbers)) > 0:
                have = "1 record has" if n == 1 else f"{n:,} records have"
                message = f"{name}: {have} the id of an earlier record. See their line or index."
                logger.warning("Warning: %s", message)


_NUMBERED: Final = 'To number the records instead, use --id-column "".'
_MAX_NAME_BYTES: Final = 65_531
"""Maximum size of an id in npz: 2 bytes hold the length of a name with its suffix `.npy`."""


def _invalid_name(identifier: str | None) -> str | None:
    """Return the error of an id that names a dataset, if any."""
    if not identifier:
        return None
    name, remedy = f"the id {identifier[:60]!r}", "Use --layout packed, Parquet or JSON lines."
    if "\0" in identifier:
        return f"{name} has a zero byte. Remove it."
    if (n_bytes := len(identifier.encode("utf-8", "surrogatepass"))) > _MAX_NAME_BYTES:
        return f"{name} has {n_bytes:,} bytes, and a name has at most {_MAX_NAME_BYTES:,}. {remedy}"
    if identifier == "." or "/" in identifier:
        return f"{name} cannot name a dataset of HDF5 or npz. {remedy}"
    return None


def _id_error(
    record: Record, number: int, numbers: dict[str | None, int], number_unit: str, ids: IdUse
) -> str | None:
    """Store the number of an id. Return its error if it is missing, repeats or cannot be used."""
    identifier = record.id
    if ids == "datasets" and (error := _invalid_name(identifier)):
        return error
    # The ids of FASTA cannot be left out.
    remedy = "" if ORIGINAL_ID in record.attributes else f" {_NUMBERED}"
    if ids != "any" and numbers and (identifier is None) != (None in numbers):
        if identifier is None:
            return "expected an id, as before, found none"
        return f"expected no id, as before, found {identifier[:60]!r}"
    if ids != "any" and identifier == "":
        return f"expected an id, found an empty cell.{remedy}"
    first = numbers.setdefault(identifier, number)
    if ids == "datasets" and identifier is not None and first != number:
        name = f"the id {identifier[:60]!r}"
        return (
            f"{name} is that of {number_unit} {first} already, and ids name the datasets of HDF5 "
            f"and npz. Make them unique, or use --layout packed, Parquet or JSON lines.{remedy}"
        )
    return None
