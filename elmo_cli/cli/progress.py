"""Progress bars of a run, and stopping it by Ctrl-C and SIGTERM."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING

import click
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from elmo_cli.cli import messages
from elmo_cli.errors import counted
from elmo_cli.text.sources import STANDARD_INPUT, Source

if TYPE_CHECKING:
    from elmo_cli.distributed.workers import RunCounts
    from elmo_cli.embed_file import Summary

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LINE_SECONDS = 30.0
"""Seconds between two lines of progress in a log file."""
_AS_ONE_SECONDS = 0.2
"""Maximum time between signals that count as one: `timeout -s INT` sends the signal twice."""


class _Lines:
    """Stream that writes every update of a progress bar as a new line."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> None:
        if text.strip():
            self.stream.write(text.strip() + "\n")

    def flush(self) -> None:
        self.stream.flush()


@contextmanager
def progress_bar(
    unit: str = "B", source: str | None = None, *, as_lines: bool = False
) -> Iterator["tqdm[None]"]:
    """Open a progress bar with the time left, which counts bytes or another unit.

    It is shown on a terminal unless -q was given, or as lines if `as_lines` is True.

    Args:
        source: Input whose bytes are counted. A bar would stand before input that is typed, and is
            not shown.
    """
    hidden = messages.is_quiet() or (_is_typed(source) and not as_lines)
    bar = tqdm(
        total=None if source is None else Source(source).size,
        unit=unit,
        unit_scale=unit == "B",
        # None disables the bar unless standard error is a terminal.
        disable=True if hidden else (False if as_lines else None),
        file=_Lines(sys.stderr) if as_lines else sys.stderr,
        mininterval=10 if as_lines else 0.1,
        dynamic_ncols=not as_lines,
    )
    with logging_redirect_tqdm(), bar:  # Log messages do not break the bar.
        yield bar


def _is_typed(source: str | None) -> bool:
    """Return whether an input is a terminal, on which a person types."""
    if source == STANDARD_INPUT:
        return sys.stdin is not None and sys.stdin.isatty()
    return source is not None and Path(source).is_char_device()


def show_rate(bar: "tqdm[None]", n_tokens: int) -> None:
    """Show the mean number of tokens per second."""
    rate = n_tokens / max(bar.format_dict["elapsed"], 1e-9)
    bar.set_postfix_str(f"{rate:,.0f} tokens/s", refresh=False)


def show_summary(bar: "tqdm[None]", done: "Summary") -> None:
    """Show the progress of a run over a file."""
    show_rate(bar, done.n_tokens)
    bar.update(done.n_bytes - bar.n)


def show_parts(bar: "tqdm[None]", counts: "RunCounts") -> None:
    """Show the progress of a run over many parts."""
    if bar.total is None:  # Earlier parts do not count for the time left.
        bar.total, bar.initial, bar.n = counts.n_parts, counts.n_done, counts.n_done
    bar.set_postfix_str(counts.text(), refresh=False)
    bar.update(counts.n_done - bar.n)


class PartLines:
    """Progress of a run over many parts, as lines for log files."""

    def __init__(self, folder: str) -> None:
        self._folder, self._printed = folder, time.monotonic()

    def __call__(self, counts: "RunCounts") -> None:
        """Print a line, unless the last one was printed a short time ago."""
        now = time.monotonic()
        if now - self._printed >= _LINE_SECONDS:
            self._printed = now
            done = f"{counts.n_done:,} of {counted(counts.n_parts, 'part')}"
            messages.say(f"{self._folder}: {done}, {counts.text()}")


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Open a context whose value returns whether the run should stop.

    The first signal stops the run after the current batch. The second ends the process
    immediately, like a kill. A signal that is ignored, such as SIGINT under `nohup`, stays ignored.
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
        messages.say("Stopping after the current batch. Press Ctrl-C again to stop immediately.")

    handled = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in handled}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
