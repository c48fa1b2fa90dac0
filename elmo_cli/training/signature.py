"""The signature of a run: everything that must stay equal when it resumes.

A checkpoint and the report of a finished run contain the signature of their run. A
command continues a run only if the signatures are equal; the length alone may differ.
The signature recognizes texts and models by their content, so that files may be moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, TypeGuard

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.training.fingerprint import FileFingerprint
from elmo_cli.training.training_settings import LENGTH_OPTIONS


class Identity(TypedDict):
    """Everything besides `TrainingSettings` and words that must stay equal."""

    architecture: dict[str, Any]
    start_sha256: str | None
    """SHA-256 of the weights that the run starts from; None for random ones."""
    files: list[FileFingerprint]
    """Text files in their order, which may be renamed or moved."""
    text: dict[str, Any]
    """Tokenizer, validation share, format and column of the text."""
    vocabulary_size: int | None
    """Maximum number of words to predict, if the text gives them."""


class Signature(NamedTuple):
    """Everything that must stay equal when a run resumes, and its length."""

    identity: Identity
    options: dict[str, Any]
    """Fields of `TrainingSettings`."""
    words: Sequence[str] | None
    """Words to predict; None if the text gives them."""


def is_identity(value: object) -> TypeGuard[Identity]:
    """Return whether a value that was read from a file has the form of an identity."""
    if not isinstance(value, dict) or value.keys() != Identity.__annotations__.keys():
        return False
    types = {"architecture": dict, "files": list, "text": dict}
    if not all(isinstance(value[name], kind) for name, kind in types.items()):
        return False
    return all(_is_fingerprint(file) for file in value["files"])


def _is_fingerprint(value: object) -> bool:
    names = FileFingerprint.__annotations__.keys()
    return (
        isinstance(value, dict)
        and value.keys() == names
        and type(value["n_bytes"]) is int
    )


def check_same_run(*, before: Signature, now: Signature, folder: Path) -> None:
    """Raise a `ModelError` if the run in the folder is another one.

    Its length may differ.
    """
    old = before.identity
    new = now.identity
    changes = [
        *_file_changes(old["files"], new["files"]),
        *_changes(old["text"], new["text"]),
        *_changes(
            {"vocabulary_size": old["vocabulary_size"]},
            {"vocabulary_size": new["vocabulary_size"]},
        ),
        *_changes(old["architecture"], new["architecture"]),
    ]
    if old["start_sha256"] != new["start_sha256"]:
        changes.append("another model to start from")
    if before.words is not None and now.words is not None:
        changes += _word_changes(before.words, now.words)
    same_length = {name: before.options.get(name) for name in LENGTH_OPTIONS}
    changes += _changes(
        {**before.options, **same_length}, {**now.options, **same_length}
    )
    if changes:
        raise ModelError(
            "{folder}: the run in this folder has {changes}",
            remedy="Repeat its command to resume it, or choose another folder and "
            "{--init-from} {folder} for a new run.",
            folder=folder,
            changes="; ".join(changes),
        )


def _file_changes(
    before: list[FileFingerprint], now: list[FileFingerprint]
) -> Iterator[str]:
    """Describe the files whose content differs."""
    if len(before) != len(now):
        yield f"another number of text files: {len(before):,} (now {len(now):,})"
        return
    for old, new in zip(before, now, strict=True):
        if old["n_bytes"] != new["n_bytes"]:
            sizes = f"{old['n_bytes']:,} bytes (now {new['n_bytes']:,})"
            yield f"another text in {new['name']}: {sizes}"
        elif old["sha256"] != new["sha256"]:
            yield f"another text in {new['name']}: {old['n_bytes']:,} bytes"


def _word_changes(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Describe the first difference between two vocabularies."""
    pairs = zip_longest(before, now)
    for number, (old, new) in enumerate(pairs, start=1):
        if old != new:
            shown_old = "no word" if old is None else repr(old)
            shown_new = "no word" if new is None else repr(new)
            yield f"another vocabulary: {shown_old} in line {number} (now {shown_new})"
            return


def _changes(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """Describe how two nested mappings differ: `lstm.dim 32 (now 64)`."""
    for name in {**before, **now}:
        old = before.get(name)
        new = now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _changes(old, new, prefix=f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name} {_shown_value(old)} (now {_shown_value(new)})"


def _shown_value(value: Any) -> str:
    if value is None:
        return "not given"
    return "given" if isinstance(value, Mapping) else str(value)
