"""Ray: parts to workers, wherever they run; it schedules, restarts and tries again."""

import logging
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, Final

from elmo_cli.distributed.inputs import Part
from elmo_cli.distributed.part import PartResult, PartWorker
from elmo_cli.errors import DeviceError, ElmoError, first_line

_MIN_RAY: Final = (2, 51)
_MAX_GROUP: Final = 16
"""The maximum number of parts in a task of Ray."""
_WAIT_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Resources:
    """Where workers run, and what each takes."""

    address: str | None = None
    """Of a cluster; None starts one on this machine for the run."""
    workers: int | None = None
    cpus: float = 1
    gpus: float = 0


class _RayWorker:
    """A `PartWorker` as Ray Data calls it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._worker = PartWorker(*arguments, **named)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        part = Part(*(batch[name][0] for name in Part._fields))
        result = self._worker(Part(*(_plain(value) for value in part)))
        return {name: [value] for name, value in result._asdict().items()}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def embed_on_ray(
    parts: Sequence[Part], resources: Resources, *arguments: Any, attempts: int
) -> Generator[PartResult | None, None, None]:
    """Embed parts by workers of Ray.

    Args:
        parts: those that are missing.
        resources: of the workers.
        arguments: the first ones of `PartWorker`.
        attempts: of a part.

    Yields:
        What became of each part; None while none ends.

    Raises:
        ElmoError: Ray is missing or too old, there is no cluster, or it has not the resources.
    """
    ray = load_ray()
    with redirect_stdout(sys.stderr):  # Ray tells of workers that die on standard output
        _connect(ray, resources.address or os.environ.get("RAY_ADDRESS"))
        try:
            for row in _polled(_rows(ray, parts, resources, arguments, attempts)):
                yield row if row is None else PartResult(**row)
        finally:
            ray.shutdown()


def _rows(
    ray: Any, parts: Sequence[Part], resources: Resources, arguments: tuple[Any, ...], attempts: int
) -> Callable[[], Iterator[dict[str, Any]]]:
    """What iterates over the results as Ray gives them, once it is called."""
    n_workers = _count_workers(ray.cluster_resources(), resources)
    worker = {
        "device": "cuda" if resources.gpus else "cpu",
        "n_threads": max(1, int(resources.cpus)),
        "attempts": attempts,
    }
    ray.data.DataContext.get_current().enable_progress_bars = False
    group = max(1, min(_MAX_GROUP, len(parts) // (64 * n_workers)))
    workers = ray.data.ActorPoolStrategy(
        min_size=1,
        max_size=n_workers,
        initial_size=n_workers,
        max_tasks_in_flight_per_actor=2,
    )
    rows: Callable[[], Iterator[dict[str, Any]]] = (
        ray.data.from_items(
            [part._asdict() for part in parts], override_num_blocks=-(-len(parts) // group)
        )
        .map_batches(
            _RayWorker,
            fn_constructor_args=arguments,
            fn_constructor_kwargs=worker,
            batch_size=1,
            compute=workers,
            num_cpus=resources.cpus,
            num_gpus=resources.gpus or None,
        )
        .iter_rows
    )
    return rows


def load_ray() -> Any:
    """Import Ray.

    Raises:
        ElmoError: it is missing or too old.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    advice = 'pip install "elmo-cli[ray]"'
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ElmoError(f"--engine ray: {first_line(error)}; {advice}") from None
    version = tuple(int(part) for part in ray.__version__.split(".")[:2])
    if version < _MIN_RAY:
        raise ElmoError(
            f"--engine ray: expected Ray 2.51 or newer, found {ray.__version__}; {advice}"
        )
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray


def _connect(ray: Any, address: str | None) -> None:
    """Connect to a cluster, or start one on this machine."""
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        ray.init(address="local", include_dashboard=False, **settings)
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if port.isdecimal():  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, **settings)
    except (RuntimeError, ValueError, OSError) as error:
        raise ElmoError(
            f"--address {address}: no cluster of Ray answers: {first_line(error)}; without "
            "--address the run starts its own"
        ) from None


def _count_workers(there: dict[str, float], wanted: Resources) -> int:
    """How many workers a cluster has room for, or as many as are asked for."""
    room = []
    for name, unit, size in (("CPU", "CPUs", wanted.cpus), ("GPU", "GPUs", wanted.gpus)):
        if size and there.get(name, 0) < size:
            raise DeviceError(
                f"--{name.lower()}s-per-worker {size:g}: the cluster has {there.get(name, 0):g} "
                f"{unit} in all"
            )
        room += [int(there.get(name, 0) / size)] if size else []
    return wanted.workers or max(1, min(room, default=1))


def _polled(rows: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The items of an iterator that may never give one; None each second without any."""
    found: queue.Queue[Any] = queue.Queue()
    end = object()

    def read() -> None:
        try:
            for row in rows():
                found.put(row)
            found.put(end)
        except BaseException as error:
            found.put(error)

    threading.Thread(target=read, daemon=True).start()
    row = None
    while row is not end:
        if isinstance(row, BaseException):
            raise row
        yield row
        try:
            row = found.get(timeout=_WAIT_SECONDS)
        except queue.Empty:
            row = None
