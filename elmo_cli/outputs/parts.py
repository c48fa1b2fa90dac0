"""A folder of Parquet parts, which `elmo distribute` writes, and the folder as one file.

part-00000000.parquet ...
_elmo/plan.json          inputs, settings and parts
_elmo/complete.json      written last
_elmo/run.json           how far a run is, and which parts it has left out
_elmo/tmp/               files that are not complete
"""

import json
import os
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Final

from numpy.typing import NDArray

from elmo_cli.atomic import output_error, renamed
from elmo_cli.errors import InputError, OutputError, first_line, shown, system_reason
from elmo_cli.outputs.formats import load_pyarrow
from elmo_cli.text.records import Record

PLAN: Final = "_elmo/plan.json"
COMPLETE: Final = "_elmo/complete.json"
_TEMPORARY: Final = "_elmo/tmp"


def part_name(number: int) -> str:
    """The file of a part."""
    return f"part-{number:08d}.parquet"


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


class Folder:
    """A folder on a local or shared disk, or on any file system that pyarrow knows."""

    def __init__(self, location: str) -> None:
        self.is_local = "://" not in location
        self.location = os.path.abspath(location) if self.is_local else location
        self._file_system, self.root = open_location(location)

    def read(self, name: str) -> Any:
        """What a file of JSON holds; None where it is missing."""
        try:
            with self._file_system.open_input_stream(f"{self.root}/{name}") as file:
                return json.loads(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = system_reason(error)
            raise OutputError(f"{self.location}: cannot read the folder: {reason}") from None

    def write(self, name: str, content: Any) -> None:
        """Write a file of JSON."""
        self.publish(name, lambda file: file.write(json.dumps(content).encode()))

    def publish(self, name: str, write: Callable[[IO[bytes]], int]) -> int:
        """Write a file under another name, and rename it; what `write` gives, or 0.

        0 is where another run was faster. An `OutputError` if it cannot be written.
        """
        path, partial = f"{self.root}/{name}", f"{self.root}/{_TEMPORARY}/{uuid.uuid4().hex}"
        try:
            self._file_system.create_dir(os.path.dirname(partial), recursive=True)
            if self.is_local:
                with renamed(Path(path), Path(partial)), open(partial, "xb") as file:
                    return write(file)
            with self._file_system.open_output_stream(partial) as stream:
                written = write(stream)
            self._file_system.move(partial, path)
            return written
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.has(name):
                return 0  # another run has written it, and removed what was left of this one
            raise output_error(Path(path), error) from None

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return bool(self._file_system.get_file_info(f"{self.root}/{name}").is_file)

    def names(self, folder: str = "") -> list[str]:
        """The names in a folder of the folder."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(f"{self.root}/{folder}", allow_not_found=True)
        return sorted(info.base_name for info in self._file_system.get_file_info(selector))

    def missing(self, n_parts: int) -> list[int]:
        """The parts that are not there."""
        there = {*self.names()}
        return [number for number in range(n_parts) if part_name(number) not in there]

    def open_part(self, number: int) -> Any:
        """A part, as pyarrow reads it."""
        from pyarrow import parquet

        with self.damage_named(number):
            path = f"{self.root}/{part_name(number)}"
            return parquet.ParquetFile(path, filesystem=self._file_system)

    @contextmanager
    def damage_named(self, number: int) -> Iterator[None]:
        """Turn what pyarrow says of a damaged part into an `InputError` that names the part."""
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, OSError) as error:
            name, reason = part_name(number), first_line(error)
            raise InputError(
                f"{self.location}/{name}: the part is damaged: {reason}; remove it, and the same "
                "`elmo distribute` writes it again"
            ) from None

    def clear(self) -> None:
        """Remove all that runs have written, the plan last."""
        if self.has(PLAN):
            parts = [name for name in self.names() if name.startswith("part-")]
            for name in [*filter(self.has, [COMPLETE]), *parts]:
                self._file_system.delete_file(f"{self.root}/{name}")
            self._file_system.delete_dir(f"{self.root}/_elmo")

    def remove_temporary(self) -> None:
        """Remove what killed runs have left, where none is at work."""
        with suppress(FileNotFoundError):
            self._file_system.delete_dir(f"{self.root}/{_TEMPORARY}")


def is_parts_folder(location: str) -> bool:
    """Whether there is a folder of parts, finished or not."""
    if "://" not in location:
        return os.path.exists(f"{location}/{PLAN}")
    return Folder(location).has(PLAN)


class PartsFolder:
    """Reads a folder; see `reader.LayoutFile`. One row group is held at a time."""

    is_ordered = True

    def __init__(self, location: str) -> None:
        """Read the plan; an `InputError` if parts are missing."""
        folder = Folder(location)
        parts, complete = folder.read(PLAN)["parts"], folder.read(COMPLETE)
        if complete is None:
            missing = folder.missing(len(parts))
            names = shown(", ".join(map(str, missing))) or "its run has not ended"
            raise InputError(
                f"{location}: the folder is not complete: {len(missing):,} of {len(parts):,} parts "
                f"are missing ({names}); `elmo distribute` resumes"
            )
        self._ends = list(accumulate(part["n_records"] for part in parts))
        self._folder, self._opened = folder, lru_cache(maxsize=1)(folder.open_part)
        self._group = lru_cache(maxsize=1)(self._read_group)
        self.n_records = self._ends[-1] if parts else 0
        self.attributes: dict[str, Any] = complete
        names = self._opened(0).schema_arrow.names if parts else []
        self.has_keys, self.has_sentences = "key" in names, "sentence" in names

    def close(self) -> None:
        """Let go of the part that is open."""
        self._opened.cache_clear()
        self._group.cache_clear()

    def values(self, start: int, stop: int) -> list[NDArray[Any]]:
        """The values of some records, of one row group."""
        column = self._rows(start, stop).column("activations").chunk(0)
        return [flat_row(column, row) for row in range(len(column))]

    def known(self, start: int, stop: int) -> list[Record]:
        """Some records of one row group, all that is known of them but their values."""
        rows = self._rows(start, stop).drop_columns(["number", "activations"]).to_pylist()
        return [
            Record(row.get("sentence") or "", row["tokens"], row.get("key") or None) for row in rows
        ]

    def find(self, name: str) -> int | None:
        """The number of a record by its key, or where there are no keys, the last by its text."""
        return self._numbers.get(name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        column = "key" if self.has_keys else "sentence"
        numbers: dict[str, int] = {}
        for part, end in enumerate(self._ends):
            with self._folder.damage_named(part):
                names = self._opened(part).read(columns=[column]).column(column).to_pylist()
            first = end - len(names)
            numbers.update((name, number) for number, name in enumerate(names, first) if name)
        return numbers

    def _rows(self, start: int, stop: int) -> Any:
        """The rows of some records from `start` on, as many as lie in its row group."""
        part = bisect_right(self._ends, start)
        row = start - (self._ends[part - 1] if part else 0)
        footer = self._opened(part).metadata
        ends = list(accumulate(footer.row_group(i).num_rows for i in range(footer.num_row_groups)))
        group = bisect_right(ends, row)
        return self._group(part, group).slice(row - [0, *ends][group], stop - start)

    def _read_group(self, part: int, group: int) -> Any:
        with self._folder.damage_named(part):
            return self._opened(part).read_row_group(group).combine_chunks()


def flat_row(column: Any, row: int) -> NDArray[Any]:
    """The values of a row of nested lists, of which at most one has no fixed length."""
    values = column.slice(row, 1)
    shape: list[int] = []
    while hasattr(values.type, "value_type"):
        shape.append(getattr(values.type, "list_size", -1))
        values = values.flatten()
    found: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(shape).copy()
    return found
