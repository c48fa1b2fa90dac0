"""Stopping a run by a signal: after the current batch, or immediately."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from elmo_cli.cli.stderr import say

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AS_ONE_SECONDS = 0.2
"""Maximum time between signals that count as one: `timeout -s INT` sends two."""


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Open a context whose value returns whether the run should stop.

    The first signal stops the run after the current batch. The second ends the process
    immediately, like a kill. A signal that is ignored, such as SIGINT under `nohup`,
    stays ignored.
    """
    received: list[float] = []
    meta = click.get_current_context().meta

    def handle(number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if received and now - received[0] < _AS_ONE_SECONDS:
            return
        meta["exit_status"] = 128 + number  # Shells use this exit status.
        if received:
            os._exit(meta["exit_status"])
        received.append(now)
        say("Stopping after the current batch. Press Ctrl-C again to stop immediately.")

    handlers_before = {}
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            handlers_before[number] = signal.signal(number, handle)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in handlers_before.items():
            signal.signal(number, handler)
