"""Counts of a run, and the note of them in the folder, for `--status`."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from threading import Event, Thread
from typing import Final

from elmo_cli.distributed.part import MAX_SHOWN_SKIPPED, PartResult
from elmo_cli.errors import ElmoError, counted
from elmo_cli.json_form import parse_json
from elmo_cli.outputs.parts import Folder, Plan, plan_name
from elmo_cli.text.records import WHOLE, Shard

logger = logging.getLogger(__name__)

NOTE_SECONDS: Final = 10.0
"""Seconds between the notes of a run that is at work."""


@dataclass
class RunCounts:
    """Counts of the parts of a folder, and of what this run has done."""

    n_parts: int
    n_done: int
    """Number of complete parts."""
    n_assigned: int = 0
    """Number of parts that this run has to do."""
    n_tokens: int = 0
    """Number of tokens of the parts that this run has done."""
    n_tokens_at_work: int = 0
    """Number of tokens of the parts that it has begun, as far as the engine tells."""
    failed: dict[int, str] = field(default_factory=dict)
    """Reasons of the parts that failed."""
    n_skipped: int = 0
    """Number of skipped records."""
    workers: set[str] = field(default_factory=set)
    """Names of all workers so far, also of those that have not done a part yet."""
    n_new: int = 0
    """Number of parts that this run has done."""
    has_warned: bool = False
    """True if a warning about the values of a part was logged."""
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start of the run."""
        return max(time.monotonic() - self.started, 1e-9)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of this run."""
        return (self.n_tokens + self.n_tokens_at_work) / self.seconds

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the end of the run, by the parts so far; None before the first part."""
        if not self.n_new:
            return None
        n_left = max(0, self.n_assigned - self.n_new - len(self.failed))
        return self.seconds / self.n_new * n_left

    def add(self, result: PartResult) -> None:
        """Count a part, and log why it failed or what it skipped."""
        if result.error is not None:
            self.failed[result.number] = result.error
            logger.warning("Failed: %s", result.error)
            return
        for reason in result.skipped[: max(0, MAX_SHOWN_SKIPPED - self.n_skipped)]:
            logger.warning("Skipped: %s", reason)
        if result.warning is not None and not self.has_warned:
            logger.warning("Warning: %s", result.warning)
            self.has_warned = True
        self.n_skipped += result.n_skipped
        self.n_done += 1
        self.n_new += 1
        self.n_tokens += result.n_tokens
        self.workers.add(result.worker)

    def note(self, *, is_at_work: bool) -> "Note":
        """Return the note of these counts."""
        return Note(
            time.time(),
            is_at_work,
            self.tokens_per_second,
            len(self.workers),
            self.seconds_left if is_at_work else None,
            [*self.failed.values()],
            self.n_skipped,
        )


@dataclass(frozen=True)
class Note:
    """Note of a run in its folder, for `--status` and for a second run."""

    time: float
    """When it was written, in seconds since 1970 by the clock of the driver."""
    is_at_work: bool
    tokens_per_second: float
    n_workers: int
    seconds_left: float | None = None
    failed: list[str] = field(default_factory=list)
    """Reasons of the parts that failed."""
    n_skipped: int = 0

    @property
    def seconds_ago(self) -> float:
        """Seconds since it was written; negative if the clocks of two machines differ."""
        return time.time() - self.time

    def text(self) -> str:
        """Return one line: speed, workers, failed parts, time left."""
        time_left = "" if self.seconds_left is None else f", {_left(self.seconds_left)}"
        skipped = f", {self.n_skipped:,} skipped" if self.n_skipped else ""
        return (
            f"{self.tokens_per_second:,.0f} tokens/s, {counted(self.n_workers, 'worker')}, "
            f"{len(self.failed):,} failed{skipped}{time_left}"
        )


def _left(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{counted(minutes, 'minute')} left" if minutes else "less than a minute left"


def ago(note: Note) -> str:
    """Return when a note was written, also where two clocks differ."""
    seconds = round(note.seconds_ago)
    if seconds < 0:
        return f"at a time that is {counted(-seconds, 'second')} ahead of this clock"
    return f"{counted(seconds, 'second')} ago"


def note_name(shard: Shard, subfolder: str = "") -> str:
    """Return the file of the note of a run."""
    part = "" if shard == WHOLE else f"-{shard.number}-{shard.total}"
    return f"{subfolder or '_elmo'}/run{part}.json"


def read_note(folder: Folder, name: str) -> Note | None:
    """Read a note. Return None if it is missing or damaged, as notes never stop a run."""
    with suppress(ElmoError):
        return parse_json(folder.read(name) or b"", Note, name)
    return None


def warn_about_other_run(folder: Folder, plan: Plan, shard: Shard) -> None:
    """Log a warning if another run seems to be at work on the same parts."""
    note = read_note(folder, note_name(shard, plan.subfolder))
    if note is not None and note.is_at_work and note.seconds_ago < 2 * NOTE_SECONDS:
        logger.warning(
            "Warning: %s: another run was at work %s. If it still is, both do the same parts.",
            *(folder.location, ago(note)),
        )


@contextmanager
def notes(folder: Folder, plan: Plan, shard: Shard, counts: RunCounts) -> Iterator[None]:
    """Write notes while the block runs, in a thread, and at its end."""
    ended = Event()

    def write(*, is_at_work: bool) -> None:
        with suppress(ElmoError):  # An error of the folder stops the run itself.
            # A next plan loses its folder when it is complete.
            subfolder = plan.subfolder if folder.has(plan_name(plan.subfolder)) else ""
            if folder.read(plan_name(subfolder), 1) == b"":  # The folder is complete.
                return
            content = json.dumps(asdict(counts.note(is_at_work=is_at_work)))
            folder.write(note_name(shard, subfolder), content.encode())

    def write_often() -> None:
        while not ended.wait(NOTE_SECONDS):
            write(is_at_work=True)

    write(is_at_work=True)
    thread = Thread(target=write_often, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        write(is_at_work=False)
