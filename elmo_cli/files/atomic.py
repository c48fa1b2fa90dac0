"""Atomic writes: a file is written as `NAME.elmo-partial`, synced, then renamed.

No other program makes files of this name, so that one which a killed run has left can
be removed.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from elmo_cli.errors.exceptions import ElmoError, OutputError
from elmo_cli.errors.messages import literal
from elmo_cli.files import disk
from elmo_cli.files.output_names import partial_path


class AppearedError(OutputError):
    """Error for a file that somebody else has created at the name of an output."""


def appeared_error(path: Path, partial: Path) -> AppearedError:
    """Return the error for a file that appeared at a name, for which `partial` is."""
    problem = "another program created this file during the run"
    remedy = f"The finished output is {literal(partial)}. Rename one of the two."
    return AppearedError(f"{path}: {problem}", remedy=remedy)


def check_is_own(partial: Path, own: disk.FileIdentity) -> None:
    """Raise an `OutputError` unless an unfinished file still has its name."""
    if disk.identity_at(partial) != own:
        problem = "another program has removed or replaced this file during the run"
        raise OutputError(f"{partial}: {problem}", remedy="Run the command again.")


@contextmanager
def path_of_new_file(path: Path, partial: Path | None = None) -> Iterator[Path]:
    """Yield the path at which to write a file, and rename it to `path` at the end.

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
def new_file(path: str | Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Yield an open file, and give it its name `path` at the end.

    Without `overwrite`, a file that has appeared there is kept, and so is the new one
    under its unfinished name. Errors of the system are an `OutputError`.
    """
    path = Path(path)
    partial = partial_path(path)
    own = None
    try:
        disk.remove(partial, missing_ok=True)  # It may be a link.
        with disk.create(partial) as file:
            own = disk.identity(file)
            yield file
        check_is_own(partial, own)
        disk.sync(partial)
        give_name(partial, path, overwrite=overwrite)
        disk.sync(path.parent)
    except AppearedError:
        own = None  # The finished file is kept.
        raise
    except OSError as error:
        if isinstance(error, ElmoError):
            raise
        reason = error.strerror or error
        raise OutputError(f"{path}: cannot be written: {reason}") from None
    finally:
        if own is not None and disk.identity_at(partial) == own:
            disk.remove(partial)


def give_name(partial: Path, path: Path, *, overwrite: bool) -> None:
    """Rename a finished file. Without `overwrite`, keep a file that has the name."""
    if overwrite:
        disk.replace(partial, path)
        return
    try:
        disk.link(partial, path)
    except FileExistsError:
        raise appeared_error(path, partial) from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of text to a file atomically."""
    with new_file(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
