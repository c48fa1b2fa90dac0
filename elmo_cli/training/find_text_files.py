"""Text files that a user names by paths and patterns."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.missing_files import missing_file_error
from elmo_cli.text.sources import Source


def find_text_files(patterns: Sequence[str | Path]) -> tuple[Path, ...]:
    """Find the files of names and patterns (`*`, `?`, `[...]`, `**`), each once."""
    files: dict[Path, None] = {}
    for pattern in patterns:
        for path in _paths_of(str(pattern)):
            Source(path).check()
            files[Path(path)] = None
    return tuple(files)


def _paths_of(pattern: str) -> list[str]:
    """Return an existing path, or the files that a pattern fits, in order."""
    if os.path.exists(pattern):
        return [pattern]
    paths = glob.glob(pattern, recursive=True)
    files = sorted(path for path in paths if os.path.isfile(path))
    if not files:
        remedy = "Name a file or a pattern of files."
        raise missing_file_error(pattern, InputError, remedy=remedy)
    return files
