"""Classes of commands and options, with conditions, headings in the help, and variables."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from elmo_cli.cli.messages import (
    OFFERED,
    report_run,
    shown_message,
    verbosity_options,
)
from elmo_cli.errors.exceptions import SettingsError, option_names
from elmo_cli.files.output_checks import check_not_read
from elmo_cli.options.fields import settings_from
from elmo_cli.options.output import STANDARD_OUTPUT

Decorator = Callable[[Any], Any]

OUTPUT = "output"  # name of the option -o, which gives the last argument
OTHER_OPTIONS = "Other options"  # heading of -q, -v and --help; it comes last


class Option(click.Option):
    """Option with a heading, and with the options that it requires or excludes.

    A condition is the name of an option, or its name and a value: `--state carry`. Several
    are joined by ` or `.
    """

    heading = "Options"

    def __init__(
        self,
        declarations: Sequence[str],
        requires: str = "",
        excludes: str = "",
        aliases: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        super().__init__([*declarations, *aliases], **settings)
        self.requires, self.excludes, self.aliases = requires, excludes, aliases
        self.value_if_absent = settings.get("default")

    def is_typed(self, ctx: click.Context) -> bool:
        """Return whether the option is on the command line."""
        return ctx.get_parameter_source(str(self.name)) is ParameterSource.COMMANDLINE

    def is_variable(self, ctx: click.Context) -> bool:
        """Return whether the option is in the environment, and not on the command line."""
        return ctx.get_parameter_source(str(self.name)) is ParameterSource.ENVIRONMENT

    def is_set(self, ctx: click.Context) -> bool:
        """Return whether the option is on the command line or in the environment."""
        is_given = self.is_typed(ctx) or self.is_variable(ctx)
        return is_given and ctx.params.get(str(self.name)) is not False

    def check(self, ctx: click.Context) -> None:
        """Raise a `UsageError` if a required option is missing or an excluded one is set."""
        if not self.is_set(ctx):
            return
        if self.requires and not any(self._fulfilled(ctx, self.requires)):
            if self.is_typed(ctx):
                raise click.UsageError(f"{self.opts[0]} requires {self.requires}", ctx)
            ctx.params[str(self.name)] = self.value_if_absent
        for other in self._fulfilled(ctx, self.excludes) if self.excludes else ():
            raise click.UsageError(f"choose one of {self._shown(ctx)} and {other}", ctx)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value; see `click.Option`. An error describes the numbers in words."""
        try:
            return super().type_cast_value(ctx, value)
        except click.BadParameter:
            if not isinstance(kind := self.type, (click.IntRange, click.FloatRange)):
                raise
            text = f"expected a {'whole ' * isinstance(kind, click.IntRange)}number "
            text += f"{'above' if kind.min_open else 'of at least'} {kind.min}"
            if kind.max is not None:
                text += f" and {'below' if kind.max_open else 'of at most'} {kind.max}"
            raise click.BadParameter(f"{text}, found {value!r}", ctx, self) from None

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the name of the option, with its variable, for errors; see `click.Option`."""
        return super().get_error_hint(ctx) if ctx is None else f"'{self._shown(ctx)}'"

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the names and the help of the option, without its aliases and "at least 1"."""
        shown = copy(self)
        shown.opts = [name for name in self.opts if name not in self.aliases]
        record = click.Option.get_help_record(shown, ctx)
        return record and (record[0], re.sub(r"; x>=1(?=])|\s*\[x>=1]", "", record[1]))

    def _fulfilled(self, ctx: click.Context, conditions: str) -> Iterator[str]:
        """Yield the conditions that the command line fulfils, as messages show them."""
        for condition in conditions.split(" or "):
            name, _, value = condition.partition(" ")
            [option] = find_options(ctx, name)
            holds = (
                ctx.params[str(option.name)] == value if value else option.is_set(ctx)
            )
            if holds and (value or option is not self):
                yield f"{option._shown(ctx)} {value}".rstrip()

    def _shown(self, ctx: click.Context) -> str:
        """Return the name of the option, with the variable that it comes from."""
        variable = next(
            (each for each in self.envvar or () if os.environ.get(each)), ""
        )
        return f"{self.opts[0]} ({variable})" if self.is_variable(ctx) else self.opts[0]


def _check_output(ctx: click.Context) -> None:
    """Raise an `OutputError` if the file to write, called OUTPUT, is also one to read."""
    written, read = list[str](), list[str]()
    for parameter in ctx.command.params:
        if isinstance(parameter.type, click.Path):
            value = ctx.params.get(str(parameter.name)) or ()
            paths = [*value] if isinstance(value, tuple) else [str(value)]
            if paths and (parameter.metavar or "").endswith("OUTPUT"):
                written.append(paths.pop())
            read += paths
    for path in written:
        if path != STANDARD_OUTPUT:
            check_not_read(path, read)


def find_options(ctx: click.Context, *names: str) -> list[Option]:
    """Return the options of a command that have one of these names."""
    options = [option for option in ctx.command.params if isinstance(option, Option)]
    return [option for option in options if not set(names).isdisjoint(option.opts)]


