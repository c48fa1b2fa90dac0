"""Log of a checkpoint: what restores an unfinished file after a kill.

OUTPUT.partial is the unfinished file, and OUTPUT.partial.log the log of its last
checkpoint. The log holds the changed pages, the size, a checksum of the whole file and
the state of the run. The checkpoint is complete as soon as the log has its name.

The log is created first: a file called OUTPUT.partial without a log belongs to another
program, and is never changed.
"""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from elmo_cli.errors.exceptions import OutputError
from elmo_cli.files import disk
from elmo_cli.files.atomic import path_of_new_file
from elmo_cli.files.locks import lock, unlock
from elmo_cli.files.output_names import UnfinishedPaths, unfinished_paths
from elmo_cli.files.resumable.pages import PAGE_BYTES, Pages

State = dict[str, Any]
"""State of a run, as values of JSON."""

START_OVER: Final = "Use {--overwrite True} to start over."


@dataclass(frozen=True)
class FileCheckpoint:
    """State of a file that a run can continue from, with the pages that changed."""

    size: int = 0
    state: State | None = None
    """State of the run; None before its first checkpoint."""
    pages: Pages = field(default_factory=dict)
    """Pages that have changed since the checkpoint before."""
    checksum: int = 0
    """Checksum of the whole file, these pages included."""
    old_checksum: int | None = None
    """Checksum in logs of versions that knew no other one."""


def write_log(path: Path, checkpoint: FileCheckpoint) -> None:
    """Write a log atomically: its SHA-256, one line of JSON, the changed pages."""
    header = {
        "size": checkpoint.size,
        "state": checkpoint.state,
        "pages": list(checkpoint.pages),
        "page_checksum": checkpoint.checksum,
    }
    line = json.dumps(header).encode()
    content = b"".join([line, b"\n", *checkpoint.pages.values()])
    sha256 = hashlib.sha256(content).hexdigest().encode()
    with path_of_new_file(path) as partial, disk.create(partial) as file:
        file.writelines([sha256, b"\n", content])


def read_checkpoint_log(path: Path) -> FileCheckpoint:
    """Read a log. It belongs to this program if its hash is right."""
    # Opening a named pipe would wait for its writer.
    written = path.read_bytes() if path.is_file() else b""
    sha256, _, content = written.partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode() != sha256:
        raise _not_a_log_error(path)
    line, _, body = content.partition(b"\n")
    header = json.loads(line)
    if not header.keys() & {"page_checksum", "checksum"}:
        raise _not_a_log_error(path)  # Versions before the first release wrote none.
    starts = range(0, len(body), PAGE_BYTES)
    pages = [bytearray(body[start : start + PAGE_BYTES]) for start in starts]
    return FileCheckpoint(
        size=header["size"],
        state=header["state"],
        pages=dict(zip(header["pages"], pages, strict=True)),
        checksum=header.get("page_checksum", 0),
        old_checksum=header.get("checksum"),
    )


def _not_a_log_error(path: Path) -> OutputError:
    return OutputError(
        f"{path}: not a log of an unfinished `elmo embed` output",
        remedy="Move it away, or choose another output.",
    )


def remove_leftovers(final: Path) -> None:
    """Remove the log, the unfinished name and the lock of a complete file.

    A kill has left them after the file got its own name. The lock may be the last.
    """
    paths = unfinished_paths(final)
    with suppress(OSError, OutputError):
        if not os.path.lexists(paths.lock) and not _has_leftovers(paths, final):
            return
        if os.path.lexists(paths.log):
            read_checkpoint_log(paths.log)
        held = lock(paths.lock)
        try:
            if _has_leftovers(paths, final):  # Another run may have begun.
                disk.remove(paths.partial, missing_ok=True)
                disk.remove(paths.log, missing_ok=True)
        finally:
            unlock(held)


def _has_leftovers(paths: UnfinishedPaths, final: Path) -> bool:
    """Return whether a complete file has a second name, or a log without its file."""
    partial = disk.identity_at(paths.partial)
    if partial is None:
        return os.path.lexists(paths.log)
    return partial == disk.identity_at(final)
