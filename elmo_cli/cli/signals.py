"""Ctrl-C and SIGTERM as a question that a run asks itself: should it stop?"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from elmo_cli.cli import messages

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AS_ONE_SECONDS = 0.2
"""Signals so close together are one: `timeout -s INT` sends it to a process and to its group."""


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether the run should stop.

    The first signal asks for a stop after the work in hand. The second ends the
    process at once, which loses what came after the last checkpoint, and no more.
    A signal that is ignored, as SIGINT under `nohup`, stays so.
    """
    received: list[float] = []
    meta = click.get_current_context().meta

    def note(number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if received and now - received[0] < _AS_ONE_SECONDS:
            return
        meta["exit_status"] = 128 + number  # as of shells
        if received:
            os._exit(meta["exit_status"])
        received.append(now)
        messages.say("Stopping soon; once more stops at once.")

    taken = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in taken}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
