"""A folder of Parquet parts, which `elmo distribute` writes, read as one file.

part-00000000.parquet ...
_elmo/plan.json          inputs, settings and parts; empty in a complete folder
_elmo/complete.parquet   plan and attributes of a complete folder, written last
_elmo/run.json           progress of a run, and the parts that failed, until it is complete
_elmo/next-HASH/         plan and parts of a run with --overwrite, until they are complete
_elmo/tmp/               files that are not complete

A part belongs to a plan by its content: its metadata has the hash of the plan and its number. A
next plan replaces the plan of the folder in one step, when its parts are complete. The parts are
moved afterwards. So a part of a plan is at its name, or still in the subfolder of the next plan.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from multiprocessing.pool import ThreadPool
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from elmo_cli.errors import InputError, first_line, shown
from elmo_cli.json_form import parse_json
from elmo_cli.outputs.attributes import check_attributes
from elmo_cli.outputs.folder import Folder
from elmo_cli.outputs.plan_file import PLAN, Plan, next_subfolder, read_plan, read_seal
from elmo_cli.text.records import Record

COMPLETE: Final = "complete.json"
PLAN_SHA256: Final = "plan_sha256"
"""Attribute of a part and of a complete folder: the hash of their plan."""
PART: Final = "part"
"""Attribute of a part: its number."""
_PART_NAME: Final = re.compile(r"part-(\d{8,})\.parquet")
_N_THREADS: Final = 16
"""Number of parts whose metadata is read at the same time."""
_AGAIN: Final = "Give the `elmo distribute` command of the folder again"


class PartAttributes(NamedTuple):
    """Attributes of a part, from its metadata."""

    plan_sha256: str
    number: int
    n_tokens: int
    skipped: dict[str, str]
    """Reason for each skipped record, by its number."""
    subfolder: str = ""
    """Subfolder of the next plan, if the part is there; else empty."""


def part_name(number: int, subfolder: str = "") -> str:
    """Return the name of a part, in the folder or in the subfolder of a next plan."""
    name = f"part-{number:08d}.parquet"
    return f"{subfolder}/{name}" if subfolder else name


def complete_name(subfolder: str = "") -> str:
    """Return the name of the file that says that all parts are complete."""
    return f"{subfolder or '_elmo'}/{COMPLETE}"


def numbers_of_parts(names: list[str]) -> list[int]:
    """Return the numbers of those names that are names of parts."""
    return [int(match[1]) for match in map(_PART_NAME.fullmatch, names) if match]


def read_part_attributes(folder: Folder, name: str) -> PartAttributes | None:
    """Read the attributes of a part. Return None if it is missing, damaged, or of another kind."""
    import pyarrow

    with suppress(pyarrow.ArrowException, OSError):
        return _attributes_of(folder.open_parquet(name))
    return None


def _attributes_of(file: Any) -> PartAttributes | None:
    with suppress(ValueError, KeyError):
        stored = parse_json(file.metadata.metadata[b"elmo"], dict[str, str], PART)
        skipped = parse_json(stored.get("skipped", "{}"), dict[str, str], PART)
        return PartAttributes(
            stored[PLAN_SHA256], int(stored[PART]), int(stored["tokens"]), skipped
        )
    return None


def find_done(folder: Folder, plan: Plan) -> dict[int, PartAttributes]:
    """Find the complete parts of a plan, by their content."""
    done: dict[int, PartAttributes] = {}
    with ThreadPool(_N_THREADS) as pool:
        # Parts move in this order. So a part is found even if it moves at the same time.
        for subfolder in (next_subfolder(plan.sha256), ""):
            numbers = numbers_of_parts(folder.names(subfolder))
            names = [part_name(number, subfolder) for number in numbers]
            read = pool.map(partial(read_part_attributes, folder), names)
            for number, attributes in zip(numbers, read, strict=True):
                if attributes is not None and attributes[:2] == (plan.sha256, number):
                    done[number] = attributes._replace(subfolder=subfolder)
    return {number: done[number] for number in sorted(done) if number < len(plan.parts)}


def has_part(folder: Folder, plan_sha256: str, number: int) -> bool:
    """Return whether a part is complete, at its name or in the subfolder of the next plan.

    A part may move from the latter to the former at the same time.
    """
    subfolders = ("", next_subfolder(plan_sha256), "")
    parts = (read_part_attributes(folder, part_name(number, subfolder)) for subfolder in subfolders)
    return any(part is not None and part[:2] == (plan_sha256, number) for part in parts)


def is_parts_folder(location: str) -> bool:
    """Return whether there is a folder of parts, complete or not."""
    if "://" not in location:
        return os.path.exists(f"{location}/{PLAN}")
    return Folder(location).has(PLAN)


class PartsFolder:
    """Reader of a folder; see `reader.LayoutFile`. One row group is in memory at a time."""

    is_ordered = True

    def __init__(self, location: str) -> None:
        """Read the plan.

        Raises:
            InputError: Parts are missing, or the plan is damaged.
        """
        folder = Folder(location)
        plan = read_plan(folder)
        if plan is None:
            raise InputError(f"{location}: expected a folder of `elmo distribute`, found none.")
        self.attributes: dict[str, Any] = _read_complete(folder, plan)
        check_attributes(self.attributes, location)
        self._folder, self._plan = folder, plan
        self._ends = list(accumulate(part.n_records for part in plan.parts))
        self._opened = lru_cache(maxsize=1)(self._open_part)
        self._group = lru_cache(maxsize=1)(self._read_group)
        self.n_records = plan.n_records
        first = next((part.number for part in plan.parts if part.n_records), None)
        names = [] if first is None else self._opened(first).schema_arrow.names
        # Version 0.1 called ids keys. Columns that are kept from the inputs come after the tokens.
        own = names[: names.index("tokens")] if names else []
        self._id_column = next((name for name in ("id", "key") if name in own), None)
        self.has_keys, self.has_sentences = self._id_column is not None, "sentence" in names

    def close(self) -> None:
        """Close the open part."""
        self._opened.cache_clear()
        self._group.cache_clear()

    def values(self, start: int, stop: int) -> list[NDArray[Any]]:
        """Return the values of some records, of one row group."""
        column = self._rows(start, stop).column("activations").chunk(0)
        return [flat_row(column, row) for row in range(len(column))]

    def records(self, start: int, stop: int) -> list[Record]:
        """Return some records of one row group, without their values."""
        table = self._rows(start, stop)
        record_columns = ("sentence", "tokens", self._id_column)
        names = [name for name in table.column_names if name in record_columns]
        rows = table.select(names).to_pylist()
        return [
            Record(row.get("sentence") or "", row["tokens"], _text_of(row.get(self._id_column)))
            for row in rows
        ]

    def find(self, name: str) -> int | None:
        """Return the number of a record by its id; without ids, the last number of its text."""
        return self._numbers.get(name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        column = self._id_column or "sentence"
        numbers: dict[str, int] = {}
        for part, end in enumerate(self._ends):
            with self._damage_named(part):
                names = self._opened(part).read(columns=[column]).column(column).to_pylist()
            first = end - len(names)
            texts = enumerate(map(_text_of, names), first)
            numbers.update((name, number) for number, name in texts if name)
        return numbers

    def _rows(self, start: int, stop: int) -> Any:
        """Return the rows of some records from `start` on, as many as lie in its row group."""
        part = bisect_right(self._ends, start)
        row = start - (self._ends[part - 1] if part else 0)
        footer = self._opened(part).metadata
        ends = list(accumulate(footer.row_group(i).num_rows for i in range(footer.num_row_groups)))
        group = bisect_right(ends, row)
        return self._group(part, group).slice(row - [0, *ends][group], stop - start)

    def _read_group(self, part: int, group: int) -> Any:
        with self._damage_named(part):
            return self._opened(part).read_row_group(group).combine_chunks()

    def _open_part(self, number: int) -> Any:
        """Open a part with pyarrow, and check that it belongs to the plan."""
        kind = "none"
        # A part may move at the same time, so its own name is tried twice.
        for subfolder in ("", next_subfolder(self._plan.sha256), ""):
            with suppress(FileNotFoundError), self._damage_named(number):
                file = self._folder.open_parquet(part_name(number, subfolder))
                kind = _kind_of_part(file, self._plan, number)
                if kind == "":
                    return file
        raise InputError(
            f"{self._folder.location}/{part_name(number)}: expected part {number} of the plan, "
            f"found {kind}. {_AGAIN}."
        )

    @contextmanager
    def _damage_named(self, number: int) -> Iterator[None]:
        """Turn errors of pyarrow into an `InputError` that names the part."""
        import pyarrow

        try:
            yield
        except FileNotFoundError:
            raise
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(
                f"{self._folder.location}/{part_name(number)}: the part is damaged: "
                f"{first_line(error).rstrip('.')}. Remove it. {_AGAIN}."
            ) from None


def _text_of(value: object) -> str | None:
    """Return an id or a sentence as text. Empty ones are None."""
    return None if value in (None, "") else str(value)


def _kind_of_part(file: Any, plan: Plan, number: int) -> str:
    """Return a description of a wrong part, or "" for the part of this number of the plan."""
    footer, part, attributes = file.metadata, plan.parts[number], _attributes_of(file)
    if plan.stored_sha256 and (attributes is None or attributes.plan_sha256 != plan.sha256):
        return "a part of another plan"
    if attributes is not None and attributes.number != number:
        return f"part {attributes.number}"
    # Parts of version 0.1 are known by the numbers of their records.
    column = footer.row_group(0).column(0) if footer.num_rows else None
    if column is not None and column.statistics.min != part.first:
        return f"a part that begins with record {column.statistics.min}"
    return "" if footer.num_rows == part.n_records else f"{footer.num_rows:,} records"


def _read_complete(folder: Folder, plan: Plan) -> dict[str, str]:
    """Read the attributes of a complete folder.

    Raises:
        InputError: Parts are missing, or the run has not ended.
    """
    complete = None
    for subfolder in ("", next_subfolder(plan.sha256), ""):
        with suppress(InputError):
            content = folder.read(complete_name(subfolder))
            if content is None and not subfolder:
                content = read_seal(folder, complete_name())
            attributes = parse_json(content or b"", dict[str, str], complete_name(subfolder))
            if attributes.get(PLAN_SHA256, "") == plan.stored_sha256:
                complete = attributes
    # Parts move in this order. So a part is found even if it moves at the same time.
    names = [*folder.names(next_subfolder(plan.sha256)), *folder.names()]
    there = {*numbers_of_parts(names)}
    missing = [part.number for part in plan.parts if part.number not in there]
    if complete is None or missing:
        reason = shown(", ".join(map(str, missing))) or "its run has not ended"
        raise InputError(
            f"{folder.location}: the folder is not complete: {len(missing):,} of "
            f"{len(plan.parts):,} parts are missing ({reason}). {_AGAIN}: it resumes."
        )
    return complete


def flat_row(column: Any, row: int) -> NDArray[Any]:
    """Return the values of a row of nested lists, of which at most one has no fixed length."""
    values = column.slice(row, 1)
    shape: list[int] = []
    while hasattr(values.type, "value_type"):
        shape.append(getattr(values.type, "list_size", -1))
        values = values.flatten()
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(shape).copy()
    return array
