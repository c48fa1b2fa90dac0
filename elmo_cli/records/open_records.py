"""Records of an open input, with the checks of their ids and the warnings about them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Final, NamedTuple

from elmo_cli.callbacks import ignore
from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.text import ALL_COLUMNS, NO_ID
from elmo_cli.records.columns import TableError
from elmo_cli.records.formats import FASTA, FASTA_HEADER, PARQUET, TEXT, recognize
from elmo_cli.records.ids import IdUse, checked_records, is_integer, with_integer_id
from elmo_cli.records.parquet import parquet_entries
from elmo_cli.records.plain_text import text_entries
from elmo_cli.records.record import LINE, Entry, Record
from elmo_cli.records.report import UNKNOWN, Expected, InputReport, Sample
from elmo_cli.records.text_input import TextInput
from elmo_cli.records.words import group_words
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer


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
        entries = map(with_integer_id, entries) if are_integers else entries
        entries = (
            group_words(entries, text.tokenizer) if settings.word_column else entries
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
    return record._replace(attributes={**record.attributes, LINE: number})


def _example(text: TextInput, *, has_ids: bool | None) -> Record:
    """Return an invented record for an input without valid ones."""
    keep_columns = text.settings.keep_columns
    columns = dict.fromkeys(keep_columns if keep_columns != ALL_COLUMNS else ())
    attributes = {LINE: 0} if text.splits_lines else {}
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
    with suppress(InputError, TableError):  # Errors are reported later.
        if text.format.name == PARQUET.name:
            entries = parquet_entries(
                text.source.open(), tokenizer, settings, only_ids=True
            )
        else:
            entries, _ = _open_entries(text, ignore, should_stop)
        entries = group_words(entries, tokenizer) if settings.word_column else entries
        ids = (
            each.record.id for each in entries if not (each.error or each.record.error)
        )
        for number, identifier in enumerate(ids):
            seen.add(identifier)
            may_repeat = may_repeat or len(seen) == number
            are_integers = are_integers and is_integer(identifier or "")
            if not identifier or not (
                are_integers or (finds_repeats and not may_repeat)
            ):
                break
    text.source.rewind()
    return may_repeat, are_integers and bool(seen)


def _open_entries(
    text: TextInput, on_bytes: Callable[[int], object], should_stop: Callable[[], bool]
) -> tuple[Iterator[Entry], Callable[[], bool]]:
    """Return the entries of an input, and see `Records.is_ready`."""
    source, input_format, settings = text.source, text.format, text.settings
    if input_format.name == PARQUET.name:
        if not source.is_file:
            source.check()
            raise InputError(
                f"{source.name}: {input_format.name} needs a file, not a stream"
            )
        file, size = source.open(), source.size or 0
        entries = parquet_entries(
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
        return text_entries(lines, text.tokenizer, settings, check_first), is_ready
    return input_format.entries(lines, text.tokenizer, settings), is_ready


def _refuse_other_formats(name: str, number: int, line: str) -> None:
    """Raise an `InputError` if the first line of a stream seems to be no text."""
    if other := FASTA if FASTA_HEADER.match(line) else recognize(line):
        raise InputError(
            f"{name}, line {number}: it seems to be {other.name}, not text. Use --input-format "
            f"{other.name}, or --input-format text to read one sentence per line."
        )
