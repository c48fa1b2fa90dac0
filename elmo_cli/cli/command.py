"""Command of `elmo`: options by headings, their conditions, and advice in errors."""

import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

import click
from click.core import augment_usage_errors

from elmo_cli.cli.command_texts import say_tokenizer
from elmo_cli.cli.main import VARIABLES
from elmo_cli.cli.option_conditions import TYPED_ARGUMENTS, Option, variable_of
from elmo_cli.cli.parameter_types import OutputPath
from elmo_cli.cli.pasted_marks import check_marks
from elmo_cli.cli.stderr import (
    TYPED_COMMAND,
    report_run,
    shown_message,
    verbosity_options,
)
from elmo_cli.cli.usage_errors import check_order, extra_arguments_error
from elmo_cli.errors.exceptions import InputError, MissingFileError, SettingsError
from elmo_cli.errors.messages import TypedCommand
from elmo_cli.files.output_checks import check_not_read
from elmo_cli.options.output import STANDARD_OUTPUT

Decorator = Callable[[Any], Any]

_MAX_NAME: Final = 30
"""Maximum length of the name of an option on the line of its text."""
_WITHOUT_OPTIONS: Final = ("help", "completion")
"""Commands that do not warn about variables, because they have none."""
OTHER_OPTIONS: Final = "Other options"
"""Heading of -q, -v and --help, which comes last."""


