"""The checkpoint of a run: one file, whole or not at all, whatever ends the process.

It is written under another name, synced, and renamed over the checkpoint before.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import torch

from elmo_cli.atomic import write_synced
from elmo_cli.errors import ModelError, OutputError, first_line
from elmo_cli.pretrained.model_files import candidates

CHECKPOINT = "checkpoint.pt"
LOCK = ".lock"


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write the checkpoint of a folder.

    Args:
        folder: it is there.
        state: tensors, numbers, text, and lists and dictionaries of them.

    Raises:
        OutputError: it cannot be written; the checkpoint before is as it was.
    """
    write_whole(folder / CHECKPOINT, lambda file: torch.save(state, file))


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The state of a folder's checkpoint, on the CPU; None where there is none.

    Nothing but tensors, numbers and text is read: a checkpoint cannot run code.

    Raises:
        ModelError: the file is damaged.
    """
    try:
        state: dict[str, Any] = torch.load(
            folder / CHECKPOINT, map_location="cpu", weights_only=True
        )
        if not isinstance(state, dict):
            raise TypeError(f"expected a dictionary, found {type(state).__name__}")
    except FileNotFoundError:
        return None
    except Exception as error:  # whatever the file holds
        raise damaged(folder, first_line(error)) from None
    return state


def check_no_other_model(folder: Path) -> None:
    """Make sure that a folder without a checkpoint has no weights, which would be lost.

    Raises:
        ModelError: it has.
    """
    found = [] if (folder / CHECKPOINT).exists() else candidates(folder, "weights")
    if found:
        raise ModelError(
            f"{folder}: expected a new folder or one of a run, found {found[0].name} and no "
            f"{CHECKPOINT}; name another folder, and --init-from {folder} to start from that model"
        )


def damaged(folder: Path, reason: str) -> ModelError:
    """What to say where the checkpoint of a folder is not as it was written."""
    return ModelError(
        f"{folder / CHECKPOINT}: the checkpoint is damaged ({reason}); name another folder, or "
        f"remove {folder} to train from the start"
    )


def other_run(folder: Path, changed: Sequence[str]) -> ModelError:
    """What to say where the checkpoint of a folder is of another run, by what has changed."""
    return ModelError(
        f"{folder}: the run that was begun there has another {' and '.join(changed)}; give the "
        f"same command to go on, or another folder and --init-from {folder} for a new run"
    )


def write_text(path: Path, text: str) -> None:
    """Write a file of text, whole or not at all.

    Raises:
        OutputError: it cannot be written.
    """
    write_whole(path, lambda file: file.write(text.encode()))


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file, which appears under its name when it is complete and on the disk.

    Raises:
        OutputError: it cannot be written; a file of that name is as it was.
    """
    try:
        write_synced(path, write)
    except (OSError, RuntimeError) as error:  # torch has the second for the first
        reason = getattr(error, "strerror", None) or first_line(error)
        kept = "; the one before is kept" if path.exists() else ""
        raise OutputError(f"{path}: cannot be written: {reason}{kept}") from None


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other processes from training into it.

    Where an error ends it and nothing was written, nothing is left behind.

    Raises:
        OutputError: it cannot be made, or another process trains into it.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / LOCK, "wb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror}") from None
    with lock:  # closing it gives the lock back
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock.fileno()).st_nlink == 0:  # another one removed it as it ended
                raise BlockingIOError
        except BlockingIOError:
            raise OutputError(f"{folder}: another process trains into it") from None
        try:
            yield
        except BaseException:
            _remove_unused(folder, missing)
            raise


def _remove_unused(folder: Path, made: Sequence[Path]) -> None:
    """Remove the lock where a folder holds nothing else, and the folders that were made for it."""
    with suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            for path in made:
                path.rmdir()
