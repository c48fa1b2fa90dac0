"""Errors for commands and options that do not exist, with what may have been meant."""

import os
import shlex
from collections.abc import Collection, Sequence
from typing import Final

import click

from elmo_cli.errors.wording import did_you_mean

_MEANT_COMMANDS: Final = {
    "compare": "elmo cosine",
    "embeddings": "elmo embed",
    "encode": "elmo embed",
    "fill-mask": "elmo predict",
    "finetune": "elmo train",
    "generate": "elmo predict --sample 1",
    "list": "elmo models",
    "nearest": "elmo neighbours",
    "score": "elmo surprisal",
    "search": "elmo neighbours",
    "similar": "elmo neighbours",
    "similarity": "elmo cosine",
    "vectors": "elmo embed",
    "version": "elmo --version",
}
"""Command for a name that other programs or the Python functions have."""
_MEANT_DEVICES: Final = {
    "--gpu": "cuda",
    "--use-gpu": "cuda",
    "--cpu": "cpu",
    "--mps": "mps",
}
OUTPUT_NAMES: Final = ("-o", "--output", "--out", "--outfile", "--output-file")
"""Names that other programs have for the output."""
_INPUT_NAMES: Final = ("-i", "--input", "--in", "--infile", "--input-file")


def no_such_command_error(
    arguments: Sequence[str], commands: Collection[str], ctx: click.Context
) -> click.UsageError:
    """Return the error for arguments that do not begin with a command."""
    name, *others = arguments
    meant = meant_command(name)
    if name == ctx.info_name:
        start = ["elmo"]
        names_files = any(not each.startswith("-") for each in others)
        if names_files and others[0] not in commands:
            start.append("embed")  # `allennlp elmo` was the command for it.
        advice = f" Use `{shlex.join([*start, *others])}`."
    elif meant:
        advice = meant
    elif os.path.exists(name):
        advice = f" For its vectors, use `elmo embed {shlex.quote(name)} OUTPUT`."
    else:
        advice = f"{did_you_mean(name, commands)} `elmo --help` lists all commands."
    return click.UsageError(f"{name}: no such command.{advice}", ctx)


def meant_command(name: str) -> str:
    """Return the advice to use the command that other programs call `name`, or ""."""
    meant = _MEANT_COMMANDS.get(name.casefold())
    return f" Use `{meant}`." if meant else ""


def no_such_option_error(
    name: str, command: click.Command, ctx: click.Context
) -> click.UsageError:
    """Return the error for an option that a command does not have."""
    shown: list[str] = []
    hidden: list[str] = []
    for option in command.params:
        if isinstance(option, click.Option):
            names = [each for each in option.opts if each.startswith("--")]
            (hidden if option.hidden else shown).extend(names)
    arguments = command.collect_usage_pieces(ctx)[1:]
    if name in _MEANT_DEVICES and "--device" in shown:
        advice = f" Use --device {_MEANT_DEVICES[name]}."
    elif name in _INPUT_NAMES and arguments:
        advice = f" Give {arguments[0]} without an option."
    elif name.replace("_", "-") in [*shown, *hidden]:
        advice = f" Use {name.replace('_', '-')}."
    elif name.startswith("--"):
        # The hyphens would make all names alike.
        advice = did_you_mean(name, shown, key=lambda each: each.lstrip("-"))
    else:
        advice = ""
    return click.UsageError(f"{name}: no such option.{advice}", ctx)
