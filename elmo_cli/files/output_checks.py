"""Checks of a file before it is written, and the error if it cannot be."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import ElmoError, MissingFolderError, OutputError
from elmo_cli.errors.messages import literal
from elmo_cli.errors.wording import system_reason
from elmo_cli.files.output_names import names_of_output

_REMEDIES: Final = {
    errno.ENOSPC: "Make room and run the command again.",
    errno.EDQUOT: "Make room in your quota and run the command again.",
    errno.EBUSY: "Close the program that has it open and run the command again.",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f) and run the command "
    "again.",
}
"""Remedies for an output that cannot be written, by the number of the error."""


def check_not_read(path: str | Path, sources: Iterable[str | Path | None]) -> None:
    """Raise an `OutputError` if writing a file would change one that is read.

    Such a file has the name of the output, or one that a run takes beside it. It is
    found by any of its own names. A source that is None is skipped.
    """
    read = [each for each in sources if each is not None and os.path.exists(each)]
    target = Path(os.path.realpath(path) if os.path.islink(path) else path)
    for written in names_of_output(target):
        if not os.path.exists(written):
            continue
        for source in read:
            if os.path.samefile(written, source):
                raise _is_read_error(path, source, is_output=written == target)


def _is_read_error(
    path: str | Path, source: str | Path, *, is_output: bool
) -> OutputError:
    problem = "the output is also an input"
    if not is_output:
        problem = f"a run with this output would replace its input {source}"
    return OutputError(f"{path}: {problem}", remedy="Choose another output.")


def check_output(
    path: str | Path,
    *sources: str | Path | None,
    may_exist: bool,
    is_compared: bool = False,
) -> None:
    """Raise an `OutputError` if a file cannot be written or is one of the `sources`.

    If it exists, that is an error too, unless `may_exist` is True. Such a file is
    replaced, or continued. If it `is_compared`, it is only read.
    """
    name = os.fspath(path)
    if not name:  # Its Path would be the current folder.
        problem = "the name of the output is empty"
        raise OutputError(problem, remedy="Give the name of a file.")
    if name.endswith(os.sep) and not os.path.exists(path):
        # Its Path would be a file.
        raise MissingFolderError(
            f"{name}: the folder does not exist",
            remedy=f"Name a file, such as {literal(f'{name}vectors.hdf5')}.",
        )
    path = Path(path)
    check_not_read(path, sources)
    # The methods of Path raise an error for a name that is too long.
    if os.path.exists(path):
        if not os.path.isfile(path):
            found = "a device or a pipe"
            remedy = "Name a file."
            if os.path.isdir(path):
                found = "a folder"
                remedy = f"Name a file in it, such as {literal(path / 'vectors.hdf5')}."
            raise OutputError(
                f"{path}: expected an output file, found {found}", remedy=remedy
            )
        if not may_exist:
            raise exists_error(path)
        if is_compared:
            return
    if not path.parent.is_dir():
        raise MissingFolderError(
            f"{path}: the folder {path.parent} does not exist",
            remedy="Create it first.",
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {path.parent} is not writable")


def is_written_error(path: str | Path) -> OutputError:
    """Return the error for an output that another process has locked."""
    problem = "another process is writing it"
    return OutputError(f"{path}: {problem}", remedy="Wait, or stop it.")


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
