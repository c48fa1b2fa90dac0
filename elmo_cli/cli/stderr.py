"""Messages on standard error, with -q and -v."""

import logging
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli.streams import escaped
from elmo_cli.errors.messages import Message, spelled_as_options
from elmo_cli.version import __version__

TYPED_COMMAND = "elmo_cli.typed_command"
"""Key in `Context.meta` of the running command, a `TypedCommand`."""

_NOTE = "elmo_cli.note"
"""Key in `Context.meta` of a line that is printed before the next one."""


class LineFormatter(logging.Formatter):
    """Formatter that shows a log message as `say` does, with options as typed.

    `Warning: ` stands before a warning of the package that does not say its kind.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the message of a log record."""
        if isinstance(record.args, tuple):
            record.args = tuple(map(_spelled, record.args))
        if isinstance(record.msg, Message):
            record.msg = shown_message(record.msg)
        message = super().format(record)
        if _needs_kind(record):
            message = f"Warning: {message}"
        return _for_terminal(message)


def _needs_kind(record: logging.LogRecord) -> bool:
    is_own_warning = record.levelno == logging.WARNING and record.name.startswith(
        "elmo_cli."
    )
    says_its_kind = getattr(record, "says_its_kind", False)
    return is_own_warning and not says_its_kind


def _spelled(value: object) -> object:
    """Return an argument of a log entry. A message or error has options as typed."""
    if isinstance(value, (Message, Exception)):
        return shown_message(value)
    return value


def shown_message(message: object) -> str:
    """Return a message or an error for a user of the running command."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return spelled_as_options(message)
    return spelled_as_options(message, ctx.meta.get(TYPED_COMMAND))


def shown_output(path: str | Path) -> str:
    """Return the name of an output for a message."""
    # `elmo --help` starts faster without the options.
    from elmo_cli.options.output import STANDARD_OUTPUT

    if str(path) == STANDARD_OUTPUT:
        return "to standard output"
    return str(path)


def _for_terminal(message: str) -> str:
    return escaped(message) if sys.stderr.isatty() else message


def _set_verbosity(ctx: click.Context, parameter: click.Parameter, count: int) -> int:
    """Set the level of the log: each -v raises the verbosity, and each -q lowers it."""
    verbosity: int = ctx.meta.get("verbosity", 0)
    if parameter.name == "verbose":
        verbosity += count
    else:
        verbosity -= count
    ctx.meta["verbosity"] = verbosity
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(handlers=[handler])
    if verbosity < 0:
        level = logging.ERROR
    elif verbosity == 0:
        level = logging.INFO
    else:
        level = logging.DEBUG
    logging.getLogger("elmo_cli").setLevel(level)
    return count


def verbosity_options(function: Any) -> Any:
    """Add -v, -q and --help."""
    arguments: dict[str, Any] = {
        "count": True,
        "expose_value": False,
        "callback": _set_verbosity,
    }
    quiet = click.option("-q", "--quiet", help="Print errors only.", **arguments)
    verbose = click.option(
        "-v",
        "--verbose",
        help="Print more details. Use -vv to show tracebacks.",
        **arguments,
    )
    show_help = click.help_option("-h", "--help", help="Show the help and exit.")
    return verbose(quiet(show_help(function)))


def verbosity() -> int:
    """Return how often -v was given, less how often -q was given."""
    return int(click.get_current_context().meta.get("verbosity", 0))


@contextmanager
def report_run(variables: Sequence[str]) -> Iterator[None]:
    """Print versions and variables before a block with -v, and its time after it."""
    started = time.monotonic()
    is_verbose = verbosity() > 0
    if is_verbose:
        from importlib import metadata  # It takes as long as all of `elmo --help`.

        versions = (
            f"elmo {__version__}, Python {platform.python_version()}, "
            f"torch {metadata.version('torch')}"
        )
        say(", ".join([versions, *variables]))
    try:
        yield
    finally:
        if is_verbose:
            say(f"Time: {time.monotonic() - started:.1f} s")


def warn(problem: str | Message, remedy: str | None = None) -> None:
    """Print a warning, whose parts are those of a `Message`."""
    if not isinstance(problem, Message):
        problem = Message(problem, remedy=remedy)
    say(f"Warning: {shown_message(problem)}")


def say(message: str) -> None:
    """Print a line about the run on standard error, unless -q was given."""
    say_note()
    if verbosity() >= 0:
        click.echo(_for_terminal(message), err=True)


def keep_note(message: str) -> None:
    """Keep a line for `say_note`, so that an error before it comes alone."""
    click.get_current_context().meta[_NOTE] = message


def has_note() -> bool:
    """Return whether there is a line that `say_note` prints."""
    return _NOTE in click.get_current_context().meta


def say_note() -> None:
    """Print the line that was kept, once: before the next one, or in a long run."""
    note = click.get_current_context().meta.pop(_NOTE, None)
    if note is not None:
        say(note)
