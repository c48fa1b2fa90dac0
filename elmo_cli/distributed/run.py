"""A run: all parts that are not there yet, by an engine, and what is said of them."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from typing import Final

from elmo_cli.distributed.inputs import Part
from elmo_cli.distributed.part import PartResult, embed_part
from elmo_cli.distributed.plan import CorpusSettings, Plan, read_plan
from elmo_cli.errors import InputError, OutputError, StoppedError, counted
from elmo_cli.outputs.parts import COMPLETE, Folder
from elmo_cli.text.shards import WHOLE, Shard

logger = logging.getLogger(__name__)

Workers = Callable[[Sequence[Part], Callable[..., PartResult]], Iterable[PartResult | int]]
"""Parts, and what embeds one -> what became of each; now and then the tokens of those in work."""
_NOTE_SECONDS: Final = 10.0
"""Seconds between the notes of a run that is at work."""


@dataclass
class Progress:
    """How far a folder is, and what this run did."""

    n_parts: int
    n_done: int
    """Parts that are there."""
    n_tokens: int = 0
    """Of the parts that this run has done."""
    n_tokens_in_work: int = 0
    """Of the parts that it has begun, where the engine tells."""
    failed: dict[int, str] = field(default_factory=dict)
    """Why parts were left out."""
    workers: set[str] = field(default_factory=set)
    n_new: int = 0
    """Parts of this run."""
    started: float = field(default_factory=time.monotonic)

    @property
    def tokens_per_second(self) -> float:
        """Of this run."""
        return (self.n_tokens + self.n_tokens_in_work) / max(time.monotonic() - self.started, 1e-9)

    def text(self) -> str:
        """What is said of a run beside the number of parts."""
        return (
            f"{self.tokens_per_second:,.0f} tokens/s, {counted(len(self.workers), 'worker')}, "
            f"{len(self.failed):,} failed"
        )

    def add(self, result: PartResult) -> None:
        """Count a part."""
        if result.error is not None:
            self.failed[result.number] = result.error
            logger.warning("Failed: %s", result.error)
            return
        self.n_done += 1
        self.n_new += 1
        self.n_tokens += result.n_tokens
        self.workers.add(result.worker)


def run_parts(
    folder: Folder,
    plan: Plan,
    settings: CorpusSettings,
    workers: Workers,
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
        workers: Embed parts, perhaps in other processes.
        shard: every N-th part from the I-th.
        on_progress: told of each part, and now and then.
        should_stop: asked as often; True gives up the parts in work.

    Raises:
        StoppedError: it was told to stop.
        ElmoError: an error that all parts would have.
    """
    missing = folder.missing(len(plan.parts))
    progress = Progress(len(plan.parts), len(plan.parts) - len(missing))
    parts = [plan.parts[number] for number in missing if shard.has(number)]
    embed = partial(embed_part, folder.location, plan.settings["model_sha256"], settings)
    note = f"_elmo/run{'' if shard == WHOLE else f'-{shard.number}-{shard.total}'}.json"
    _warn_of_another(folder, note)
    with _noted(folder, note, progress):
        for result in workers(parts, embed) if parts else ():
            if isinstance(result, int):
                progress.n_tokens_in_work = result
            else:
                progress.add(result)
            on_progress(progress)
            if should_stop():
                raise StoppedError(
                    f"Stopped after {progress.n_done:,} of {progress.n_parts:,} parts, which are "
                    "kept; the same command resumes"
                )
        progress.n_tokens_in_work = 0
        _finish(folder, plan, progress)
    if progress.n_done == progress.n_parts:
        folder.remove_temporary()
    return progress


def _warn_of_another(folder: Folder, note: str) -> None:
    before = folder.read(note) or {"time": 0, "is_at_work": False}
    seconds = time.time() - before["time"]
    if before["is_at_work"] and seconds < 2 * _NOTE_SECONDS:
        logger.warning(
            "Warning: %s: another run was at work %.0f seconds ago; if it still is, parts are "
            "done twice, and are the same",
            folder.location,
            seconds,
        )


@contextmanager
def _noted(folder: Folder, note: str, progress: Progress) -> Iterator[None]:
    """Write notes while the block runs, by a thread, however long a part takes; and at its end."""
    ended = Event()

    def write() -> None:
        while not ended.wait(_NOTE_SECONDS):
            with suppress(OutputError):  # the run itself meets it
                _write_note(folder, note, progress, is_at_work=True)

    _write_note(folder, note, progress, is_at_work=True)
    thread = Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _write_note(folder, note, progress, is_at_work=False)


def _write_note(folder: Folder, note: str, progress: Progress, *, is_at_work: bool) -> None:
    """Write what a run says of itself, for `status` and for a second run."""
    seconds = (time.monotonic() - progress.started) / max(1, progress.n_new)  # a part
    minutes = seconds * (progress.n_parts - progress.n_done) / 60
    left = f", {minutes:,.0f} minutes left" if is_at_work else ""
    text, failed = f"{progress.text()}{left}", [*progress.failed.values()]
    folder.write(
        note, {"time": time.time(), "is_at_work": is_at_work, "text": text, "failed": failed}
    )


def _finish(folder: Folder, plan: Plan, progress: Progress) -> None:
    """Complete the folder where no part is missing."""
    n_lost = progress.n_done - progress.n_parts + len(folder.missing(progress.n_parts))
    if n_lost > 0:
        raise OutputError(
            f"{folder.location}: workers wrote {counted(n_lost, 'part')} that this machine does "
            "not see; expected a folder on a disk that all share"
        )
    progress.n_done -= n_lost  # by other runs
    if progress.n_done == progress.n_parts:
        n_records = sum(part.n_records for part in plan.parts)
        totals = {"parts": str(progress.n_parts), "records": str(n_records)}
        folder.write(COMPLETE, plan.settings | totals)


def status(folder: Folder) -> list[str]:
    """How far a folder is, in lines; nothing in it is changed."""
    plan = read_plan(folder)
    if plan is None:
        raise InputError(f"{folder.location}: expected a folder of `elmo distribute`, found none")
    n_parts, missing = len(plan.parts), folder.missing(len(plan.parts))
    lines = [f"{n_parts - len(missing):,} of {counted(n_parts, 'part')}"]
    for name in folder.names("_elmo"):
        if name.startswith("run"):
            note = folder.read(f"_elmo/{name}")
            lines.append(f"{note['text']}, {time.time() - note['time']:,.0f} seconds ago")
            lines += [f"Failed: {error}" for error in note["failed"]]
    return [*lines, *(f"Missing: {plan.parts[number]}" for number in missing)]
