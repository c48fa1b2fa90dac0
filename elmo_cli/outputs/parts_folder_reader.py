"""Reader of a folder of Parquet parts as one file; `part_files` describes it."""

import json
import os
from bisect import bisect_right
from collections.abc import Container, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, Final

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import counted, shown
from elmo_cli.files.json_form import parse_json
from elmo_cli.files.shared_folder import Folder
from elmo_cli.outputs.attributes import check_attributes
from elmo_cli.outputs.part_files import (
    AGAIN,
    PART,
    PLAN,
    SUCCESS,
    Footer,
    naming_damaged_part,
    part_name,
    read_footers,
)
from elmo_cli.outputs.record_attributes import LINE_INDEX
from elmo_cli.records.record import Record

_OF_PART: Final = (
    PART,
    "records",
    "input_records",
    "input_sha256",
    "records_sha256",
    "tokens",
    "skipped",
)
"""Attributes of a part that the folder does not have, or has as sums."""
_MAX_SKIPPED: Final = 1000
"""Maximum number of skipped records that the attributes name."""


def is_parts_folder(location: str) -> bool:
    """Return whether there is a folder of parts, complete or not."""
    names = (PLAN, part_name(0))
    if "://" not in location:
        return any(os.path.exists(f"{location}/{name}") for name in names)
    return any(map(Folder(location).has, names))


class PartsFolder:
    """Open folder, read as a layout; see `LayoutFile`. One row group is in memory."""

    is_ordered = True
    has_each_sentence = True

    def __init__(self, location: str) -> None:
        self._folder = Folder(location)
        self._part = lru_cache(maxsize=1)(self._open_part)
        self._row_group = lru_cache(maxsize=1)(self._read_row_group)
        footers = self._read_footers()
        self.attributes = _sum_attributes(footers, location)
        check_attributes(self.attributes, location)
        self._ends = list(accumulate(footer.n_records for footer in footers))
        """End of the records of each part."""
        self.n_records = self._ends[-1] if footers else 0
        own = self._own_columns(footers)
        self.has_ids = "id" in own
        self.has_sentences = "sentence" in own
        self._has_lines = "line" in own

    def close(self) -> None:
        """Close the open part."""
        self._part.cache_clear()
        self._row_group.cache_clear()

    def values(self, start: int, stop: int) -> list[AnyArray]:
        """Return the values of some records, of one row group."""
        column = self._rows(start, stop).column("activations").chunk(0)
        return [_array_in_row(column, row) for row in range(len(column))]

    def records(self, start: int, stop: int) -> list[Record]:
        """Return some records of one row group, without their values."""
        own = ["sentence", "tokens"]
        if self.has_ids:
            own.append("id")
        if self._has_lines:
            own.append("line")
        table = self._rows(start, stop)
        names = [name for name in table.column_names if name in own]
        records = []
        for row in table.select(names).to_pylist():
            record = Record(
                text=row.get("sentence") or "",
                tokens=row["tokens"],
                id=_text_or_none(row.get("id")),
            )
            line = row.get("line")
            if line is not None:
                record = record._replace(line=line, attributes={LINE_INDEX: line - 1})
            records.append(record)
        return records

    def find(self, name: str) -> int | None:
        """Return the index of a record by its id, or of the last with that text."""
        return self._indices.get(name)

    @cached_property
    def _indices(self) -> dict[str, int]:
        """Index of each id; without ids, the last index of each text."""
        column = "id" if self.has_ids else "sentence"
        indices: dict[str, int] = {}
        start = 0
        for part, end in enumerate(self._ends):
            with naming_damaged_part(self._folder, part):
                table = self._part(part).read(columns=[column])
                values = table.column(column).to_pylist()
            for index, value in enumerate(values, start):
                name = _text_or_none(value)
                if name is not None:
                    indices[name] = index
            start = end
        return indices

    def _own_columns(self, footers: list[Footer]) -> list[str]:
        """Return the columns before the tokens, which are not kept from the inputs."""
        for footer in footers:
            if footer.n_records:
                names = self._part(footer.number).schema_arrow.names
                return list(names[: names.index("tokens")])
        return []

    def _read_footers(self) -> list[Footer]:
        """Read the footers of all parts, which must be complete and of one plan."""
        found = read_footers(self._folder)
        readable = [footer for footer in found.values() if footer is not None]
        n_parts: int | None = None  # not known, if there are parts, but none readable
        if readable:
            n_parts = readable[0].n_parts
        elif not found:
            n_parts = self._count_planned()
        self._check_complete(found, n_parts)
        for number, footer in found.items():
            if n_parts is not None and number >= n_parts:
                raise self._extra_part_error(number, n_parts)
            if footer is None:
                raise self._unreadable_part_error(number)
            if footer.plan_sha256 != readable[0].plan_sha256:
                raise self._wrong_part_error(number, "a part of another plan")
            if footer.number != number:
                raise self._wrong_part_error(number, f"part {footer.number}")
        return readable

    def _count_planned(self) -> int:
        """Return the number of parts in the plan, or 0 without a plan."""
        with suppress(OSError, ValueError, KeyError):
            metadata = self._folder.open_parquet(PLAN).schema_arrow.metadata
            return len(json.loads(metadata[b"plan"])["parts"])
        return 0

    def _check_complete(self, found: Container[int], n_parts: int | None) -> None:
        """Raise an error if a part is missing, or if the run has not ended."""
        missing: list[int] = []
        if n_parts is not None:
            missing = [number for number in range(n_parts) if number not in found]
        if missing:
            numbers = shown(", ".join(map(str, missing)))
            reason = f"{len(missing):,} of {n_parts:,} parts are missing ({numbers})"
        elif self._folder.has(PLAN) and not self._folder.has(SUCCESS):
            reason = "its run has not ended"
        else:
            return
        raise InputError(
            f"{self._folder.location}: the folder is not complete: {reason}",
            remedy=f"{AGAIN}: it resumes.",
        )

    def _extra_part_error(self, number: int, n_parts: int) -> InputError:
        return InputError(
            f"{self._folder.location}/{part_name(number)}: the plan has "
            f"{counted(n_parts, 'part')}, up to {part_name(n_parts - 1)}",
            remedy="Remove it.",
        )

    def _unreadable_part_error(self, number: int) -> InputError:
        """Return the error of a file with the name of a part, but without its footer.

        Only opening it as Parquet tells whether it is damaged.
        """
        try:
            self._open_part(number)
        except InputError as damage:
            return damage
        return self._wrong_part_error(number, "a part of another plan")

    def _wrong_part_error(self, number: int, found: str) -> InputError:
        return InputError(
            f"{self._folder.location}/{part_name(number)}: expected part {number} of "
            f"the plan, found {found}",
            remedy=f"{AGAIN}.",
        )

    def _rows(self, start: int, stop: int) -> Any:
        """Return the rows of records from `start` on, up to the end of a row group."""
        part, row_of_part = _locate(start, ends=self._ends)
        metadata = self._part(part).metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        group, row_of_group = _locate(row_of_part, ends=list(accumulate(sizes)))
        return self._row_group(part, group).slice(row_of_group, stop - start)

    def _read_row_group(self, part: int, group: int) -> Any:
        with naming_damaged_part(self._folder, part):
            return self._part(part).read_row_group(group).combine_chunks()

    def _open_part(self, number: int) -> Any:
        with naming_damaged_part(self._folder, number):
            return self._folder.open_parquet(part_name(number))


