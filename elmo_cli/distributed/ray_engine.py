"""Ray: parts to workers, wherever they run; it places them, restarts them and tries again."""

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from multiprocessing import TimeoutError
from multiprocessing.pool import ThreadPool
from typing import Any, Final, NamedTuple

import torch

from elmo_cli.distributed.inputs import Part
from elmo_cli.distributed.part import PartResult, worker_name
from elmo_cli.errors import DeviceError, ElmoError, first_line, install_command, load_extra

logger = logging.getLogger(__name__)

_MIN_RAY: Final = (2, 51)
_WAIT_SECONDS: Final = 1.0
_CONNECT_SECONDS: Final = 20.0
_SILENT_SECONDS: Final = 25.0
"""Seconds after which a worker that does not move, or that none runs, is said."""
_BUSY_SECONDS: Final = 2.0
"""Of a processor: a worker that has used them computes, and may only be slow."""


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


class _Pulse(NamedTuple):
    worker: str
    n_tokens: int
    """Of its part, so far."""
    cpu_seconds: float


class _Worker:
    """An actor of Ray, the process of which holds a model."""

    def __init__(self, embed: Callable[..., PartResult], resources: Resources) -> None:
        self._embed, self._n_threads = embed, max(1, int(resources.cpus_per_worker))
        self._device = "cuda" if resources.gpus_per_worker else "cpu"  # Ray shows it no other GPU
        self._n_tokens = 0

    def embed(self, part: Part) -> PartResult:
        """Embed a part."""
        torch.set_num_threads(self._n_threads)
        self._note(0)
        return self._embed(part, device=self._device, on_tokens=self._note)

    def pulse(self) -> _Pulse:
        """How far it is, also while it embeds."""
        return _Pulse(worker_name(), self._n_tokens, time.process_time())

    def _note(self, n_tokens: int) -> None:
        self._n_tokens = n_tokens


@dataclass
class _Watch:
    """Looks whether a worker at work moves: it counts tokens, or computes, or is another."""

    worker: Any
    part: Part
    last: _Pulse
    moved: float = field(default_factory=time.monotonic)
    asked: Any = None

    def look(self, ray: Any) -> None:
        """Ask for a pulse and take the last one; a warning, once, where it has not moved."""
        now = time.monotonic()
        if self.asked is not None and ray.wait([self.asked], timeout=0)[0]:
            with suppress(ray.exceptions.RayError):  # it has died, and its part is tried again
                self._take(ray.get(self.asked), now)
            self.asked = None
        if self.asked is None:
            self.asked = self.worker.pulse.remote()
        if now - self.moved > _SILENT_SECONDS:
            logger.warning(
                "Warning: worker %s has not moved for %.0f seconds in %s; if its node is lost, Ray "
                "starts another; else end its process there, and the part is tried again",
                *(self.last.worker, now - self.moved, self.part),
            )
            self.moved = math.inf  # said once

    def _take(self, pulse: _Pulse, now: float) -> None:
        is_busy = pulse.cpu_seconds - self.last.cpu_seconds >= _BUSY_SECONDS
        if pulse[:2] != self.last[:2] or is_busy:
            self.last, self.moved = pulse, max(now, self.moved)


def embed_on_ray(
    parts: Sequence[Part], embed: Callable[..., PartResult], resources: Resources
) -> Iterator[PartResult | int]:
    """Embed parts by workers of Ray, an `Engine`: what became of each, and tokens in work."""
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
) -> Iterator[PartResult | int]:
    # A worker gets a part once it is there, so that none waits for a worker that has no room.
    starting = {worker.pulse.remote(): worker for worker in workers}
    at_work: dict[Any, _Watch] = {}
    heard = looked = time.monotonic()
    parts.reverse()
    while parts or at_work:
        for call in ray.wait([*starting, *at_work], timeout=_WAIT_SECONDS)[0]:
            heard = time.monotonic()
            if call in starting:
                worker, last = starting.pop(call), _started(ray, call)
            else:
                watch = at_work.pop(call)
                worker, last = watch.worker, watch.last
                yield _result_of(ray, call, watch.part, resources.attempts)
            if parts:
                part = parts.pop()
                at_work[worker.embed.remote(part)] = _Watch(worker, part, last)
            else:
                ray.kill(worker)  # others may have waited for its room
        if time.monotonic() - looked >= _WAIT_SECONDS:
            looked = time.monotonic()
            for watch in at_work.values():
                watch.look(ray)
        yield sum(watch.last.n_tokens for watch in at_work.values())
        if not at_work and time.monotonic() - heard > _SILENT_SECONDS:
            logger.warning(
                "Warning: no worker runs: no node has %g CPUs and %g GPUs free; the run waits "
                "for one, Ctrl-C ends it",
                *(resources.cpus_per_worker, resources.gpus_per_worker),
            )
            heard = math.inf  # said once, until there is a result


def _started(ray: Any, call: Any) -> _Pulse:
    try:
        found: _Pulse = ray.get(call)
        return found
    except ray.exceptions.RayError as error:
        raise ElmoError(f"Ray cannot start a worker: {first_line(error)}") from None


def _result_of(ray: Any, call: Any, part: Part, attempts: int) -> PartResult:
    """What a call gave; that the part is left out, where its workers died."""
    try:
        result: PartResult = ray.get(call)
        return result
    except ray.exceptions.RayTaskError as error:  # of our code
        raise error.cause from None
    except ray.exceptions.RayError:
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
            f"{install_command('ray')}"
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
        reason = first_line(error)
        if isinstance(error, TimeoutError):
            reason = f"nothing for {_CONNECT_SECONDS:.0f} seconds"
        elif isinstance(error, OSError):
            reason = error.strerror or reason
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
