"""Messages on standard error, and -q and -v, which say how many there are."""

import io
import logging
import os
import sys
from contextlib import suppress
from typing import Any

import click


class _LossyFile(io.FileIO):
    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            super().write(data)
        return len(data)


def let_messages_be_lost() -> None:
    """Have standard error drop what it cannot write: a message must not end a run."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    elif isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:  # of no test
        file: Any = _LossyFile(sys.stderr.fileno(), "w", closefd=False)
        encoding, errors = sys.stderr.encoding, sys.stderr.errors
        sys.stderr = io.TextIOWrapper(file, encoding, errors, write_through=True)


def _set_verbosity(ctx: click.Context, parameter: click.Parameter, count: int) -> int:
    step = 1 if parameter.name == "verbose" else -1
    verbosity = ctx.meta["verbosity"] = ctx.meta.get("verbosity", 0) + step * count
    logging.basicConfig(format="%(message)s")  # as `say` prints one
    logging.getLogger("elmo_cli").setLevel(max(10, 30 - 10 * (verbosity + 1)))
    return count


def verbosity_options(function: Any) -> Any:
    """Add -v and -q."""
    settings: dict[str, Any] = {"count": True, "expose_value": False, "callback": _set_verbosity}
    quiet = click.option("-q", "--quiet", help="Print errors only.", **settings)
    more = "Print more; twice, the traceback of an error too."
    return click.option("-v", "--verbose", help=more, **settings)(quiet(function))


def is_quiet() -> bool:
    """Whether -q was given."""
    verbosity: int = click.get_current_context().meta.get("verbosity", 0)
    return verbosity < 0


def say(message: str) -> None:
    """Print a line about the run on standard error, unless -q was given."""
    if not is_quiet():
        click.echo(message, err=True)
