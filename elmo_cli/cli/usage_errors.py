"""Usage errors in one line: what click words in its own way is worded here as ours.

Commands raise a `click.UsageError` with a message of their own. The errors that click
itself raises for an option, an argument or a value get theirs here.
"""

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import click

from elmo_cli.cli.option_conditions import TYPED_ARGUMENTS, Option
from elmo_cli.cli.wrong_names import (
    MEANT_DEVICES,
    arguments_of,
    example_of,
    no_such_option_message,
)
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import listed

_SHOWN_AS_HELP: Final = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Error of `elmo` alone, which shows the help; click 8.1 has none."""


def one_line_error(error: click.UsageError) -> click.UsageError:
    """Return a usage error that is shown as one line, without the usage above it."""
    is_help = isinstance(error, _SHOWN_AS_HELP)
    if is_help:
        return error
    # click shows the usage of the context, which this error lacks.
    return click.UsageError(_message(error))


def extra_arguments_error(
    typed: Sequence[str], n_expected: int, takes: str | None = None
) -> click.UsageError:
    """Return the error for more arguments than the running command takes.

    Args:
        typed: All arguments.
        n_expected: Number of arguments that the command takes.
        takes: What it takes. By default, that is the names of its arguments.
    """
    ctx = click.get_current_context()
    return click.UsageError(
        _extra_arguments_message(typed, n_expected=n_expected, takes=takes, ctx=ctx),
        ctx,
    )


def missing_error(name: str) -> click.UsageError:
    """Return the error for an argument of the running command that is missing."""
    return misused_error(f"{name} is missing")


def misused_error(message: str) -> click.UsageError:
    """Return an error that ends with the first example of the running command."""
    ctx = click.get_current_context()
    return click.UsageError(f"{message}.{example_of(ctx.command)}", ctx)


def swapped_error(word: str, *others: str) -> click.UsageError:
    """Return the error for a word that was typed after another argument."""
    name = str(click.get_current_context().command.name)
    swapped = shlex.join(["elmo", name, word, *others])
    return click.UsageError(f"{word}: WORD comes first. Use `{swapped}`.")


def _message(error: click.UsageError) -> str:
    ctx = error.ctx
    if ctx is None:
        return error.message
    if isinstance(error, click.NoSuchOption):
        return no_such_option_message(error.option_name, ctx.command)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        first_name = _name_of(error.param, ctx).split(" ")[0].removesuffix("...")
        if first_name in ("INPUT", "TEXT") and _is_piped():
            return f"{first_name} is missing. Type - to read standard input."
        return f"{first_name} is missing.{example_of(ctx.command)}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_name_of(error.param, ctx)}: {error.message}"
    if isinstance(error, click.BadOptionUsage):
        return _wrong_value_count_message(error.option_name, ctx)
    return error.message


def _extra_arguments_message(
    typed: Sequence[str], n_expected: int, takes: str | None, ctx: click.Context
) -> str:
    """Return the message for the arguments after those that the command takes."""
    command = ctx.command
    start = f"elmo {command.name}"
    first = typed[n_expected]
    last = typed[-1]
    flag = _flag_before(first, ctx)
    if flag is not None:
        return f"{flag}: takes no value. Remove {first}."
    if command.name == "models":
        return f"{last}: unexpected. Use `elmo info {shlex.quote(last)}`."
    names = arguments_of(command)
    has_output = names[-1:] == ["OUTPUT"]
    if not has_output and _may_be_output(last):
        if _may_be_figure(last) and _has_option(command, "--plot"):
            return f"{last}: unexpected. Use --plot {shlex.quote(last)}."
        writes = f"{start} writes to standard output"
        return f"{last}: unexpected, because {writes}. Use `> {shlex.quote(last)}`."
    takes = takes or " ".join(names).strip("[]") or "no arguments"
    problem = f"{first}: unexpected, because {start} takes {takes}"
    inputs = typed[:-1] if has_output else typed
    output = f" {shlex.quote(last)}" if has_output else ""
    if not names or names[0] not in ("INPUT", "INPUT...", "TEXT"):
        return f"{problem}.{example_of(command)}"
    if all(map(_is_text_file, inputs)):
        piped = f"cat {shlex.join(inputs)} | {start} -{output}"
        return f"{problem}. To read several files, pipe them: `{piped}`."
    if any(map(os.path.exists, inputs)):
        return f"{problem}.{example_of(command)}"
    text = shlex.quote(" ".join(inputs))
    if has_output:
        return (
            f"{problem}. To embed a text, pipe it: `echo {text} | {start} -{output}`."
        )
    return f"{problem}. Put the text in quotes: {start} {text}"


def _flag_before(value: str, ctx: click.Context) -> str | None:
    """Return the flag that was typed before a value such as True."""
    if value.lower() not in ("true", "false", "yes", "no", "1", "0"):
        return None
    arguments: list[str] = ctx.meta[TYPED_ARGUMENTS]
    index = arguments.index(value)
    if index == 0:
        return None
    name = arguments[index - 1]
    for option in ctx.command.params:
        if isinstance(option, click.Option) and option.is_flag and name in option.opts:
            return name
    return None


def _may_be_output(path: str) -> bool:
    """Return whether a path is hardly an input: it is missing and of a table."""
    if " " in path or os.path.exists(path):
        return False
    is_table = path.endswith((".tsv", ".csv", ".jsonl", ".json", ".txt"))
    return is_table or _may_be_figure(path)


def _may_be_figure(path: str) -> bool:
    # `elmo --help` starts faster without the options.
    from elmo_cli.options.analysis import FIGURE_SUFFIXES

    return path.endswith(FIGURE_SUFFIXES)


def _is_text_file(path: str) -> bool:
    from elmo_cli.records.formats import find_format
    from elmo_cli.text.sources import Source

    with suppress(InputError):
        return os.path.isfile(path) and find_format(Source(path)).is_plain
    return False


def _has_option(command: click.Command, name: str) -> bool:
    return any(name in parameter.opts for parameter in command.params)


def _is_piped() -> bool:
    """Return whether another program writes to standard input."""
    with suppress(AttributeError, OSError):  # It is closed, or in memory.
        return stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode)
    return False


def _name_of(parameter: click.Parameter, ctx: click.Context) -> str:
    """Return the name of an argument, or the typed name of an option."""
    if isinstance(parameter, Option):
        return parameter.shown(ctx)
    if isinstance(parameter, click.Option):
        return parameter.opts[0]
    return parameter.metavar or str(parameter.name).upper()


def _wrong_value_count_message(name: str, ctx: click.Context) -> str:
    """Return the message for an option without its value, or for a flag with one."""
    [option] = [each for each in ctx.command.params if name in each.opts]
    if isinstance(option, click.Option) and (option.is_flag or option.count):
        return f"{name}: takes no value. Type {name} alone."
    if name in MEANT_DEVICES:
        return f"{name}: no value. Use --device {MEANT_DEVICES[name]}."
    if isinstance(option.type, click.Choice):
        return f"{name}: no value. Choose {listed(option.type.choices, 'or')}."
    return f"{name}: no value. See `elmo {ctx.command.name} --help`."
