"""Folders on a local disk, or on a file system that pyarrow supports.

Any number of processes write files there, each as a whole. Object stores cannot create
a file exclusively: see "Distributed runs" in docs/architecture.md.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO, Any, Final, TypeVar

from elmo_cli.errors.exceptions import InputError, OutputError
from elmo_cli.errors.optional_imports import load_pyarrow
from elmo_cli.errors.wording import system_reason, utf8_name
from elmo_cli.files import disk
from elmo_cli.files.output_checks import output_error
from elmo_cli.files.parquet_files import open_parquet, read_metadata

WORK: Final = "_elmo/work"
"""Folder for unfinished files, below each `Folder`."""

_Result = TypeVar("_Result")


def find_file_system(location: str) -> tuple[Any, str]:
    """Return the file system of a location, and the path on it.

    The location is a path, or a URI such as s3://, gs:// or hdfs://.
    """
    load_pyarrow()
    from pyarrow.fs import FileSystem, LocalFileSystem

    check_name_is_utf8(location)
    if "://" not in location:
        return LocalFileSystem(), os.path.abspath(location)
    if location.startswith(("gs:", "gcs:")) and "retry_limit_seconds" not in location:
        # Without a network it would try for 15 minutes.
        separator = "&" if "?" in location else "?"
        location += f"{separator}retry_limit_seconds=10"
    try:
        file_system, path = FileSystem.from_uri(location)
    except (ValueError, OSError, ImportError) as error:
        raise InputError(f"{location}: cannot open it: {error}") from error
    return file_system, path.rstrip("/")


def check_name_is_utf8(location: str) -> None:
    """Raise an `InputError` for a name that is not UTF-8, which pyarrow cannot open."""
    try:
        location.encode()
    except UnicodeEncodeError:
        name = utf8_name(location)
        raise InputError(
            f"{name}: the name of the file is not UTF-8", remedy="Rename it."
        ) from None


class Folder:
    """Folder whose files are written as a whole, by any number of processes."""

    def __init__(self, location: str) -> None:
        self._file_system, self._root = find_file_system(location)
        # A URI may also begin with file://.
        self.is_local = self._file_system.type_name == "local"
        self.location = self._root if self.is_local else location
        self.typed = location  # for messages

    def read(self, name: str) -> bytes | None:
        """Read a small file. Return None if it is missing."""
        open_file = self._file_system.open_input_stream
        with (
            suppress(FileNotFoundError),
            self._as_output_errors(),
            open_file(self._path(name)) as file,
        ):
            return bytes(file.read())
        return None

    def open_parquet(self, name: str) -> Any:
        """Open a file of Parquet; see `open_parquet`."""
        return open_parquet(self._path(name), self._file_system)

    def read_parquet_metadata(self, name: str) -> Any:
        """Read the metadata of a file of Parquet; see `read_metadata`."""
        return read_metadata(self._path(name), self._file_system)

    def create(self, name: str, content: bytes) -> None:
        """Write a small file, unless there is one of that name."""
        try:
            self.publish(name, lambda file: file.write(content), replaces=False)
        except OutputError:
            if not self.has(name):
                raise

    def write(self, name: str, content: bytes) -> None:
        """Write a small file, or replace it."""
        self.publish(name, lambda file: file.write(content))

    def publish(
        self, name: str, write: Callable[[IO[bytes]], _Result], *, replaces: bool = True
    ) -> _Result:
        """Write a file under a temporary name, then give it its own name.

        Unless it `replaces`, a file of that name is kept. Return what `write` returns.
        If this raises, another run may still have written the file.
        """
        publish = self._publish_on_disk if self.is_local else self._publish_elsewhere
        try:
            return publish(name, write, replaces=replaces)
        except OSError as error:
            raise output_error(Path(self._path(name)), error) from error

    def _publish_on_disk(
        self, name: str, write: Callable[[IO[bytes]], _Result], *, replaces: bool
    ) -> _Result:
        """Write a file on a local disk; see `publish`."""
        unfinished = self._path(f"{WORK}/{uuid.uuid4().hex}")
        target = self._path(name)
        try:
            disk.make_folder(os.path.dirname(unfinished))
            disk.make_folder(os.path.dirname(target))
            with disk.create(unfinished) as file:
                result = write(file)
                disk.sync_file(file)
            if replaces:
                disk.replace(unfinished, target)
            else:
                with suppress(FileExistsError):
                    disk.link(unfinished, target)
            disk.sync(Path(target).parent)
            return result
        finally:
            with suppress(OSError):
                disk.remove(unfinished)

    def _publish_elsewhere(
        self, name: str, write: Callable[[IO[bytes]], _Result], *, replaces: bool
    ) -> _Result:
        """Write a file on a file system of pyarrow; see `publish`."""
        unfinished = self._path(f"{WORK}/{uuid.uuid4().hex}")
        target = self._path(name)
        try:
            for path in (unfinished, target):
                self._file_system.create_dir(os.path.dirname(path), recursive=True)
            with self._file_system.open_output_stream(unfinished) as file:
                result = write(file)
            if replaces or not self.has(name):
                self._file_system.move(unfinished, target)
            return result
        finally:
            with suppress(OSError):
                self._file_system.delete_file(unfinished)

    def has(self, name: str) -> bool:
        """Return whether there is a regular file of that name."""
        with self._as_output_errors():
            return bool(self._file_system.get_file_info(self._path(name)).is_file)

    def holds(self, location: str) -> bool:
        """Return whether a path or URI is in the folder, or is the folder."""
        file_system, path = find_file_system(location)
        if file_system != self._file_system:
            return False
        root = self._root
        if file_system.type_name == "local":
            path = os.path.realpath(path)
            root = os.path.realpath(root)
        return PurePath(path).is_relative_to(root)

    def names(self, *, only_files: bool = False) -> list[str]:
        """Return the names in the folder, sorted."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(self._root, allow_not_found=True)
        with self._as_output_errors():
            infos = self._file_system.get_file_info(selector)
        return sorted(
            info.base_name for info in infos if info.is_file or not only_files
        )

    def remove_folder(self, name: str) -> None:
        """Remove a folder of the folder, as far as no other run writes to it."""
        with suppress(OSError):
            if self.is_local:
                disk.remove_tree(self._path(name), ignore_errors=True)
            else:
                self._file_system.delete_dir(self._path(name))

    @contextmanager
    def _as_output_errors(self) -> Iterator[None]:
        """Turn errors of the file system into an `OutputError`, but no missing file."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = system_reason(error)
            raise OutputError(
                f"{self.location}: cannot use the folder: {reason}"
            ) from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"
