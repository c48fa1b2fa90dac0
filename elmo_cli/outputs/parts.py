"""A folder of Parquet parts, which `elmo distribute` writes, read as one file.

part-00000000.parquet ...   parts. The metadata of each names its plan, its number and their number
_elmo/plan.parquet          plan, as JSON in the metadata of a file without rows
_elmo/work/                 unfinished files, and reasons of failed parts; removed at the end
_SUCCESS                    empty. It appears when all parts are complete

A folder belongs to one plan: inputs, options and parts. The file of the plan is created
exclusively and never changes. It has the columns of the parts, because polars reads all files below
a folder. A part belongs to a plan by its content, not by its name. Reading takes only the parts.

A folder is on a local or shared disk, or on any file system that pyarrow supports. Object stores
cannot create a file exclusively: see "Distributed runs" in docs/architecture.md.
"""

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from multiprocessing.pool import ThreadPool
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import first_line, shown
from elmo_cli.files.folder import Folder
from elmo_cli.files.json_form import parse_json
from elmo_cli.outputs.attributes import check_attributes
from elmo_cli.records.record import Record

PLAN: Final = "_elmo/plan.parquet"
SUCCESS: Final = "_SUCCESS"
# attribute of a part, and key of the plan's metadata
PLAN_SHA256: Final = "plan_sha256"
PART: Final = "part"  # attribute of a part: its number
PARTS: Final = "parts"  # attribute of a part: the number of all parts
OTHER_FOLDER: Final = "Choose another folder."
_AGAIN: Final = "Give the `elmo distribute` command of the folder again"
_PART_NAME: Final = re.compile(r"part-(\d{8,})\.parquet")
_OF_PART: Final = (
    PART,
    "records",
    "input_records",
    "input_sha256",
    "tokens",
    "skipped",
)
"""Attributes of a part that the folder does not have, or has as sums."""
_MAX_SKIPPED: Final = 1000  # maximum number of skipped records that the attributes name
_N_THREADS: Final = 16  # number of parts whose metadata is read at the same time


class Footer(NamedTuple):
    """Content of a part's footer."""

    plan_sha256: str
    number: int
    n_parts: int
    n_records: int
    n_tokens: int
    attributes: dict[str, str]


def part_name(number: int) -> str:
    """Return the name of a part."""
    return f"part-{number:08d}.parquet"


def read_footer(folder: Folder, number: int) -> Footer | None:
    """Read the footer of a part. Return None if it is missing, damaged, or no part."""
    import pyarrow

    name = part_name(number)
    with suppress(pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError):
        if folder.has(name):  # Opening a named pipe would wait for its writer.
            footer = folder.open_parquet(name).metadata
            attributes = parse_json(footer.metadata[b"elmo"], dict[str, str], name)
            found, n_parts, n_tokens = (
                int(attributes[key]) for key in (PART, PARTS, "tokens")
            )
            sha256 = attributes[PLAN_SHA256]
            return Footer(sha256, found, n_parts, footer.num_rows, n_tokens, attributes)
    return None


def read_footers(folder: Folder) -> dict[int, Footer | None]:
    """Read the footers of all files that have the name of a part."""
    matches = map(_PART_NAME.fullmatch, folder.names(only_files=True))
    numbers = [int(match[1]) for match in matches if match]
    with ThreadPool(_N_THREADS) as pool:
        return dict(
            zip(numbers, pool.map(partial(read_footer, folder), numbers), strict=True)
        )


def find_done(folder: Folder, plan_sha256: str) -> set[int]:
    """Return the numbers of the complete parts of a plan, by their content."""
    footers = read_footers(folder).items()
    return {
        number for number, each in footers if each and each[:2] == (plan_sha256, number)
    }


def count_repeated(folder: Folder, n_parts: int) -> int:
    """Count the records with the id of an earlier record. A hash of 8 bytes per id is in memory."""
    hashes = [np.empty(0, np.int64)]
    for number in range(n_parts):
        with (
            _damage_named(folder, number),
            folder.open_parquet(part_name(number)) as part,
        ):
            ids = part.read(columns=["id"]).column("id").to_pylist()
        hashes.append(
            np.array([hash(str(each)) for each in ids if each is not None], np.int64)
        )
    found = np.concatenate(hashes)
    return len(found) - len(np.unique(found))


