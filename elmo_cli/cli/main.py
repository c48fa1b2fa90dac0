"""Command `elmo`: the group of all commands, and how their errors are shown."""

import errno
import io
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from elmo_cli.cli import stderr
from elmo_cli.cli.command_list import (
    COMMAND_GROUPS,
    COMMANDS,
    OTHER_NAMES,
    find_command,
)
from elmo_cli.cli.option_conditions import TYPED_ARGUMENTS
from elmo_cli.cli.pasted_marks import check_marks
from elmo_cli.cli.streams import prepare_streams
from elmo_cli.errors.exceptions import ElmoError, StoppedError
from elmo_cli.errors.wording import first_line
from elmo_cli.version import __version__

INSTALLED: Final = Path(__file__).parents[2]
"""Folder with the metadata of installed packages."""
VARIABLES: Final = {
    "ELMO_MODEL": "Default model. [default: the bundled model]",
    "ELMO_CACHE": "Folder for downloads. [default: ~/.cache/elmo-cli]",
    "ELMO_MIRROR": "URL or folder of a model mirror to try first.",
    "ELMO_ALLOW_HTTP": "Set to 1 to allow downloads over http.",
    "ELMO_<COMMAND>_<OPTION>": "Option, such as ELMO_EMBED_PRECISION.",
}
"""Variables that the help explains."""
_ADDRESS: Final = re.compile(
    r"^Project-URL: (?:Documentation|Repository), (.+)$", re.MULTILINE
)
_ERRORS_OF_STREAMS: Final = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EAGAIN,
)
"""Errors of the system that name no file: they are of a stream or a temporary file."""


class ElmoGroup(click.Group):
    """Group of commands that shows each `ElmoError` as one line."""

    def main(self, *args: Any, **arguments: Any) -> Any:
        """Read the command line and run a command."""
        prepare_streams()
        try:
            return super().main(*args, **arguments)
        except ElmoError:
            raise  # With -vv, its traceback is shown.
        except (OSError, MemoryError, RuntimeError) as error:
            message = error_line(error)
            if message is None:
                raise
            click.echo(f"Error: {_one_line(message)}", err=True)
            # Python flushes sys.stdout at exit, which would fail again.
            sys.stdout = io.StringIO()
            sys.exit(1)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and keep them for errors."""
        ctx.meta[TYPED_ARGUMENTS] = list(args)  # The parser empties `args`.
        if not ctx.resilient_parsing:
            check_marks(args[:1], ctx)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with a name, or None."""
        name = OTHER_NAMES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        return find_command(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with, and its arguments."""
        name = args[0]
        is_unfinished = ctx.resilient_parsing or name.startswith("-")
        if not is_unfinished and self.get_command(ctx, name) is None:
            from elmo_cli.cli.wrong_names import no_such_command_error

            raise no_such_command_error(args, COMMANDS, ctx)
        _, command, rest = super().resolve_command(ctx, args)
        # The help and the errors of `elmo neighbors` are those of `elmo neighbours`.
        name_of_command = None if command is None else command.name
        return name_of_command, command, rest

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the commands, and then the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the description of each command, group by group."""
        width = max(map(len, COMMANDS))
        for heading, commands in COMMAND_GROUPS.items():
            with formatter.section(heading):
                rows = [(f"{name:<{width}}", text) for name, text in commands.items()]
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the variables, and where the documentation is."""
        with formatter.section("Environment"):
            formatter.write_dl(list(VARIABLES.items()))
        formatter.write_paragraph()
        formatter.write_text(_documentation())

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[CompletionItem]:
        """Return the commands and options that an incomplete word may become.

        Commands have their whole descriptions, which click would shorten.
        """
        items = []
        for commands in COMMAND_GROUPS.values():
            for name, text in commands.items():
                if name.startswith(incomplete):
                    items.append(CompletionItem(name, help=text))
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(self, *args: Any, **arguments: Any) -> click.Context:
        """Parse the arguments; see `click.Command.make_context`."""
        with _interrupts(), _usage_errors_in_one_line():
            return super().make_context(*args, **arguments)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; see `click.Group.invoke`."""
        try:
            with _interrupts(), _usage_errors_in_one_line():
                return super().invoke(ctx)
        except StoppedError as error:
            click.echo(stderr.shown_message(error), err=True)
            sys.exit(ctx.meta["exit_status"])
        except ElmoError as error:
            if ctx.meta.get("verbosity", 0) >= 2:
                raise
            message = _one_line(stderr.shown_message(error))
            raise click.ClickException(message) from None


@contextmanager
def _usage_errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        # A command without an error starts faster.
        from elmo_cli.cli.usage_errors import one_line_error

        raise one_line_error(error) from None


@contextmanager
def _interrupts() -> Iterator[None]:
    """End the process with the status of Ctrl-C where the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(128 + signal.SIGINT)


def error_line(error: Exception) -> str | None:
    """Return the message for an error of memory, a file or standard output, or None."""
    if isinstance(error, io.UnsupportedOperation):
        return "standard output: cannot write it: it is closed"
    if isinstance(error, OSError) and error.filename:
        # For example, the permission is missing, or the name is too long.
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in _ERRORS_OF_STREAMS:
        problem = f"cannot write it: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem += ". Free some space."
        return f"standard output or a temporary file: {problem}"
    if isinstance(error, (MemoryError, RuntimeError)):
        from elmo_cli.inference.memory import is_out_of_memory

        if is_out_of_memory(error):
            return f"out of memory: {first_line(error)}"
    return None


def _one_line(message: str) -> str:
    """Replace characters that would move the cursor, as names of files may."""
    characters = []
    for character in message.strip():
        characters.append(character if character.isprintable() else " ")
    return "".join(characters)


def _documentation() -> str:
    """Say where the documentation is: at an address, if the package has one."""
    # Importing importlib.metadata would take a third of the time of `elmo --help`.
    for path in INSTALLED.glob("elmo_cli-*.dist-info/METADATA"):
        address = _ADDRESS.search(path.read_text(encoding="utf-8"))
        if address is not None:
            return f"Documentation: {address[1]}"
    return "Documentation: `elmo help COMMAND`, and `python -m pydoc elmo_cli`."


@click.group(
    "elmo",
    cls=ElmoGroup,
    commands=dict.fromkeys(COMMANDS),  # `get_command` imports the command.
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 90,
        "color": True,  # Escape sequences in data for a pipe stay unchanged.
    },
)
@click.version_option(
    __version__, "-V", "--version", prog_name="elmo", message="%(prog)s %(version)s"
)
@stderr.verbosity_options
def main() -> None:
    """Contextual word vectors and surprisal from ELMo.

    \b
    Start here:
      $ elmo cosine bank "I sat by the bank." "The bank lent us money."
      $ elmo surprisal "The keys to the cabinet are here."
      $ elmo help embed

    The bundled English model works offline. To use another one, add --model NAME after
    the command.
    """
