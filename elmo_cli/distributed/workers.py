"""A run over the missing parts of a folder, and the folder's status."""

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from elmo_cli.callbacks import ignore, never
from elmo_cli.distributed.input_files import changed_error, sha256_of
from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.part import (
    MAX_SHOWN_SKIPPED,
    PartResult,
    embed_part,
    summarize,
    worker_name,
)
from elmo_cli.distributed.plan import CorpusSettings, Plan, read_column_types, read_plan
from elmo_cli.errors.exceptions import (
    InputError,
    MissingInputError,
    OutputError,
    StoppedError,
)
from elmo_cli.errors.messages import Message, spelled_as_options
from elmo_cli.errors.wording import SAYS_ITS_KIND, counted
from elmo_cli.files.shared_folder import WORK, Folder
from elmo_cli.inference.device import Device
from elmo_cli.options.shard import WHOLE, Shard
from elmo_cli.outputs.part_files import (
    AGAIN,
    SUCCESS,
    count_repeated,
    find_damage,
    find_done_parts,
)
from elmo_cli.records.ids import log_repeated
from elmo_cli.runs.file_sink import log_empty

logger = logging.getLogger(__name__)

EmbedPart = Callable[..., PartResult]
"""Function that embeds a part, with `device` and `on_tokens` as in `embed_part`."""
RunOnWorkers = Callable[[Sequence[Part], EmbedPart], Iterable[PartResult | None]]
"""Function that embeds parts on other processes or machines, and yields their results.

It also yields None now and then, so that a run reports progress while it waits.
"""


