"""The checkpoint of a run: one file, whole or not at all, whatever ends the process."""

import pickle
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from elmo_cli.atomic import lock, replaced, unlock
from elmo_cli.errors import ModelError, OutputError, first_line, system_reason
from elmo_cli.pretrained.model_files import candidates
from elmo_cli.training.options import RUN_LENGTH, TrainingOptions, shown

CHECKPOINT = "checkpoint.pt"
LOCK = ".lock"


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The state of a folder's checkpoint, on the CPU; None where there is none.

    Nothing but tensors, numbers and text is read: a checkpoint cannot run code.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if broken := archive.testzip():
                raise zipfile.BadZipFile(f"wrong checksum of {broken}")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        if "identity" not in state:
            raise pickle.UnpicklingError("not of a run")
        return state
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {system_reason(error)}") from None
    except (zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise ModelError(
            f"{path}: the checkpoint is damaged ({first_line(error)}); name another folder, or "
            f"remove {folder} to train from the start"
        ) from None


def check_same_run(
    state: Mapping[str, Any], identity: Mapping[str, Any], options: TrainingOptions, folder: Path
) -> None:
    """Make sure that a checkpoint is of this run, but for its length."""
    changed = [name for name in identity if state["identity"].get(name) != identity[name]]
    settings = {
        name: value
        for name, value in state["options"].items()
        if name not in RUN_LENGTH and value != getattr(options, name, None)
    }
    if changed or settings:
        found = f"another {' and '.join(changed)}" if changed else shown(settings)
        raise ModelError(
            f"{folder}: the run that was begun there has {found}; give the same command to resume "
            f"it, or another folder and --init-from {folder} for a new run"
        )


def save_checkpoint(folder: Path, state: Mapping[str, Any]) -> None:
    """Write the checkpoint of a folder: tensors, numbers, text, and containers of them."""
    with replaced(folder / CHECKPOINT) as partial, open(partial, "xb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # of torch, while it handles that of the file
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file of text, whole or not at all."""
    with replaced(path) as partial:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other processes from training into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lock(folder / LOCK)
    except BlockingIOError:
        raise OutputError(f"{folder}: another process trains into it") from None
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {system_reason(error)}") from None
    try:
        # A model without its checkpoint would be lost.
        if not (folder / CHECKPOINT).exists() and (found := candidates(folder, "weights")):
            raise ModelError(
                f"{folder}: expected a new folder or one of a run, found {found[0].name} and no "
                f"{CHECKPOINT}; name another folder, and --init-from {folder} to start from that "
                "model"
            )
        yield
    finally:
        unlock(held)
