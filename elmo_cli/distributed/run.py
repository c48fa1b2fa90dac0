"""A run: all parts that are not there yet, by an engine, and what is said of them."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from elmo_cli.distributed.inputs import Part
from elmo_cli.distributed.part import PartResult, embed_part
from elmo_cli.distributed.plan import Plan, Settings, read_plan
from elmo_cli.errors import InputError, OutputError, StoppedError
from elmo_cli.outputs.parts import COMPLETE, Folder
from elmo_cli.quantities import counted
from elmo_cli.text.records import WHOLE, Shard

logger = logging.getLogger(__name__)

Engine = Callable[[Sequence[Part], Callable[..., PartResult]], Iterable[PartResult | None]]
"""Parts, and what embeds one -> what became of each; None now and then, while none ends."""
_NOTE_SECONDS: Final = 10.0
"""Seconds between the notes of a run that is at work."""


@dataclass
class Progress:
    """How far a folder is, and what this run did."""

    n_parts: int
    n_before: int
    """Parts that were there before."""
    n_done: int
    """Parts that are there."""
    n_tokens: int = 0
    """Of this run."""
    failed: dict[int, str] = field(default_factory=dict)
    """Why parts were left out."""
    workers: set[str] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)

    @property
    def tokens_per_second(self) -> float:
        """Of this run."""
        return self.n_tokens / max(time.monotonic() - self.started, 1e-9)

    @property
    def seconds_left(self) -> float:
        """By the parts of this run."""
        seconds = time.monotonic() - self.started
        return seconds * (self.n_parts - self.n_done) / max(1, self.n_done - self.n_before)

    def text(self) -> str:
        """What is said of a run beside the number of parts."""
        return (
            f"{self.tokens_per_second:,.0f} tokens/s, {counted(len(self.workers), 'worker')}, "
            f"{len(self.failed):,} failed"
        )

    def add(self, result: PartResult) -> None:
        """Count a part."""
        self.n_tokens += result.n_tokens
        if result.error is None:
            self.n_done += 1
            self.workers.add(result.worker)
        else:
            self.failed[result.number] = result.error
            logger.warning("Failed: %s", result.error)


def run_parts(
    folder: Folder,
    plan: Plan,
    settings: Settings,
    engine: Engine,
    *,
    shard: Shard = WHOLE,
    on_progress: Callable[[Progress], object] = lambda progress: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Progress:
    """Embed the parts that are missing.

    Args:
        folder: with its plan.
        plan: what `open_plan` gave.
        settings: those of the plan.
        engine: has workers embed parts, which may be in other processes.
        shard: every N-th part from the I-th.
        on_progress: told of each part, and now and then.
        should_stop: asked as often; True gives up the parts in work.

    Returns:
        What became of the parts.

    Raises:
        StoppedError: it was told to stop.
        ElmoError: an error that all parts would have.
    """
    missing = folder.missing(len(plan.parts))
    n_there = len(plan.parts) - len(missing)
    progress = Progress(len(plan.parts), n_there, n_there)
    parts = [plan.parts[number] for number in missing if shard.has(number)]
    embed = partial(embed_part, folder.location, plan.settings["model_sha256"], settings)
    note = _Note(folder, progress, shard)
    try:
        for result in engine(parts, embed) if parts else ():
            if result is not None:
                progress.add(result)
            on_progress(progress)
            note.write_if_due()
            if should_stop():
                raise StoppedError(
                    f"Stopped after {progress.n_done:,} of {progress.n_parts:,} parts, which are "
                    "kept; the same command resumes"
                )
        _finish(folder, plan, progress)
    finally:
        note.write(is_at_work=False)
    if folder.has(COMPLETE):
        folder.remove_temporary()
    return progress


class _Note:
    """What a run says of itself now and then, for `status` and for a second run."""

    def __init__(self, folder: Folder, progress: Progress, shard: Shard) -> None:
        self._folder, self._progress = folder, progress
        is_whole = shard == WHOLE
        self._name = f"_elmo/run{'' if is_whole else f'-{shard.number}-{shard.total}'}.json"
        before = folder.read(self._name) or {}
        seconds = time.time() - before.get("time", 0)
        if before.get("is_at_work") and seconds < 2 * _NOTE_SECONDS:
            logger.warning(
                "Warning: %s: another run was at work %.0f seconds ago; if it still is, parts are "
                "done twice, and are the same",
                *(folder.location, seconds),
            )
        elif is_whole:
            folder.remove_temporary()
        self.write()

    def write_if_due(self) -> None:
        if time.monotonic() - self._written >= _NOTE_SECONDS:
            self.write()

    def write(self, *, is_at_work: bool = True) -> None:
        self._written = time.monotonic()
        content: dict[str, Any] = {
            "time": time.time(),
            "is_at_work": is_at_work,
            "text": self._progress.text(),
            "seconds_left": self._progress.seconds_left,
            "failed": self._progress.failed,
        }
        self._folder.write(self._name, content)


def _finish(folder: Folder, plan: Plan, progress: Progress) -> None:
    """Complete the folder where no part is missing."""
    n_there = len(plan.parts) - len(folder.missing(len(plan.parts)))
    if n_there < progress.n_done:
        n_lost = counted(progress.n_done - n_there, "part")
        raise OutputError(
            f"{folder.location}: workers wrote {n_lost} that this machine does not see; expected "
            "a folder on a disk that all share"
        )
    progress.n_done = n_there
    if progress.n_done < len(plan.parts) or folder.has(COMPLETE):
        return
    totals = {
        "parts": len(plan.parts),
        "records": sum(part.n_records for part in plan.parts),
        "tokens": sum(int(folder.part_attributes(part.number)["tokens"]) for part in plan.parts),
    }
    attributes = {name: str(total) for name, total in totals.items()}
    folder.write(COMPLETE, {**plan.settings, **attributes})


def status(folder: Folder) -> list[str]:
    """How far a folder is, in lines; nothing in it is changed.

    Raises:
        InputError: it is no such folder.
    """
    plan = read_plan(folder)
    if plan is None:
        raise InputError(f"{folder.location}: expected a folder of `elmo distribute`, found none")
    n_parts, missing = len(plan.parts), folder.missing(len(plan.parts))
    lines = [f"{n_parts - len(missing):,} of {counted(n_parts, 'part')}"]
    for name in folder.names("_elmo"):
        if name.startswith("run"):
            note = folder.read(f"_elmo/{name}")
            left = f", {note['seconds_left'] / 60:,.0f} minutes left" * note["is_at_work"]
            seconds = time.time() - note["time"]
            lines.append(f"{note['text']}{left}, {seconds:,.0f} seconds ago")
            lines += [f"Failed: {error}" for error in note["failed"].values()]
    return [*lines, *(f"Missing: {plan.parts[number]}" for number in missing)]
