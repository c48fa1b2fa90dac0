"""Errors for files that are missing, empty or cannot be read."""

import glob
import os
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import (
    ElmoError,
    InputError,
    MissingInputError,
    MissingModelError,
    MissingWeightsError,
    ModelError,
    WeightsError,
)
from elmo_cli.errors.messages import literal
from elmo_cli.errors.wording import did_you_mean, with_question

_MISSING: Final[Mapping[type[ElmoError], type[ElmoError]]] = {
    InputError: MissingInputError,
    ModelError: MissingModelError,
    WeightsError: MissingWeightsError,
}
"""Kind of error for a missing file, by the kind for another problem of the file."""


def unreadable_file_error(
    path: str | Path,
    content: str,
    error: OSError,
    kind: type[ElmoError],
    *,
    remedy: str | None = None,
    shell_remedy: str | None = None,
    excluded: Collection[str] = (),
    **values: object,
) -> ElmoError:
    """Return the error for a file that cannot be opened or read.

    `content` is a word for what it should contain, such as `weights`. The remedies and
    their values are those of `Message`, and `excluded` is that of `missing_file_error`.
    """
    if isinstance(error, FileNotFoundError):
        return missing_file_error(
            path,
            kind,
            remedy=remedy,
            shell_remedy=shell_remedy,
            excluded=excluded,
            **values,
        )
    problem = f"cannot read the {content}: {error.strerror}"
    if isinstance(error, IsADirectoryError):
        problem = "expected a file, found a folder"
    return kind(
        "{unreadable}: {problem}",
        remedy=remedy,
        shell_remedy=shell_remedy,
        unreadable=path,
        problem=problem,
        **values,
    )


def missing_file_error(
    path: str | Path,
    kind: type[ElmoError],
    *,
    remedy: str | None = None,
    shell_remedy: str | None = None,
    excluded: Collection[str] = (),
    **values: object,
) -> ElmoError:
    """Return the error for a missing file, which suggests a file with a similar name.

    `kind` is `InputError`, `ModelError` or `WeightsError`. The error is of its
    subclass that is a `FileNotFoundError` too. The remedies and their values are those
    of `Message`. Files with an `excluded` suffix are not suggested. The remedy for a
    pattern of files, such as `*.txt`, is to name one of them.
    """
    question = ""
    files = files_of_pattern(path)
    if files:
        remedy = f"Name one file, not a pattern, such as {literal(files[0])}."
    else:
        question = _similar_file(path, excluded=excluded)
        has_advice = question or remedy or shell_remedy
        if "*" in str(path) and not has_advice:
            remedy = "Check the pattern and the folder."
    name = str(path) or "''"
    return _MISSING[kind](
        "{problem}",
        remedy=remedy,
        shell_remedy=shell_remedy,
        problem=with_question(f"{name}: no such file", question),
        **values,
    )


def folder_error(path: str | Path) -> InputError:
    """Return the error for a folder in place of files, or of a pattern of files."""
    files = shlex.quote(os.path.join(path, "*"))
    return InputError(
        f"{path}: expected a file, found a folder",
        remedy=f"Name the files in it: {literal(files)}.",
    )


def empty_file_error(
    path: str | Path,
    kind: type[ElmoError],
    *,
    remedy: str = "Copy it again, or run the command that wrote it.",
) -> ElmoError:
    """Return the error for a file without a single byte."""
    return kind(f"{path}: the file is empty", remedy=remedy)


def is_empty_file(path: str | Path) -> bool:
    """Return whether a path is a file without a single byte."""
    return os.path.isfile(path) and os.path.getsize(path) == 0


def files_of_pattern(path: str | Path) -> list[str]:
    """Return the files that fit a pattern with * or ?, in order; none for a name."""
    pattern = str(path)
    if "*" not in pattern and "?" not in pattern:
        return []
    return sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))


def _similar_file(path: str | Path, excluded: Collection[str]) -> str:
    """Return the question whether a file beside the path was meant, or "".

    It has the same suffix and a similar name, or the same name and another suffix that
    is not excluded.
    """
    folder, name = os.path.split(path)
    try:
        files = os.listdir(folder or ".")
    except OSError:
        return ""
    suffix = Path(name).suffix.lower()
    start = name.partition(".")[0]
    others = [
        file
        for file in files
        if Path(file).suffix.lower() == suffix
        or (
            file.partition(".")[0] == start
            and Path(file).suffix.lower() not in excluded
        )
    ]
    return did_you_mean(name, others, key=lambda other: os.path.splitext(other)[0])
