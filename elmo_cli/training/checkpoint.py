"""The checkpoint of a run: one file, whole or not at all, whatever ends the process.

It is written under another name, synced, and renamed over the checkpoint before.
"""

import pickle
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import torch

from elmo_cli.atomic import lock, unlock, write_synced
from elmo_cli.errors import ModelError, OutputError, first_line, system_reason
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
        ModelError: the file is damaged, or cannot be read.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    _check_archive(folder)
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise damaged(folder, first_line(error)) from None
    if not isinstance(state, dict):
        raise damaged(folder, f"expected a dictionary, found {type(state).__name__}")
    return state


def _check_archive(folder: Path) -> None:
    """Compare all of a checkpoint with the checksums in it."""
    try:
        with zipfile.ZipFile(folder / CHECKPOINT) as archive:
            names = [name.rpartition("/")[2] for name in archive.namelist()]
            broken = archive.testzip()
    except OSError as error:
        path = folder / CHECKPOINT
        raise ModelError(f"{path}: cannot be read: {system_reason(error)}") from None
    except (EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged(folder, first_line(error)) from None
    if broken is not None:
        raise damaged(folder, f"wrong checksum of {broken}")
    if "data.pkl" not in names or "constants.pkl" in names:  # TorchScript has the second: code
        raise damaged(folder, "not a file of torch.save")


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
        f"same command to resume it, or another folder and --init-from {folder} for a new run"
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
    except (OSError, RuntimeError) as error:
        # Torch raises a RuntimeError of its own while it handles that of the file.
        reason = error if isinstance(error, OSError) else error.__context__
        if not isinstance(reason, OSError):
            raise
        kept = "; the one before is kept" if path.exists() else ""
        raise OutputError(f"{path}: cannot be written: {system_reason(reason)}{kept}") from None


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
        held = lock(folder / LOCK)
    except BlockingIOError:
        raise OutputError(f"{folder}: another process trains into it") from None
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {system_reason(error)}") from None
    try:
        yield
    finally:
        unlock(held)
        _remove_unused(missing)


def _remove_unused(made: Sequence[Path]) -> None:
    """Remove the folders that were made and are empty, the innermost first."""
    with suppress(OSError):  # the first that is not empty
        for path in made:
            path.rmdir()
