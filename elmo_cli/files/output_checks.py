"""Checks of a file before it is written, and the error if it cannot be."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import ElmoError, MissingFolderError, OutputError
from elmo_cli.errors.wording import system_reason

_REMEDIES: Final = {
    errno.ENOSPC: "Make room and run the command again.",
    errno.EDQUOT: "Make room in your quota and run the command again.",
    errno.EBUSY: "Close the program that has it open and run the command again.",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f) and run the command "
    "again.",
}
"""Remedies for an output that cannot be written, by the number of the error."""


def check_not_read(path: str | Path, sources: Iterable[str | Path | None]) -> None:
    """Raise an `OutputError` if a file to write is one of those that are read.

    It is found by any of its names. A source that is None is skipped.
    """
    if not os.path.exists(path):
        return
    for source in sources:
        if source is None or not os.path.exists(source):
            continue
        if os.path.samefile(path, source):
            raise OutputError(
                f"{path}: the output is also an input", remedy="Choose another output."
            )


def check_output(
    path: str | Path, *sources: str | Path | None, may_exist: bool
) -> None:
    """Raise an `OutputError` if a file cannot be written or is one of the `sources`.

    If it exists, that is an error too, unless `may_exist` is True. Such a file is
    replaced, or continued.
    """
    path = Path(path)
    check_not_read(path, sources)
    # The methods of Path raise an error for a name that is too long.
    if os.path.exists(path):
        if not os.path.isfile(path):
            found = "a device or a pipe"
            remedy = None
            if os.path.isdir(path):
                found = "a folder"
                remedy = f"Name a file in it, such as {path / 'vectors.hdf5'}."
            raise OutputError(
                f"{path}: expected an output file, found {found}", remedy=remedy
            )
        if not may_exist:
            raise exists_error(path)
    if not path.parent.is_dir():
        raise MissingFolderError(
            f"{path}: the folder {path.parent} does not exist",
            remedy="Create it first.",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {path.parent} is not writable")


def exists_error(path: Path) -> OutputError:
    """Return the error for an output that exists and is not overwritten."""
    return OutputError(
        f"{path}: already exists", remedy="Use {--overwrite True} to replace it."
    )


def output_error(path: Path, error: OSError) -> ElmoError:
    """Return the error for an output that cannot be written; keep our own errors."""
    if isinstance(error, ElmoError):
        return error
    return OutputError(
        f"{path}: cannot write the output: {system_reason(error)}",
        remedy=_REMEDIES.get(error.errno or 0),
    )
