"""File with the plan of a folder of parts: settings and parts, with their hash."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.json_form import parse_json
from elmo_cli.outputs.folder import Folder

PLAN: Final = "_elmo/plan.json"
SEAL: Final = "_elmo/complete.parquet"
"""File with the plan and the attributes of a complete folder: see `write_seal`."""
_START: Final = re.compile(rb'\{"sha256": "([0-9a-f]{64})"')
_START_BYTES: Final = 128
_REMEDY: Final = "Use --overwrite to start over."


class Part(NamedTuple):
    """A stretch of an input, which becomes one file."""

    number: int
    first: int
    """Number of its first record in the whole input, from 0."""
    path: str
    start: int
    """Byte of the file at which it starts, or row of Parquet, from 0."""
    line: int
    """Line of the file at which it starts, or row, from 1."""
    n_lines: int
    n_records: int
    fingerprint: str = ""
    """Size and time of the file when the plan was made."""
    sha256: str = ""
    """SHA-256 of its bytes, after decompression. Parquet has none."""

    def __str__(self) -> str:
        records = f"{self.n_records:,} records from {self.line:,}"
        return f"part {self.number} ({self.path}, {records})"


@dataclass(frozen=True)
class Plan:
    """The parts of a folder, and the settings that their values depend on."""

    settings: dict[str, str]
    """Settings of the values, and the inputs. A run with other settings is refused."""
    parts: list[Part]
    part_mb: float | None = None
    """Size of the parts, where the user has given it."""
    stored_sha256: str = field(default="", compare=False)
    """Hash in the file; empty where version 0.1 wrote it, whose parts do not name their plan."""
    column_types: str = field(default="", kw_only=True)
    """Types of the ids and of the kept columns of all parts; see `ColumnTypes.encode`."""
    is_next: bool = field(default=False, compare=False)
    """True for a plan that replaces the plan of the folder when its parts are complete."""

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    @property
    def n_records(self) -> int:
        """Number of records of all parts."""
        return sum(part.n_records for part in self.parts)

    @property
    def subfolder(self) -> str:
        """Subfolder of the parts while they are written; empty for the plan of the folder."""
        return next_subfolder(self.sha256) if self.is_next else ""

    def encode(self) -> bytes:
        """Return the content of the file. The hash comes first: see `read_plan_sha256`."""
        return json.dumps({"sha256": self.sha256, **self._content()}).encode()

    def _content(self) -> dict[str, Any]:
        parts = [part._asdict() for part in self.parts]
        content = {"part_mb": self.part_mb, "settings": self.settings, "parts": parts}
        return content | ({"column_types": self.column_types} if self.column_types else {})


class _PlanForm(NamedTuple):
    settings: dict[str, str]
    parts: list[Part]
    sha256: str = ""
    part_mb: float | None = None
    column_types: str = ""


def next_subfolder(sha256: str) -> str:
    """Return the subfolder of the parts of a plan that replaces another plan."""
    return f"_elmo/next-{sha256[:16]}"


def plan_name(subfolder: str = "") -> str:
    """Return the name of a plan's file, in the folder or in the subfolder of a next plan."""
    return f"{subfolder}/plan.json" if subfolder else PLAN


def read_plan(folder: Folder, subfolder: str = "") -> Plan | None:
    """Read a plan. Return None if the folder has no plan.

    Raises:
        InputError: The file is damaged.
    """
    content = folder.read(plan_name(subfolder))
    if content is None:
        return None
    content = content or read_seal(folder, plan_name(subfolder))
    name = f"{folder.location}/{plan_name(subfolder)}"
    stored = parse_json(content, _PlanForm, name, _REMEDY)
    plan = Plan(
        *(stored.settings, stored.parts, stored.part_mb, stored.sha256),
        column_types=stored.column_types,
        is_next=subfolder != "",
    )
    if stored.sha256 not in ("", plan.sha256):
        raise InputError(
            f"{name}: the file is damaged: its content does not match its hash. {_REMEDY}"
        )
    return plan


def read_plan_sha256(folder: Folder) -> str | None:
    """Read only the hash of the folder's plan, because the file may be large.

    Return None if there is no plan, or one of version 0.1, or a damaged one.
    """
    start = folder.read(PLAN, _START_BYTES)
    match = _START.match(read_seal(folder, PLAN) if start == b"" else start or b"")
    return match[1].decode() if match else None


def write_seal(folder: Folder, first_part: str, contents: Mapping[str, bytes]) -> None:
    """Move the files that describe a complete folder into one file of Parquet.

    It has no rows, and the columns of the parts, so that polars can read the folder. polars stops
    at other files, unless they are empty. `PLAN` stays as an empty file, because a folder has a
    plan as long as the file exists.

    Args:
        folder: Complete folder.
        first_part: Name of its first part.
        contents: Contents of the files by their names.
    """
    import pyarrow
    from pyarrow import parquet

    schema = folder.open_parquet(first_part).schema_arrow
    buffer = pyarrow.BufferOutputStream()
    parquet.write_table(schema.with_metadata(dict(contents)).empty_table(), buffer)
    folder.write(SEAL, buffer.getvalue().to_pybytes())
    for name in contents:
        if name != PLAN:
            folder.remove(name)
    folder.write(PLAN, b"")


def read_seal(folder: Folder, name: str) -> bytes:
    """Read a file that `write_seal` has moved. Return empty bytes if it is missing."""
    import pyarrow

    try:
        metadata = folder.open_parquet(SEAL).metadata.metadata or {}
    except (pyarrow.ArrowException, OSError):
        return b""
    content: bytes = metadata.get(name.encode(), b"")
    return content
