"""Errors for files that are missing or cannot be read."""

import os
from pathlib import Path

from elmo_cli.errors.exceptions import ElmoError, MissingFileError
from elmo_cli.errors.wording import did_you_mean


def not_read(
    path: str | Path,
    content: str,
    error: OSError,
    kind: type[ElmoError],
    remedy: str = "",
) -> ElmoError:
    """Return the error for a file that cannot be read; see `missing_file` for a missing one."""
    if isinstance(error, FileNotFoundError):
        return missing_file(path, kind, remedy)
    reason = f"{error.strerror}. {remedy}" if remedy else error.strerror
    return kind(f"{path}: cannot read the {content}: {reason}")


def missing_file(
    path: str | Path, kind: type[ElmoError], remedy: str = ""
) -> ElmoError:
    """Return the error of a kind for a file that is missing, with a similar name beside it."""
    folder, name = os.path.split(path)
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    question = did_you_mean(name, names, key=lambda each: os.path.splitext(each)[0])
    [missing] = [
        each for each in kind.__subclasses__() if issubclass(each, MissingFileError)
    ]
    return missing(f"{path}: no such file.{question} {remedy}".rstrip())
