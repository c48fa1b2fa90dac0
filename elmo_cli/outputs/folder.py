"""A folder on a local or shared disk, or on any file system that pyarrow knows.

              local and shared disks             object stores
write         atomic: the file is renamed        atomic: one small upload
create        exclusive: link(2) refuses a       not exclusive: the last writer wins, and callers
              name that exists                   compare what they find afterwards
move          atomic                             a copy by the store, then a removal
lock          exclusive, where locks work        none
"""

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from elmo_cli.atomic import lock, output_error, sync, unlock
from elmo_cli.errors import InputError, OutputError, system_reason, utf8_name
from elmo_cli.outputs.formats import load_pyarrow

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
