"""Entry point of the command `elmo` and of `python -m elmo_cli`."""

import gc
import math
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

SPIN_COUNT: Final = "20000"
"""Turns that an idle thread of GNU OpenMP spins before it sleeps. By default it spins
for milliseconds, and occupies a core that other processes need."""


def limit_threads() -> None:
    """Set OMP_NUM_THREADS where torch would start more threads than can run.

    If it is set already, it stays as it is.
    """
    n_processors = os.cpu_count() or 1
    n_usable = n_processors
    n_started = n_processors
    if hasattr(os, "sched_getaffinity"):
        n_usable = len(os.sched_getaffinity(0))
        # Elsewhere torch ignores the mask before 2.14.
        if os.uname().machine == "x86_64":
            n_started = n_usable
    # The files of control groups may be missing, or not as described.
    with suppress(OSError, ValueError, ZeroDivisionError):
        quotas = [math.ceil(quota) for quota in read_quotas()]
        n_usable = max(1, min([n_usable, *quotas]))
    if n_usable < n_started:
        os.environ.setdefault("OMP_NUM_THREADS", str(n_usable))


def read_quotas(
    folder: Path = Path("/sys/fs/cgroup"), own_groups: Path = Path("/proc/self/cgroup")
) -> Iterator[float]:
    """Yield the number of processors that each of this process's cgroups allows."""
    # cpu.max (version 2) is "200000 100000": microseconds per period, or "max". In
    # version 1, two files have these numbers, or -1.
    for line in own_groups.read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if "cpu" in controllers.split(","):
            root = folder / "cpu"
            files = ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            root = folder
            files = ["cpu.max"]
        own = root / name.lstrip("/")
        # Some containers show the name that the group has outside. Its parents end at
        # the root.
        for group in (own, *own.parents):
            with suppress(FileNotFoundError):
                numbers = " ".join((group / file).read_text() for file in files)
                quota, period = numbers.split()
                if quota not in ("max", "-1"):
                    yield int(quota) / int(period)


def end_at_interrupt() -> None:
    """Let Ctrl-C end the process at once. If nohup ignores it, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def run() -> None:
    """Run the command of the command line; see `main` in `cli/main.py`."""
    handler = signal.getsignal(signal.SIGINT)
    # Ctrl-C during an import would print a traceback.
    end_at_interrupt()
    # torch reads this variable on import.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    limit_threads()
    # Importing torch makes a million objects, none of which is garbage. Searching them
    # takes 0.3 s. `load_model.start_garbage_collector` starts the collector.
    gc.disable()

    from elmo_cli.cli.main import main

    signal.signal(signal.SIGINT, handler)
    try:
        main(prog_name="elmo")
    finally:
        # So would Ctrl-C while Python exits.
        end_at_interrupt()


if __name__ == "__main__":
    run()
