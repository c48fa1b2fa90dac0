"""Ids of records: what outputs allow, and whether a file has repeated or integer ids."""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from elmo_cli.errors.exceptions import InputError
from elmo_cli.records.columns import TableError
from elmo_cli.records.record import ORIGINAL_ID, Entry, NumericId, Record
from elmo_cli.records.report import InputReport

logger = logging.getLogger(__name__)


IdUse = Literal["datasets", "rows", "all", "any", "none"]
"""Use of ids: `datasets`, they are unique and name datasets of HDF5 or npz; `rows`, records get
their `LINE` if ids repeat; `all`, ids may repeat, but all records have one, or none has; `any`,
records may lack them; `none`, they are not read."""


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

    An invalid entry is an `InputError`, or with `skip_errors` a record with its text and error.
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
            log_repeated(n_ids + (None in numbers) - len(numbers), f"{name}: ")


def log_repeated(n_repeated: int, place: str = "") -> None:
    """Log the number of records with the id of an earlier record, if there are any."""
    if n_repeated > 0:
        have = "1 record has" if n_repeated == 1 else f"{n_repeated:,} records have"
        remedy = "the id of an earlier record. See their line or index."
        logger.warning("Warning: %s%s %s", place, have, remedy)


_NUMBERED: Final = 'To number the records instead, use --id-column "".'


_MAX_NAME_BYTES: Final = 65_531
"""Maximum size of an id in npz: 2 bytes hold the length of a name with its suffix `.npy`."""


def _invalid_name(identifier: str | None) -> str | None:
    """Return the error of an id that names a dataset, if any."""
    if not identifier:
        return None
    name, remedy = (
        f"the id {identifier[:60]!r}",
        "Use --layout packed, Parquet or JSON lines.",
    )
    if "\0" in identifier:
        return f"{name} has a zero byte. Remove it."
    if (n_bytes := len(identifier.encode("utf-8", "surrogatepass"))) > _MAX_NAME_BYTES:
        return f"{name} has {n_bytes:,} bytes, and a name has at most {_MAX_NAME_BYTES:,}. {remedy}"
    if identifier == "." or "/" in identifier:
        return f"{name} cannot name a dataset of HDF5 or npz. {remedy}"
    return None


def _id_error(
    record: Record,
    number: int,
    numbers: dict[str | None, int],
    number_unit: str,
    ids: IdUse,
) -> str | None:
    """Store the number of an id. Return its error if it is missing, repeats or cannot be used."""
    identifier = record.id
    if ids == "datasets" and (error := _invalid_name(identifier)):
        return error
    # The ids of FASTA cannot be left out.
    remedy = "" if ORIGINAL_ID in record.attributes else f" {_NUMBERED}"
    if ids != "any" and numbers and (identifier is None) != (None in numbers):
        if identifier is None:
            return f"no id, but earlier records have one.{remedy}"
        return f"the id {identifier[:60]!r}, but earlier records have none"
    if ids != "any" and identifier == "":
        return f"the id is empty.{remedy}"
    first = numbers.setdefault(identifier, number)
    if ids == "datasets" and identifier is not None and first != number:
        name = f"the id {identifier[:60]!r}"
        return (
            f"{name} is also in {number_unit} {first}, but ids name the datasets of HDF5 and npz. "
            f"Make them unique, or use --layout packed, Parquet or JSON lines.{remedy}"
        )
    return None


_INTEGER: Final = re.compile(r"(0|-?[1-9][0-9]{0,18})(?:\.0)?")
"""Text of an integer that is written as Python writes it, or as pandas if an id is missing."""


def is_integer(cell: str) -> bool:
    """Return whether a cell is the text of an integer of 64 bits."""
    match = _INTEGER.fullmatch(cell)
    return match is not None and -(1 << 63) <= int(match[1]) < 1 << 63


def with_integer_id(entry: Entry) -> Entry:
    """Return an entry of CSV or TSV whose id is an integer; see `is_integer`."""
    identifier = entry.record.id
    numeric = None if identifier is None else NumericId(identifier.removesuffix(".0"))
    return entry._replace(record=entry.record._replace(id=numeric))
