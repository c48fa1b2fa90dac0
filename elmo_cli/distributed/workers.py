"""A run: all parts that are missing, embedded by an engine, and the status of a folder."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from elmo_cli.distributed.inputs import Part, changed_error, sha256_of
from elmo_cli.distributed.part import (
    MAX_SHOWN_SKIPPED,
    PartResult,
    embed_part,
    key_of,
    worker_name,
)
from elmo_cli.distributed.plan import CorpusSettings, Plan, read_column_types, read_plan
from elmo_cli.embed_file import log_empty
from elmo_cli.errors.exceptions import InputError, OutputError, StoppedError
from elmo_cli.errors.messages import Message, spelled_as_options
from elmo_cli.errors.wording import counted
from elmo_cli.files.folder import WORK, Folder
from elmo_cli.inference.device import Device
from elmo_cli.options.shard import WHOLE, Shard
from elmo_cli.outputs.parts import SUCCESS, count_repeated, find_done
from elmo_cli.records.ids import log_repeated

logger = logging.getLogger(__name__)

EmbedPart = Callable[..., PartResult]
"""Function that embeds a part, with `device` and `on_tokens` as in `embed_part`."""
Workers = Callable[[Sequence[Part], EmbedPart], Iterable[PartResult | None]]
"""Engine: takes parts and a function; yields the result of each part, and None now and then."""


@dataclass
class RunCounts:
    """Counts of the parts of a folder, and of what this run has done."""

    n_parts: int
    n_done: int  # number of complete parts
    n_assigned: int = 0  # number of parts that this run has to do
    n_tokens: int = 0  # number of tokens of the parts that this run has done
    # number of tokens of the part that this process has begun
    n_tokens_at_work: int = 0
    failed: dict[int, str | Message] = field(
        default_factory=dict
    )  # reasons of the parts that failed
    n_skipped: int = 0
    # number of records without text in the parts that this run has done
    n_empty: int = 0
    workers: set[str] = field(default_factory=set)
    n_new: int = 0  # number of parts that this run has done
    has_warned: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of this run."""
        return (self.n_tokens + self.n_tokens_at_work) / max(
            time.monotonic() - self.started, 1e-9
        )

    def add(self, result: PartResult) -> None:
        """Count a part, and log why it failed or what it skipped."""
        self.n_tokens_at_work = 0
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
        self.n_empty += result.n_empty
        self.n_done += 1
        self.n_new += 1
        self.n_tokens += result.n_tokens
        self.workers.add(result.worker)

    def text(self) -> str:
        """Return one line: speed, workers, failed parts, time left by the parts so far."""
        left = ""
        if self.n_new:
            n_left = max(0, self.n_assigned - self.n_new - len(self.failed))
            minutes = round(
                (time.monotonic() - self.started) / self.n_new * n_left / 60
            )
            left = f", {counted(minutes, 'minute') if minutes else 'less than a minute'} left"
        skipped = f", {self.n_skipped:,} skipped" if self.n_skipped else ""
        return (
            f"{self.tokens_per_second:,.0f} tokens/s, {counted(len(self.workers), 'worker')}, "
            f"{len(self.failed):,} failed{skipped}{left}"
        )


def run_parts(
    folder: Folder,
    plan: Plan,
    settings: CorpusSettings,
    workers: Workers | None = None,
    *,
    device: Device = "cpu",
    shard: Shard = WHOLE,
    on_progress: Callable[[RunCounts], object] = lambda counts: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> RunCounts:
    """Embed the parts of a shard that are missing, without `workers` in this process on `device`.

    `on_progress` and `should_stop` are called after each part, and now and then. A `StoppedError`
    gives up the parts at work. An error that all parts would have is raised.
    """
    done = find_done(folder, plan.sha256)
    parts = [
        part
        for part in plan.parts
        if shard.has(part.number) and part.number not in done
    ]
    counts = RunCounts(len(plan.parts), len(done), len(parts))
    embed = partial(embed_part, folder.location, key_of(plan), settings)

    def embed_here() -> Iterator[PartResult]:
        counts.workers.add(worker_name())
        for part in parts:
            yield embed(part, device=device, on_tokens=count)

    def count(n_tokens: int) -> None:
        counts.n_tokens_at_work = n_tokens
        on_progress(counts)
        stop_if_told()

    def stop_if_told() -> None:
        if should_stop():
            raise StoppedError(
                f"Stopped after {counts.n_done:,} of {counted(counts.n_parts, 'part')}, which "
                "are kept. The same command resumes."
            )

    for result in workers(parts, embed) if workers and parts else embed_here():
        if result is not None:
            counts.add(result)
            if result.error is not None:
                with suppress(OutputError):  # It is only for the status.
                    reason = spelled_as_options(result.error)
                    folder.write(_failure_name(result.number), reason.encode())
        on_progress(counts)
        stop_if_told()
    if counts.n_skipped > MAX_SHOWN_SKIPPED:
        logger.warning("Skipped %s in all", counted(counts.n_skipped, "record"))
    log_empty(counts.n_empty, "record", pooled=settings.selection.pooling is not None)
    _finish(folder, plan, counts)
    return counts


def _finish(folder: Folder, plan: Plan, counts: RunCounts) -> None:
    n_done = len(find_done(folder, plan.sha256))
    if n_done < counts.n_done:
        read_column_types(
            folder, plan.sha256
        )  # It raises an error if the plan is not there.
        raise OutputError(
            f"{folder.location}: workers wrote {counted(counts.n_done - n_done, 'part')} that this "
            "machine does not see. Choose a folder on a disk that all machines share."
        )
    counts.n_done = n_done  # Other runs may have done some.
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


def _failure_name(number: int) -> str:
    return f"{WORK}/failed-{number:08d}.txt"


def read_status(folder: Folder) -> tuple[dict[str, Any], list[str]]:
    """Return the status of a folder as values of JSON, and as lines of text."""
    plan = read_plan(folder)
    if plan is None:
        raise InputError(f"{folder.location}: not an `elmo distribute` folder.")
    done, n_parts = find_done(folder, plan.sha256), len(plan.parts)
    lines, missing = [f"{len(done):,} of {counted(n_parts, 'part')}"], []
    for part in plan.parts:
        if part.number not in done:
            content = folder.read(_failure_name(part.number))
            reason = None if content is None else content.decode(errors="replace")
            lines.append(f"Missing: {part}" if reason is None else f"Failed: {reason}")
            missing.append({**part._asdict(), "error": reason})
    is_complete = not missing and folder.has(SUCCESS)
    if not missing and not is_complete:
        lines.append(f"Missing: {SUCCESS}, which the same command writes")
    counts = {"complete": is_complete, "parts": n_parts, "done": len(done)}
    return {**counts, "missing": missing}, lines
