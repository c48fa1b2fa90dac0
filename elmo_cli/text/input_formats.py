"""Formats of inputs: what each one is, which one an input has, and its records.

`open_input` opens a source, decides its format once, and chooses its tokenizer. `open_records`
parses the records of the result. A new format is one `InputFormat` in `FORMATS`, with its parser.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path, PurePath
from typing import IO, Final, NamedTuple

from elmo_cli.callbacks import ignore
from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import Message
from elmo_cli.files.file_types import AS_TEXT, PANDOC, binary_error
from elmo_cli.options.text import ALL_COLUMNS, DEFAULT_SETTINGS, NO_ID, TextSettings
from elmo_cli.text import parsers, tables
from elmo_cli.text.ids import IdUse, checked_records
from elmo_cli.text.records import Record
from elmo_cli.text.report import UNKNOWN, Expected, InputReport, Sample
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, chosen_tokenizer


@dataclass(frozen=True)
class InputFormat:
    """Format of an input file."""

    name: str
    unit: str  # word for a record in messages
    suffixes: tuple[
        str, ...
    ]  # suffixes of its files; the suffix of a compression may follow
    # Parser of lines.
    entries: Callable[[Iterable[str], Tokenizer, TextSettings], Iterator[parsers.Entry]]
    # Recognizes the first lines of a file, none of them blank, if they are unlikely in plain text.
    is_like: Callable[[Sequence[str]], object] = ignore
    has_ids: bool | None = None  # None if the first record decides for all records
    has_tokens: bool = False
    number_unit: str = "line"  # unit that the numbers of records count in messages
    delimiter: str | None = None  # usual character between the fields of CSV or TSV
    # True if lines are parsed with the whitespace at their ends
    keeps_ends: bool = False
    splits_at_cr: bool = False  # True if a lone CR ends a line, also in files with LF
    has_columns: bool = False  # True if the columns with texts and ids can be chosen
    is_guess: bool = False  # True if nothing was known about the input


_FASTA_HEADER: Final = re.compile(r">[^\s>]")


def _is_fasta(lines: Sequence[str]) -> object:
    is_sequence = len(lines) > 1 and re.fullmatch(r"[A-Za-z*-]+", lines[1])
    return is_sequence and _FASTA_HEADER.match(lines[0])


def _is_jsonl(lines: Sequence[str]) -> object:
    if not lines[0].startswith('{"'):
        return False
    try:
        row = json.loads(lines[0])
    except (
        ValueError,
        RecursionError,
    ):  # A long line is cut off, so it is no valid JSON.
        return re.match(r'\{"(text|tokens|id)":', lines[0])
    return isinstance(row, dict) and not row.keys().isdisjoint(
        ("text", "tokens", "token")
    )


def _is_conllu(lines: Sequence[str]) -> object:
    first = next((line for line in lines if not line.startswith("#")), "")
    return re.match(r"1(-\d+)?\t[^\t]+(\t[^\t]*){7}", first)


TEXT: Final = InputFormat("text", "line", (), parsers.text_entries, has_ids=False)
FASTA: Final = InputFormat(
    "fasta",
    "sequence",
    (".fasta", ".fa", ".faa", ".fas"),
    parsers.fasta_entries,
    _is_fasta,
    has_ids=True,
    has_tokens=True,
    splits_at_cr=True,
)
CONLLU: Final = InputFormat(
    "conllu",
    "sentence",
    (".conllu",),
    parsers.conllu_entries,
    _is_conllu,
    has_tokens=True,
    splits_at_cr=True,
)
JSON_LINES: Final = InputFormat(
    "jsonl",
    "record",
    (".jsonl", ".ndjson"),
    parsers.json_entries,
    _is_jsonl,
    has_columns=True,
)
JSON_ARRAY: Final = InputFormat(
    "json",
    "record",
    (".json",),
    tables.json_array_entries,
    lambda lines: re.match(r"\[\s*\{\s*\"", "\n".join(lines)),
    number_unit="record",
    keeps_ends=True,
    has_columns=True,
)
CSV: Final = InputFormat(
    "csv",
    "row",
    (".csv",),
    partial(tables.delimited_entries, delimiter=","),
    delimiter=",",
    keeps_ends=True,
    splits_at_cr=True,
    has_columns=True,
)
TSV: Final = replace(
    CSV,
    name="tsv",
    suffixes=(".tsv", ".tab"),
    entries=partial(tables.delimited_entries, delimiter="\t"),
    delimiter="\t",
)
PARQUET: Final = InputFormat(
    "parquet",
    "row",
    (".parquet", ".pq"),
    lambda lines, tokenizer, settings: iter(
        ()
    ),  # It has no lines; see `parquet_entries`.
    lambda lines: lines[0].startswith("PAR1\x15"),
    number_unit="row",
    has_columns=True,
)
FORMATS: Final = {
    each.name: each
    for each in (TEXT, FASTA, CONLLU, JSON_LINES, JSON_ARRAY, CSV, TSV, PARQUET)
}

_COMPRESSED_SUFFIXES: Final = (
    ".gz",
    ".bz2",
    ".xz",
    ".zst",
)  # follow the suffix of a format
_CONLL: Final = (
    "If its columns 1 and 2 are those of CoNLL-U (ID and FORM), use --input-format conllu. "
    f"Otherwise {parsers.TO_ONE_SENTENCE_PER_LINE}"
)
_FASTQ: Final = (
    """`awk 'NR%4==1 {print ">" substr($0, 2)} NR%4==2' FILE > FILE.fasta`"""
)
_UNREAD_SUFFIXES: Final = {
    **dict.fromkeys((".conll", ".iob", ".bio"), ("CoNLL other than CoNLL-U", _CONLL)),
    **dict.fromkeys(
        (".fastq", ".fq"), ("FASTQ", f"Convert it to FASTA with {_FASTQ}.")
    ),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("HTML", PANDOC)),
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
    if _recognize(source.first_line.decode("utf-8-sig", "replace")) is JSON_LINES:
        return JSON_LINES
    content = _recognize(source.head.decode("utf-8-sig", "replace"))
    if content is not PARQUET and (error := binary_error(source.name, source.head)):
        raise error
    path = source.path.lower()
    for suffix in _COMPRESSED_SUFFIXES:
        path = path.removesuffix(suffix)
    by_suffix = next(
        (each for each in FORMATS.values() if path.endswith(each.suffixes)), None
    )
    if by_suffix is JSON_ARRAY and content is JSON_LINES:
        return content
    if found := by_suffix or content:
        return found
    if unread := _UNREAD_SUFFIXES.get(PurePath(path).suffix):
        advice = f"{unread[1]} To read it as lines of text, use --input-format text."
        raise InputError(f"{source.name}: {unread[0]} is not read. {advice}")
    return replace(TEXT, is_guess=not source.head)


def _recognize(text: str) -> InputFormat | None:
    """Return the format of a text by its beginning, or None for plain text."""
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text) if line.strip()]
    return next(
        (each for each in FORMATS.values() if lines and each.is_like(lines)), None
    )


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
    with_rows = _with_token_rows(settings, source, input_format)
    settings, trained = with_rows, trained if with_rows == settings else None
    if tokenizer is None:
        default = default_tokenizer(input_format, default)
        tokenizer = chosen_tokenizer(settings, language, default, trained)
    else:
        settings = replace(settings, tokenizer=tokenizer.name)
    if input_format.has_tokens and tokenizer.splits_by is not None:
        raise SettingsError(
            f"--split-sentences requires text or a table, found {input_format.name}"
        )
    if input_format.has_tokens and tokenizer.name != WHITESPACE.name:
        raise SettingsError(
            f"--tokenizer has no effect with {input_format.name}, which has tokens"
        )
    if tokenizer.splits_by is not None and input_format.name == TEXT.name:
        input_format = replace(input_format, unit="sentence")
    return TextInput(source, settings, input_format, tokenizer, trained)


def names_in_head(
    source: Source, input_format: InputFormat, settings: TextSettings = DEFAULT_SETTINGS
) -> list[str]:
    """Return the columns of a table, or the fields of its first object; none if it has no head."""
    head = (source.head or source.first_line).decode("utf-8-sig", "replace")
    if input_format.delimiter is not None:
        return tables.column_names(
            head.splitlines(keepends=True), settings, input_format.delimiter
        )
    with suppress(TypeError, ValueError, RecursionError):  # Errors are reported later.
        if input_format in (JSON_LINES, JSON_ARRAY):
            return [*json.JSONDecoder().raw_decode(head.lstrip("[ \r\n"))[0]]
    return []


def _with_token_rows(
    settings: TextSettings, source: Source, input_format: InputFormat
) -> TextSettings:
    """Return settings that join the rows of `elmo surprisal`, one per token, to their texts."""
    if settings.text_column is not None or settings.word_column is not None:
        return settings
    names = names_in_head(source, input_format, settings)
    if "token" not in names or not any(name.startswith("surprisal") for name in names):
        return settings
    id_column = settings.id_column or ("line" if "line" in names else None)
    tokenizer = settings.tokenizer or WHITESPACE.name
    return replace(
        settings, word_column="token", id_column=id_column, tokenizer=tokenizer
    )


def default_tokenizer(input_format: InputFormat, default: str = WHITESPACE.name) -> str:
    """Return the tokenizer of a format: tables have raw text, other formats have `default`."""
    of_text = "moses" if input_format.has_columns else default
    return WHITESPACE.name if input_format.has_tokens else of_text


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


_IF_TABLE: Final = Message(
    ". If it is a table, use {--input-format csv}, or tsv with tabs."
)


@contextmanager
def open_records(
    text: TextInput,
    expected: Expected = UNKNOWN,
    *,
    ids: IdUse = "all",
    finds_integers: bool = False,
    is_quiet: bool = False,
    on_bytes: Callable[[int], object] = ignore,
    should_stop: Callable[[], bool] = ignore,
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
        is_numbered, are_integers = _survey_ids(
            text,
            should_stop,
            finds_repeats=ids == "rows",
            finds_integers=finds_integers,
        )
        entries, is_ready = _open_entries(text, on_bytes, should_stop)
        entries = map(tables.with_integer_id, entries) if are_integers else entries
        entries = (
            parsers.group_words(entries, text.tokenizer)
            if settings.word_column
            else entries
        )
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
        records = chain(first, records) if first else records
        if is_numbered := is_numbered and has_ids:
            records = map(_with_number, records, count())
        yield Records(records, is_ready, has_ids, is_numbered, example)


def _make_report(text: TextInput, expected: Expected) -> InputReport:
    has_lines = text.format.name == TEXT.name
    is_text, has_columns = (
        has_lines and not text.settings.paragraphs,
        text.format.has_columns,
    )
    is_split_at_spaces = text.tokenizer.tokenize is WHITESPACE.tokenize
    sample = Sample(
        is_text, is_split_at_spaces and not text.format.has_tokens, expected
    )
    sample.is_table = has_columns
    sample.is_whole = text.tokenizer.splits_by is None and (has_columns or has_lines)
    if text.settings.text_option == "--regions":
        sample.region_column = text.settings.text_column
    return InputReport(sample, text.format.number_unit)


def _with_number(record: Record, number: int) -> Record:
    return record._replace(attributes={**record.attributes, parsers.LINE: number})


def _example(text: TextInput, *, has_ids: bool | None) -> Record:
    """Return an invented record for an input without valid ones."""
    keep_columns = text.settings.keep_columns
    columns = dict.fromkeys(keep_columns if keep_columns != ALL_COLUMNS else ())
    attributes = {parsers.LINE: 0} if text.splits_lines else {}
    identifier = (
        "" if has_ids or (has_ids is None and text.settings.id_column) else None
    )
    return Record("", [""], identifier, attributes, columns=columns)


def _survey_ids(
    text: TextInput,
    should_stop: Callable[[], bool],
    *,
    finds_repeats: bool,
    finds_integers: bool,
) -> tuple[bool, bool]:
    """Return whether ids may repeat, as in a stream, and whether all ids of a table are integers.

    A file is read once, as far as the answers need it, and then from its beginning again.
    """
    may_have_ids = text.format.has_ids is not False
    are_integers = finds_integers and text.format.delimiter is not None
    if not (may_have_ids and text.source.is_file and (finds_repeats or are_integers)):
        return finds_repeats and may_have_ids, False
    settings = replace(text.settings, skip_errors=True, keep_columns=())
    tokenizer = Tokenizer(tokenize=lambda _: [])
    text = replace(text, settings=settings, tokenizer=tokenizer)
    seen, may_repeat = set[str | None](), False
    with suppress(InputError, tables.TableError):  # Errors are reported later.
        if text.format.name == PARQUET.name:
            entries = tables.parquet_entries(
                text.source.open(), tokenizer, settings, only_ids=True
            )
        else:
            entries, _ = _open_entries(text, ignore, should_stop)
        entries = (
            parsers.group_words(entries, tokenizer) if settings.word_column else entries
        )
        ids = (
            each.record.id for each in entries if not (each.error or each.record.error)
        )
        for number, identifier in enumerate(ids):
            seen.add(identifier)
            may_repeat = may_repeat or len(seen) == number
            are_integers = are_integers and tables.is_integer(identifier or "")
            if not identifier or not (
                are_integers or (finds_repeats and not may_repeat)
            ):
                break
    text.source.rewind()
    return may_repeat, are_integers and bool(seen)


def _open_entries(
    text: TextInput, on_bytes: Callable[[int], object], should_stop: Callable[[], bool]
) -> tuple[Iterator[parsers.Entry], Callable[[], bool]]:
    """Return the entries of an input, and see `Records.is_ready`."""
    source, input_format, settings = text.source, text.format, text.settings
    if input_format.name == PARQUET.name:
        if not source.is_file:
            source.check()
            raise InputError(
                f"{source.name}: {input_format.name} needs a file, not a stream"
            )
        file, size = source.open(), source.size or 0
        entries = tables.parquet_entries(
            file, text.tokenizer, settings, size=size, on_bytes=on_bytes
        )
        return entries, lambda: True
    lines, is_ready = source.lines(
        on_bytes,
        skip_errors=settings.skip_errors,
        should_stop=should_stop,
        splits_at_cr=input_format.splits_at_cr,
        keep_ends=input_format.keeps_ends,
    )
    if input_format.is_guess:
        check_first = partial(_refuse_other_formats, source.name)
        return parsers.text_entries(
            lines, text.tokenizer, settings, check_first
        ), is_ready
    return input_format.entries(lines, text.tokenizer, settings), is_ready


def _refuse_other_formats(name: str, number: int, line: str) -> None:
    """Raise an `InputError` if the first line of a stream seems to be no text."""
    if other := FASTA if _FASTA_HEADER.match(line) else _recognize(line):
        raise InputError(
            f"{name}, line {number}: it seems to be {other.name}, not text. Use --input-format "
            f"{other.name}, or --input-format text to read one sentence per line."
        )
