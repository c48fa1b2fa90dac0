"""Ids of records: the rules of an output, and a first pass over the ids of a file."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message
from elmo_cli.options.text import DEFAULT_ID
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.record import ID_SEPARATOR, Record
from elmo_cli.records.words import group_words
from elmo_cli.text.tokenizers import Tokenizer

logger = logging.getLogger(__name__)

_SHOWN: Final = 60
"""Characters of an id that a message shows."""
_MAX_NAME_BYTES: Final = 65_531
"""Maximum size of an id in npz: 2 bytes hold the length of its name with `.npy`."""
_INTEGER: Final = re.compile(r"(0|-?[1-9][0-9]{0,18})(?:\.0)?")
"""Integer as Python writes it, or as pandas does if an id is missing."""
_OTHER_FORMATS: Final = "Use {--layout packed} or Parquet."
_NUMBERED: Final = 'To number the records instead, use {--id-column ""}.'


@dataclass(frozen=True)
class IdRules:
    """What an output asks of the ids of its records."""

    ids_name_datasets: bool = False
    """Ids are names of datasets: valid ones, which do not repeat."""
    number_if_repeated: bool = False
    """Records have their number as `line` if their ids may repeat."""
    find_integers: bool = False
    """The ids of CSV and TSV are integers if all of them look so."""


class IdChecker:
    """Check of the ids of an output, which each record passes once.

    All records have an id, or none has one. If ids name datasets, as in HDF5 and npz,
    they are also valid names, and do not repeat.
    """

    def __init__(self, rules: IdRules, n_columns: int = 1) -> None:
        """Check ids of `n_columns` columns, which are joined by `/`."""
        self._ids_name_datasets = rules.ids_name_datasets
        self._n_columns = n_columns
        self._starts: dict[str, int] = {}  # start of the first record with an id
        self._n_with_id = 0
        self._has_record_without_id = False

    def check(self, record: Record, number_unit: str = "line") -> Message | None:
        """Return the error of the id of the next record, if there is one.

        `number_unit` is what `Record.start` counts.
        """
        identifier = record.id
        # The ids of FASTA cannot be left out.
        can_be_numbered = record.original_id is None
        if identifier is None:
            if self._starts:
                return _add_remedy(
                    Message("no id, but earlier records have one"),
                    can_be_numbered=can_be_numbered,
                )
            self._has_record_without_id = True
            return None
        shown = repr(identifier[:_SHOWN])
        if self._ids_name_datasets:
            error = _invalid_name_error(identifier, shown, self._n_columns)
            if error is not None:
                return error
        if self._has_record_without_id:
            return Message(f"the id {shown}, but earlier records have none")
        if identifier == "":
            return _add_remedy(
                Message("the id is empty"), can_be_numbered=can_be_numbered
            )
        first = self._starts.setdefault(identifier, record.start)
        if self._ids_name_datasets and first != record.start:
            repeated = Message(
                f"the id {shown} is also in {number_unit} {first}, "
                "but ids name the datasets of HDF5 and npz",
                remedy="Make them unique, or use {--layout packed} or Parquet.",
            )
            return _add_remedy(repeated, can_be_numbered=can_be_numbered)
        self._n_with_id += 1
        return None

    def log_repeated(self, location: str) -> None:
        """Log the number of records with the id of an earlier record, if any."""
        log_repeated(self._n_with_id - len(self._starts), location)


def log_repeated(n_repeated: int, location: str = "") -> None:
    """Log the number of records with the id of an earlier record, if there are any."""
    if n_repeated > 0:
        have = "1 record has" if n_repeated == 1 else f"{n_repeated:,} records have"
        remedy = "the id of an earlier record. Tell them apart by their line or index."
        logger.warning("%s%s %s", location, have, remedy)


def _add_remedy(error: Message, *, can_be_numbered: bool) -> Message:
    remedy = _NUMBERED if can_be_numbered else None
    return Message("{error}", remedy=remedy, error=error)


def _invalid_name_error(identifier: str, shown: str, n_columns: int) -> Message | None:
    """Return the error of an id that names a dataset, if there is one.

    The parts of an id with several columns name the groups around its dataset.
    """
    if "\0" in identifier:
        return Message(f"the id {shown} has a zero byte", remedy="Remove it.")
    n_bytes = len(identifier.encode("utf-8", "surrogatepass"))
    if n_bytes > _MAX_NAME_BYTES:
        return Message(
            f"the id {shown} has {n_bytes:,} bytes, and a name has at "
            f"most {_MAX_NAME_BYTES:,}",
            remedy=_OTHER_FORMATS,
        )
    parts = identifier.split(ID_SEPARATOR)
    has_empty_part = len(parts) > 1 and "" in parts
    if len(parts) != n_columns or has_empty_part or "." in parts:
        return Message(
            f"the id {shown} cannot name a dataset of HDF5 or npz",
            remedy=_OTHER_FORMATS,
        )
    return None


class IdSurvey(NamedTuple):
    """What a first pass over the ids of an input found."""

    may_repeat: bool
    """True if an id repeats in a file, or if the input is a stream. Else False, also if
    repeats were not looked for."""
    integers: tuple[str, ...]
    """Columns of the ids of CSV or TSV in which all cells look like integers of 64
    bits."""


def survey_ids(
    text_input: TextInput,
    should_stop: Callable[[], bool],
    *,
    find_repeats: bool,
    find_integers: bool,
) -> IdSurvey:
    """Read the ids of a file until both questions are answered, and rewind the file.

    Nothing else reads a file twice. A stream has no first pass: its ids may repeat, and
    are texts.

    Args:
        text_input: The input, which is open.
        should_stop: As in `Source.lines`.
        find_repeats: Ask whether an id repeats. One repeated id answers this.
        find_integers: Ask which columns of the ids have only integers. It is answered
            when each column has shown another cell.
    """
    if text_input.format.ids == "never":
        return IdSurvey(may_repeat=False, integers=())
    if not text_input.source.is_file:
        return IdSurvey(may_repeat=find_repeats, integers=())
    integer_columns: list[str] = []
    # Other formats say themselves which ids are integers.
    if find_integers and text_input.format.has_cells:
        integer_columns = list(text_input.settings.id_columns) or [DEFAULT_ID]
    if not find_repeats and not integer_columns:
        return IdSurvey(may_repeat=False, integers=())
    seen: set[str] = set()
    may_repeat = False
    # Errors are reported when the records are read.
    with suppress(InputError):
        for record in _read_ids(text_input, should_stop):
            if not record.id:
                # There are no ids, or this record will be an error.
                integer_columns = []
                break
            if find_repeats and record.id in seen:
                may_repeat = True
            seen.add(record.id)
            integer_columns = [
                column
                for column in integer_columns
                if _is_integer(_cell_of_id(record, column))
            ]
            repeats_are_answered = may_repeat or not find_repeats
            if repeats_are_answered and not integer_columns:
                break
    text_input.source.rewind()
    if not seen:
        integer_columns = []
    return IdSurvey(may_repeat, integers=tuple(integer_columns))


def _cell_of_id(record: Record, column: str) -> str:
    """Return the text of a column of an id. The only column has the whole id."""
    return str(record.columns.get(column, record.id))


def _read_ids(
    text_input: TextInput, should_stop: Callable[[], bool]
) -> Iterator[Record]:
    """Yield the valid records of a file with their ids. Texts are not tokenized."""
    settings = replace(text_input.settings, skip_errors=True, keep_columns=())
    without_tokens = Tokenizer(tokenize=lambda _: [])
    text_input = replace(text_input, settings=settings, tokenizer=without_tokens)
    records = text_input.format.read_ids(text_input, should_stop)
    if text_input.settings.word_column is not None:
        records = group_words(records, text_input)
    for record in records:
        if record.error is None:
            yield record


def _is_integer(cell: str) -> bool:
    """Return whether a cell is the text of an integer of 64 bits."""
    match = _INTEGER.fullmatch(cell)
    return match is not None and -(1 << 63) <= int(match[1]) < 1 << 63


def with_integer_id(record: Record) -> Record:
    """Return a record of CSV or TSV whose id is an integer, written as 7 or 7.0."""
    if record.id is None:
        return record
    return record._replace(id=record.id.removesuffix(".0"), id_is_integer=True)


def with_integer_parts(record: Record, names: Iterable[str]) -> Record:
    """Return a record of CSV or TSV with integers in these columns of its id."""
    if record.id is None:
        return record
    columns = dict(record.columns)
    for name in names:
        columns[name] = int(str(columns[name]).removesuffix(".0"))
    return record._replace(columns=columns)
