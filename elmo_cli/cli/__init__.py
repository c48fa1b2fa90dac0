"""The command `elmo`: a command a file, the options they share in `flags`.

Only this package imports click. A command parses, makes one library call and
prints; what is heavy (torch, h5py) is imported when a command runs.
"""

import sys
from typing import Any

import click

from elmo_cli import __version__
from elmo_cli.cli.convert import convert
from elmo_cli.cli.cosine import cosine
from elmo_cli.cli.download import download
from elmo_cli.cli.embed import embed
from elmo_cli.cli.info import info
from elmo_cli.cli.merge import merge
from elmo_cli.cli.models import models
from elmo_cli.cli.perplexity import perplexity
from elmo_cli.cli.predict import predict
from elmo_cli.cli.streams import fault_of, prepare_streams
from elmo_cli.cli.tokens import tokens
from elmo_cli.cli.train import train
from elmo_cli.errors import ElmoError, StoppedError

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 and the number of the signal, as shells have it."""


class ElmoGroup(click.Group):
    """A group of commands whose `ElmoError`s are shown here, as one line."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Read the command line and run a command; see `click.Group.main`."""
        prepare_streams()
        try:
            return super().main(*args, **settings)
        except (OSError, UnicodeEncodeError, MemoryError, RuntimeError) as error:
            fault = fault_of(error)
            if fault is None:
                raise
            click.echo(f"Error: {_one_line(fault)}", err=True)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; see `click.Group.invoke`."""
        try:
            return super().invoke(ctx)
        except StoppedError as error:
            click.echo(str(error), err=True)
            sys.exit(INTERRUPTED)
        except ElmoError as error:
            if ctx.meta.get("verbosity", 0) >= 2:
                raise
            raise click.ClickException(_one_line(str(error))) from None
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            sys.exit(INTERRUPTED)


def _one_line(message: str) -> str:
    """A message without what would move the cursor: files may have such names and texts."""
    shown = (char if char.isprintable() else " " for char in message.strip())
    return "".join(shown)


@click.group(
    "elmo",
    cls=ElmoGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 90},
)
@click.version_option(__version__, prog_name="elmo", message="%(prog)s %(version)s")
def main() -> None:
    """Contextual word vectors from ELMo.

    A bundled English model makes every command work at once, offline;
    --model names another.
    """


for command in (
    *(embed, merge, cosine, models, download, info, convert, train),
    *(perplexity, predict, tokens),
):
    main.add_command(command)
