"""The checkpoint of a run, and the folder that belongs to the run.

A checkpoint is one file. It is written whole or not at all, whatever ends the process.
"""

import pickle
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypedDict, cast

import torch
from torch import Tensor

from elmo_cli.atomic import lock, replaced, unlock
from elmo_cli.errors import ModelError, OutputError, first_line, system_reason
from elmo_cli.inference.memory import is_out_of_memory
from elmo_cli.training.identity import (
    Identity,
    describe_changes,
    describe_different_values,
    describe_words,
    is_identity,
)
from elmo_cli.training.options import LENGTH_OPTIONS

CHECKPOINT_FILE = "checkpoint.pt"
LOCK_FILE = ".lock"
FORMAT = "elmo train 2"
"""Name of the format of a checkpoint, and its version."""


class Checkpoint(TypedDict):
    """Content of a checkpoint: tensors, numbers, text, and containers of these."""

    format: str
    identity: Identity
    options: dict[str, Any]
    """Fields of `TrainingOptions`."""
    words: list[str]
    """The words to predict."""
    step: int
    n_tokens: int
    """Tokens that the model was trained on."""
    warmup_steps: int
    text_tokens: int | None
    """Tokens per pass over the text, if they were counted."""
    seconds: float
    progress: tuple[Any, ...]
    """Fields of `TextProgress`."""
    loss_sums: Tensor
    carried: list[Tensor]
    """Tensors of the carried state, with the rows of all processes."""
    objective: dict[str, Tensor]
    """Tensors of the biLM and its softmax."""
    optimizer: dict[str, Any]


_REQUIRED_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "words": list,
    "options": dict,
    "step": int,
    "n_tokens": int,
    "warmup_steps": int,
    "text_tokens": (int, type(None)),
    "seconds": float,
    "progress": tuple,
    "loss_sums": Tensor,
    "carried": list,
    "objective": dict,
    "optimizer": dict,
}


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """Load the checkpoint of a folder onto the CPU. Return None if the folder has no checkpoint.

    Torch reads tensors, numbers and text only, so that a checkpoint cannot run code.
    """
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        return None
    try:
        content = _read_archive(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {system_reason(error)}.") from None
    except _DAMAGED as error:
        if is_out_of_memory(error):
            raise
        raise damage_error(folder, first_line(error)) from None
    if not isinstance(content, dict) or "identity" not in content:
        raise _checkpoint_error(folder, "not a checkpoint of elmo train")
    if content.get("format") != FORMAT:
        raise _checkpoint_error(folder, "a checkpoint of another version of elmo-cli")
    if not is_identity(content["identity"]):
        raise damage_error(folder, "wrong form of identity")
    for name, required in _REQUIRED_TYPES.items():
        if not isinstance(content.get(name), required):
            raise damage_error(folder, f"wrong type of {name}")
    return cast(Checkpoint, content)


def damage_error(folder: Path, reason: str) -> ModelError:
    """Return the error for a damaged checkpoint."""
    return _checkpoint_error(folder, f"the checkpoint is damaged ({reason})")


def _checkpoint_error(folder: Path, problem: str) -> ModelError:
    """Return the error for a checkpoint that cannot be used."""
    return ModelError(
        f"{folder / CHECKPOINT_FILE}: {problem}. Choose another folder, or remove {folder} to "
        "train from the start."
    )


_DAMAGED = (
    *(zipfile.BadZipFile, pickle.UnpicklingError),
    *(RuntimeError, EOFError, LookupError, AttributeError, ValueError),
)
"""Errors of torch and of the modules that it uses, when they read damaged or other archives."""


def _read_archive(path: Path) -> Any:
    """Read an archive of torch, after a check of its checksums."""
    with zipfile.ZipFile(path) as archive:
        names = [PurePosixPath(name).name for name in archive.namelist()]
        if "data.pkl" not in names or "constants.pkl" in names:
            raise zipfile.BadZipFile("not an archive of torch.save")
        if broken := archive.testzip():
            raise zipfile.BadZipFile(f"wrong checksum of {broken}")
    return torch.load(path, map_location="cpu", weights_only=True)


class Signature(NamedTuple):
    """Everything that must stay equal when a run resumes, and its length."""

    identity: Identity
    options: dict[str, Any]
    """Fields of `TrainingOptions`."""
    words: Sequence[str] | None
    """Words to predict; None if the text gives them."""


def check_same_run(before: Signature, now: Signature, folder: Path) -> None:
    """Raise a `ModelError` if the run in a folder is another one; its length may differ."""
    old_options, new_options = (
        {name: value for name, value in options.items() if name not in LENGTH_OPTIONS}
        for options in (before.options, now.options)
    )
    changes = describe_changes(before.identity, now.identity)
    if before.words is not None and now.words is not None:
        changes += describe_words(before.words, now.words)
    changes += describe_different_values(old_options, new_options)
    if changes:
        raise ModelError(
            f"{folder}: the run in this folder has {'; '.join(changes)}. Repeat its command to "
            f"resume it, or choose another folder and --init-from {folder} for a new run."
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
        yield
    finally:
        unlock(held)
        with suppress(OSError):
            for path in made:
                path.rmdir()


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a folder."""
    path = folder / CHECKPOINT_FILE
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be removed: {system_reason(error)}.") from None
