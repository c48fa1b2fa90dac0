"""Records of an open input, with checks of their ids and warnings about them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from elmo_cli.callbacks import ignore, never
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.options.text import ALL_COLUMNS, DEFAULT_ID, NO_ID
from elmo_cli.records.empty_input import require_tokens
from elmo_cli.records.formats import refuse_other_formats
from elmo_cli.records.ids import (
    IdChecker,
    IdRules,
    IdSurvey,
    survey_ids,
    with_integer_id,
    with_integer_parts,
)
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.merged_texts import note_merged
from elmo_cli.records.missing_header import log_missing_header
from elmo_cli.records.record import Record
from elmo_cli.records.warnings.expected import UNKNOWN, Expected
from elmo_cli.records.warnings.input_report import InputReport, report_for
from elmo_cli.records.words import group_words, note_scattered

_FREE_IDS: Final = IdRules()


class Records(NamedTuple):
    """Records of an open input."""

    records: Iterator[Record]
    is_ready: Callable[[], bool]
    """Function that says whether the next record can be read without a long wait."""
    has_ids: bool
    is_numbered: bool
    """True if records have their number as `line`, because their ids may repeat."""
    example: Record
    """First valid record, or an invented one of an empty input."""


@contextmanager
def open_records(
    text_input: TextInput,
    expected: Expected = UNKNOWN,
    *,
    id_rules: IdRules = _FREE_IDS,
    reads_ids: bool = True,
    is_quiet: bool = False,
    on_bytes: Callable[[int], object] = ignore,
    should_stop: Callable[[], bool] = never,
) -> Iterator[Records]:
    """Open the records of an input, and close it at the end.

    Args:
        text_input: The input.
        expected: What the model and the command expect, which warnings compare with the
            input.
        id_rules: What the output asks of the ids. By default only that all records have
            an id, or none has one.
        reads_ids: Give the records their ids. If not, they have none.
        is_quiet: Log no warnings.
        on_bytes, should_stop: As in `Source.lines`.
    """
    text_input.format.check_settings(text_input.settings, suggests_table=True)
    keeps_ids = reads_ids and _may_have_ids(text_input)
    settings = text_input.settings
    # In a table of words, ids are read in any case: they show which words are one text.
    # A column that is named is read too, so that a wrong name is an error.
    if not keeps_ids and settings.word_column is None and settings.id_column is None:
        settings = replace(settings, id_column=NO_ID)
        text_input = replace(text_input, settings=settings)
    with text_input.source:
        survey = survey_ids(
            text_input,
            should_stop,
            find_repeats=id_rules.number_if_repeated and keeps_ids,
            find_integers=id_rules.find_integers,
        )
        if text_input.format.has_cells and not is_quiet:
            log_missing_header(text_input.settings, text_input.text_option)
        # Each of these steps takes records from the one before, one at a time.
        records, is_ready = _read_records(
            text_input,
            survey,
            keeps_ids=keeps_ids,
            is_quiet=is_quiet,
            on_bytes=on_bytes,
            should_stop=should_stop,
        )
        if not is_quiet:
            records = require_tokens(records, text_input, expected)
        id_checker = None
        if keeps_ids:
            n_columns = max(1, len(text_input.settings.id_columns))
            id_checker = IdChecker(id_rules, n_columns=n_columns)
        report = None if is_quiet else report_for(text_input, expected)
        records = check_records(
            records, text_input, id_checker=id_checker, report=report
        )
        if text_input.format.ids == "by_first_record":
            records, example = _find_example(records, text_input)
        else:
            example = _invented_record(text_input, has_id=keeps_ids)
        has_ids = example.id is not None
        is_numbered = survey.may_repeat and has_ids
        if is_numbered:
            records = _with_line_numbers(records)
        yield Records(
            records=records,
            is_ready=is_ready,
            has_ids=has_ids,
            is_numbered=is_numbered,
            example=example,
        )


def _read_records(
    text_input: TextInput,
    survey: IdSurvey,
    *,
    keeps_ids: bool,
    is_quiet: bool,
    on_bytes: Callable[[int], object],
    should_stop: Callable[[], bool],
) -> tuple[Iterator[Record], Callable[[], bool]]:
    """Return the records before they are checked, and whether the next one is ready.

    `keeps_ids` is True if the records keep the ids that were read.
    """
    records, is_ready = text_input.format.read(text_input, on_bytes, should_stop)
    if text_input.format_is_guess:
        records = refuse_other_formats(records, text_input.source.name)
    if survey.integers and len(text_input.settings.id_columns) > 1:
        records = map(partial(with_integer_parts, names=survey.integers), records)
    elif survey.integers:
        records = map(with_integer_id, records)
    if text_input.settings.word_column is not None:
        if not is_quiet:
            records = note_merged(records, text_input)
        records = group_words(records, text_input)
        if not is_quiet:
            records = note_scattered(records, text_input.source.name)
    if not keeps_ids and text_input.format.ids != "never":
        records = map(_without_id, records)
    return records, is_ready


def _may_have_ids(text_input: TextInput) -> bool:
    if text_input.format.ids == "by_first_record":
        return text_input.settings.id_column != NO_ID
    return text_input.format.ids == "always"


def check_records(
    records: Iterable[Record],
    text_input: TextInput,
    *,
    id_checker: IdChecker | None = None,
    report: InputReport | None = None,
) -> Iterator[Record]:
    """Yield records after checking their ids. The report sees all of them.

    An invalid record is an `InputError`, or with `skip_errors` a record without tokens.
    """
    number_unit = text_input.format.number_unit
    is_complete = False
    try:
        for record in records:
            error = record.error
            # A line that is not UTF-8 may follow an id.
            if id_checker is not None and (error is None or record.id is not None):
                problem = id_checker.check(record, number_unit)
                if problem is not None:
                    error = text_input.error_at(record.start, problem)
            if error is not None and not text_input.settings.skip_errors:
                raise InputError(error)
            if report is not None:
                report.see(record)
            if error is not None:
                record = _rest_of_invalid_record(record, error)
            yield record
        is_complete = True
    finally:
        # Only the beginning of a text may be read.
        if report is not None:
            report.end(is_complete=is_complete)
            if id_checker is not None and text_input.settings.word_column is None:
                id_checker.log_repeated(f"{text_input.source.name}: ")


def _rest_of_invalid_record(record: Record, error: str | Message) -> Record:
    """Return what is left of an invalid record: its text, and perhaps its id."""
    skipped = Record(record.text, [], error=error, start=record.start)
    if error is not record.error:
        # The id is the problem.
        return skipped
    return skipped._replace(
        id=record.id, line=record.line, original_id=record.original_id
    )


def _without_id(record: Record) -> Record:
    return record if record.id is None else record._replace(id=None)


def _with_line_numbers(records: Iterable[Record]) -> Iterator[Record]:
    """Yield records with their number, from 1, as their line."""
    for number, record in enumerate(records, start=1):
        yield record._replace(line=number)


def _find_example(
    records: Iterator[Record], text_input: TextInput
) -> tuple[Iterator[Record], Record]:
    """Return all records again, and the first valid one, or an invented one."""
    read: list[Record] = []
    for record in records:
        read.append(record)
        if record.error is None:
            return chain(read, records), record
    # No record is valid, but the id of one that is not UTF-8 may have been read.
    has_id = _has_id_column(text_input)
    if any(record.id is not None for record in read):
        has_id = True
    return iter(read), _invented_record(text_input, has_id=has_id)


def _has_id_column(text_input: TextInput) -> bool:
    """Return whether an input has a column of ids, as far as its head tells."""
    settings = text_input.settings
    if settings.id_column is not None:
        return settings.id_column != NO_ID
    if not text_input.format.lists_columns:
        return False
    names = text_input.format.column_names(text_input.source, settings)
    return DEFAULT_ID in names


def _invented_record(text_input: TextInput, *, has_id: bool) -> Record:
    """Return a record for an input without valid ones."""
    kept = text_input.settings.repeated_columns
    columns: dict[str, object] = {}
    if kept != ALL_COLUMNS:
        columns = dict.fromkeys(kept)
    return Record(
        "",
        [""],
        id="" if has_id else None,
        columns=columns,
        line=1 if text_input.splits_lines else None,
    )
