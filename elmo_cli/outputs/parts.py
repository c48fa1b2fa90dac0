"""A folder of Parquet parts as one file of activations; `elmo distribute` writes it."""

import json
import os
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.outputs.formats import load_pyarrow
from elmo_cli.outputs.hdf5 import DamagedError
from elmo_cli.text.lines import Record

PLAN: Final = "_elmo/plan.json"
COMPLETE: Final = "_elmo/complete.json"
_MAX_SHOWN: Final = 10


def part_name(number: int) -> str:
    """The file of a part."""
    return f"part-{number:08d}.parquet"


def part_number(name: str) -> int | None:
    """The number of the part that a file is; None for any other file."""
    digits = name.removeprefix("part-").removesuffix(".parquet")
    return int(digits) if digits.isdecimal() and name == part_name(int(digits)) else None


def open_location(location: str) -> tuple[Any, str]:
    """The file system of a path or URI (s3://, gs://, hdfs://, ...), and the path on it."""
    load_pyarrow()
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in location:
        return LocalFileSystem(), os.path.abspath(location)
    try:
        file_system, path = FileSystem.from_uri(location)
    except (ValueError, OSError, ImportError) as error:
        raise InputError(f"{location}: cannot open it: {error}") from None
    return file_system, path.rstrip("/")


def is_parts_folder(location: str) -> bool:
    """Whether there is a folder of parts, finished or not."""
    if "://" not in location:
        return os.path.exists(f"{location}/{PLAN}")
    file_system, path = open_location(location)
    return bool(file_system.get_file_info(f"{path}/{PLAN}").is_file)


class PartsFolder:
    """Reads a folder; see `reader.Activations`. One row group is held at a time."""

    is_ordered = True

    def __init__(self, location: str) -> None:
        """Read the plan.

        Raises:
            InputError: parts are missing.
        """
        self._file_system, self._root = open_location(location)
        plan = self._json(PLAN)
        self._ends = list(accumulate(part[4] for part in plan["parts"]))
        self.n_records = self._ends[-1] if self._ends else 0
        if not self._file_system.get_file_info(f"{self._root}/{COMPLETE}").is_file:
            self._raise_missing(location)
        self._is_open = True
        self._held: tuple[int, int, Any] = (-1, -1, None)  # part, row group, table
        self._file: tuple[int, Any] = (-1, None)
        self.attributes: dict[str, Any] = {**plan["settings"], **self._json(COMPLETE)}
        names = self._opened(0).schema_arrow.names if self._ends else []
        self.has_keys, self.has_sentences = "key" in names, "sentence" in names

    def __bool__(self) -> bool:
        return self._is_open

    def close(self) -> None:
        """Let go of the part that is open."""
        self._is_open, self._file, self._held = False, (-1, None), (-1, -1, None)

    @property
    def dtype(self) -> str:
        """The data type of all values."""
        return str(self.attributes["dtype"])

    def block(self, start: int, stop: int) -> list[NDArray[Any]]:
        """The values of some records."""
        return [self._values(number) for number in range(start, stop)]

    def block_end(self, start: int) -> int:
        """Where the records end that are held with this one."""
        table, row = self._located(start)
        return start + int(table.num_rows) - row

    def known(self, start: int, stop: int) -> list[Record]:
        """Some records, all that is known of them but their values."""
        found = []
        for number in range(start, stop):
            table, row = self._located(number)
            words = table.column("tokens")[row].as_py()
            found.append(Record(self.text(number) or "", words, self.key(number)))
        return found

    def text(self, number: int) -> str | None:
        """The sentence of a record; None where the folder has none."""
        return self._cell("sentence", number) if self.has_sentences else None

    def key(self, number: int) -> str | None:
        """The key of a record; None where it has none."""
        return (self._cell("key", number) or None) if self.has_keys else None

    def find(self, name: str) -> int | None:
        """The number of the last record of that key, or of that text where there are no keys."""
        return self._numbers.get(name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        column = "key" if self.has_keys else "sentence"
        numbers: dict[str, int] = {}
        for part in range(len(self._ends) if self.has_keys or self.has_sentences else 0):
            names = self._opened(part).read(columns=[column]).column(column).to_pylist()
            first = self._ends[part] - len(names)
            numbers.update((name, number) for number, name in enumerate(names, first) if name)
        return numbers

    def _cell(self, column: str, number: int) -> Any:
        table, row = self._located(number)
        return table.column(column)[row].as_py()

    def _values(self, number: int) -> NDArray[Any]:
        table, row = self._located(number)
        return flat_rows(table.column("activations").chunk(0), row)

    def _located(self, number: int) -> tuple[Any, int]:
        """The rows that are held with a record, and its place in them."""
        part = bisect_right(self._ends, number)
        row = number - (self._ends[part - 1] if part else 0)
        file = self._opened(part)
        for group in range(file.num_row_groups):
            n_rows = file.metadata.row_group(group).num_rows
            if row < n_rows:
                if self._held[:2] != (part, group):
                    self._held = (part, group, file.read_row_group(group).combine_chunks())
                return self._held[2], row
            row -= n_rows
        raise DamagedError(f"{part_name(part)}: expected more records")

    def _opened(self, part: int) -> Any:
        if self._file[0] != part:
            import pyarrow
            from pyarrow import parquet

            path = f"{self._root}/{part_name(part)}"
            try:
                self._file = (part, parquet.ParquetFile(path, filesystem=self._file_system))
            except pyarrow.ArrowInvalid as error:
                raise DamagedError(f"{part_name(part)}: {error}") from None
        return self._file[1]

    def _json(self, name: str) -> Any:
        with self._file_system.open_input_stream(f"{self._root}/{name}") as file:
            return json.loads(file.read())

    def _raise_missing(self, location: str) -> None:
        from pyarrow.fs import FileSelector

        infos = self._file_system.get_file_info(FileSelector(self._root))
        there = {part_number(info.base_name) for info in infos}
        missing = [part for part in range(len(self._ends)) if part not in there]
        shown = ", ".join(map(str, missing[:_MAX_SHOWN])) + ", ..." * (len(missing) > _MAX_SHOWN)
        raise InputError(
            f"{location}: the folder is not complete: {len(missing):,} of {len(self._ends):,} "
            f"parts are missing ({shown or 'its run has not ended'}); `elmo distribute` goes on"
        )


def flat_rows(column: Any, row: int) -> NDArray[Any]:
    """The values of a row of nested lists, of which at most one has no fixed length."""
    values = column.slice(row, 1)
    shape: list[int] = []
    while hasattr(values.type, "value_type"):
        size = getattr(values.type, "list_size", None)
        shape.append(len(values.flatten()) // max(1, len(values)) if size is None else size)
        values = values.flatten()
    found: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(shape).copy()
    return found
