"""Engine of Ray, which places and restarts workers, and repeats parts of dead workers.

A worker is an actor and not a task, because an actor keeps its process, its model and
its GPU.
"""

import logging
import math
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from multiprocessing import TimeoutError
from multiprocessing.pool import ThreadPool
from typing import Any, Final, NamedTuple

import torch

from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.part import PartResult
from elmo_cli.distributed.workers import EmbedPart
from elmo_cli.errors.exceptions import DeviceError, ElmoError
from elmo_cli.errors.messages import Message, Template
from elmo_cli.errors.optional_imports import install_command, load_extra
from elmo_cli.errors.wording import counted, first_line
from elmo_cli.options.resources import ResourceSettings

logger = logging.getLogger(__name__)

_MIN_RAY: Final = (2, 51)
CONNECT_SECONDS: Final = 30.0
"""Seconds to wait for a cluster. Ray tries a token for a shorter time."""
SILENT_SECONDS: Final = 25.0
"""Seconds without a worker after which a warning is logged."""


class _Worker:
    """Actor of Ray, whose process holds a model."""

    def __init__(self, embed: EmbedPart, resources: ResourceSettings) -> None:
        self._embed = embed
        self._n_threads = max(1, int(resources.cpus_per_worker))
        # Ray hides other GPUs.
        self._device = "cuda" if resources.gpus_per_worker else "cpu"

    def start(self) -> None:
        """Return when the worker runs."""

    def embed(self, part: Part) -> PartResult:
        torch.set_num_threads(self._n_threads)
        return self._embed(part, device=self._device)


class _Assignment(NamedTuple):
    """A part with the worker that embeds it."""

    worker: Any
    part: Part


def embed_on_ray(
    parts: Sequence[Part], embed: EmbedPart, resources: ResourceSettings
) -> Iterator[PartResult | None]:
    """Embed parts by workers of Ray, and yield the result of each part.

    None is yielded about once a second, so that the caller can stop or report progress.

    Raises:
        ElmoError: Ray is missing or cannot be reached, or it ended the run; or a worker
            met a problem that all parts would have.
    """
    ray = load_ray()
    address = resources.address or os.environ.get("RAY_ADDRESS")
    # Ray prints which workers died.
    # Its processes end with the thread that has started them.
    with redirect_stdout(sys.stderr), ThreadPool(1) as starter:
        if address is None:
            _start_cluster(ray, starter)
        else:
            option: str | Message = "RAY_ADDRESS"
            if resources.address:
                option = Message(Template("{--address}"))
            _connect(ray, option, address=address, starter=starter)
        if threading.current_thread() is threading.main_thread():
            # Ray's core prints a stack trace at SIGTERM before it calls Python's
            # handler.
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        try:
            n_workers = min(resources.workers or len(parts), len(parts))
            # Otherwise nodes may join later.
            if address is None or resources.workers is None:
                most = _max_workers(ray.cluster_resources(), resources)
                n_workers = min(n_workers, most)
            actor = ray.remote(_Worker).options(
                num_cpus=resources.cpus_per_worker,
                num_gpus=resources.gpus_per_worker,
                max_restarts=-1,
                max_task_retries=-1,
            )
            workers = [actor.remote(embed, resources) for _ in range(n_workers)]
            yield from _run_parts(ray, workers, parts=parts, resources=resources)
        except ray.exceptions.RayError as error:
            raise ElmoError(f"Ray ended the run: {first_line(error)}") from None
        finally:
            ray.shutdown()


def _run_parts(
    ray: Any, workers: list[Any], parts: Sequence[Part], resources: ResourceSettings
) -> Iterator[PartResult | None]:
    """Give each worker that is free the next part, and yield the results."""
    # The first part is the last of the list, from which parts are taken.
    waiting = list(reversed(parts))
    # A worker gets a part once it runs, so that no part waits for a worker without
    # resources.
    starting = {worker.start.remote(): worker for worker in workers}
    at_work: dict[Any, _Assignment] = {}
    deaths = Counter[int]()
    heard = time.monotonic()
    while waiting or at_work:
        finished, _ = ray.wait([*starting, *at_work], timeout=1.0)
        free = []
        for call in finished:
            heard = time.monotonic()
            if call in starting:
                ray.get(call)
                free.append(starting.pop(call))
                continue
            worker, part = at_work.pop(call)
            result = _take_result(ray, call)
            if result is not None:
                yield result
                free.append(worker)
                continue
            # Ray restarts the worker.
            starting[worker.start.remote()] = worker
            deaths[part.number] += 1
            if deaths[part.number] < resources.attempts:
                waiting.append(part)
            else:
                yield _abandoned_result(part, resources.attempts)
        for worker in free:
            if waiting:
                part = waiting.pop()
                # A lost node would use up Ray's own retries before Ray notices it.
                embedding = worker.embed.options(max_task_retries=0).remote(part)
                at_work[embedding] = _Assignment(worker, part)
            else:
                # Other workers may wait for its resources.
                ray.kill(worker)
        yield None
        if not at_work and time.monotonic() - heard > SILENT_SECONDS:
            logger.warning(
                "no worker is running: no node has %g CPUs and %g GPUs free. Waiting.",
                resources.cpus_per_worker,
                resources.gpus_per_worker,
            )
            # One warning is enough, until there is a result.
            heard = math.inf


