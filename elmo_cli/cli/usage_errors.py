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
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import Message, literal
from elmo_cli.errors.wording import excerpt, listed
from elmo_cli.files.file_types import HDF5_MAGIC

_LISTS: Final = ("--id-column", "--keep-columns", "--layers", "--mix", "--pair-columns")
"""Options whose values are separated by commas."""
_SHOWN_AS_HELP: Final = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Error of `elmo` alone, which shows the help; click 8.1 has none."""


def one_line_error(error: click.UsageError) -> click.UsageError:
    """Return a usage error that is shown as one line, without the usage above it."""
    is_help = isinstance(error, _SHOWN_AS_HELP)
    if is_help:
        return error
    # click shows the usage of the context, which this error lacks.
    return click.UsageError(_message(error).as_options())


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
    message = _extra_arguments_message(
        typed, n_expected=n_expected, takes=takes, ctx=ctx
    )
    return click.UsageError(message.as_options(), ctx)


def missing_error(name: str) -> click.UsageError:
    """Return the error for an argument of the running command that is missing."""
    return misused_error(f"{name} is missing")


def misused_error(problem: str, advice: str = "") -> click.UsageError:
    """Return an error that ends with the first example of the running command."""
    ctx = click.get_current_context()
    remedy = f"{advice} {example_of(ctx.command)}".strip()
    message = Message(problem, remedy=remedy)
    return click.UsageError(message.as_options(), ctx)


def check_not_empty(arguments: Sequence[str], names: Sequence[str]) -> None:
    """Raise an error for the first empty argument of the running command.

    `names` are those of the arguments, such as WORD, SENTENCE1 and FILE.
    """
    for argument, name in zip(arguments, names, strict=False):
        if argument.strip():
            continue
        if name == "WORD":
            advice = "Give a word."
        elif name.startswith("SENTENCE"):
            advice = "Give a sentence in quotes."
        else:
            advice = f"Give the name of a {'folder' if name == 'FOLDER' else 'file'}."
        raise misused_error(f"{name}: empty", advice)


def check_lists(arguments: Sequence[str]) -> None:
    """Raise an error if a list of the running command was split at spaces.

    `arguments` are those that are no options: `bad` of `--pair-columns good bad`.
    """
    ctx = click.get_current_context()
    message = _split_list_message(arguments, len(arguments), ctx)
    if message is not None:
        raise click.UsageError(message.as_options(), ctx)


def swapped_error(word: str, *others: str) -> SettingsError:
    """Return the error for a word that was typed after another argument."""
    name = str(click.get_current_context().command.name)
    swapped = shlex.join(["elmo", name, word, *others])
    return SettingsError(
        f"{word}: WORD comes first", remedy=f"Use `{literal(swapped)}`."
    )


def check_order(ctx: click.Context) -> None:
    """Raise an error if a text stands in the place of OUTPUT, and OUTPUT before it.

    Such an INPUT has the suffix of an output, and is missing or a file of vectors.
    """
    reads_text = _has_option(ctx.command, "--input-format")
    if not reads_text or arguments_of(ctx.command) != ["INPUT", "OUTPUT"]:
        return
    typed: list[str] = []
    for parameter in ctx.command.params:
        if isinstance(parameter, click.Argument):
            value = ctx.params[str(parameter.name)]
            typed += value if isinstance(value, tuple) else [value]
    if len(typed) != 2:
        return
    first, second = typed
    if not os.path.isfile(second) or _has_suffix_of_vectors(second):
        return
    if not _may_be_vectors(first) or not _is_input(second):
        return
    words = ["elmo", str(ctx.command.name), second, first, *_options(typed, ctx)]
    message = Message(
        f"{second}: INPUT comes first", remedy=f"Use `{literal(shlex.join(words))}`."
    )
    raise click.UsageError(message.as_options(), ctx)


def _may_be_vectors(path: str) -> bool:
    """Return whether a path has the suffix of vectors, and is missing or HDF5."""
    if not _has_suffix_of_vectors(path):
        return False
    if not os.path.isfile(path):
        return not os.path.exists(path)
    with open(path, "rb") as file:
        return file.read(len(HDF5_MAGIC)) == HDF5_MAGIC


def _has_suffix_of_vectors(path: str) -> bool:
    from elmo_cli.options.output_format import format_of_suffix

    has_suffix = os.path.splitext(path)[1] != ""
    return has_suffix and format_of_suffix(path) is not None


def _message(error: click.UsageError) -> Message:
    ctx = error.ctx
    if ctx is None:
        return Message(error.message)
    if isinstance(error, click.NoSuchOption):
        typed = ctx.meta[TYPED_ARGUMENTS]
        name = error.option_name
        if not isinstance(ctx.command, click.Group):
            name = _typed_option(name, typed)
        return no_such_option_message(name, ctx.command, typed)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        first_name = _name_of(error.param, ctx).split(" ")[0].removesuffix("...")
        if first_name == "INPUT" and _is_piped():
            return Message(
                f"{first_name} is missing", remedy="Type - to read standard input."
            )
        return Message(f"{first_name} is missing", remedy=example_of(ctx.command))
    if isinstance(error, click.BadParameter) and error.param is not None:
        name = _name_of(error.param, ctx).removesuffix("...")
        if isinstance(error.param, click.Option) and error.param.is_flag:
            # Only the value of a variable can be wrong.
            value = error.param.value_from_envvar(ctx)
            problem = f"expected 1 or 0, found {value!r}"
            return Message(f"{name}: {problem}")
        return Message(f"{name}: {error.message}")
    if isinstance(error, click.BadOptionUsage):
        return _wrong_value_count_message(error.option_name, ctx)
    if isinstance(ctx.command, click.Group) and error.message == "Missing command.":
        remedy = "`elmo --help` lists the commands."
        return Message("COMMAND is missing", remedy=remedy)
    return Message(error.message)


def _typed_option(name: str, typed: Sequence[str]) -> str:
    """Return the name of an option as it was typed: `-layer`, of which click takes -l.

    A letter with a number, such as `-n5`, stays an option of one letter.
    """
    for argument in typed:
        word = argument.partition("=")[0]
        if not name.startswith("--") and word.startswith(name) and word[1:].isalpha():
            return word
    return name


def _extra_arguments_message(
    typed: Sequence[str], n_expected: int, takes: str | None, ctx: click.Context
) -> Message:
    """Return the message for the arguments after those that the command takes."""
    command = ctx.command
    start = f"elmo {command.name}"
    first = typed[n_expected]
    last = typed[-1]
    flag = _flag_before(first, ctx)
    if flag is not None:
        return Message(f"{flag}: takes no value", remedy=f"Remove {literal(first)}.")
    quoted = shlex.quote(last)
    if command.name == "models":
        return _name_after_models_message(last)
    split_list = _split_list_message(typed, len(typed) - n_expected, ctx)
    if split_list is not None:
        return split_list
    names = arguments_of(command)
    has_output = names[-1:] == ["OUTPUT"]
    if not has_output and _may_be_output(last):
        if _may_be_figure(last) and _has_option(command, "--plot"):
            return Message(
                f"{last}: unexpected", remedy=f"Use --plot {literal(quoted)}."
            )
        return Message(
            f"{last}: unexpected, because {start} writes to standard output",
            remedy=f"Use `> {literal(quoted)}`.",
        )
    takes = takes or " ".join(names).strip("[]") or "no arguments"
    problem = f"{excerpt(first)}: unexpected, because {start} takes {takes}"
    if not names or names[0] not in ("INPUT", "INPUT..."):
        return Message(problem, remedy=example_of(command))
    return _extra_inputs_message(typed, n_expected, problem, ctx)


def _extra_inputs_message(
    typed: Sequence[str], n_expected: int, problem: str, ctx: click.Context
) -> Message:
    """Return the message for more than one INPUT: files, texts or words of a text.

    Others have `problem`.
    """
    command = ctx.command
    start = f"elmo {command.name}"
    last = typed[-1]
    has_output = arguments_of(command)[-1:] == ["OUTPUT"]
    inputs = typed[:-1] if has_output else typed
    output = [last] if has_output else []
    piped = shlex.join(["elmo", str(command.name), "-", *output, *_options(typed, ctx)])
    are_files = all(map(_is_text_file, inputs))
    if not are_files and any(map(os.path.exists, inputs)):
        return Message(problem, remedy=example_of(command))
    if has_output:
        extra = inputs[n_expected - 1]
        problem = f"{excerpt(extra)}: unexpected, because {start} takes one INPUT"
    if are_files:
        command_line = f"cat {shlex.join(inputs)} | {piped}"
        remedy = f"To read several files, pipe them: `{literal(command_line)}`."
    elif any(" " in text for text in inputs):
        if not has_output:
            extra = excerpt(typed[n_expected])
            problem = f"{extra}: unexpected, because {start} takes one text"
        command_line = f"printf '%s\\n' {shlex.join(inputs)} | {piped}"
        remedy = f"For several texts, pipe one per line: `{literal(command_line)}`."
    elif has_output:
        text = shlex.quote(" ".join(inputs))
        command_line = f"echo {text} | {piped}"
        remedy = f"To pass a text itself, pipe it: `{literal(command_line)}`."
    else:
        quoted_text = [" ".join(inputs), *_options(typed, ctx)]
        command_line = shlex.join(["elmo", str(command.name), *quoted_text])
        remedy = f"Put the text in quotes: {literal(command_line)}"
    return Message(problem, remedy=remedy)


def _name_after_models_message(name: str) -> Message:
    """Return the message for an argument of `elmo models`, which takes none."""
    # `elmo --help` starts faster without the registry.
    from elmo_cli.pretrained.hub import HUB_PREFIX
    from elmo_cli.pretrained.registry import (
        language_code,
        language_name,
        published_model,
    )

    quoted = literal(shlex.quote(name))
    if published_model(name) or name.startswith(HUB_PREFIX) or os.path.exists(name):
        return Message(f"{name}: unexpected", remedy=f"Use `elmo info {quoted}`.")
    if language_name(language_code(name)) is not None:
        remedy = f"Use `elmo models --language {quoted}`."
        return Message(f"{name}: unexpected", remedy=remedy)
    named = name or "''"
    return Message(f"{named}: unexpected, because elmo models takes no arguments")


def _options(typed: Sequence[str], ctx: click.Context) -> list[str]:
    """Return what was typed apart from the arguments: the options, with values."""
    options = []
    rest = list(typed)
    is_value = False
    for word in ctx.meta[TYPED_ARGUMENTS]:
        if not is_value and rest and word == rest[0]:
            rest.pop(0)
            continue
        if word != "--":
            options.append(word)
        is_value = _takes_value(word, ctx)
    return options


def _takes_value(name: str, ctx: click.Context) -> bool:
    """Return whether the value of an option follows its name."""
    for option in ctx.command.params:
        if isinstance(option, click.Option) and name in option.opts:
            return not option.is_flag and not option.count
    return False


def _split_list_message(
    arguments: Sequence[str], n_extra: int, ctx: click.Context
) -> Message | None:
    """Return the message for a list that was typed with spaces, or None.

    `n_extra` arguments at most are parts of it.
    """
    words: list[str] = ctx.meta[TYPED_ARGUMENTS]
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        following = words[index + 1 :]
        if name not in _LISTS or not following:
            continue
        if not equals:
            value = following.pop(0)
        split = []
        for each in following[:n_extra]:
            if each not in arguments or not _continues_list(name, value, each):
                break
            split.append(each)
        if split:
            joined = shlex.quote(",".join([value, *split]))
            return Message(
                f"{split[0]}: unexpected", remedy=f"Use {name} {literal(joined)}."
            )
    return None


def _continues_list(name: str, value: str, word: str) -> bool:
    """Return whether a word after a list is hardly a file, but another part of it."""
    if name in ("--layers", "--mix"):
        return value[-1:].isdigit() and word.replace(".", "", 1).isdigit()
    if os.path.exists(word):
        return False
    return word.replace("_", "").replace("-", "").isalnum()


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


def _is_input(path: str) -> bool:
    """Return whether a file is in a format of inputs, by its first bytes."""
    from elmo_cli.records.formats import find_format
    from elmo_cli.text.sources import Source

    with suppress(InputError):
        find_format(Source(path))
        return True
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


def _wrong_value_count_message(name: str, ctx: click.Context) -> Message:
    """Return the message for an option without its value, or for a flag with one."""
    [option] = [each for each in ctx.command.params if name in each.opts]
    if isinstance(option, click.Option) and (option.is_flag or option.count):
        return Message(f"{name}: takes no value", remedy=f"Type {literal(name)} alone.")
    if name in MEANT_DEVICES:
        remedy = f"Use --device {MEANT_DEVICES[name]}."
    elif isinstance(option.type, click.Choice):
        remedy = f"Choose {listed(option.type.choices, 'or')}."
    else:
        remedy = f"See `elmo {ctx.command.name} --help`."
    return Message(f"{name}: no value", remedy=remedy)
