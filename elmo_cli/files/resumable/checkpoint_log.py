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
from elmo_cli.files.atomic import renamed
from elmo_cli.files.locks import lock, unlock
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


@dataclass(frozen=True)
class UnfinishedPaths:
    """Paths of the files next to an output until it is complete."""

    partial: Path
    log: Path
    lock: Path


def unfinished_paths(final: Path) -> UnfinishedPaths:
    """Return the paths of an unfinished file, its log and its lock."""
    name = f"{final.name}.partial"
    return UnfinishedPaths(
        partial=final.with_name(name),
        log=final.with_name(f"{name}.log"),
        lock=final.with_name(f"{name}.lock"),
    )


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
    with renamed(path) as partial, disk.create(partial) as file:
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
        remedy=[
            f"Move it away, or choose another output. {START_OVER}",
            "Move it away, or choose another output.",
        ],
    )


def remove_log(final: Path) -> None:
    """Remove the log of a complete file, left by a kill after the file was renamed."""
    paths = unfinished_paths(final)
    if not os.path.isfile(paths.log) or os.path.lexists(paths.partial):
        return
    with suppress(OSError, OutputError):
        read_checkpoint_log(paths.log)
        held = lock(paths.lock)
        if not os.path.lexists(paths.partial):  # Another run may have begun.
            disk.remove(paths.log)
        unlock(held)
