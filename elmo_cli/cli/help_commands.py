"""`elmo help` and `elmo completion`, and the description of an installation."""

import platform
import re
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from elmo_cli.cli.command import command
from elmo_cli.errors import did_you_mean
from elmo_cli.outputs.output_formats import OUTPUT_FORMATS
from elmo_cli.text.input_formats import FORMATS
from elmo_cli.text.tokenizers import TOKENIZERS
from elmo_cli.version import __version__


def _complete_topics(ctx: click.Context, _parameter: object, start: str) -> list[str]:
    names = [*getattr(ctx.find_root().command, "commands", ()), "formats"]
    return [name for name in names if name.startswith(start)]


@command("help")
@click.argument(
    "topic",
    metavar="[COMMAND|formats]",
    required=False,
    shell_complete=_complete_topics,
)
@click.pass_context
def help(ctx: click.Context, topic: str | None) -> None:
    """Show the help of a command, or of the formats that all commands share.

    \b
    $ elmo help embed
    $ elmo help formats
    """
    parent = ctx.find_root()
    shared = (*FORMATS, *TOKENIZERS, *OUTPUT_FORMATS, "column", "format", "tokenizer")
    if topic is not None and topic.lower().removesuffix("s") in shared:
        click.echo(
            Path(__file__).with_name("formats.txt").read_text(encoding="utf-8"),
            nl=False,
        )
        return
    if topic is not None:
        assert isinstance(parent.command, click.Group)
        found = parent.command.get_command(parent, topic)
        if found is None:
            topics = [*parent.command.commands, "formats"]
            problem = f"{topic}: no such topic.{did_you_mean(topic, topics)}"
            raise click.UsageError(
                f"{problem} Choose one of {', '.join(topics)}.", parent
            )
        parent = found.make_context(topic, [], parent, resilient_parsing=True)
    click.echo(parent.get_help())


@command()
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets SHELL (bash, zsh or fish) complete `elmo` with TAB.

    Commands, options, files, columns, models, formats, layers and devices are completed.
    For zsh, write the script to a file _elmo in any folder of $fpath.

    \b
    $ elmo completion bash > ~/.local/share/bash-completion/completions/elmo
    $ elmo completion zsh > ~/.zfunc/_elmo
    $ elmo completion fish > ~/.config/fish/completions/elmo.fish
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    click.echo(
        shell_class(ctx.find_root().command, {}, "elmo", "_ELMO_COMPLETE").source()
    )


def describe_installation() -> dict[str, str]:
    """Describe versions, processor, kernels and devices, for reports of errors."""
    from importlib import metadata

    import torch

    from elmo_cli.compiled.kernels import find_kernel, has_tiles

    processor, cpus = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if cpus.exists() and (
        match := re.search(r"model name\s*: (.*)", cpus.read_text("utf-8"))
    ):
        processor = match[1]
    kernels = f"compiled for {torch.backends.cpu.get_cpu_capability()}"
    kernels += " with AMX" if has_tiles() else ""
    n_gpus = torch.cuda.device_count()
    devices = [
        f"cuda:{each} ({torch.cuda.get_device_name(each)})" for each in range(n_gpus)
    ]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    packages = [
        f"{name} {metadata.version(name)}"
        for name in ("torch", "numpy", "h5py", "click")
    ]
    return {
        "elmo-cli": f"{__version__}, in {Path(__file__).parents[1]}",
        "Python": f"{platform.python_version()}, on {platform.platform()}",
        "packages": ", ".join(packages),
        "processor": f"{processor}, {torch.get_num_threads()} threads",
        "kernels": kernels if find_kernel("run") else "not compiled",
        "devices": ", ".join(["cpu", *devices]),
    }