def _take_result(ray: Any, call: Any) -> PartResult | None:
    """Return the result of a call; None if the worker or its node has died."""
    try:
        result: PartResult = ray.get(call)
    except ray.exceptions.RayTaskError as error:
        # An error of our code.
        raise error.cause from None
    except ray.exceptions.RayError:
        return None
    return result


def _abandoned_result(part: Part, n_deaths: int) -> PartResult:
    reason = f"{part}: crashed {counted(n_deaths, 'worker')}. It is abandoned."
    return PartResult(number=part.number, worker="none", error=reason)


def load_ray() -> Any:
    """Import Ray, unless it is too old."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    option = Message(Template("{--engine ray}"))
    ray = load_extra(option, "ray", "ray")
    major, minor = ray.__version__.split(".")[:2]
    if (int(major), int(minor)) < _MIN_RAY:
        raise ElmoError(
            "{option}: requires Ray 2.51 or newer, and Ray {version} is installed",
            remedy="Use {command}.",
            option=option,
            version=ray.__version__,
            command=install_command("ray"),
        )
    return ray


def _start_cluster(ray: Any, starter: ThreadPool) -> None:
    """Start Ray on this machine, in a thread without handlers of signals."""
    settings = {
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    try:
        starter.apply(ray.init, ("local",), settings)
    except Exception as error:
        raise ElmoError(
            "cannot start Ray here: {reason}",
            remedy="Give the same command again, or use {--engine none}.",
            reason=_connection_reason(error),
        ) from None


def _connect(
    ray: Any, option: str | Message, address: str, starter: ThreadPool
) -> None:
    """Connect to a cluster, in a thread without handlers of signals.

    `option` is where the address is from.
    """
    settings = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        starter.apply_async(ray.init, (address,), settings).get(CONNECT_SECONDS)
    except Exception as error:
        reason = _connection_reason(error)
        remedy = "Without {option}, the run starts its own."
        if isinstance(error, TimeoutError):
            reason = f"no answer for {CONNECT_SECONDS:.0f} seconds"
        if "authentication" in f"{error} {error.__cause__}".lower():
            reason = "the token is missing or wrong"
            remedy = (
                "Set RAY_AUTH_MODE=token, and copy the cluster's ~/.ray/auth_token."
            )
        raise ElmoError(
            "{option} {address}: cannot connect to a Ray cluster: {reason}",
            remedy=remedy,
            option=option,
            address=address,
            reason=reason,
        ) from None


def _connection_reason(error: Exception) -> str:
    """Return why a connection failed, without a full stop."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return first_line(error).removesuffix(".")


def _max_workers(cluster: dict[str, float], resources: ResourceSettings) -> int:
    """Return the maximum number of workers of a cluster that has no other users."""
    n_by_cpus = _number_that_fits(
        "CPU",
        n_there=cluster.get("CPU", 0),
        n_per_worker=resources.cpus_per_worker,
        option=Message(Template("{--cpus-per-worker}")),
    )
    if not resources.gpus_per_worker:
        return n_by_cpus
    n_by_gpus = _number_that_fits(
        "GPU",
        n_there=cluster.get("GPU", 0),
        n_per_worker=resources.gpus_per_worker,
        option=Message(Template("{--gpus-per-worker}")),
    )
    return min(n_by_cpus, n_by_gpus)


def _number_that_fits(
    kind: str, *, n_there: float, n_per_worker: float, option: Message
) -> int:
    """Return for how many workers the processors of a kind suffice, if for any."""
    if n_there < n_per_worker:
        raise DeviceError(
            "{option} {n_per_worker}: the cluster has {n_there} in all",
            remedy="Ask for fewer.",
            option=option,
            n_per_worker=f"{n_per_worker:g}",
            n_there=counted(int(n_there), kind),
        )
    return int(n_there / n_per_worker)
