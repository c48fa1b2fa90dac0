"""The checkpoint of a run, and the folder that belongs to the run.

A checkpoint is one file. It is written whole or not at all, whatever ends the process.
"""

import pickle
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

from elmo_cli.atomic import lock, replaced, unlock
from elmo_cli.errors import ModelError, OutputError, first_line, system_reason
from elmo_cli.pretrained.model_files import candidates
from elmo_cli.training.options import LENGTH_OPTIONS, TrainingOptions, format_options

CHECKPOINT_FILE = "checkpoint.pt"
LOCK_FILE = ".lock"

Identity = Mapping[str, Any]
"""Values that are equal for the same text, architecture and vocabulary."""


class Checkpoint(TypedDict):
    """Content of a checkpoint: tensors, numbers, text, and containers of these."""

    identity: Identity
    options: dict[str, Any]
    """Fields of `TrainingOptions`."""
    step: int
    n_tokens: int
    """Tokens that the model was trained on."""
    text_tokens: int | None
    """Tokens per pass over the text, if they were counted."""
    seconds: float
    progress: tuple[Any, ...]
    """Fields of `TextProgress`."""
    loss_sums: Tensor
    carried: list[Tensor]
    """Tensors of the carried state, with the rows of all processes."""
    objective: dict[str, Any]
    optimizer: dict[str, Any]


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """Load the checkpoint of a folder onto the CPU. Return None if there is none.

    Torch reads tensors, numbers and text only, so that a checkpoint cannot run code.
    """
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if broken := archive.testzip():
                raise zipfile.BadZipFile(f"wrong checksum of {broken}")
        checkpoint: Checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        if "identity" not in checkpoint:
            raise pickle.UnpicklingError("not of a run")
        return checkpoint
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {system_reason(error)}.") from None
    except (zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise ModelError(
            f"{path}: the checkpoint is damaged ({first_line(error)}). Choose another folder, or "
            f"remove {folder} to train from the start."
        ) from None


def check_same_run(
    checkpoint: Checkpoint, identity: Identity, options: TrainingOptions, folder: Path
) -> None:
    """Raise a `ModelError` if a checkpoint belongs to another run; its length may differ."""
    changed = [name for name in identity if checkpoint["identity"].get(name) != identity[name]]
    before, now = checkpoint["options"], asdict(options)
    different = {
        name: value
        for name, value in before.items()
        if name not in LENGTH_OPTIONS and value != now.get(name)
    }
    if changed or different:
        mismatch = f"another {' and '.join(changed)}" if changed else format_options(different)
        raise ModelError(
            f"{folder}: the run in this folder has {mismatch}. Repeat its command to resume it, or "
            f"choose another folder and --init-from {folder} for a new run."
        )


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint of a folder."""
    with replaced(folder / CHECKPOINT_FILE) as partial, open(partial, "xb") as file:
        try:
            torch.save(checkpoint, file)
        except RuntimeError as error:
            # Torch raises it while it handles the error of the file.
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Make a folder and lock it against other processes. Remove it at the end if it is empty."""
    try:
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        held = lock(folder / LOCK_FILE)
    except BlockingIOError:
        raise OutputError(
            f"{folder}: another process is training there. Wait for it, or choose another folder."
        ) from None
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {system_reason(error)}.") from None
    try:
        _check_no_other_model(folder)
        yield
    finally:
        unlock(held)
        with suppress(OSError):
            for path in made:
                path.rmdir()


def _check_no_other_model(folder: Path) -> None:
    """Raise a `ModelError` if a folder has a model and no checkpoint: it would be overwritten."""
    weights = candidates(folder, "weights")
    if weights and not (folder / CHECKPOINT_FILE).exists():
        raise ModelError(
            f"{folder}: {weights[0].name} is there, but no {CHECKPOINT_FILE}. Choose another "
            f"folder, and --init-from {folder} to start from that model."
        )
