"""Ray: parts to workers, wherever they run; it places them, restarts them and tries again."""

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from multiprocessing import TimeoutError
from multiprocessing.pool import ThreadPool
from typing import Any, Final

import torch

from elmo_cli.distributed.inputs import Part
from elmo_cli.distributed.part import PartResult
from elmo_cli.errors import DeviceError, ElmoError, first_line, load_extra

logger = logging.getLogger(__name__)

_MIN_RAY: Final = (2, 51)
_WAIT_SECONDS: Final = 1.0
_CONNECT_SECONDS: Final = 20.0
_SILENT_SECONDS: Final = 20.0
"""Seconds without a result after which workers are asked whether they are there."""
_ANSWER_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Resources:
    """Where workers run, what each takes, and how many a part may end."""

    address: str | None = None
    """Of a cluster; None starts one on this machine for the run."""
    workers: int | None = None
    """The maximum; None is as many as there is room for."""
    cpus_per_worker: float = 1
    gpus_per_worker: float = 0
    attempts: int = 5


class _Worker:
    """An actor of Ray, the process of which holds a model."""

    def __init__(self, embed: Callable[..., PartResult], resources: Resources) -> None:
        self._embed, self._n_threads = embed, max(1, int(resources.cpus_per_worker))
        self._device = "cuda" if resources.gpus_per_worker else "cpu"  # Ray shows it no other GPU

    def embed(self, part: Part | None) -> PartResult | None:
        """Embed a part; without one, say that the worker is there."""
        torch.set_num_threads(self._n_threads)
        return None if part is None else self._embed(part, device=self._device)


def embed_on_ray(
    parts: Sequence[Part], embed: Callable[..., PartResult], resources: Resources
) -> Iterator[PartResult | None]:
    """Embed parts by workers of Ray, an `Engine`: what became of each, or None while none ends."""
    ray, address = load_ray(), resources.address or os.environ.get("RAY_ADDRESS")
    with redirect_stdout(sys.stderr):  # Ray tells of workers that die on standard output
        _connect(ray, address)
        try:
            n_workers = min(resources.workers or len(parts), len(parts))
            if address is None or resources.workers is None:  # else nodes may join later
                n_workers = min(n_workers, _room(ray.cluster_resources(), resources))
            actor = ray.remote(_Worker).options(
                num_cpus=resources.cpus_per_worker,
                num_gpus=resources.gpus_per_worker,
                max_restarts=-1,
                max_task_retries=resources.attempts - 1,
                max_concurrency=2,  # so that it answers while it embeds
            )
            workers = [actor.remote(embed, resources) for _ in range(n_workers)]
            yield from _results(ray, workers, list(parts), resources)
        finally:
            ray.shutdown()


def _results(
    ray: Any, workers: list[Any], parts: list[Part], resources: Resources
) -> Iterator[PartResult | None]:
    # A worker gets a part once it is there, so that none waits for a worker that has no room.
    calls: dict[Any, tuple[Any, Part | None]] = {
        worker.embed.remote(None): (worker, None) for worker in workers
    }
    heard = time.monotonic()
    parts.reverse()
    while parts or any(part is not None for _, part in calls.values()):
        ended, _ = ray.wait(list(calls), timeout=_WAIT_SECONDS)
        for call in ended:
            worker, part = calls.pop(call)
            yield _result_of(ray, call, part, resources.attempts)
            if parts:
                part = parts.pop()
                calls[worker.embed.remote(part)] = (worker, part)
            else:
                ray.kill(worker)  # others may have waited for its room
            heard = time.monotonic()
        if not ended:
            yield None
        if time.monotonic() - heard > _SILENT_SECONDS:
            answers = [worker.embed.remote(None) for worker, _ in calls.values()]
            heard = time.monotonic()
            if not ray.wait(answers, timeout=_ANSWER_SECONDS)[0]:
                logger.warning(
                    "Warning: no worker runs: no node has %g CPUs and %g GPUs free; the run waits "
                    "for one, Ctrl-C ends it",
                    *(resources.cpus_per_worker, resources.gpus_per_worker),
                )
                heard = math.inf  # said once, until there is a result


def _result_of(ray: Any, call: Any, part: Part | None, attempts: int) -> PartResult | None:
    """What a call gave; that the part is left out, where its workers died."""
    try:
        result: PartResult | None = ray.get(call)
        return result
    except ray.exceptions.RayTaskError as error:  # of our code
        raise error.cause from None
    except ray.exceptions.RayError as error:
        if part is None:
            raise ElmoError(f"Ray cannot start a worker: {first_line(error)}") from None
        reason = f"{part}: ended {attempts} workers; it is left out"
        return PartResult(part.number, "none", error=reason)


def load_ray() -> Any:
    """Import Ray; an `ElmoError` where it is missing or too old."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = load_extra("--engine ray", "ray", "ray")
    if tuple(map(int, ray.__version__.split(".")[:2])) < _MIN_RAY:
        raise ElmoError(
            f"--engine ray: expected Ray 2.51 or newer, found {ray.__version__}; "
            'pip install "elmo-cli[ray]"'
        )
    return ray


def _connect(ray: Any, address: str | None) -> None:
    """Connect to a cluster, or start one on this machine; an `ElmoError` where none answers."""
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        ray.init(address="local", include_dashboard=False, **settings)
        return
    try:
        with ThreadPool(1) as pool:  # Ray itself tries for minutes
            pool.apply_async(ray.init, (address,), settings).get(_CONNECT_SECONDS)
    except Exception as error:
        is_late = isinstance(error, TimeoutError)
        reason = f"nothing for {_CONNECT_SECONDS:.0f} seconds" if is_late else first_line(error)
        raise ElmoError(
            f"--address {address}: expected a cluster of Ray, found {reason}; without --address "
            "the run starts its own"
        ) from None


def _room(there: dict[str, float], wanted: Resources) -> int:
    """How many workers a cluster has room for, when nobody else uses it; none is an error."""
    sizes = {"CPU": wanted.cpus_per_worker, "GPU": wanted.gpus_per_worker}
    for name, size in sizes.items():
        if there.get(name, 0) < size:
            raise DeviceError(
                f"--{name.lower()}s-per-worker {size:g}: the cluster has {there.get(name, 0):g} "
                f"{name}s in all"
            )
    return min(int(there[name] / size) for name, size in sizes.items() if size)