@dataclass
class RunCounts:
    """Counts of the parts of a folder, and of what this run has done."""

    n_parts: int
    n_done: int
    """Number of complete parts, whoever has done them."""
    n_assigned: int = 0
    """Number of parts that this run has to do."""
    n_new: int = 0
    """Number of parts that this run has done."""
    n_tokens: int = 0
    """Number of tokens in the parts that this run has done."""
    n_tokens_at_work: int = 0
    """Number of tokens embedded of the part that this process has begun."""
    failed: dict[int, str | Message] = field(default_factory=dict)
    """Reason for each part that failed, by its number."""
    n_skipped: int = 0
    n_empty: int = 0
    """Number of records without text in the parts that this run has done."""
    workers: set[str] = field(default_factory=set)
    has_warned: bool = False
    """Whether the warning about values was logged, which is given once."""
    started: float = field(default_factory=time.monotonic)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of this run."""
        seconds = time.monotonic() - self.started
        return (self.n_tokens + self.n_tokens_at_work) / max(seconds, 1e-9)

    def add(self, result: PartResult) -> None:
        """Count a part, and log why it failed or what it skipped."""
        self.n_tokens_at_work = 0
        if result.error is not None:
            self.failed[result.number] = result.error
            logger.warning("Failed: %s", result.error, extra=SAYS_ITS_KIND)
            return
        n_shown = max(0, MAX_SHOWN_SKIPPED - self.n_skipped)
        for reason in result.skipped[:n_shown]:
            logger.warning("Skipped: %s", reason, extra=SAYS_ITS_KIND)
        if result.warning is not None and not self.has_warned:
            logger.warning("%s", result.warning)
            self.has_warned = True
        self.n_skipped += result.n_skipped
        self.n_empty += result.n_empty
        self.n_done += 1
        self.n_new += 1
        self.n_tokens += result.n_tokens
        self.workers.add(result.worker)

    def text(self) -> str:
        """Return one line: speed, workers, failures, and the time left."""
        parts = [
            f"{self.tokens_per_second:,.0f} tokens/s",
            counted(len(self.workers), "worker"),
            f"{len(self.failed):,} failed",
        ]
        if self.n_skipped:
            parts.append(f"{self.n_skipped:,} skipped")
        if self.n_new:
            parts.append(f"{self._time_left()} left")
        return ", ".join(parts)

    def _time_left(self) -> str:
        """Estimate the time for the rest from the parts that are done."""
        n_left = max(0, self.n_assigned - self.n_new - len(self.failed))
        seconds_per_part = (time.monotonic() - self.started) / self.n_new
        minutes = round(seconds_per_part * n_left / 60)
        return counted(minutes, "minute") if minutes else "less than a minute"


def run_parts(
    folder: Folder,
    plan: Plan,
    settings: CorpusSettings,
    run_on_workers: RunOnWorkers | None = None,
    *,
    device: Device = "cpu",
    shard: Shard = WHOLE,
    verify: bool = False,
    on_progress: Callable[[RunCounts], object] = ignore,
    should_stop: Callable[[], bool] = never,
) -> RunCounts:
    """Embed the missing parts of a shard, and complete the folder after the last one.

    Args:
        folder: Folder of the parts.
        plan: Plan of the folder.
        settings: Settings that the plan was made with.
        run_on_workers: Function that embeds the parts. None: this process does.
        device: Device of this process. Workers choose their own.
        shard: Share of the parts that this run does; all by default.
        verify: Read the complete parts of the share too, and embed damaged ones again.
        on_progress: Called after each part, and now and then.
        should_stop: Called after `on_progress`. Return True to stop the run.

    Raises:
        StoppedError: `should_stop` returned True. The parts at work are lost.
        ElmoError: Something is wrong that would fail all parts. A part that fails by
            itself is in the counts.
    """
    done = find_done_parts(folder, plan.sha256)
    own = [part for part in plan.parts if shard.has(part.number)]
    damaged = {}
    if verify:
        damaged = _read_done_parts(
            folder, own, done, partial(_stop_reading, should_stop)
        )
        _warn_of_damage(own, damaged)
        done.difference_update(damaged)
    parts = [part for part in own if part.number not in done]
    counts = RunCounts(n_parts=len(plan.parts), n_done=len(done), n_assigned=len(parts))
    embed = partial(
        embed_part,
        folder.location,
        summarize(plan),
        settings,
        damaged=frozenset(damaged),
    )

    def report() -> None:
        on_progress(counts)
        if should_stop():
            n_parts = counted(counts.n_parts, "part")
            raise StoppedError(
                f"Stopped after {counts.n_done:,} of {n_parts}, which are kept",
                remedy="The same command resumes.",
            )

    def report_tokens(n_tokens: int) -> None:
        counts.n_tokens_at_work = n_tokens
        report()

    results: Iterable[PartResult | None]
    if run_on_workers is not None and parts:
        results = run_on_workers(parts, embed)
    else:
        counts.workers.add(worker_name())
        embed_here = partial(embed, device=device, on_tokens=report_tokens)
        results = map(embed_here, parts)
    for result in results:
        if result is not None:
            counts.add(result)
            if result.error is not None:
                _write_failure(folder, result.number, result.error)
        report()

    if counts.n_skipped > MAX_SHOWN_SKIPPED:
        logger.warning(
            "Skipped %s in all",
            counted(counts.n_skipped, "record"),
            extra=SAYS_ITS_KIND,
        )
    log_empty(counts.n_empty, "record", pooled=settings.selection.pooling is not None)
    # The damaged file of a part that failed again is still there.
    still_damaged = damaged.keys() & counts.failed.keys()
    _finish(folder, plan, counts, damaged=still_damaged)
    return counts


def _finish(
    folder: Folder, plan: Plan, counts: RunCounts, damaged: Collection[int]
) -> None:
    """Count the complete parts. After the last one, check the inputs and the ids.

    `damaged` are the numbers of parts that only seem to be complete by their footers.
    """
    n_done = len(find_done_parts(folder, plan.sha256).difference(damaged))
    if n_done < counts.n_done:
        # This raises an error if the plan is missing, too.
        read_column_types(folder, plan.sha256)
        n_unseen = counted(counts.n_done - n_done, "part")
        raise OutputError(
            f"{folder.location}: workers wrote {n_unseen} that this machine does not "
            "see",
            remedy="Choose a folder on a disk that all machines share.",
        )
    # Other runs may have done some.
    counts.n_done = n_done
    if n_done < counts.n_parts:
        return
    if not folder.has(SUCCESS):
        for path, sha256 in plan.inputs:
            if sha256_of(path) != sha256:
                raise changed_error(path)
        if "id" in read_column_types(folder, plan.sha256):
            log_repeated(count_repeated(folder, n_done))
        folder.create(SUCCESS, b"")
    folder.remove_folder(WORK)


def _write_failure(folder: Folder, number: int, reason: str | Message) -> None:
    """Keep the reason why a part failed, for the status."""
    # A run goes on without it.
    with suppress(OutputError):
        folder.write(_failure_name(number), spelled_as_options(reason).encode())


def _read_failure(folder: Folder, number: int) -> str | None:
    content = folder.read(_failure_name(number))
    return None if content is None else content.decode(errors="replace")


def _failure_name(number: int) -> str:
    return f"{WORK}/failed-{number:08d}.txt"


def _read_done_parts(
    folder: Folder,
    parts: Iterable[Part],
    done: Collection[int],
    on_part: Callable[[], object],
) -> dict[int, str]:
    """Read complete parts as a whole. Return the reason for each damaged one."""
    damaged = {}
    for part in parts:
        if part.number in done:
            reason = find_damage(folder, part.number)
            if reason is not None:
                damaged[part.number] = reason
            on_part()
    return damaged


def _stop_reading(should_stop: Callable[[], bool]) -> None:
    if should_stop():
        raise StoppedError("Stopped while the complete parts were read")


def _warn_of_damage(parts: Iterable[Part], damaged: Mapping[int, str]) -> None:
    for part in parts:
        if part.number in damaged:
            text = "Damaged: %s: %s. It is embedded again."
            logger.warning(text, part, damaged[part.number], extra=SAYS_ITS_KIND)


def read_status(
    folder: Folder,
    *,
    verify: bool = False,
    on_part: Callable[[], object] = ignore,
) -> tuple[dict[str, Any], list[str]]:
    """Return the status of a folder as values of JSON, and as lines of text.

    With `verify`, the complete parts are read, and damaged ones count as missing.
    `on_part` is called after each.
    """
    plan = read_plan(folder)
    if plan is None:
        if folder.is_local and not os.path.exists(folder.location):
            raise MissingInputError(f"{folder.typed}: no such folder")
        raise InputError(f"{folder.typed}: not an `elmo distribute` folder")
    done = find_done_parts(folder, plan.sha256)
    damaged = {}
    if verify:
        damaged = _read_done_parts(folder, plan.parts, done, on_part)
        done.difference_update(damaged)
    n_parts = len(plan.parts)
    lines = [f"{len(done):,} of {counted(n_parts, 'part')}"]
    missing: list[dict[str, Any]] = []
    for part in plan.parts:
        if part.number in done:
            continue
        reason = damaged.get(part.number)
        if reason is not None:
            lines.append(f"Damaged: {part}: {reason}")
        else:
            reason = _read_failure(folder, part.number)
            lines.append(f"Missing: {part}" if reason is None else f"Failed: {reason}")
        missing.append(
            {
                "number": part.number,
                "path": part.path,
                "line": part.line,
                "n_lines": part.n_lines,
                "error": reason,
            }
        )
    if damaged:
        lines.append(f"{AGAIN}, with --verify.")
    is_complete = not missing and folder.has(SUCCESS)
    if not missing and not is_complete:
        lines.append(f"Missing: {SUCCESS}, which the same command writes")
    status = {
        "complete": is_complete,
        "parts": n_parts,
        "done": len(done),
        "missing": missing,
    }
    return status, lines
