"""Standard streams: output writes every byte or fails, and error never fails.

Standard output is UTF-8, whatever the locale is, because other programs read it.
"""

import io
import os
import re
import sys
from contextlib import suppress
from typing import Any


class _LossyFile(io.FileIO):
    """File whose errors are ignored: nobody can be told about them."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            super().write(data)
        return len(data)


class _Terminal(io.TextIOWrapper):
    """Standard output on a terminal, which texts of a file cannot control."""

    def write(self, text: str, /) -> int:
        super().write(escaped(text))
        return len(text)


class _RedErrors(io.TextIOWrapper):
    """Standard error on a terminal."""

    def write(self, text: str, /) -> int:
        shown = text
        if text.startswith("Error:"):
            shown = text.replace("Error:", "\x1b[1;31mError:\x1b[0m", 1)
        super().write(shown)
        return len(text)


def prepare_streams() -> None:
    """Make standard output write every byte or fail, and standard error never fail.

    Tests replace the streams of `sys` by others, which stay as they are.
    """
    _prepare_output()
    _prepare_errors()


def _prepare_output() -> None:
    if sys.stdout is None:  # Standard output is closed. Writing to it is an error.
        sys.stdout = open(os.devnull)  # noqa: SIM115 (until the process ends)
    elif isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        buffer: Any = sys.stdout.buffer
        if isinstance(buffer, io.RawIOBase):
            # With PYTHONUNBUFFERED, the rest of a partial write would be lost.
            buffer = io.BufferedWriter(buffer)
        stream_type = _Terminal if sys.stdout.isatty() else io.TextIOWrapper
        sys.stdout = stream_type(buffer, "utf-8", sys.stdout.errors, write_through=True)


def _prepare_errors() -> None:
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    elif isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        lossy: Any = _LossyFile(sys.stderr.fileno(), "w", closefd=False)
        is_red = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        error_type = _RedErrors if is_red else io.TextIOWrapper
        sys.stderr = error_type(
            lossy, sys.stderr.encoding, sys.stderr.errors, write_through=True
        )


def escaped(text: str) -> str:
    r"""Escape control characters as `\x1b`, except line feeds and tabs."""
    return re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text
    )
