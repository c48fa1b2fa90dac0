"""`elmo completion`."""

import click
from click.shell_completion import get_completion_class

from elmo_cli.cli.command import command
from elmo_cli.cli.parameter_types import NameChoice


@command()
@click.argument("shell", metavar="SHELL", type=NameChoice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script for TAB completion in SHELL: bash, zsh or fish.

    \b
    $ eval "$(elmo completion bash)"
    $ eval "$(elmo completion zsh)"
    $ elmo completion fish | source

    TAB then completes commands, options, files, columns, models, formats, layers and
    devices. To have that in every new shell, add the line to ~/.bashrc, to ~/.zshrc
    after compinit, or to ~/.config/fish/config.fish.
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    click.echo(
        shell_class(ctx.find_root().command, {}, "elmo", "_ELMO_COMPLETE").source()
    )
