"""The checkpoint of a run, from which the same run resumes.

A checkpoint is one file of `torch.save`, with the keys of `TrainingCheckpoint`. It is
written whole or not at all, whatever ends the process.
"""

import pickle
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Any, TypedDict, cast, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from elmo_cli.errors.exceptions import ModelError, OutputError
from elmo_cli.errors.messages import literal
from elmo_cli.errors.wording import first_line, system_reason
from elmo_cli.files import disk
from elmo_cli.files.atomic import new_file
from elmo_cli.files.locks import locked_folder
from elmo_cli.files.named_pipes import refuse_named_pipe
from elmo_cli.inference.memory import is_out_of_memory
from elmo_cli.training.description import Description
from elmo_cli.training.signature import (
    Identity,
    Signature,
    check_same_run,
    is_identity,
)
from elmo_cli.training.training_folder import CHECKPOINT_FILE

FORMAT = "elmo train 2"
"""Name of the format of a checkpoint, and its version."""

_DAMAGE_ERRORS = (
    zipfile.BadZipFile,
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    LookupError,
    AttributeError,
    ValueError,
)
"""Errors of torch and of the modules that it uses, when they read damaged or other
archives."""


class TrainingCheckpoint(TypedDict):
    """Content of a checkpoint: tensors, numbers, text, and containers of these."""

    format: str
    identity: Identity
    options: dict[str, Any]
    words: list[str]
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


def load_checkpoint(description: Description) -> TrainingCheckpoint | None:
    """Load the checkpoint of a run onto the CPU; None if there is none.

    No code in it is run.
    """
    folder = description.folder
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        return None
    try:
        content = _read_archive(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {system_reason(error)}") from None
    except _DAMAGE_ERRORS as error:
        if is_out_of_memory(error):
            raise
        raise damage_error(folder, first_line(error)) from None
    if not isinstance(content, dict) or "identity" not in content:
        raise _checkpoint_error(folder, "not a checkpoint of elmo train")
    if content.get("format") != FORMAT:
        raise _checkpoint_error(folder, "a checkpoint of another version of elmo-cli")
    if not is_identity(content["identity"]):
        raise damage_error(folder, "wrong form of identity")
    _check_types(content, folder)
    for name in ("identity", "options"):
        if not _is_plain(content[name]):
            raise damage_error(folder, f"wrong type of {name}")
    before = Signature(
        content["identity"], options=content["options"], words=content["words"]
    )
    check_same_run(before=before, now=description.signature, folder=folder)
    return cast(TrainingCheckpoint, content)


def _check_types(content: dict[str, Any], folder: Path) -> None:
    """Raise a `ModelError` if a value of a checkpoint has another type."""
    for name, hint in get_type_hints(TrainingCheckpoint).items():
        if hint is Identity:
            continue
        if not _has_type(content.get(name), hint):
            raise damage_error(folder, f"wrong type of {name}")


def _has_type(value: Any, hint: Any) -> bool:
    """Return whether a value and what it contains have a type."""
    if hint is Any:
        return True
    if isinstance(hint, UnionType):
        return any(_has_type(value, each) for each in get_args(hint))
    if not isinstance(value, get_origin(hint) or hint):
        return False
    # A tuple is checked where it is read.
    if isinstance(value, list):
        return all(_has_type(each, get_args(hint)[0]) for each in value)
    if isinstance(value, dict):
        _, of_values = get_args(hint)
        return all(_has_type(each, of_values) for each in value.values())
    return True


def _is_plain(value: Any) -> bool:
    """Return whether values can be compared: text, numbers and their containers."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, int, float))


def damage_error(folder: Path, reason: str) -> ModelError:
    """Return the error for a damaged checkpoint."""
    return _checkpoint_error(folder, f"the checkpoint is damaged ({reason})")


def _checkpoint_error(folder: Path, problem: str) -> ModelError:
    return ModelError(
        f"{folder / CHECKPOINT_FILE}: {problem}",
        remedy=f"Choose another folder, or remove {literal(folder)} to train from the "
        "start.",
    )


def _read_archive(path: Path) -> Any:
    """Read an archive of torch, after a check of its checksums."""
    refuse_named_pipe(path)
    with zipfile.ZipFile(path) as archive:
        names = [PurePosixPath(name).name for name in archive.namelist()]
        if "data.pkl" not in names or "constants.pkl" in names:
            raise zipfile.BadZipFile("not an archive of torch.save")
        broken = archive.testzip()
        if broken is not None:
            raise zipfile.BadZipFile(f"wrong checksum of {broken}")
    return torch.load(path, map_location="cpu", weights_only=True)


def save_checkpoint(folder: Path, checkpoint: TrainingCheckpoint) -> None:
    """Write the checkpoint of a folder."""
    with new_file(folder / CHECKPOINT_FILE) as file:
        try:
            torch.save(checkpoint, file)
        except RuntimeError as error:
            # Torch raises it while it handles the error of the file.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a folder."""
    path = folder / CHECKPOINT_FILE
    try:
        disk.remove(path, missing_ok=True)
    except OSError as error:
        reason = system_reason(error)
        raise OutputError(f"{path}: cannot be removed: {reason}") from None


def locked_training_folder(folder: Path) -> AbstractContextManager[None]:
    """Make a folder and lock it against other processes.

    It is removed at the end if it is empty.
    """

    def lock_error(error: OSError) -> OutputError:
        if isinstance(error, BlockingIOError):
            return OutputError(
                f"{folder}: another process is training there",
                remedy="Wait for it, or choose another folder.",
            )
        return OutputError(f"{folder}: cannot be written: {system_reason(error)}")

    return locked_folder(folder, lock_error)
