"""Standard streams, messages with -q and -v, progress bars, and stopping a run by a signal.

Standard output is UTF-8, whatever the locale is, because other programs read it.
"""

import io
import logging
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

import click

from elmo_cli.errors.messages import Message, spelled_as_options
from elmo_cli.errors.wording import counted
from elmo_cli.version import __version__

if TYPE_CHECKING:
    from tqdm import tqdm

    from elmo_cli.distributed.workers import RunCounts
    from elmo_cli.embed_file import Summary

OFFERED = "elmo_cli.offered"  # key of the options of a command in `Context.meta`
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
LINE_SECONDS = 30.0  # seconds between two lines of progress in a log file
_AS_ONE_SECONDS = 0.2
"""Maximum time between signals that count as one: `timeout -s INT` sends the signal twice."""


class _LossyFile(io.FileIO):
    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            super().write(data)
        return len(data)


class _Terminal(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        super().write(escaped(text))
        return len(text)


class _RedErrors(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        is_error = text.startswith("Error:")
        super().write(
            text.replace("Error:", "\x1b[1;31mError:\x1b[0m", 1) if is_error else text
        )
        return len(text)


class LineFormatter(logging.Formatter):
    """Format of log messages, with options as they are typed."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message of a log record."""
        if isinstance(record.args, tuple):
            record.args = tuple(map(_spelled, record.args))
        if isinstance(record.msg, Message):
            record.msg = shown_message(record.msg)
        return _shown(super().format(record))


def _spelled(value: object) -> object:
    """Return an argument of a log entry, a message or an error with options as typed."""
    return shown_message(value) if isinstance(value, (Message, Exception)) else value


def shown_message(message: object) -> str:
    """Return a message or an error for a user of the running command."""
    ctx = click.get_current_context(silent=True)
    offered = None if ctx is None else ctx.meta.get(OFFERED)
    return spelled_as_options(message, offered)


def prepare_streams() -> None:
    """Make standard output write every byte or fail, and standard error never fail."""
    if sys.stdout is None:  # Standard output is closed. Writing to it is an error.
        sys.stdout = open(os.devnull)  # noqa: SIM115 (until the process ends)
    elif isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        # Tests replace sys.stdout by other streams, which stay as they are.
        buffer: Any = sys.stdout.buffer
        if isinstance(buffer, io.RawIOBase):
            # With PYTHONUNBUFFERED, the rest of a partial write would be lost.
            buffer = io.BufferedWriter(buffer)
        stream_type = _Terminal if sys.stdout.isatty() else io.TextIOWrapper
        sys.stdout = stream_type(buffer, "utf-8", sys.stdout.errors, write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    elif isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        lossy: Any = _LossyFile(sys.stderr.fileno(), "w", closefd=False)
        encoding, errors = sys.stderr.encoding, sys.stderr.errors
        is_red = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        error_type = _RedErrors if is_red else io.TextIOWrapper
        sys.stderr = error_type(lossy, encoding, errors, write_through=True)


def escaped(text: str) -> str:
    r"""Escape the control characters of a text as `\x1b`, except line feeds and tabs."""
    return re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text
    )


def _shown(message: str) -> str:
    return escaped(message) if sys.stderr.isatty() else message


def _set_verbosity(ctx: click.Context, parameter: click.Parameter, count: int) -> int:
    step = 1 if parameter.name == "verbose" else -1
    verbosity = ctx.meta["verbosity"] = ctx.meta.get("verbosity", 0) + step * count
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())  # `say` prints messages in this format too.
    logging.basicConfig(handlers=[handler])
    level = logging.ERROR if verbosity < 0 else max(10, 20 - 10 * verbosity)
    logging.getLogger("elmo_cli").setLevel(level)
    return count


def verbosity_options(function: Any) -> Any:
    """Add -v and -q."""
    settings: dict[str, Any] = {
        "count": True,
        "expose_value": False,
        "callback": _set_verbosity,
    }
    quiet = click.option("-q", "--quiet", help="Print errors only.", **settings)
    more = "Print more details. Use -vv to show tracebacks."
    return click.option("-v", "--verbose", help=more, **settings)(quiet(function))


def _verbosity() -> int:
    return int(click.get_current_context().meta.get("verbosity", 0))


@contextmanager
def report_run() -> Iterator[None]:
    """Print versions and variables before a block with -v, and its time after it."""
    started = time.monotonic()
    is_verbose = _verbosity() > 0
    if is_verbose:
        from importlib import metadata  # It takes as long as all of `elmo --help`.

        variables = sorted(name for name in os.environ if name.startswith("ELMO_"))
        python, torch = platform.python_version(), metadata.version("torch")
        say(
            ", ".join(
                [f"elmo {__version__}, Python {python}, torch {torch}", *variables]
            )
        )
    try:
        yield
    finally:
        if is_verbose:
            say(f"Time: {time.monotonic() - started:.1f} s")


def say(message: str) -> None:
    """Print a line about the run on standard error, unless -q was given."""
    if _verbosity() >= 0:
        click.echo(_shown(message), err=True)


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
) -> Iterator["tqdm[None]"]:
    """Open a progress bar with the time left, which counts another unit or the bytes of `source`.

    It is shown on a terminal unless -q was given or a person types the source, and as lines if
    `as_lines` is True. It disappears at the end if `leave` is False.
    """
    from tqdm import tqdm
    from tqdm.contrib.logging import logging_redirect_tqdm

    from elmo_cli.text.sources import Source

    hidden = _verbosity() < 0 or (_is_typed(source) and not as_lines)
    bar = tqdm(
        total=None if source is None else Source(source).size,
        unit=unit,
        unit_scale=unit == "B",
        # None disables the bar unless standard error is a terminal.
        disable=True if hidden else (False if as_lines else None),
        file=_Lines(sys.stderr) if as_lines else sys.stderr,
        mininterval=10 if as_lines else 0.1,
        dynamic_ncols=not as_lines,
        leave=leave,
    )
    with logging_redirect_tqdm(), bar:  # Log messages do not break the bar.
        yield bar


def _is_typed(source: str | None) -> bool:
    if source == "-":
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


def part_lines(folder: str) -> "Callable[[RunCounts], None]":
    """Return a function that prints the progress of a run over many parts now and then."""
    printed = time.monotonic()

    def show(counts: "RunCounts") -> None:
        nonlocal printed
        if (now := time.monotonic()) - printed >= LINE_SECONDS:
            printed = now
            done = f"{counts.n_done:,} of {counted(counts.n_parts, 'part')}"
            say(f"{folder}: {done}, {counts.text()}")

    return show


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
        say("Stopping after the current batch. Press Ctrl-C again to stop immediately.")

    handled = [
        number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN
    ]
    before = {number: signal.signal(number, handle) for number in handled}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
