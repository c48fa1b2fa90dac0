"""Progress of a run: bars on a terminal, or lines now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from elmo_cli.cli.stderr import has_note, say, say_note, verbosity
from elmo_cli.errors.wording import counted

if TYPE_CHECKING:
    from tqdm import tqdm

    from elmo_cli.distributed.workers import RunCounts
    from elmo_cli.runs.file_sink import Summary

LINE_SECONDS = 30.0
"""Seconds between two lines of progress in a log file."""
NOTE_SECONDS = 3.0
"""Seconds after which a run is long: an error in its input no longer comes alone."""


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
    unit: str = "B",
    source: str | None = None,
    *,
    as_lines: bool = False,
    leave: bool = True,
    is_shown: bool = True,
) -> Iterator["tqdm[None]"]:
    """Open a progress bar with the time left.

    It counts a unit, or by default the bytes of `source`. It is shown on a terminal
    unless -q was given or a person types the source, and as lines if `as_lines` is
    True. It disappears at the end if `leave` is False. `is_shown` is False for short
    texts that need none.
    """
    from tqdm import tqdm
    from tqdm.contrib.logging import logging_redirect_tqdm

    from elmo_cli.text.sources import Source

    if verbosity() < 0 or not is_shown:
        disable: bool | None = True
    elif as_lines:
        disable = False
    elif _is_from_terminal(source):
        disable = True
    else:
        disable = None  # unless standard error is a terminal
    bar = tqdm(
        total=None if source is None else Source(source).size,
        unit=unit,
        unit_scale=unit == "B",
        disable=disable,
        file=_Lines(sys.stderr) if as_lines else sys.stderr,
        mininterval=10 if as_lines else 0.1,
        dynamic_ncols=not as_lines,
        leave=leave,
    )
    with logging_redirect_tqdm(), bar:  # Log messages do not break the bar.
        yield bar


def _is_from_terminal(source: str | None) -> bool:
    """Return whether a person types the source."""
    if source is None:
        return False
    if source == "-":
        return sys.stdin is not None and sys.stdin.isatty()
    return Path(source).is_char_device()


def show_rate(bar: "tqdm[None]", n_tokens: int) -> None:
    """Show the mean number of tokens per second."""
    rate = n_tokens / max(bar.format_dict["elapsed"], 1e-9)
    bar.set_postfix_str(f"{rate:,.0f} tokens/s", refresh=False)


def show_summary(bar: "tqdm[None]", summary: "Summary") -> None:
    """Show the progress of a run over a file, and in a long run the note once."""
    if has_note() and bar.format_dict["elapsed"] > NOTE_SECONDS:
        bar.clear()
        say_note()
    show_rate(bar, summary.n_tokens)
    bar.update(summary.n_bytes - bar.n)


def show_parts(bar: "tqdm[None]", counts: "RunCounts") -> None:
    """Show the progress of a run over many parts."""
    if bar.total is None:  # Earlier parts do not count for the time left.
        bar.total = counts.n_parts
        bar.initial = counts.n_done
        bar.n = counts.n_done
    bar.set_postfix_str(counts.text(), refresh=False)
    bar.update(counts.n_done - bar.n)


def part_lines(folder: str) -> "Callable[[RunCounts], None]":
    """Return a function that prints now and then how many parts of a run are done."""
    printed = time.monotonic()

    def show(counts: "RunCounts") -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed < LINE_SECONDS:
            return
        printed = now
        n_parts = counted(counts.n_parts, "part")
        say(f"{folder}: {counts.n_done:,} of {n_parts}, {counts.text()}")

    return show
