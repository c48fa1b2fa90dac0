"""Status of a folder: its parts, and the notes of its runs."""

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from elmo_cli.distributed.progress import Note, ago, read_note
from elmo_cli.errors import InputError, counted
from elmo_cli.outputs.folder import Folder
from elmo_cli.outputs.parts import find_done, numbers_of_parts
from elmo_cli.outputs.plan_file import Part, Plan, read_plan


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
