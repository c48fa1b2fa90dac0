"""Standard streams, messages, and the options -q and -v."""

import io
import logging
import os
import re
import sys
from contextlib import suppress
from typing import Any

import click


class _LossyFile(io.FileIO):
    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            super().write(data)
        return len(data)


class _Terminal(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        super().write(escaped(text))
        return len(text)


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _shown(super().format(record))


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
        sys.stdout = _like(sys.stdout, buffer, stream_type)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    elif isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        lossy: Any = _LossyFile(sys.stderr.fileno(), "w", closefd=False)
        sys.stderr = _like(sys.stderr, lossy)


def _like(
    stream: io.TextIOWrapper, buffer: Any, stream_type: type[io.TextIOWrapper] = io.TextIOWrapper
) -> io.TextIOWrapper:
    return stream_type(buffer, stream.encoding, stream.errors, write_through=True)


def escaped(text: str) -> str:
    r"""Escape the control characters of a text as `\x1b`, except line feeds and tabs."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text)


def _shown(message: str) -> str:
    return escaped(message) if sys.stderr.isatty() else message


def _set_verbosity(ctx: click.Context, parameter: click.Parameter, count: int) -> int:
    step = 1 if parameter.name == "verbose" else -1
    verbosity = ctx.meta["verbosity"] = ctx.meta.get("verbosity", 0) + step * count
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter())  # `say` prints messages in this format too.
    logging.basicConfig(handlers=[handler])
    logging.getLogger("elmo_cli").setLevel(max(10, 30 - 10 * (verbosity + 1)))
    return count


def verbosity_options(function: Any) -> Any:
    """Add -v and -q."""
    settings: dict[str, Any] = {"count": True, "expose_value": False, "callback": _set_verbosity}
    quiet = click.option("-q", "--quiet", help="Print errors only.", **settings)
    more = "Print more; twice, the traceback of an error too."
    return click.option("-v", "--verbose", help=more, **settings)(quiet(function))


def is_quiet() -> bool:
    """Return whether -q was given."""
    verbosity: int = click.get_current_context().meta.get("verbosity", 0)
    return verbosity < 0


def say(message: str) -> None:
    """Print a line about the run on standard error, unless -q was given."""
    if not is_quiet():
        click.echo(_shown(message), err=True)