@contextmanager
def _damage_named(folder: Folder, number: int) -> Iterator[None]:
    """Turn errors of pyarrow into an `InputError` that names the part."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        path = f"{folder.location}/{part_name(number)}"
        reason = f"the part is damaged: {first_line(error).rstrip('.')}"
        raise InputError(f"{path}: {reason}. Remove it. {_AGAIN}.") from None


def is_parts_folder(location: str) -> bool:
    """Return whether there is a folder of parts, complete or not."""
    names = (PLAN, part_name(0))
    if "://" not in location:
        return any(os.path.exists(f"{location}/{name}") for name in names)
    return any(map(Folder(location).has, names))


class PartsFolder:
    """Reader of a folder; see `reader.LayoutFile`. One row group is in memory at a time."""

    is_ordered = True

    def __init__(self, location: str) -> None:
        self._folder = Folder(location)
        footers = self._read_footers()
        self.attributes: dict[str, Any] = _sum_attributes(footers, location)
        check_attributes(self.attributes, location)
        self._ends = list(accumulate(footer.n_records for footer in footers))
        self.n_records = self._ends[-1] if footers else 0
        self._opened = lru_cache(maxsize=1)(self._open_part)
        self._group = lru_cache(maxsize=1)(self._read_group)
        first = next((footer.number for footer in footers if footer.n_records), None)
        names = [] if first is None else self._opened(first).schema_arrow.names
        # Columns that are kept from the inputs come after the tokens.
        own = names[: names.index("tokens")] if names else []
        self.has_keys, self.has_sentences = "id" in own, "sentence" in own

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
        own = ("sentence", "tokens", *(["id"] if self.has_keys else []))
        rows = table.select(
            [name for name in table.column_names if name in own]
        ).to_pylist()
        return [
            Record(r.get("sentence") or "", r["tokens"], _text_of(r.get("id")))
            for r in rows
        ]

    def find(self, name: str) -> int | None:
        """Return the number of a record by its id; without ids, the last number of its text."""
        return self._numbers.get(name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        column = "id" if self.has_keys else "sentence"
        numbers: dict[str, int] = {}
        for part, end in enumerate(self._ends):
            with _damage_named(self._folder, part):
                names = (
                    self._opened(part).read(columns=[column]).column(column).to_pylist()
                )
            texts = enumerate(map(_text_of, names), end - len(names))
            numbers.update((name, number) for number, name in texts if name)
        return numbers

    def _read_footers(self) -> list[Footer]:
        """Read the footers of all parts, and check that they are complete and of one plan."""
        location, found = self._folder.location, read_footers(self._folder)
        first = next(filter(None, found.values()), None)
        n_parts = first.n_parts if first else 0
        if not found:
            with suppress(OSError, ValueError, KeyError):
                metadata = self._folder.open_parquet(PLAN).schema_arrow.metadata
                n_parts = len(json.loads(metadata[b"plan"])["parts"])
        missing = [number for number in range(n_parts) if number not in found]
        if missing or (self._folder.has(PLAN) and not self._folder.has(SUCCESS)):
            reason = "its run has not ended"
            if missing:
                numbers = shown(", ".join(map(str, missing)))
                reason = (
                    f"{len(missing):,} of {n_parts:,} parts are missing ({numbers})"
                )
            raise InputError(
                f"{location}: the folder is not complete: {reason}. {_AGAIN}: it resumes."
            )
        footers = []
        for number, footer in found.items():
            if footer is None:
                self._open_part(number)  # It raises the error of a damaged part.
            if (
                footer is None
                or first is None
                or footer[:2] != (first.plan_sha256, number)
            ):
                is_moved = footer and first and footer.plan_sha256 == first.plan_sha256
                kind = (
                    f"part {footer.number}"
                    if footer and is_moved
                    else "a part of another plan"
                )
                problem = f"expected part {number} of the plan, found {kind}. {_AGAIN}."
                raise InputError(f"{location}/{part_name(number)}: {problem}")
            footers.append(footer)
        return footers

    def _rows(self, start: int, stop: int) -> Any:
        """Return the rows of some records from `start` on, as many as lie in its row group."""
        part = bisect_right(self._ends, start)
        row = start - (self._ends[part - 1] if part else 0)
        footer = self._opened(part).metadata
        ends = list(
            accumulate(
                footer.row_group(i).num_rows for i in range(footer.num_row_groups)
            )
        )
        group = bisect_right(ends, row)
        return self._group(part, group).slice(row - [0, *ends][group], stop - start)

    def _read_group(self, part: int, group: int) -> Any:
        with _damage_named(self._folder, part):
            return self._opened(part).read_row_group(group).combine_chunks()

    def _open_part(self, number: int) -> Any:
        with _damage_named(self._folder, number):
            return self._folder.open_parquet(part_name(number))


def _sum_attributes(footers: list[Footer], location: str) -> dict[str, str]:
    """Return the attributes of a folder: those that all parts share, and sums."""
    skipped: dict[str, str] = {}
    for footer in footers:
        skipped |= parse_json(
            footer.attributes.get("skipped", "{}"), dict[str, str], location
        )
    attributes = footers[0].attributes if footers else {}
    first = json.dumps(dict(list(skipped.items())[:_MAX_SKIPPED]))
    return {
        **{name: value for name, value in attributes.items() if name not in _OF_PART},
        "records": str(sum(footer.n_records for footer in footers)),
        "tokens": str(sum(footer.n_tokens for footer in footers)),
        **({"skipped": first, "n_skipped": str(len(skipped))} if skipped else {}),
    }


def _text_of(value: object) -> str | None:
    """Return an id or a sentence as text. Empty ones are None."""
    return None if value in (None, "") else str(value)


def flat_row(column: Any, row: int) -> NDArray[Any]:
    """Return the values of a row of nested lists, of which at most one has no fixed length."""
    values = column.slice(row, 1)
    shape: list[int] = []
    while hasattr(values.type, "value_type"):
        shape.append(getattr(values.type, "list_size", -1))
        values = values.flatten()
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(shape).copy()
    return array
