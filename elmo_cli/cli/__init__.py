"""The command `elmo`: a command a file, the options they share in `flags`.

Only this package imports click. A command parses, makes one library call and
prints; what is heavy (torch, h5py) is imported when a command runs.
"""

import errno
import io
import os
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
from elmo_cli.cli.tokens import tokens
from elmo_cli.cli.train import train
from elmo_cli.errors import ElmoError, StoppedError

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 and the number of the signal, as shells have it."""


class ElmoGroup(click.Group):
    """A group of commands whose `ElmoError`s are shown here, as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; see `click.Group.invoke`."""
        _replace_closed_streams()
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
        except UnicodeEncodeError as error:
            if error.encoding.startswith("utf"):
                raise
            fault = f"cannot write {error.object[error.start]!a} in {error.encoding}"
            advice = "PYTHONIOENCODING=utf-8 has it take all characters"
            raise click.ClickException(f"standard output: {fault}; {advice}") from None
        except OSError as error:
            # Others have a name or no number, or are click's matter: the reader has gone.
            is_closed = isinstance(error, io.UnsupportedOperation)
            if not is_closed and (error.filename or error.errno in (None, errno.EPIPE)):
                raise
            fault = "it is closed" if is_closed else str(error.strerror)
            raise click.ClickException(f"standard output: cannot write it: {fault}") from None


def _replace_closed_streams() -> None:
    """Have writing to a closed standard output fail, and to a closed standard error do nothing."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull)  # noqa: SIM115 (for reading, until the process ends)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)


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
