"""The identity of a run: fingerprints of all that must stay equal when the run resumes."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypedDict, TypeGuard

from elmo_cli.errors import InputError, MissingInputError, missing_if
from elmo_cli.pretrained.content_hash import content_sha256
from elmo_cli.training.corpus import TrainingText
from elmo_cli.training.start import Start

_SAMPLES = 64
"""Number of samples of a large file: its beginning, its end, and 62 between them."""
_SAMPLE_BYTES = 1 << 20
"""Size of a sample. Files of up to 64 MiB are read as a whole."""


class FileFingerprint(TypedDict):
    """A file, recognized by its content."""

    name: str
    n_bytes: int
    sha256: str
    """SHA-256 of the file, or of samples of a large file."""


class Identity(TypedDict):
    """Everything besides `TrainingOptions` that must stay equal when a run resumes.

    The words to predict are part of the checkpoint itself.
    """

    architecture: dict[str, Any]
    start_sha256: str | None
    """SHA-256 of the weights that the run starts from; None for random weights."""
    files: list[FileFingerprint]
    """Text files in their order. A file may be renamed or moved."""
    text: dict[str, Any]
    """Tokenizer, validation share, format and column of the text."""
    vocabulary_size: int | None
    """Maximum number of words to predict, if the text gives them."""


def is_identity(value: object) -> TypeGuard[Identity]:
    """Return whether a value that was read from a file has the form of an identity."""
    types = {"architecture": dict, "files": list, "text": dict}
    return (
        isinstance(value, dict)
        and value.keys() == Identity.__annotations__.keys()
        and all(isinstance(value[name], required) for name, required in types.items())
        and all(isinstance(file, dict) for file in value["files"])
        and all(file.keys() == FileFingerprint.__annotations__.keys() for file in value["files"])
        and all(type(file["n_bytes"]) is int for file in value["files"])
    )


def identify(start: Start, text: TrainingText) -> Identity:
    """Return the identity of a run."""
    return {
        "architecture": start.content,
        "start_sha256": None if start.files is None else content_sha256(start.files),
        "files": list(map(fingerprint, text.paths)),
        "text": {
            "tokenizer": text.tokenizer.name,
            "split_sentences": text.tokenizer.splits_by,
            "validation_share": text.validation_share,
            "input_format": text.input_format,
            "text_column": text.text_column,
        },
        "vocabulary_size": start.n_words,
    }


def fingerprint(path: Path) -> FileFingerprint:
    """Return the fingerprint of a file: its size, and a hash of its content or of samples."""
    try:
        with open(path, "rb") as file:
            n_bytes = os.fstat(file.fileno()).st_size
            n_samples = _SAMPLES if n_bytes > _SAMPLES * _SAMPLE_BYTES else 1
            length = _SAMPLE_BYTES if n_samples > 1 else n_bytes
            digest = hashlib.sha256()
            for number in range(n_samples):
                file.seek((n_bytes - length) * number // max(1, n_samples - 1))
                digest.update(file.read(length))
    except OSError as error:
        kind = missing_if(error, InputError, MissingInputError)
        raise kind(f"{path}: cannot be read: {error.strerror}.") from None
    return {"name": str(path), "n_bytes": n_bytes, "sha256": digest.hexdigest()}


def describe_changes(before: Identity, now: Identity) -> list[str]:
    """Describe the differences between the identities of a run and of a new command."""
    changes = list(_describe_files(before["files"], now["files"]))
    changes += describe_different_values(before["text"], now["text"])
    old_size, new_size = ({"vocabulary_size": i["vocabulary_size"]} for i in (before, now))
    changes += describe_different_values(old_size, new_size)
    changes += describe_different_values(before["architecture"], now["architecture"])
    if before["start_sha256"] != now["start_sha256"]:
        changes.append("another model to start from")
    return changes


def describe_words(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Describe the first difference between two vocabularies."""
    for number, (old, new) in enumerate(zip_longest(before, now), start=1):
        if old != new:
            old_word = "no word" if old is None else repr(old)
            new_word = "no word" if new is None else repr(new)
            return [f"another vocabulary: {old_word} in line {number} (now {new_word})"]
    return []


def _describe_files(
    before: Sequence[FileFingerprint], now: Sequence[FileFingerprint]
) -> Iterator[str]:
    """Describe the differences between two lists of files."""
    if len(before) != len(now):
        yield f"another number of text files: {len(before):,} (now {len(now):,})"
        return
    for old, new in zip(before, now, strict=True):
        if (old["n_bytes"], old["sha256"]) != (new["n_bytes"], new["sha256"]):
            sizes = f"{old['n_bytes']:,} bytes"
            if old["n_bytes"] != new["n_bytes"]:
                sizes += f" (now {new['n_bytes']:,})"
            yield f"another text in {new['name']}: {sizes}"


def describe_different_values(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> list[str]:
    """Describe the values that differ between two nested mappings: `lstm.dim 32 (now 64)`."""
    changes = []
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            changes += describe_different_values(old, new, f"{prefix}{name}.")
        elif old != new:
            changes.append(f"{prefix}{name} {_show(old)} (now {_show(new)})")
    return changes


def _show(value: Any) -> str:
    """Format a value for a message."""
    if isinstance(value, Mapping):
        return "given"
    return "not given" if value is None else str(value)
