"""The description of a run, and its checkpoint, from which the same run resumes.

A checkpoint and a record (`run_report`) contain the signature of their run. A command continues a
run only if the signatures are equal; the length alone may differ. The signature recognizes texts
and models by their content, so that files may be moved.

A checkpoint is one file of `torch.save`, with the keys of `Checkpoint`. It is written whole or not
at all, whatever ends the process.
"""

import hashlib
import os
import pickle
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import (
    Any,
    NamedTuple,
    TypedDict,
    TypeGuard,
    cast,
    get_origin,
    get_type_hints,
)

import torch
from torch import Tensor

from elmo_cli.errors.exceptions import InputError, ModelError, OutputError
from elmo_cli.errors.missing_files import not_read
from elmo_cli.errors.wording import first_line, system_reason
from elmo_cli.files.atomic import replaced
from elmo_cli.files.locks import locked_folder
from elmo_cli.inference.memory import is_out_of_memory
from elmo_cli.pretrained.checksums import content_sha256
from elmo_cli.training.corpus import TrainingText
from elmo_cli.training.start import Start
from elmo_cli.training.training_options import LENGTH_OPTIONS, TrainingOptions

# number of samples of a large file: its beginning, its end, and 62 between them
SAMPLES = 64
SAMPLE_BYTES = 1 << 20  # files of up to 64 MiB are read as a whole


class FileFingerprint(TypedDict):
    """A file, recognized by its content."""

    name: str
    n_bytes: int
    sha256: str  # SHA-256 of the file, or of samples of a large file


class Identity(TypedDict):
    """Everything besides `TrainingOptions` and words that must stay equal when a run resumes."""

    architecture: dict[str, Any]
    start_sha256: str | None  # weights that the run starts from; None for random ones
    files: list[
        FileFingerprint
    ]  # text files in their order, which may be renamed or moved
    text: dict[str, Any]  # tokenizer, validation share, format and column of the text
    vocabulary_size: (
        int | None
    )  # maximum number of words to predict, if the text gives them


def is_identity(value: object) -> TypeGuard[Identity]:
    """Return whether a value that was read from a file has the form of an identity."""
    types = {"architecture": dict, "files": list, "text": dict}
    return (
        isinstance(value, dict)
        and value.keys() == Identity.__annotations__.keys()
        and all(isinstance(value[name], required) for name, required in types.items())
        and all(isinstance(file, dict) for file in value["files"])
        and all(
            file.keys() == FileFingerprint.__annotations__.keys()
            for file in value["files"]
        )
        and all(type(file["n_bytes"]) is int for file in value["files"])
    )


class Signature(NamedTuple):
    """Everything that must stay equal when a run resumes, and its length."""

    identity: Identity
    options: dict[str, Any]  # fields of `TrainingOptions`
    words: Sequence[str] | None  # words to predict; None if the text gives them


@dataclass(frozen=True)
class Description:
    """Everything about a run that is known before its first step."""

    folder: Path
    start: Start
    text: TrainingText
    options: TrainingOptions
    validation_file: str | Path | None

    @cached_property
    def signature(self) -> Signature:
        """Signature of the run. The files of its text are read at the first access."""
        start, text = self.start, self.text
        identity: Identity = {
            "architecture": start.content,
            "start_sha256": None
            if start.files is None
            else content_sha256(start.files),
            "files": list(map(fingerprint, text.paths)),
            "text": {
                "tokenizer": text.tokenizer.name,
                **text.tokenizer.to_attributes(),
                "validation_share": text.validation_share,
                "input_format": text.settings.input_format,
                "text_column": text.settings.text_column,
                **text.settings.cell_attributes,
            },
            "vocabulary_size": start.n_words,
        }
        words = None if start.vocabulary is None else start.vocabulary.words
        return Signature(identity, asdict(self.options), words)


