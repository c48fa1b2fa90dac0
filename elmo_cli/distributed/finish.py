"""The end of a run: a folder whose parts are all there becomes complete.

A next plan takes the place of the folder's plan in one step, the writing of `plan.json`. Its parts
are moved to their names afterwards, and are found at both names meanwhile. A run that ends in
between is finished by the next one.

Status of a folder: its parts, and the notes of its runs.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from elmo_cli.distributed.inputs import check_unchanged
from elmo_cli.distributed.part import check_plan, key_of
from elmo_cli.distributed.progress import Note, ago, read_note
from elmo_cli.errors import InputError, counted
from elmo_cli.outputs.parts import (
    PLAN_SHA256,
    Folder,
    Part,
    PartAttributes,
    Plan,
    complete_name,
    find_done,
    next_subfolder,
    numbers_of_parts,
    part_name,
    plan_name,
    read_plan,
    write_seal,
)

_LOCK: Final = "_elmo/lock"
_MAX_SKIPPED: Final = 1000
"""Maximum number of skipped records that the attributes name."""
_ABANDONED_SECONDS: Final = 3600.0
"""Seconds without a file after which the folder of a next plan is removed."""


def finish(folder: Folder, plan: Plan, done: Mapping[int, PartAttributes]) -> None:
    """Make a folder complete whose parts are all done.

    Raises:
        OtherInputError: An input has changed.
        OutputError: Another run has replaced the plan.
    """
    for path, fingerprint in {(part.path, part.fingerprint) for part in plan.parts}:
        check_unchanged(path, fingerprint)
    complete = json.dumps(_attributes(plan, done)).encode()
    subfolder = next_subfolder(plan.sha256)
    with folder.locked(_LOCK):
        # Two other runs may have completed this plan and replaced it since.
        if plan.is_next and find_done(folder, plan).keys() == done.keys():
            folder.write(complete_name(subfolder), complete)
            folder.write(plan_name(), plan.encode())
        check_plan(folder, key_of(plan)._replace(subfolder=""))
        _settle(folder, plan, done)
        _seal(folder, plan, complete)
        folder.remove_folder(subfolder)
        _remove_abandoned(folder)


def _seal(folder: Folder, plan: Plan, complete: bytes) -> None:
    """Write the attributes of a complete folder, and remove the notes of its runs."""
    if not plan.parts:  # The columns are unknown.
        folder.write(complete_name(), complete)
        return
    contents = {plan_name(): plan.encode(), complete_name(): complete}
    write_seal(folder, part_name(0), contents)
    for name in folder.names("_elmo"):
        if name.startswith("run"):
            folder.remove(f"_elmo/{name}")


def _settle(folder: Folder, plan: Plan, done: Mapping[int, PartAttributes]) -> None:
    """Move parts from the folder of the next plan to their names, and remove parts of no plan.

    Another run of the same plan may have moved some.
    """
    subfolder = next_subfolder(plan.sha256)
    for number in numbers_of_parts(folder.names(subfolder)):
        if number in done and done[number].subfolder == subfolder:
            folder.move(part_name(number, subfolder), part_name(number))
    for number in numbers_of_parts(folder.names()):
        if number >= len(plan.parts):
            folder.remove(part_name(number))


def _remove_abandoned(folder: Folder) -> None:
    """Remove the folders of next plans whose runs have ended long ago.

    Only times of the file system are compared, because clocks of machines differ.
    """
    now = folder.newest("_elmo")
    for name in folder.names("_elmo"):
        is_next = name.startswith("next-")
        if is_next and now - folder.newest(f"_elmo/{name}") > _ABANDONED_SECONDS:
            folder.remove_folder(f"_elmo/{name}")


def _attributes(plan: Plan, done: Mapping[int, PartAttributes]) -> dict[str, str]:
    """Return the attributes of a complete folder."""
    skipped: dict[str, str] = {}
    for number in sorted(done):
        skipped |= done[number].skipped
    n_skipped, first = len(skipped), dict(list(skipped.items())[:_MAX_SKIPPED])
    return {
        **plan.settings,
        PLAN_SHA256: plan.sha256,
        "parts": str(len(plan.parts)),
        "records": str(plan.n_records),
        "tokens": str(sum(part.n_tokens for part in done.values())),
        **({"skipped": json.dumps(first), "n_skipped": str(n_skipped)} if skipped else {}),
    }


@dataclass(frozen=True)
class PlanStatus:
    """Status of a plan: the plan of the folder, or one that will replace it."""

    n_parts: int
    n_done: int
    missing: list[Part]
    notes: dict[str, Note] = field(default_factory=dict)
    """Notes of runs by the names of their files."""

    def lines(self) -> list[str]:
        """Return the status as lines of text."""
        lines = [f"{self.n_done:,} of {counted(self.n_parts, 'part')}"]
        for note in self.notes.values():
            lines.append(f"{note.text()}, {ago(note)}")
            lines += [f"Failed: {error}" for error in note.failed]
        return [*lines, *(f"Missing: {part}" for part in self.missing)]

    def to_json(self) -> dict[str, Any]:
        """Return the status as values of JSON."""
        return {
            "parts": self.n_parts,
            "done": self.n_done,
            "missing": [part._asdict() for part in self.missing],
            "runs": [
                {"file": name, **asdict(note), "seconds_ago": note.seconds_ago}
                for name, note in self.notes.items()
            ],
        }


@dataclass(frozen=True)
class FolderStatus:
    """Status of a folder."""

    current: PlanStatus
    replacements: list[PlanStatus]
    """Status of the runs with --overwrite that are not complete."""

    @property
    def is_complete(self) -> bool:
        """True if no part is missing."""
        return not self.current.missing

    def lines(self) -> list[str]:
        """Return the status as lines of text."""
        lines = self.current.lines()
        for status in self.replacements:
            first, *rest = status.lines()
            lines += [f"Replacement: {first}", *rest]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the status as values of JSON."""
        replacements = [status.to_json() for status in self.replacements]
        return {
            "complete": self.is_complete,
            **self.current.to_json(),
            "replacements": replacements,
        }


def read_status(folder: Folder) -> FolderStatus:
    """Read the status of a folder.

    Raises:
        InputError: There is no plan in the folder, or a damaged one.
    """
    plan = read_plan(folder)
    if plan is None:
        raise InputError(f"{folder.location}: expected a folder of `elmo distribute`, found none.")
    replacements = []
    for name in folder.names("_elmo"):
        if name.startswith("next-"):
            with suppress(InputError):  # The same command replaces a damaged plan.
                next_plan = read_plan(folder, f"_elmo/{name}")
                if next_plan is not None and next_plan.sha256 != plan.sha256:
                    replacements.append(_plan_status(folder, next_plan))
    return FolderStatus(_plan_status(folder, plan), replacements)


def _plan_status(folder: Folder, plan: Plan) -> PlanStatus:
    # Parts of version 0.1 do not name their plan, so their names decide.
    is_old = not plan.stored_sha256
    done = {*(numbers_of_parts(folder.names()) if is_old else find_done(folder, plan))}
    subfolder = plan.subfolder or "_elmo"
    names = [name for name in folder.names(subfolder) if name.startswith("run")]
    read = {name: read_note(folder, f"{subfolder}/{name}") for name in names}
    notes = {name: note for name, note in read.items() if note is not None}
    missing = [part for part in plan.parts if part.number not in done]
    n_parts = len(plan.parts)
    return PlanStatus(n_parts, n_parts - len(missing), missing, notes)