def _locate(index: int, ends: Sequence[int]) -> tuple[int, int]:
    """Return the piece that has an index, and the index in that piece.

    If pieces end at [3, 5], index 4 is in piece 1, at 1.
    """
    piece = bisect_right(ends, index)
    start = 0 if piece == 0 else ends[piece - 1]
    return piece, index - start


def _sum_attributes(footers: list[Footer], location: str) -> dict[str, str]:
    """Return the attributes of a folder: those that all parts share, and sums."""
    if footers:
        shared = footers[0].attributes
        attributes = {
            name: value for name, value in shared.items() if name not in _OF_PART
        }
    else:
        attributes = {}
    skipped: dict[str, str] = {}
    for footer in footers:
        stored = footer.attributes.get("skipped", "{}")
        skipped |= parse_json(stored, dict[str, str], location)
    attributes["records"] = str(sum(footer.n_records for footer in footers))
    attributes["tokens"] = str(sum(footer.n_tokens for footer in footers))
    if skipped:
        attributes["skipped"] = json.dumps(dict(list(skipped.items())[:_MAX_SKIPPED]))
        attributes["n_skipped"] = str(len(skipped))
    return attributes


def _text_or_none(value: object) -> str | None:
    """Return an id or a sentence as text. Empty ones are None."""
    return None if value in (None, "") else str(value)


def _array_in_row(column: Any, row: int) -> AnyArray:
    """Return the array in a row of nested lists; one axis may have no fixed length."""
    values = column.slice(row, 1)
    shape: list[int] = []
    while hasattr(values.type, "value_type"):
        shape.append(getattr(values.type, "list_size", -1))
        values = values.flatten()
    array: AnyArray = values.to_numpy(zero_copy_only=False).reshape(shape).copy()
    return array