def fingerprint(path: Path) -> FileFingerprint:
    """Return the fingerprint of a file: its size, and a hash of its content or of samples."""
    try:
        with open(path, "rb") as file:
            n_bytes = os.fstat(file.fileno()).st_size
            n_samples = SAMPLES if n_bytes > SAMPLES * SAMPLE_BYTES else 1
            length = SAMPLE_BYTES if n_samples > 1 else n_bytes
            digest = hashlib.sha256()
            for number in range(n_samples):
                file.seek((n_bytes - length) * number // max(1, n_samples - 1))
                digest.update(file.read(length))
    except OSError as error:
        raise not_read(path, "text", error, InputError) from None
    return {"name": str(path), "n_bytes": n_bytes, "sha256": digest.hexdigest()}


def check_same_run(before: Signature, description: Description) -> None:
    """Raise a `ModelError` if the run in the folder is another one; its length may differ."""
    folder, now = description.folder, description.signature
    old, new = before.identity, now.identity
    changes = [
        *_file_changes(old["files"], new["files"]),
        *_changes(old["text"], new["text"]),
    ]
    old_size, new_size = (
        {"vocabulary_size": each["vocabulary_size"]} for each in (old, new)
    )
    changes += _changes(old_size, new_size)
    changes += _changes(old["architecture"], new["architecture"])
    if old["start_sha256"] != new["start_sha256"]:
        changes.append("another model to start from")
    if before.words is not None and now.words is not None:
        changes += _word_changes(before.words, now.words)
    length = {name: before.options.get(name) for name in LENGTH_OPTIONS}
    changes += _changes({**before.options, **length}, {**now.options, **length})
    if changes:
        raise ModelError(
            f"{folder}: the run in this folder has {'; '.join(changes)}. Repeat its command to "
            f"resume it, or choose another folder and --init-from {folder} for a new run."
        )


def _file_changes(
    before: list[FileFingerprint], now: list[FileFingerprint]
) -> Iterator[str]:
    if len(before) != len(now):
        yield f"another number of text files: {len(before):,} (now {len(now):,})"
        return
    for old, new in zip(before, now, strict=True):
        if (old["n_bytes"], old["sha256"]) != (new["n_bytes"], new["sha256"]):
            sizes = f"{old['n_bytes']:,} bytes"
            if old["n_bytes"] != new["n_bytes"]:
                sizes += f" (now {new['n_bytes']:,})"
            yield f"another text in {new['name']}: {sizes}"


def _word_changes(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Describe the first difference between two vocabularies."""
    for number, words in enumerate(zip_longest(before, now), start=1):
        if words[0] != words[1]:
            old, new = ("no word" if word is None else repr(word) for word in words)
            yield f"another vocabulary: {old} in line {number} (now {new})"
            return


def _changes(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """Describe the values that differ between two nested mappings: `lstm.dim 32 (now 64)`."""
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _changes(old, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name} {_show(old)} (now {_show(new)})"


def _show(value: Any) -> str:
    shown = "not given" if value is None else str(value)
    return "given" if isinstance(value, Mapping) else shown


CHECKPOINT_FILE = "checkpoint.pt"
FORMAT = "elmo train 2"  # name of the format of a checkpoint, and its version


class Checkpoint(TypedDict):
    """Content of a checkpoint: tensors, numbers, text, and containers of these."""

    format: str
    identity: Identity
    options: dict[str, Any]
    words: list[str]
    step: int
    n_tokens: int  # tokens that the model was trained on
    warmup_steps: int
    text_tokens: int | None  # tokens per pass over the text, if they were counted
    seconds: float
    progress: tuple[Any, ...]  # fields of `TextProgress`
    loss_sums: Tensor
    carried: list[
        Tensor
    ]  # tensors of the carried state, with the rows of all processes
    objective: dict[str, Tensor]  # tensors of the biLM and its softmax
    optimizer: dict[str, Any]


def load_checkpoint(description: Description) -> Checkpoint | None:
    """Load the checkpoint of a run onto the CPU, which runs no code. Return None without one."""
    folder = description.folder
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
    for name, form in get_type_hints(Checkpoint).items():
        required = form if isinstance(form, UnionType) else get_origin(form) or form
        if required is not Identity and not isinstance(content.get(name), required):
            raise damage_error(folder, f"wrong type of {name}")
    before = Signature(content["identity"], content["options"], content["words"])
    check_same_run(before, description)
    return cast(Checkpoint, content)


def damage_error(folder: Path, reason: str) -> ModelError:
    """Return the error for a damaged checkpoint."""
    return _checkpoint_error(folder, f"the checkpoint is damaged ({reason})")


def _checkpoint_error(folder: Path, problem: str) -> ModelError:
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


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint of a folder."""
    with replaced(folder / CHECKPOINT_FILE) as partial, open(partial, "xb") as file:
        try:
            torch.save(checkpoint, file)
        except RuntimeError as error:
            # Torch raises it while it handles the error of the file.
            raise (
                error.__context__ if isinstance(error.__context__, OSError) else error
            ) from None


def own_folder(folder: Path) -> AbstractContextManager[None]:
    """Make a folder and lock it against other processes. Remove it at the end if it is empty."""

    def error_of(error: OSError) -> OutputError:
        reason = f"cannot be written: {system_reason(error)}"
        if isinstance(error, BlockingIOError):
            reason = "another process is training there. Wait for it, or choose another folder"
        return OutputError(f"{folder}: {reason}.")

    return locked_folder(folder, error_of)


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a folder."""
    path = folder / CHECKPOINT_FILE
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be removed: {system_reason(error)}."
        ) from None
