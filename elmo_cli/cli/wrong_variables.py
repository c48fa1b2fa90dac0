"""Warnings about variables ELMO_... that no command reads, with what may be meant."""

from collections.abc import Sequence
from typing import Final

import click

from elmo_cli.cli import stderr
from elmo_cli.cli.command_list import COMMANDS, find_command
from elmo_cli.cli.main import VARIABLES
from elmo_cli.cli.option_conditions import Option, in_variable, start_of_variables
from elmo_cli.errors.wording import similar_word

_START: Final = "ELMO_"
_OF_OTHER_PROGRAMS: Final = ("ELMO_KERNELS", "ELMO_VERSION", "ELMO_TEST_")
"""What variables of the installation, the conda package and the tests begin with."""


def warn_of_variables(names: Sequence[str], running: click.Command) -> None:
    """Warn about those of the variables that no command reads.

    A variable that resembles none of this package may belong to another program.
    """
    for name in names:
        if name.startswith(_OF_OTHER_PROGRAMS):
            continue
        command = _command_of(name)
        if command is None:
            meant = _meant_variable(name, running)
            if meant:
                stderr.warn(
                    f"{name}: no such variable", remedy=f"Did you mean {meant!r}?"
                )
        elif name not in _variables_of(command).values():
            start = start_of_variables(str(command.name))
            meant = _meant_option(name.removeprefix(start), command)
            remedy = f"`elmo {command.name} --help` lists the options."
            if meant:
                remedy = f"Did you mean {meant!r}?"
            stderr.warn(f"{name}: no such variable", remedy=remedy)


def _command_of(variable: str) -> click.Command | None:
    """Return the command whose variables begin like this one, or None."""
    for name in COMMANDS:
        if variable.startswith(start_of_variables(name)):
            return find_command(name)
    return None


def _meant_variable(name: str, running: click.Command) -> str:
    """Return a variable that resembles one without the name of a command, or ""."""
    rest = name.removeprefix(_START)
    # ELMO_DEVICE, without the command
    option = _variables_of(running).get(rest)
    if option is not None:
        return option
    # ELMO_COSIN_LAYERS
    words = rest.split("_")
    commands = {in_variable(name): name for name in COMMANDS}
    for n_words in range(1, len(words)):
        similar = similar_word("_".join(words[:n_words]), commands)
        if similar:
            command = find_command(commands[similar])
            option_name = "_".join(words[n_words:])
            meant = _meant_option(option_name, command)
            if meant:
                return meant
    # ELMO_MODLE
    own = [each for each in VARIABLES if "<" not in each]
    return similar_word(name, own, key=lambda each: each.removeprefix(_START))


def _meant_option(name: str, command: click.Command) -> str:
    """Return the variable of the option with a name such as PRECISON, or ""."""
    variables = _variables_of(command)
    similar = similar_word(name, variables)
    return variables[similar] if similar else ""


def _variables_of(command: click.Command) -> dict[str, str]:
    """Return the variables of a command by the names of its options, as in them.

    They are by the other names of an option too: ELMO_EMBED_DEVICE by CUDA.
    """
    variables = {}
    for option in command.params:
        if not isinstance(option, Option):
            continue
        for name in option.opts:
            if name.startswith("--"):
                variables[in_variable(name[2:])] = str(option.envvar)
    return variables
