"""A folder of Parquet parts, which `elmo distribute` writes, read as one file.

part-00000000.parquet ...   parts. The metadata of each names its plan, its number and their number
_elmo/plan.parquet          plan, as JSON in the metadata of a file without rows
_elmo/work/                 unfinished files, and reasons of failed parts; removed at the end
_SUCCESS                    empty. It appears when all parts are complete

A folder belongs to one plan: inputs, options and parts. The file of the plan is created
exclusively and never changes. It has the columns of the parts, because polars reads all files below
a folder. A part belongs to a plan by its content, not by its name. Reading takes only the parts.

A folder is on a local or shared disk, or on any file system that pyarrow supports. Object stores
cannot create a file exclusively: see "Distributed runs" in docs/architecture.md.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Final, NamedTuple

import numpy as np

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import first_line
from elmo_cli.files.folder import Folder
from elmo_cli.files.json_form import parse_json

PLAN: Final = "_elmo/plan.parquet"
SUCCESS: Final = "_SUCCESS"
# attribute of a part, and key of the plan's metadata
PLAN_SHA256: Final = "plan_sha256"
PART: Final = "part"  # attribute of a part: its number
PARTS: Final = "parts"  # attribute of a part: the number of all parts
OTHER_FOLDER: Final = "Choose another folder."
AGAIN: Final = "Give the `elmo distribute` command of the folder again"
_PART_NAME: Final = re.compile(r"part-(\d{8,})\.parquet")
_N_THREADS: Final = 16  # number of parts whose metadata is read at the same time


class Footer(NamedTuple):
    """Content of a part's footer."""

    plan_sha256: str
    number: int
    n_parts: int
    n_records: int
    n_tokens: int
    attributes: dict[str, str]


def part_name(number: int) -> str:
    """Return the name of a part."""
    return f"part-{number:08d}.parquet"


def read_footer(folder: Folder, number: int) -> Footer | None:
    """Read the footer of a part. Return None if it is missing, damaged, or no part."""
    import pyarrow

    name = part_name(number)
    with suppress(pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError):
        if folder.has(name):  # Opening a named pipe would wait for its writer.
            footer = folder.open_parquet(name).metadata
            attributes = parse_json(footer.metadata[b"elmo"], dict[str, str], name)
            found, n_parts, n_tokens = (
                int(attributes[key]) for key in (PART, PARTS, "tokens")
            )
            sha256 = attributes[PLAN_SHA256]
            return Footer(sha256, found, n_parts, footer.num_rows, n_tokens, attributes)
    return None


def read_footers(folder: Folder) -> dict[int, Footer | None]:
    """Read the footers of all files that have the name of a part."""
    matches = map(_PART_NAME.fullmatch, folder.names(only_files=True))
    numbers = [int(match[1]) for match in matches if match]
    with ThreadPool(_N_THREADS) as pool:
        return dict(
            zip(numbers, pool.map(partial(read_footer, folder), numbers), strict=True)
        )


def find_done(folder: Folder, plan_sha256: str) -> set[int]:
    """Return the numbers of the complete parts of a plan, by their content."""
    footers = read_footers(folder).items()
    return {
        number for number, each in footers if each and each[:2] == (plan_sha256, number)
    }


def count_repeated(folder: Folder, n_parts: int) -> int:
    """Count the records with the id of an earlier record. A hash of 8 bytes per id is in memory."""
    hashes = [np.empty(0, np.int64)]
    for number in range(n_parts):
        with (
            damage_named(folder, number),
            folder.open_parquet(part_name(number)) as part,
        ):
            ids = part.read(columns=["id"]).column("id").to_pylist()
        hashes.append(
            np.array([hash(str(each)) for each in ids if each is not None], np.int64)
        )
    found = np.concatenate(hashes)
    return len(found) - len(np.unique(found))


@contextmanager
def damage_named(folder: Folder, number: int) -> Iterator[None]:
    """Turn errors of pyarrow into an `InputError` that names the part."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        path = f"{folder.location}/{part_name(number)}"
        reason = f"the part is damaged: {first_line(error).rstrip('.')}"
        raise InputError(f"{path}: {reason}. Remove it. {AGAIN}.") from None
