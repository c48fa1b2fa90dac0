"""SHA-256 sums of the files of a model, in a file that `sha256sum --check` can read.

They are recorded when a model is downloaded. A mirror publishes them as its list of files.
"""

import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from elmo_cli.atomic import renamed
from elmo_cli.errors import ModelError, system_reason
from elmo_cli.pretrained.model_files import sha256

logger = logging.getLogger(__name__)

SUMS: Final = "SHA256SUMS"

_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *]([^/\\.:][^/\\:]*)")
"""Sum and name of a file in one line. The file is in the folder of the list, and not hidden."""


def read_sums(path: Path) -> dict[str, str]:
    """Return the sums in a file, by the names of the files that they belong to.

    Raises:
        ModelError: A line is no sum, or names a file in another folder.
        OSError: The file cannot be read.
    """
    sums = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        match = _LINE.fullmatch(line.decode("utf-8", errors="replace"))
        if match is None:
            raise ModelError(
                f"{path.name}, line {number}: expected a SHA-256 sum and the name of a file. Write "
                "it with `sha256sum *`."
            )
        sums[match[2]] = match[1]
    return sums


def model_files(folder: Path) -> list[Path]:
    """Return the visible files of a model's folder, without the file of sums."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in files if path.is_file() and path.name[0] != "." and path.name != SUMS]


def known_sums(folder: Path) -> dict[str, str]:
    """Return the recorded sums of a folder. A missing or damaged file has none."""
    try:
        return read_sums(folder / SUMS)
    except (OSError, ModelError):
        return {}


def record_sums(folder: Path, replaced: Collection[str] = ()) -> None:
    """Record the sums of all files. Only missing sums and sums of replaced files are computed."""
    old_sums = {name: digest for name, digest in known_sums(folder).items() if name not in replaced}
    sums = {path.name: old_sums.get(path.name) or sha256(path) for path in model_files(folder)}
    if sums == known_sums(folder):
        return
    try:
        with renamed(folder / SUMS, folder / f".partial.{SUMS}") as partial:
            lines = [f"{digest}  {name}\n" for name, digest in sums.items()]
            partial.write_text("".join(lines), encoding="utf-8", newline="\n")
    except OSError as error:  # The model works without its sums.
        logger.info("%s: cannot be written: %s", folder / SUMS, system_reason(error))
