"""The command `elmo`: a command a file in `commands`, the options they share in `options`.

Only this package imports click. A command parses, makes one library call and
prints; what is heavy (torch, h5py) is imported when a command runs.
"""

import signal
import sys
from importlib import import_module
from typing import Any

import click

from elmo_cli import __version__
from elmo_cli.cli.messages import verbosity_options
from elmo_cli.cli.streams import error_line, prepare_streams
from elmo_cli.errors import ElmoError, StoppedError

COMMAND_GROUPS = {
    "Vectors": {
        "embed": "Embed a text or FASTA file.",
        "distribute": "Embed a large corpus with many workers.",
        "merge": "Merge the outputs of all shards.",
    },
    "Analysis": {
        "cosine": "Compare the vectors of a word in two sentences.",
        "neighbours": "Find the uses nearest to a word in a sentence.",
        "plot": "Draw the uses of a word as points.",
        "word-vectors": "Write one vector a word.",
        "change": "Measure how much words changed between corpora.",
    },
    "Language models": {
        "perplexity": "Measure how well a model predicts a text.",
        "surprisal": "Measure how unexpected each token of a text is.",
        "predict": "Predict words after a text, before it or in it.",
        "train": "Train a model on text, or fine-tune one.",
    },
    "Models": {
        "models": "List the models that have a name.",
        "info": "Show what a model is.",
        "download": "Download a published model.",
        "convert": "Convert weights to another format.",
    },
    "Shell": {
        "completion": "Print a script for completion with TAB.",
    },
}
"""What each command does, by heading, common first.

Each is in the file of its name in `commands`, or of `_MODULES`, which is imported when it runs:
half the time of `--help`.
"""
_MODULES = {"completion": "completion", "download": "commands.models"}
_OTHER_SPELLINGS = {"neighbors": "neighbours"}
COMMANDS = [name for group in COMMAND_GROUPS.values() for name in group]


class ElmoGroup(click.Group):
    """A group of commands whose `ElmoError`s are shown here, as one line."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Read the command line and run a command; see `click.Group.main`."""
        prepare_streams()
        try:
            return super().main(*args, **settings)
        except (OSError, UnicodeEncodeError, MemoryError, RuntimeError) as error:
            message = error_line(error)
            if message is None:
                raise
            click.echo(f"Error: {_one_line(message)}", err=True)
            sys.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, if there is one."""
        name = _OTHER_SPELLINGS.get(cmd_name, cmd_name)
        return find_command(name) if name in COMMANDS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments: `elmo help COMMAND` is `elmo COMMAND --help`."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a command line; those of like names if there is none."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            from difflib import get_close_matches

            if near := get_close_matches(args[0], COMMANDS):
                ctx.fail(f"No such command {args[0]!r}; did you mean {' or '.join(near)}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, group by group."""
        width = max(map(len, COMMANDS))
        for heading, commands in COMMAND_GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{width}}", text) for name, text in commands.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; see `click.Group.invoke`."""
        try:
            return super().invoke(ctx)
        except StoppedError as error:
            click.echo(str(error), err=True)
            sys.exit(_exit_status(ctx))
        except ElmoError as error:
            if ctx.meta.get("verbosity", 0) >= 2:
                raise
            raise click.ClickException(_one_line(str(error))) from None
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            sys.exit(_exit_status(ctx))


def find_command(name: str) -> click.Command:
    """The command of a name in `COMMANDS`."""
    function = name.replace("-", "_")
    module = import_module(f"elmo_cli.cli.{_MODULES.get(name, f'commands.{function}')}")
    command: click.Command = getattr(module, function)
    return command


def _exit_status(ctx: click.Context) -> int:
    """The exit status of a command that a signal stopped, as of shells: 130 after Ctrl-C."""
    number: int = ctx.meta.get("signal", signal.SIGINT)
    return 128 + number


def _one_line(message: str) -> str:
    """A message without what would move the cursor: files may have such names and texts."""
    shown = (char if char.isprintable() else " " for char in message.strip())
    return "".join(shown)


_EPILOG = """\b
Examples:
  $ elmo embed sentences.txt vectors.hdf5
  $ elmo cosine bank "I sat by the bank." "The bank lent us money."
  $ elmo help embed

\b
Environment:
  ELMO_MODEL       Model of commands without --model.  [default: the bundled one]
  ELMO_CACHE       Folder of downloaded models.  [default: ~/.cache/elmo-cli]
  ELMO_ALLOW_HTTP  1 allows downloads by http where https is not there.
  ELMO_COMMAND_OPTION
                   Any option: ELMO_EMBED_PRECISION is --precision of `elmo embed`.

The documentation is in the folder docs of the source.
"""


@click.group(
    "elmo",
    cls=ElmoGroup,
    epilog=_EPILOG,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 90,
        "color": True,  # leave escape sequences in data for a pipe as they are
    },
)
@click.version_option(
    __version__, "-V", "--version", prog_name="elmo", message="%(prog)s %(version)s"
)
@verbosity_options
def main() -> None:
    """Contextual word vectors from ELMo.

    A bundled English model makes every command work at once, offline;
    --model names another.
    """
