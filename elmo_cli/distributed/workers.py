"""A run: all parts that are missing, embedded by an engine."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from elmo_cli.distributed.finish import finish
from elmo_cli.distributed.part import (
    MAX_SHOWN_SKIPPED,
    PartResult,
    check_plan,
    embed_part,
    key_of,
    worker_name,
)
from elmo_cli.distributed.plan import CorpusSettings
from elmo_cli.distributed.progress import RunCounts, notes, warn_about_other_run
from elmo_cli.errors import OutputError, StoppedError, counted
from elmo_cli.inference.precision import Device
from elmo_cli.outputs.parts import TEMPORARY, Folder, Part, Plan, find_done
from elmo_cli.text.records import WHOLE, Shard

logger = logging.getLogger(__name__)


class AtWork(NamedTuple):
    """State of the workers of an engine, now and then."""

    n_tokens: int
    """Number of tokens of the parts that they have begun."""
    workers: frozenset[str] = frozenset()
    """Names of the workers."""


EmbedPart = Callable[..., PartResult]
"""Function that embeds a part, with `device` and `on_tokens` as in `embed_part`."""
Workers = Callable[[Sequence[Part], EmbedPart], Iterable[PartResult | AtWork]]
"""Engine: takes parts and the function that embeds a part; yields the result of each part, and
the state of its workers now and then."""


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
    """Embed the parts that are missing.

    Args:
        folder: Folder with its plan.
        plan: Plan from `open_plan`.
        settings: Settings of the plan.
        workers: Engine that embeds the parts. None is this process.
        device: Device of this process.
        shard: Every N-th part from the I-th.
        on_progress: Called after each part, and now and then.
        should_stop: Called as often. Return True to give up the parts at work; without an engine
            it is called after each part.

    Raises:
        StoppedError: `should_stop` returned True.
        ElmoError: An error that all parts would have.
    """
    done = find_done(folder, plan)
    counts = RunCounts(len(plan.parts), len(done))
    parts = [part for part in plan.parts if shard.has(part.number) and part.number not in done]
    counts.n_assigned = len(parts)
    embed = partial(embed_part, folder.location, key_of(plan), settings)
    warn_about_other_run(folder, plan, shard)
    with notes(folder, plan, shard, counts):
        for result in _results(parts, embed, workers, device, counts, on_progress):
            if isinstance(result, AtWork):
                counts.n_tokens_at_work = result.n_tokens
                counts.workers |= result.workers
            else:
                counts.add(result)
            on_progress(counts)
            if should_stop():
                raise StoppedError(
                    f"Stopped after {counts.n_done:,} of {counted(counts.n_parts, 'part')}, which "
                    "are kept. The same command resumes."
                )
        counts.n_tokens_at_work = 0
        if counts.n_skipped > MAX_SHOWN_SKIPPED:
            logger.warning("Skipped %s in all", counted(counts.n_skipped, "record"))
        _finish_if_done(folder, plan, counts)
    if counts.n_done == counts.n_parts:
        folder.remove_folder(TEMPORARY)
    return counts


def _results(
    parts: list[Part],
    embed: EmbedPart,
    workers: Workers | None,
    device: Device,
    counts: RunCounts,
    on_progress: Callable[[RunCounts], object],
) -> Iterable[PartResult | AtWork]:
    if not parts:
        return ()
    if workers is not None:
        return workers(parts, embed)

    def count(n_tokens: int) -> None:
        counts.n_tokens_at_work = n_tokens
        on_progress(counts)

    def embed_here() -> Iterator[PartResult]:
        counts.workers.add(worker_name())
        for part in parts:
            result = embed(part, device=device, on_tokens=count)
            counts.n_tokens_at_work = 0
            yield result

    return embed_here()


def _finish_if_done(folder: Folder, plan: Plan, counts: RunCounts) -> None:
    """Make the folder complete if no part is missing."""
    done = find_done(folder, plan)
    n_lost = counts.n_done - len(done)
    if n_lost > 0:
        check_plan(folder, key_of(plan))
        raise OutputError(
            f"{folder.location}: workers wrote {counted(n_lost, 'part')} that this machine does "
            "not see. Choose a folder on a disk that all machines share."
        )
    counts.n_done = len(done)  # Other runs may have done some.
    if counts.n_done == counts.n_parts:
        finish(folder, plan, done)