class Command(click.Command):
    """Command that checks its options, and shows them by their headings.

    Each option has a variable: ELMO_EMBED_LAYERS for `elmo embed --layers`. click's
    `auto_envvar_prefix` would name it after the parameter: ELMO_EMBED_FILE_FORMAT.
    """

    allow_extra_args = True  # `extra_arguments_error` explains them.

    def __init__(
        self, name: str | None, *, other_usages: Sequence[str] = (), **arguments: Any
    ) -> None:
        super().__init__(name, **arguments)
        self.other_usages = other_usages
        for option in self.params:
            if isinstance(option, Option):
                option.envvar = variable_of(str(name), option)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the pieces of the usage: options, those that are required, arguments.

        For `elmo train`, they are `[OPTIONS]`, `--output FOLDER` and `INPUT...`.
        """
        options, *arguments = super().collect_usage_pieces(ctx)
        required = []
        for option in self.params:
            if isinstance(option, Option) and option.required:
                name = next(name for name in option.opts if name.startswith("--"))
                required.append(f"{name} {option.make_metavar(ctx)}")
        return [options, *required, *arguments]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, and below it the other ones."""
        super().format_usage(ctx, formatter)
        for usage in self.other_usages:
            formatter.write_usage(
                ctx.command_path, f"[OPTIONS] {usage}", prefix=" " * len("Usage: ")
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and check them together."""
        ctx.meta[TYPED_ARGUMENTS] = list(args)  # The parser empties `args`.
        if not ctx.resilient_parsing:  # TAB completes an unfinished command.
            check_marks(args, ctx)
        with augment_usage_errors(ctx):  # An option without its value lacks it.
            rest = super().parse_args(ctx, args)
        if ctx.resilient_parsing:
            return rest
        if rest:
            raise self._extra_arguments_error(ctx, rest)
        for option in self.params:
            if isinstance(option, Option):
                option.check(ctx)
        check_order(ctx)
        _check_output(ctx)
        return rest

    def _extra_arguments_error(
        self, ctx: click.Context, rest: list[str]
    ) -> click.UsageError:
        """Return the error for the arguments that the command does not take."""
        taken = []
        for parameter in self.params:
            if isinstance(parameter, click.Argument):
                taken.append(str(ctx.params[str(parameter.name)]))
        with ctx:
            return extra_arguments_error([*taken, *rest], n_expected=len(taken))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A wrong option ends it with status 2."""
        typed_names = {}
        variables = {}
        for option in self.params:
            for name in option.opts:
                typed_names[name] = name
                if isinstance(option, Option) and option.is_variable(ctx):
                    typed_names[name] = option.shown(ctx)
                    variables[name] = option.shown(ctx)
                elif isinstance(option, Option):
                    typed_names[name] = option.typed_name(ctx, default=name)
        ctx.meta[TYPED_COMMAND] = TypedCommand(
            typed_names,
            words=["elmo", str(self.name), *ctx.meta[TYPED_ARGUMENTS]],
            variables=variables,
        )
        try:
            return super().invoke(ctx)
        except SettingsError as error:
            raise click.UsageError(shown_message(error), ctx) from None
        except InputError as error:
            if not isinstance(error, MissingFileError):
                say_tokenizer()  # It may explain the error.
            raise

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the options, heading by heading in the order of their definition."""
        for heading, options in options_by_heading(self, ctx).items():
            rows = []
            for option in options:
                row = option.get_help_record(ctx)
                if row is not None:
                    rows.append(row)
            # A longer name has a line of its own, so that texts get the width.
            lengths = [len(name) for name, _ in rows if len(name) <= _MAX_NAME]
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=max(lengths, default=_MAX_NAME))


def options_by_heading(
    command: click.Command, ctx: click.Context
) -> dict[str, list[click.Option]]:
    """Return the options that the help shows, by their headings in its order."""
    groups: dict[str, list[click.Option]] = {}
    others = []
    for option in command.get_params(ctx):
        if not isinstance(option, click.Option) or option.hidden:
            continue
        if isinstance(option, Option):
            groups.setdefault(option.heading, []).append(option)
        else:
            others.append(option)
    groups[OTHER_OPTIONS] = others
    return groups


def _check_output(ctx: click.Context) -> None:
    """Raise an `OutputError` if a file to write is also one to read."""
    written: list[str] = []
    read: list[str] = []
    for parameter in ctx.command.params:
        value = ctx.params.get(str(parameter.name))
        if not isinstance(parameter.type, click.Path) or not value:
            continue
        paths = list(value) if isinstance(value, tuple) else [str(value)]
        if isinstance(parameter.type, OutputPath):
            written.append(paths.pop())
        read += paths
    for path in written:
        if path not in ("", STANDARD_OUTPUT):
            check_not_read(path, read)


def command(name: str | None = None, *other_usages: str) -> Decorator:
    """Make a function a command with -q and -v, which receives its options by name.

    `other_usages` can be typed instead of the arguments: `--pairs TABLE`.
    For commands that print rows, --json is another spelling of --format jsonl.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        @wraps(function)
        def call(**values: object) -> Any:
            if "row_format" in values and values.pop("as_json"):
                values["row_format"] = "jsonl"
            ctx = click.get_current_context()
            with report_run(_used_variables(ctx)):
                others = _other_variables(ctx)
                if others:
                    # Most runs have none.
                    from elmo_cli.cli.wrong_variables import warn_of_variables

                    warn_of_variables(others, ctx.command)
                return function(**values)

        make_command = click.command(name, cls=Command, other_usages=other_usages)
        return make_command(verbosity_options(call))

    return make


def _used_variables(ctx: click.Context) -> list[str]:
    """Return the variables that the running command uses."""
    names = [name for name in VARIABLES if os.environ.get(name)]
    for option in ctx.command.params:
        if isinstance(option, Option) and option.is_variable(ctx):
            names.append(str(option.envvar))
    return sorted(names)


def _other_variables(ctx: click.Context) -> list[str]:
    """Return the variables ELMO_... that are none of the running command."""
    if ctx.command.name in _WITHOUT_OPTIONS:
        return []
    known = {str(option.envvar) for option in ctx.command.params}
    known.update(VARIABLES)
    return [
        name
        for name in sorted(os.environ)
        if name.startswith("ELMO_") and os.environ[name] and name not in known
    ]


def option_group(heading: str, *decorators: Decorator) -> Decorator:
    """Add options to a command, under a heading of its help."""

    def add(function: Any) -> Any:
        # click collects parameters in this list.
        n_before = len(getattr(function, "__click_params__", []))
        for decorator in reversed(decorators):
            function = decorator(function)
        for parameter in function.__click_params__[n_before:]:
            parameter.heading = heading
        return function

    return add
