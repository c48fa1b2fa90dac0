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

A folder on a local or shared disk, or on any file system that pyarrow knows.

              local and shared disks             object stores
write         atomic: the file is renamed        atomic: one small upload
create        exclusive: link(2) refuses a       not exclusive: the last writer wins, and callers
              name that exists                   compare what they find afterwards
move          atomic                             a copy by the store, then a removal
lock          exclusive, where locks work        none

File with the plan of a folder of parts: settings and parts, with their hash.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

from numpy.typing import NDArray

from elmo_cli.atomic import lock, output_error, sync, unlock
from elmo_cli.errors import InputError, OutputError, first_line, shown, system_reason, utf8_name
from elmo_cli.json_form import parse_json
from elmo_cli.outputs.output_formats import check_attributes, load_pyarrow
from elmo_cli.text.records import Record

_Result = TypeVar("_Result")

TEMPORARY: Final = "_elmo/tmp"
"""Folder of files that are not complete."""
_LOCK_SECONDS: Final = 600.0
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of a file system without hard links."""
_ATTEMPTS: Final = 5


def open_location(location: str) -> tuple[Any, str]:
    """Return the file system of a path or URI (s3://, gs://, hdfs://, ...), and the path on it.

    Raises:
        InputError: The URI cannot be opened, or the name is not UTF-8.
    """
    load_pyarrow()
    from pyarrow.fs import FileSystem, LocalFileSystem

    check_name(location)
    if "://" not in location:
        return LocalFileSystem(), os.path.abspath(location)
    try:
        file_system, path = FileSystem.from_uri(location)
    except (ValueError, OSError, ImportError) as error:
        raise InputError(f"{location}: cannot open it: {error}") from None
    return file_system, path.rstrip("/")


def check_name(location: str) -> None:
    """Raise an `InputError` for a name that is not UTF-8, which pyarrow cannot open."""
    try:
        location.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{utf8_name(location)}: the name of the file is not UTF-8. Rename it."
        ) from None


class Folder:
    """Folder whose files are written as a whole, by any number of processes."""

    def __init__(self, location: str) -> None:
        self.is_local = "://" not in location
        self.location = os.path.abspath(location) if self.is_local else location
        self._file_system, self.root = open_location(location)

    def read(self, name: str, n_bytes: int | None = None) -> bytes | None:
        """Read a file, or its first bytes. Return None if it is missing."""
        with (
            suppress(FileNotFoundError),
            self._errors_named(),
            self._file_system.open_input_stream(self._path(name)) as file,
        ):
            content: bytes = file.read(n_bytes)
            return content
        return None

    def open_parquet(self, name: str) -> Any:
        """Open a file of Parquet with pyarrow."""
        from pyarrow import parquet

        return parquet.ParquetFile(self._path(name), filesystem=self._file_system)

    def write(self, name: str, content: bytes) -> None:
        """Write a small file, or replace it."""
        self._write_small(name, content, replaces=True)

    def create(self, name: str, content: bytes) -> bool:
        """Write a small file. Return False if there is one of that name."""
        return self._write_small(name, content, replaces=False)

    def _write_small(self, name: str, content: bytes, *, replaces: bool) -> bool:
        def write(file: IO[bytes]) -> bool:
            file.write(content)
            return True

        for _ in range(_ATTEMPTS - 1):
            with suppress(FileNotFoundError):  # Another run has removed the temporary folder.
                return bool(self.publish(name, write, replaces=replaces))
        try:
            return bool(self.publish(name, write, replaces=replaces))
        except FileNotFoundError as error:
            raise output_error(Path(self._path(name)), error) from None

    def publish(
        self,
        name: str,
        write: Callable[[IO[bytes]], _Result],
        *,
        temporary: str = TEMPORARY,
        replaces: bool = True,
    ) -> _Result | None:
        """Write a file under a temporary name, then give it its own.

        Args:
            name: Name in the folder.
            write: Function that writes the content; its result is returned.
            temporary: Folder of the temporary name, in the folder.
            replaces: Replace a file of that name. Otherwise return None if there is one.

        Raises:
            OutputError: The file cannot be written.
            FileNotFoundError: Another process has removed the temporary file.
        """
        partial = f"{temporary}/{uuid.uuid4().hex}"
        try:
            with self._opened(partial) as file:
                result = write(file)
                if self.is_local:
                    file.flush()
                    os.fsync(file.fileno())
            return result if self._name(partial, name, replaces=replaces) else None
        except FileNotFoundError:
            raise
        except OSError as error:
            raise output_error(Path(self._path(name)), error) from None
        finally:
            with suppress(OSError):
                self._file_system.delete_file(self._path(partial))

    def _opened(self, partial: str) -> Any:
        """Open a new file, in a folder that another run may remove at the same time."""
        path = self._path(partial)
        for _ in range(_ATTEMPTS - 1):
            with suppress(FileNotFoundError):
                return self._open_new(path)
        return self._open_new(path)

    def _open_new(self, path: str) -> Any:
        self._file_system.create_dir(os.path.dirname(path), recursive=True)
        return open(path, "xb") if self.is_local else self._file_system.open_output_stream(path)

    def _name(self, partial: str, name: str, *, replaces: bool) -> bool:
        """Give a complete file its name. Return False if another file has it and is kept."""
        source, target = self._path(partial), self._path(name)
        if not self.is_local:
            if not replaces and self.has(name):
                return False
            self._file_system.create_dir(os.path.dirname(target), recursive=True)
            self._file_system.move(source, target)
            return True
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if replaces:
            os.replace(source, target)
        elif not _link(source, target):
            return False
        sync(Path(target).parent)
        return True

    def move(self, source: str, target: str) -> None:
        """Move a file, and replace what has its new name."""
        try:
            if self.is_local:
                os.replace(self._path(source), self._path(target))
            else:
                self._file_system.move(self._path(source), self._path(target))
        except OSError as error:
            raise output_error(Path(self._path(target)), error) from None

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        with self._errors_named():
            return bool(self._file_system.get_file_info(self._path(name)).is_file)

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder of the folder, sorted."""
        return sorted(info.base_name for info in self._infos(folder))

    def newest(self, folder: str) -> float:
        """Return when the newest file in a folder of the folder was written, in seconds."""
        return max((info.mtime_ns or 0 for info in self._infos(folder)), default=0) / 1e9

    def _infos(self, folder: str) -> list[Any]:
        from pyarrow.fs import FileSelector

        selector = FileSelector(self._path(folder), allow_not_found=True)
        with self._errors_named():
            infos: list[Any] = self._file_system.get_file_info(selector)
            return infos

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        with suppress(FileNotFoundError), self._errors_named():
            self._file_system.delete_file(self._path(name))

    def remove_folder(self, name: str) -> None:
        """Remove a folder of the folder with all in it, as far as no other run writes to it."""
        if self.is_local:
            shutil.rmtree(self._path(name), ignore_errors=True)
            return
        with suppress(FileNotFoundError), self._errors_named():
            self._file_system.delete_dir(self._path(name))

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock against other processes, where the file system has locks."""
        if not self.is_local:
            yield
            return
        path = Path(self._path(name))
        try:
            held = lock(path, seconds=_LOCK_SECONDS)
        except BlockingIOError:
            raise OutputError(
                f"{self.location}: another run has locked the folder. Wait for it, or stop it."
            ) from None
        except OSError as error:
            raise output_error(path, error) from None
        try:
            yield
        finally:
            unlock(held)

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Turn errors of the file system into an `OutputError`, but keep `FileNotFoundError`."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = system_reason(error)
            raise OutputError(f"{self.location}: cannot use the folder: {reason}.") from None

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root


def _link(source: str, target: str) -> bool:
    """Give a file a second name. Return False if another file has it."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.exists(target):
            return False
        os.replace(source, target)
    return True


PLAN: Final = "_elmo/plan.json"
SEAL: Final = "_elmo/complete.parquet"
"""File with the plan and the attributes of a complete folder: see `write_seal`."""
_START: Final = re.compile(rb'\{"sha256": "([0-9a-f]{64})"')
_START_BYTES: Final = 128
_REMEDY: Final = "Use --overwrite to start over."


class Part(NamedTuple):
    """A stretch of an input, which becomes one file."""

    number: int
    first: int
    """Number of its first record in the whole input, from 0."""
    path: str
    start: int
    """Byte of the file at which it starts, or row of Parquet, from 0."""
    line: int
    """Line of the file at which it starts, or row, from 1."""
    n_lines: int
    n_records: int
    fingerprint: str = ""
    """Size and time of the file when the plan was made."""
    sha256: str = ""
    """SHA-256 of its bytes, after decompression. Parquet has none."""

    def __str__(self) -> str:
        records = f"{self.n_records:,} records from {self.line:,}"
        return f"part {self.number} ({self.path}, {records})"


@dataclass(frozen=True)
class Plan:
    """The parts of a folder, and the settings that their values depend on."""

    settings: dict[str, str]
    """Settings of the values, and the inputs. A run with other settings is refused."""
    parts: list[Part]
    part_mb: float | None = None
    """Size of the parts, where the user has given it."""
    stored_sha256: str = field(default="", compare=False)
    """Hash in the file; empty where version 0.1 wrote it, whose parts do not name their plan."""
    column_types: str = field(default="", kw_only=True)
    """Types of the ids and of the kept columns of all parts; see `ColumnTypes.encode`."""
    is_next: bool = field(default=False, compare=False)
    """True for a plan that replaces the plan of the folder when its parts are complete."""

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    @property
    def n_records(self) -> int:
        """Number of records of all parts."""
        return sum(part.n_records for part in self.parts)

    @property
    def subfolder(self) -> str:
        """Subfolder of the parts while they are written; empty for the plan of the folder."""
        return next_subfolder(self.sha256) if self.is_next else ""

    def encode(self) -> bytes:
        """Return the content of the file. The hash comes first: see `read_plan_sha256`."""
        return json.dumps({"sha256": self.sha256, **self._content()}).encode()

    def _content(self) -> dict[str, Any]:
        parts = [part._asdict() for part in self.parts]
        content = {"part_mb": self.part_mb, "settings": self.settings, "parts": parts}
        return content | ({"column_types": self.column_types} if self.column_types else {})


class _PlanForm(NamedTuple):
    settings: dict[str, str]
    parts: list[Part]
    sha256: str = ""
    part_mb: float | None = None
    column_types: str = ""


def next_subfolder(sha256: str) -> str:
    """Return the subfolder of the parts of a plan that replaces another plan."""
    return f"_elmo/next-{sha256[:16]}"


def plan_name(subfolder: str = "") -> str:
    """Return the name of a plan's file, in the folder or in the subfolder of a next plan."""
    return f"{subfolder}/plan.json" if subfolder else PLAN


def read_plan(folder: Folder, subfolder: str = "") -> Plan | None:
    """Read a plan. Return None if the folder has no plan.

    Raises:
        InputError: The file is damaged.
    """
    content = folder.read(plan_name(subfolder))
    if content is None:
        return None
    content = content or read_seal(folder, plan_name(subfolder))
    name = f"{folder.location}/{plan_name(subfolder)}"
    stored = parse_json(content, _PlanForm, name, _REMEDY)
    plan = Plan(
        *(stored.settings, stored.parts, stored.part_mb, stored.sha256),
        column_types=stored.column_types,
        is_next=subfolder != "",
    )
    if stored.sha256 not in ("", plan.sha256):
        raise InputError(
            f"{name}: the file is damaged: its content does not match its hash. {_REMEDY}"
        )
    return plan


def read_plan_sha256(folder: Folder) -> str | None:
    """Read only the hash of the folder's plan, because the file may be large.

    Return None if there is no plan, or one of version 0.1, or a damaged one.
    """
    start = folder.read(PLAN, _START_BYTES)
    match = _START.match(read_seal(folder, PLAN) if start == b"" else start or b"")
    return match[1].decode() if match else None


def write_seal(folder: Folder, first_part: str, contents: Mapping[str, bytes]) -> None:
    """Move the files that describe a complete folder into one file of Parquet.

    It has no rows, and the columns of the parts, so that polars can read the folder. polars stops
    at other files, unless they are empty. `PLAN` stays as an empty file, because a folder has a
    plan as long as the file exists.

    Args:
        folder: Complete folder.
        first_part: Name of its first part.
        contents: Contents of the files by their names.
    """
    import pyarrow
    from pyarrow import parquet

    schema = folder.open_parquet(first_part).schema_arrow
    buffer = pyarrow.BufferOutputStream()
    parquet.write_table(schema.with_metadata(dict(contents)).empty_table(), buffer)
    folder.write(SEAL, buffer.getvalue().to_pybytes())
    for name in contents:
        if name != PLAN:
            folder.remove(name)
    folder.write(PLAN, b"")


def read_seal(folder: Folder, name: str) -> bytes:
    """Read a file that `write_seal` has moved. Return empty bytes if it is missing."""
    import pyarrow

    try:
        metadata = folder.open_parquet(SEAL).metadata.metadata or {}
    except (pyarrow.ArrowException, OSError):
        return b""
    content: bytes = metadata.get(name.encode(), b"")
    return content


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
