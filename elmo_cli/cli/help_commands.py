"""`elmo help` and `elmo completion`, and the description of an installation."""

import platform
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from elmo_cli.cli.command import command
from elmo_cli.version import __version__

_FORMATS: Final = Path(__file__).with_name("formats.txt")


@command("help")
@click.argument("topic", metavar="[COMMAND|formats]", required=False)
@click.pass_context
def help(ctx: click.Context, topic: str | None) -> None:
    """Show the help of a command, or of the formats that all commands share.

    \b
    $ elmo help embed
    $ elmo help formats
    """
    parent = ctx.find_root()
    group = parent.command
    assert isinstance(group, click.Group)
    if topic == "formats":
        click.echo(_FORMATS.read_text(encoding="utf-8"), nl=False)
    elif topic is None:
        click.echo(parent.get_help())
    else:
        _, found, _ = group.resolve_command(parent, [topic])
        assert found is not None
        click.echo(found.make_context(topic, [], parent, resilient_parsing=True).get_help())


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete `elmo` with TAB.

    Commands, options, files, columns, models, formats, layers and devices are completed.
    Save the script in this file:

    \b
    bash  ~/.local/share/bash-completion/completions/elmo
    zsh   a file _elmo in a folder of $fpath
    fish  ~/.config/fish/completions/elmo.fish

    \b
    $ elmo completion bash > ~/.local/share/bash-completion/completions/elmo
    $ elmo completion zsh > ~/.zfunc/_elmo
    $ elmo completion fish > ~/.config/fish/completions/elmo.fish
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    click.echo(shell_class(ctx.find_root().command, {}, "elmo", "_ELMO_COMPLETE").source())


def describe_installation() -> dict[str, str]:
    """Describe versions, processor, kernels and devices, for reports of errors."""
    from importlib import metadata

    import torch

    from elmo_cli.compiled.kernels import find_kernel, has_tiles

    processor = platform.processor() or platform.machine()
    if (cpus := Path("/proc/cpuinfo")).exists():
        lines = cpus.read_text(encoding="utf-8", errors="replace").splitlines()
        processor = next((line for line in lines if line.startswith("model name")), processor)
    packages = ("torch", "numpy", "h5py", "click")
    capability = torch.backends.cpu.get_cpu_capability()
    tiles = " with AMX" if has_tiles() else ""
    compiled = f"compiled for {capability}{tiles}" if find_kernel("run") else "not compiled"
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    devices = ["cpu", *(f"cuda:{number} ({name})" for number, name in enumerate(gpus))]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    return {
        "elmo-cli": f"{__version__}, in {Path(__file__).parents[1]}",
        "Python": f"{platform.python_version()}, on {platform.platform()}",
        "packages": ", ".join(f"{name} {metadata.version(name)}" for name in packages),
        "processor": f"{processor.rpartition(': ')[2]}, {torch.get_num_threads()} threads",
        "kernels": compiled,
        "devices": ", ".join(devices),
    }
