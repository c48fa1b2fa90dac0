"""Messages on standard error, and -q and -v, which say how many there are."""

import logging
import sys
from typing import Any

import click

from elmo_cli.cli.streams import escaped


class LineFormatter(logging.Formatter):
    """The message alone, as `say` prints one."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record, escaped on a terminal."""
        text = super().format(record)
        return escaped(text) if sys.stderr.isatty() else text


def _set_verbosity(ctx: click.Context, parameter: click.Parameter, count: int) -> int:
    step = 1 if parameter.name == "verbose" else -1
    verbosity = ctx.meta["verbosity"] = ctx.meta.get("verbosity", 0) + step * count
    logging.basicConfig()
    for handler in logging.getLogger().handlers:
        handler.setFormatter(LineFormatter())
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
        click.echo(escaped(message) if sys.stderr.isatty() else message, err=True)