def typed_options(*names: str) -> list[str]:
    """Return the names of those options that are on the command line."""
    ctx = click.get_current_context()
    return [
        option.opts[0] for option in find_options(ctx, *names) if option.is_typed(ctx)
    ]


class Command(click.Command):
    """Command that checks its options, and shows them by their headings.

    Each long name of an option has a variable: ELMO_EMBED_LAYERS for `elmo embed --layers`.
    """

    allow_extra_args = True  # `parse_args` explains them.

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        arguments = [each for each in self.params if isinstance(each, click.Argument)]
        for option in self.params:
            if isinstance(option, Option):
                names = [each[2:] for each in option.opts if each.startswith("--")]
                option.envvar = [
                    f"elmo_{name}_{each}".replace("-", "_").upper() for each in names
                ]
            elif option.name == OUTPUT:
                arguments[-1].required = False  # `_take_output` checks it.

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; see `click.Command.parse_args`."""
        try:
            rest = super().parse_args(ctx, args)
            if OUTPUT in ctx.params and not ctx.resilient_parsing:
                self._take_output(ctx, ctx.params.pop(OUTPUT))
        except click.NoSuchOption as error:
            if error.option_name not in ("-o", "--output"):
                raise
            remedy = (
                f"{self.name} writes to standard output. Add `> FILE` to write a file."
            )
            raise click.UsageError(f"{error.option_name}: {remedy}", ctx) from None
        except click.MissingParameter as error:
            problem = " ".join(error.format_message().split()).rstrip(".")
            raise click.UsageError(f"{problem}.{self._example()}", ctx) from None
        if rest and not ctx.resilient_parsing:
            takes = " ".join(self.collect_usage_pieces(ctx)[1:])
            remedy = " Put quotes around several words." if takes else ""
            if "INPUT" in takes:
                remedy = f" Pipe a text or several files: `cat FILE... | elmo {self.name} - ...`."
            taken = f"elmo {self.name} takes {takes or 'no arguments'}"
            problem = f"unexpected {' '.join(rest)}: {taken}"
            raise click.UsageError(f"{problem}.{remedy}{self._example()}", ctx)
        for option in [] if ctx.resilient_parsing else self.params:
            if isinstance(option, Option):
                option.check(ctx)
        _check_output(ctx)
        return rest

    def _take_output(self, ctx: click.Context, output: str | None) -> None:
        """Make the value of -o the last argument."""
        argument = [each for each in self.params if isinstance(each, click.Argument)][
            -1
        ]
        given = ctx.params[str(argument.name)]
        if argument.nargs != 1:
            given = (*given, *filter(None, [output]))
        elif given and output:
            raise click.UsageError(
                f"choose one of {argument.metavar} and --output", ctx
            )
        ctx.params[str(argument.name)] = given or output
        if not (given or output):
            raise click.MissingParameter(ctx=ctx, param=argument)

    def _example(self) -> str:
        """Return the first example of the help, after a space."""
        example = re.search(rf"\$ (elmo {self.name}.*)", self.help or "")
        return f" Example: {example[1]}" if example else ""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see `click.Command.invoke`. Wrong options end it with status 2."""
        try:
            offered = {name for each in self.params for name in each.opts}
            ctx.meta[OFFERED] = offered
            with option_names(offered=offered):
                return super().invoke(ctx)
        except SettingsError as error:
            raise click.UsageError(shown_message(error), ctx) from None

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the options, heading by heading in the order of their definition."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                groups.setdefault(getattr(option, "heading", OTHER_OPTIONS), []).append(
                    record
                )
        groups[OTHER_OPTIONS] = groups.pop(
            OTHER_OPTIONS
        )  # --help is always in this group.
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def command(name: str | None = None) -> Decorator:
    """Make a function a command, with -q and -v, which receives its options as dataclasses.

    An option with the name of a field of a dataclass among the annotations of the function becomes
    its value. The field keeps its default if the option is not set. For rows, --json is another
    spelling of --format jsonl.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        annotations = function.__annotations__.items()
        kinds: dict[str, Any] = {
            key: kind for key, kind in annotations if is_dataclass(kind)
        }
        taken = {field.name for kind in kinds.values() for field in fields(kind)}

        @wraps(function)
        def call(**values: object) -> Any:
            if "row_format" in values and values.pop("as_json", False):
                values["row_format"] = "jsonl"
            set_values = {
                key: value for key, value in values.items() if value is not None
            }
            settings = {
                key: settings_from(kind, set_values) for key, kind in kinds.items()
            }
            rest = {key: value for key, value in values.items() if key not in taken}
            with report_run():
                return function(**rest, **settings)

        return click.command(name, cls=Command)(verbosity_options(call))

    return make


def option_group(heading: str, *decorators: Decorator) -> Decorator:
    """Add options to a command, under a heading of its help. Each decorator adds options."""

    def add(function: Any) -> Any:
        # click collects parameters in this list.
        n_before = len(getattr(function, "__click_params__", []))
        for decorator in reversed(decorators):
            function = decorator(function)
        for parameter in function.__click_params__[n_before:]:
            parameter.heading = heading
        return function

    return add
