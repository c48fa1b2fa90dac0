"""Errors for commands and options that do not exist, with what may have been meant."""

import os
import re
import shlex
from collections.abc import Collection, Sequence
from typing import Final

import click

from elmo_cli.cli.command_list import COMMANDS, OTHER_NAMES, find_command
from elmo_cli.errors.messages import Message, literal
from elmo_cli.errors.wording import did_you_mean, listed

_MEANT_COMMANDS: Final = {
    "compare": "elmo cosine",
    "embeddings": "elmo embed",
    "encode": "elmo embed",
    "fill-mask": "elmo predict",
    "finetune": "elmo train",
    "generate": "elmo predict --samples 1",
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
MEANT_DEVICES: Final = {
    "--cuda": "cuda",
    "--gpu": "cuda",
    "--use-gpu": "cuda",
    "--cpu": "cpu",
    "--mps": "mps",
}
"""Device for a name that other programs have for an option without a value."""
_MEANT_OPTIONS: Final = {
    "--backward": "--direction backward",
    "--batch": "--batch-tokens",
    "--bs": "--batch-tokens",
    "--forward": "--direction forward",
    "--k": "--top",
    "--lr": "--learning-rate",
    "--n": "--top",
    "--num": "--top",
    "--topk": "--top",
    "--top-k": "--top",
    "-k": "--top",
    "-n": "--top",
}
"""Option, perhaps with its value, for a name that other programs have."""
_OUTPUT_NAMES: Final = ("-o", "--output", "--out", "--outfile", "--output-file")
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
        remedy = f"Use `{literal(shlex.join([*start, *others]))}`."
    elif meant:
        remedy = meant
    elif os.path.exists(name):
        remedy = (
            f"For its vectors, use `elmo embed {literal(shlex.quote(name))} OUTPUT`."
        )
    else:
        question = did_you_mean(name, commands)
        remedy = f"{question} `elmo --help` lists all commands.".lstrip()
    shown = name or "''"
    message = Message(f"{shown}: no such command", remedy=remedy)
    return click.UsageError(message.as_options(), ctx)


def meant_command(name: str) -> str:
    """Return the advice to use the command that other programs call `name`, or ""."""
    meant = _MEANT_COMMANDS.get(name.casefold())
    return f"Use `{meant}`." if meant else ""


def no_such_option_message(
    name: str, command: click.Command, arguments: Sequence[str] = ()
) -> Message:
    """Return the message for an option that a command does not have.

    `arguments` are those of a group, in which a command may follow the option.
    """
    if isinstance(command, click.Group):
        index = _index_of_command(name, arguments)
        if index is not None:
            return _option_before_command_message(name, arguments, index)
    shown = _long_names(command, are_hidden=False)
    hidden = _long_names(command, are_hidden=True)
    own_name = "elmo" if isinstance(command, click.Group) else f"elmo {command.name}"
    meant = _MEANT_OPTIONS.get(name, "")
    longer = [each for each in shown if name.startswith("--") and each.startswith(name)]
    if name in MEANT_DEVICES and "--device" in shown:
        remedy = f"Use --device {MEANT_DEVICES[name]}."
    elif name in _INPUT_NAMES and arguments_of(command):
        remedy = f"Give {arguments_of(command)[0]} without an option."
    elif name in _OUTPUT_NAMES and "--output" not in shown:
        remedy = _advice_for_output(command)
    elif name.replace("_", "-") in [*shown, *hidden]:
        remedy = f"Use {name.replace('_', '-')}."
    elif meant.split(" ")[0] in shown:
        remedy = f"Use {meant}."
    elif longer:
        remedy = f"Did you mean {listed(map(repr, longer), 'or')}?"
    else:
        # The hyphens would make all names alike.
        remedy = did_you_mean(name, shown, key=lambda each: each.lstrip("-"))
        if isinstance(command, click.Group):
            remedy = _advice_for_place(name, COMMANDS) or remedy
        remedy = remedy or f"`{own_name} --help` lists the options."
    return Message(f"{name}: no such option", remedy=remedy)


def _long_names(command: click.Command, *, are_hidden: bool) -> list[str]:
    """Return the names with two hyphens of the options that the help shows, or not."""
    names = []
    for option in command.params:
        if isinstance(option, click.Option) and option.hidden == are_hidden:
            names += [name for name in option.opts if name.startswith("--")]
    return names


def _index_of_command(name: str, arguments: Sequence[str]) -> int | None:
    """Return the index of the command that follows an option, or None.

    In `elmo --model train surprisal`, `train` is the value of the option.
    """
    index_of_value = None
    for index, argument in enumerate(arguments):
        command_name = _name_of_command(argument)
        if command_name not in COMMANDS:
            continue
        option = _option_named(name, command_name)
        is_flag = option is not None and option.is_flag
        if is_flag or arguments[index - 1] != name:
            return index
        index_of_value = index
    return index_of_value


def _option_before_command_message(
    name: str, arguments: Sequence[str], index: int
) -> Message:
    """Return the message for an option before the command, at `index`."""
    command_name = _name_of_command(arguments[index])
    option = _option_named(name, command_name)
    lacks_value = (
        option is not None and not option.is_flag and arguments[index - 1] == name
    )
    if option is None or (lacks_value and name in MEANT_DEVICES):
        return no_such_option_message(name, find_command(command_name))
    if lacks_value:
        remedy = _advice_for_place(name, [command_name])
    else:
        words = ["elmo", arguments[index], *arguments[:index], *arguments[index + 1 :]]
        remedy = f"Type it after the command: `{literal(shlex.join(words))}`."
    return Message(f"{name}: no such option", remedy=remedy)


def _advice_for_place(name: str, command_names: Sequence[str]) -> str:
    """Return where to type an option of a command, or "" if no command has it."""
    for command_name in command_names:
        option = _option_named(name, command_name)
        if option is not None and not option.hidden:
            words = ["elmo", command_name, name]
            if not option.is_flag:
                words.append(_example_value(option))
            example = literal(" ".join(words))
            return f"Type it after the command, as in `{example}`."
    return ""


def _name_of_command(argument: str) -> str:
    """Return the name of the command that an argument may be."""
    return OTHER_NAMES.get(argument, argument)


def _option_named(name: str, command_name: str) -> click.Option | None:
    """Return the option of a command with a name, or None."""
    for option in find_command(command_name).params:
        if isinstance(option, click.Option) and name in option.opts:
            return option
    return None


def _example_value(option: click.Option) -> str:
    """Return a value for an option in an example: one of its choices, or NAME."""
    if isinstance(option.type, click.Choice):
        return str(option.type.choices[0])
    # Of NAME|PATH, the first: in a shell, | is a pipe.
    return (option.metavar or "").partition("|")[0]


def example_of(command: click.Command) -> str:
    """Return the first example in the help of a command, or ""."""
    example = re.search(rf"\$ (.*elmo {command.name}\b.*)", command.help or "")
    return f"Example: {example[1]}" if example is not None else ""


def arguments_of(command: click.Command) -> list[str]:
    """Return the names of the arguments of a command, such as INPUT and OUTPUT."""
    names = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            metavar = parameter.metavar or str(parameter.name).upper()
            names.extend(metavar.split(" "))
    return names


def _advice_for_output(command: click.Command) -> str:
    """Return what to do instead of giving -o, which only `elmo train` has."""
    for name in arguments_of(command):
        if name in ("OUTPUT", "FOLDER"):
            return f"Give {name} as the last argument. {example_of(command)}".strip()
    writes = f"`elmo {command.name}` writes to standard output"
    return f"{writes}. Add `> FILE` to write a file."
