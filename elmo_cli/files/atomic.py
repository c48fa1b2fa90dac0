"""Atomic writes: a file is written as `NAME.elmo-partial`, synced, then renamed.

No other program makes files of this name, so that one which a killed run has left can
be removed.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from elmo_cli.errors.exceptions import ElmoError, OutputError
from elmo_cli.files import disk


def partial_path(path: Path) -> Path:
    """Return the name of a file until it is complete."""
    return path.with_name(f"{path.name}.elmo-partial")


@contextmanager
def renamed(path: Path, partial: Path | None = None) -> Iterator[Path]:
    """Yield the path of a file to write, and rename it to `path` at the end.

    The file is `NAME.elmo-partial`, or `partial`. It is synced first, and removed if
    the block fails.
    """
    partial = partial or partial_path(path)
    try:
        disk.remove(partial, missing_ok=True)  # It may be a link.
        yield partial
        disk.sync(partial)
        disk.replace(partial, path)
        disk.sync(path.parent)
    finally:
        disk.remove(partial, missing_ok=True)


@contextmanager
def replaced(path: str | Path) -> Iterator[BinaryIO]:
    """Yield an open file, and rename it to `path` at the end, as `renamed` does.

    Errors of the system are an `OutputError`.
    """
    try:
        with renamed(Path(path)) as partial, disk.create(partial) as file:
            yield file
    except OSError as error:
        if isinstance(error, ElmoError):
            raise
        reason = error.strerror or error
        raise OutputError(f"{path}: cannot be written: {reason}") from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of text to a file atomically."""
    with replaced(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
