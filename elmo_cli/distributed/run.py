"""A run: all parts that are not there yet, by an engine, and what is said of them."""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from elmo_cli.distributed.folder import ATTEMPTS, BEAT_SECONDS, FAILED, RUNS, Folder, process_name
from elmo_cli.distributed.part import PartResult, PartWorker
from elmo_cli.distributed.plan import Plan, Settings, read_plan
from elmo_cli.distributed.ray_engine import Resources, embed_on_ray
from elmo_cli.errors import ElmoError, InputError, StoppedError
from elmo_cli.inference.device import Device
from elmo_cli.outputs.parts import COMPLETE
from elmo_cli.quantities import counted
from elmo_cli.text.records import WHOLE, Shard

logger = logging.getLogger(__name__)

SILENT_SECONDS: Final = 25.0
"""Seconds without a part begun after which a run says so."""


@dataclass
class Progress:
    """How far a folder is, and what this run did."""

    n_parts: int
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

    def text(self) -> str:
        """What is said of a run beside the number of parts."""
        n_failed, n_workers = len(self.failed), len(self.workers)
        return f"{self.tokens_per_second:,.0f} tokens/s, {n_workers} workers, {n_failed} failed"


def run_parts(
    folder: Folder,
    plan: Plan,
    settings: Settings,
    *,
    engine: str = "none",
    resources: Resources | None = None,
    device: Device = "cpu",
    shard: Shard = WHOLE,
    attempts: int = 5,
    on_progress: Callable[[Progress], object] = lambda progress: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Progress:
    """Embed the parts that are missing.

    Args:
        folder: with its plan.
        plan: what `open_plan` gave.
        settings: of the workers, those of the plan.
        engine: `ray`, or `none`: this process.
        resources: of Ray's workers.
        device: of this process.
        shard: every N-th part from the I-th.
        attempts: workers that a part may end.
        on_progress: told of each part, and each second.
        should_stop: asked as often; True gives up the parts in work.

    Returns:
        What became of the parts; those missing are in `failed`.

    Raises:
        StoppedError: it was told to stop.
        ElmoError: an error that all parts would have.
    """
    name = None if shard == WHOLE else str(shard)
    _prepare(folder, shard, folder.other_runs(name))
    there = folder.parts()
    progress = Progress(len(plan.parts), len(there))
    missing = [part for part in plan.parts if part.number not in there and shard.has(part.number)]
    beat = _Beat(folder, progress, name, should_stop)

    def on_window(n_tokens: int) -> None:
        progress.n_tokens += n_tokens
        on_progress(progress)
        beat()

    arguments = (folder.location, plan.model_sha256, settings)
    results: Generator[PartResult | None, None, None]
    if engine == "ray":
        results = embed_on_ray(missing, resources or Resources(), *arguments, attempts=attempts)
    else:
        worker = PartWorker(*arguments, device=device, on_window=on_window)
        results = (worker(part) for part in missing)
    try:
        beat()
        with closing(results):
            for result in results if missing else ():
                if result is not None:
                    _add(progress, result, counts_tokens=engine == "ray")
                on_progress(progress)
                beat()
    finally:
        folder.remove(f"{RUNS}/{process_name()}")
    _finish(folder, plan, progress)
    return progress


def _prepare(folder: Folder, shard: Shard, others: list[str]) -> None:
    """Warn of another run on the same parts; else forget what killed ones have left of them."""
    if others:
        logger.warning(
            "Warning: %s: another run (%s) is at work; parts may be done twice, and are the same",
            *(folder.location, others[0]),
        )
    elif shard == WHOLE:
        folder.remove_leftovers()
    else:
        attempts = folder.names(ATTEMPTS)
        folder.remove(*(f"{ATTEMPTS}/{name}" for name in attempts if shard.has(int(name))))


def _add(progress: Progress, result: PartResult, *, counts_tokens: bool) -> None:
    progress.workers.add(result.worker)
    progress.n_tokens += result.n_tokens if counts_tokens else 0
    if result.ends_run:
        raise ElmoError(result.error)
    if result.error is not None:
        progress.failed[result.number] = result.error
        logger.warning("Failed: %s", result.error)
    else:
        progress.n_done += 1


class _Beat:
    """Says now and then that a run lives; and stops it."""

    def __init__(
        self, folder: Folder, progress: Progress, shard: str | None, should_stop: Callable[[], bool]
    ) -> None:
        self._folder, self._progress = folder, progress
        self._shard, self._should_stop = shard, should_stop
        self._last = float("-inf")
        self._is_silent = True

    def __call__(self) -> None:
        progress, folder = self._progress, self._folder
        if self._should_stop():
            raise StoppedError(
                f"Stopped after {progress.n_done:,} of {progress.n_parts:,} parts, which are kept; "
                "the same command goes on"
            )
        now = time.monotonic()
        if self._is_silent and now - progress.started > SILENT_SECONDS:
            self._is_silent = False
            if not progress.workers and not folder.names(ATTEMPTS):
                logger.warning(
                    "Warning: the engine has begun no part for %.0f seconds: it waits for "
                    "resources, which others may use; Ctrl-C ends the run",
                    SILENT_SECONDS,
                )
        if now - self._last >= BEAT_SECONDS:
            self._last = now
            values: dict[str, Any] = {
                "time": time.time(),
                "shard": self._shard,
                "tokens_per_second": progress.tokens_per_second,
                "workers": len(progress.workers),
            }
            folder.write(f"{RUNS}/{process_name()}", values)


def _finish(folder: Folder, plan: Plan, progress: Progress) -> None:
    """Complete the folder where no part is missing."""
    there = folder.parts()
    progress.n_done = len(there)
    if progress.failed:
        folder.write(FAILED, progress.failed)
    else:
        folder.remove(FAILED)
    if any(part.number not in there for part in plan.parts) or folder.has(COMPLETE):
        return
    attributes = [folder.part_attributes(part.number) for part in plan.parts]
    own = ("part", "first", "records", "tokens", "input_records", "input_sha256", "skipped")
    common = {name: value for name, value in (attributes or [{}])[0].items() if name not in own}
    totals = {
        "parts": str(len(attributes)),
        "records": str(sum(part.n_records for part in plan.parts)),
        "tokens": str(sum(int(each["tokens"]) for each in attributes)),
    }
    folder.write(COMPLETE, {**common, **totals})
    folder.remove_leftovers()


def status(folder: Folder) -> list[str]:
    """How far a folder is, in lines; nothing in it is changed.

    Raises:
        InputError: it is no such folder.
    """
    plan = read_plan(folder)
    if plan is None:
        raise InputError(f"{folder.location}: expected a folder of `elmo distribute`, found none")
    there = folder.parts()
    runs = [folder.read(f"{RUNS}/{name}") or {} for name in folder.other_runs(None)]
    failed = folder.read(FAILED) or {}
    missing = [str(part) for part in plan.parts if part.number not in there]
    n_parts, n_workers = len(plan.parts), sum(run.get("workers", 0) for run in runs)
    speed = sum(run.get("tokens_per_second", 0.0) for run in runs)
    return [
        f"{n_parts - len(missing):,} of {counted(n_parts, 'part')}, "
        f"{counted(len(runs), 'run')} at work, {counted(n_workers, 'worker')}, "
        f"{speed:,.0f} tokens/s, {len(failed):,} failed",
        *(f"Failed: {error}" for error in failed.values()),
        *(f"Missing: {part}" for part in missing),
    ]
