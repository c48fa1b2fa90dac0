"""Parts of a folder that `elmo distribute` writes: their names and their footers.

part-00000000.parquet ...   parts; the metadata of each names its plan, its number and
                            the number of all parts
_elmo/plan.parquet          plan, as JSON in the metadata of a file without rows
_elmo/work/                 unfinished files, and reasons of failed parts; removed at
                            the end
_SUCCESS                    empty; it appears when all parts are complete

A folder belongs to one plan: inputs, options and parts. The file of the plan is created
exclusively and never changes. It has the columns of the parts, because polars reads all
files below a folder. A part belongs to a plan by its content, not by its name.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import first_line
from elmo_cli.files.json_form import parse_json
from elmo_cli.files.parquet_files import has_checksums
from elmo_cli.files.shared_folder import Folder

PLAN: Final = "_elmo/plan.parquet"
SUCCESS: Final = "_SUCCESS"
PLAN_SHA256: Final = "plan_sha256"
"""Attribute of a part, and key of the plan's metadata."""
PART: Final = "part"
"""Attribute of a part: its number."""
PARTS: Final = "parts"
"""Attribute of a part: the number of all parts."""
OTHER_FOLDER: Final = "Choose another folder."
AGAIN: Final = "Give the `elmo distribute` command of the folder again"
_PART_NAME: Final = re.compile(r"part-(\d{8,})\.parquet")
_N_THREADS: Final = 16
"""Number of parts whose metadata is read at the same time."""


class Footer(NamedTuple):
    """Content of a part's footer."""

    plan_sha256: str
    number: int
    n_parts: int
    n_records: int
    n_tokens: int
    attributes: dict[str, str]

    def is_of(self, plan_sha256: str, number: int) -> bool:
        """Return whether a plan has this part under a number."""
        return self.plan_sha256 == plan_sha256 and self.number == number


def part_name(number: int) -> str:
    """Return the name of a part."""
    return f"part-{number:08d}.parquet"


def read_footer(folder: Folder, number: int) -> Footer | None:
    """Read the footer of a part. Return None if it is missing, damaged, or no part."""
    import pyarrow

    name = part_name(number)
    with suppress(pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError):
        if folder.has(name):  # Opening a named pipe would wait for its writer.
            footer = folder.read_parquet_metadata(name)
            attributes = parse_json(footer.metadata[b"elmo"], dict[str, str], name)
            return Footer(
                plan_sha256=attributes[PLAN_SHA256],
                number=int(attributes[PART]),
                n_parts=int(attributes[PARTS]),
                n_records=footer.num_rows,
                n_tokens=int(attributes["tokens"]),
                attributes=attributes,
            )
    return None


def read_footers(folder: Folder) -> dict[int, Footer | None]:
    """Read the footers of all files that have the name of a part, by their numbers."""
    matches = map(_PART_NAME.fullmatch, folder.names(only_files=True))
    numbers = [int(match[1]) for match in matches if match]
    with ThreadPoolExecutor(_N_THREADS) as pool:
        footers = list(pool.map(partial(read_footer, folder), numbers))
    return dict(zip(numbers, footers, strict=True))


def find_done_parts(folder: Folder, plan_sha256: str) -> set[int]:
    """Return the numbers of the complete parts of a plan, by their content."""
    return {
        number
        for number, footer in read_footers(folder).items()
        if footer is not None and footer.is_of(plan_sha256, number)
    }


def find_damage(folder: Folder, number: int) -> str | None:
    """Read a complete part as a whole. Return why it is damaged, or None."""
    import pyarrow

    try:
        part = folder.open_parquet(part_name(number))
        if not has_checksums(part.metadata):
            return "an earlier version wrote it without checksums"
        for group in range(part.num_row_groups):
            part.read_row_group(group)
    except (pyarrow.ArrowException, OSError) as error:
        return first_line(error).rstrip(".")
    return None


def count_repeated(folder: Folder, n_parts: int) -> int:
    """Count the records with the id of an earlier one, by a hash of 8 bytes per id."""
    hashes = [np.empty(0, np.int64)]
    for number in range(n_parts):
        with (
            naming_damaged_part(folder, number),
            folder.open_parquet(part_name(number)) as part,
        ):
            ids = part.read(columns=["id"]).column("id").to_pylist()
        of_part = [hash(str(each)) for each in ids if each is not None]
        hashes.append(np.array(of_part, np.int64))
    found = np.concatenate(hashes)
    return len(found) - len(np.unique(found))


@contextmanager
def naming_damaged_part(folder: Folder, number: int) -> Iterator[None]:
    """Turn errors of pyarrow into an `InputError` that names the part."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(
            f"{folder.location}/{part_name(number)}: the part is damaged: "
            f"{first_line(error).rstrip('.')}",
            remedy=f"{AGAIN}, with --verify.",
        ) from error
