"""Text files that a user names by paths and patterns."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.missing_files import folder_error, missing_file_error
from elmo_cli.text.sources import STANDARD_INPUT, Source


def find_text_files(patterns: Sequence[str | Path]) -> tuple[Path, ...]:
    """Find the files of names and patterns (`*`, `?`, `[...]`, `**`), each once."""
    files: dict[Path, None] = {}
    for pattern in patterns:
        for path in _paths_of(str(pattern)):
            check_is_file(path)
            files[Path(path)] = None
    return tuple(files)


def check_is_file(path: str | Path) -> None:
    """Raise an `InputError` unless a path is a file, which can be read repeatedly."""
    source = Source(path)
    source.check_exists()
    if os.path.isdir(path):
        raise InputError(f"{path}: expected a file, found a folder")
    if not source.is_file:
        raise InputError(
            f"{source.name}: expected a file, found a stream",
            remedy="Training reads it several times, so write it to a file first.",
        )
    source.check()


def _paths_of(pattern: str) -> list[str]:
    """Return an existing path, or the files that a pattern fits, in order."""
    if os.path.isdir(pattern):
        raise folder_error(pattern)
    if os.path.exists(pattern) or pattern == STANDARD_INPUT:
        return [pattern]
    paths = glob.glob(pattern, recursive=True)
    files = sorted(path for path in paths if os.path.isfile(path))
    if not files:
        remedy = "Name a file or a pattern of files."
        raise missing_file_error(pattern, InputError, remedy=remedy)
    return files
