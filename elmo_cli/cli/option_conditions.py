"""Option of a command: its heading in the help, its variable, and what it requires."""

from collections.abc import Sequence
from copy import copy
from typing import Any, TypeGuard

import click
from click.core import ParameterSource

from elmo_cli.errors.messages import Message

TYPED_ARGUMENTS = "elmo_cli.arguments"
"""Key in `Context.meta` of the arguments of a command, as they were typed."""
Condition = str | tuple[str, str]
"""Option that is set, such as `--mix`, or that has a value: `("--state", "carry")`.

A name without a hyphen, such as `INPUT`, is that of an argument that is given.
"""


class Option(click.Option):
    """Option with a heading, and with the options that it requires or excludes.

    One of `requires` is enough, and none of `excludes` may be set. The names in
    `aliases` work like the others, but the help does not show them. `default_text`
    describes a default that the value does not tell, such as `the model's`.
    """

    heading = "Options"

    def __init__(
        self,
        declarations: Sequence[str],
        requires: Sequence[Condition] = (),
        excludes: Sequence[Condition] = (),
        aliases: Sequence[str] = (),
        default_text: str = "",
        **arguments: Any,
    ) -> None:
        super().__init__([*declarations, *aliases], **arguments)
        self.requires = requires
        self.excludes = excludes
        self.aliases = aliases
        self.default_text = default_text

    def check(self, ctx: click.Context) -> None:
        """Raise a `UsageError` if a required option is missing or one is excluded."""
        if not self.is_set(ctx):
            return
        fulfilled = [each for each in self.requires if self._holds(each, ctx)]
        if self.requires and not fulfilled:
            required = " or ".join(map(_condition_text, self.requires))
            name = self.shown(ctx)
            added = "it" if len(self.requires) == 1 else "one"
            message = Message(
                f"{name}: requires {required}", remedy=f"Add {added}, or remove {name}."
            )
            raise click.UsageError(message.as_options(), ctx)
        for condition in self.excludes:
            if self._holds(condition, ctx):
                other = _shown_condition(condition, ctx)
                message = Message(
                    f"{self.shown(ctx)}: cannot be combined with {other}",
                    remedy="Remove one of them.",
                )
                raise click.UsageError(message.as_options(), ctx)

    def is_on_command_line(self, ctx: click.Context) -> bool:
        """Return whether the option is on the command line."""
        return ctx.get_parameter_source(str(self.name)) is ParameterSource.COMMANDLINE

    def is_variable(self, ctx: click.Context) -> bool:
        """Return whether the value of the option comes from a variable."""
        return ctx.get_parameter_source(str(self.name)) is ParameterSource.ENVIRONMENT

    def is_set(self, ctx: click.Context) -> bool:
        """Return whether the option is on the command line or in the environment."""
        if ctx.params.get(str(self.name)) is False:
            return False
        return self.is_on_command_line(ctx) or self.is_variable(ctx)

    def shown(self, ctx: click.Context) -> str:
        """Return the typed name of the option, or its name with its variable."""
        if self.is_variable(ctx):
            return f"{self.opts[0]} ({self.envvar})"
        return self.typed_name(ctx, default=self.opts[0])

    def typed_name(self, ctx: click.Context, *, default: str) -> str:
        """Return the last of the option's names on the command line, if one is there.

        `--cuda` is another name of `--device`, for example.
        """
        if not self.is_on_command_line(ctx):
            return default
        for argument in reversed(ctx.meta[TYPED_ARGUMENTS]):
            name = argument.partition("=")[0]
            if not argument.startswith("--"):
                name = argument[:2]  # -mtiny
            if name in self.opts:
                return str(name)
        return default

    def _holds(self, condition: Condition, ctx: click.Context) -> bool:
        """Return whether a condition holds. An option does not exclude itself."""
        if _is_argument(condition):
            return _has_argument(ctx, condition)
        if isinstance(condition, str):
            option = find_option(ctx, condition)
            return option is not self and option.is_set(ctx)
        name, value = condition
        option = find_option(ctx, name)
        return bool(ctx.params[str(option.name)] == value)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the name of the option for errors, with its variable."""
        if ctx is None:
            return super().get_error_hint(ctx)
        return f"'{self.shown(ctx)}'"

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the names and the help of the option, without its aliases.

        The help ends with the bounds and the default: `[at least 2; default: 3]`.
        """
        shown = copy(self)
        shown.opts = [name for name in self.opts if name not in self.aliases]
        shown.show_default = False
        shown.required = False
        record = click.Option.get_help_record(shown, ctx)
        if record is None:
            return None
        names, text = record
        return names, self._with_notes(text, ctx)

    def _with_notes(self, text: str, ctx: click.Context) -> str:
        """Return a help with the bounds and the default of the option at its end."""
        default = self.default_text
        if not default and self.show_default and not self.is_flag:
            value = self.get_default(ctx, call=False)
            if isinstance(value, (str, int, float)):
                default = str(value)
        notes = [getattr(self.type, "bounds", "")]
        if default:
            notes.append(f"default: {default}")
        if self.required:
            notes.append("required")
        shown = "; ".join(note for note in notes if note)
        return f"{text} [{shown}]".lstrip() if shown else text


def _condition_text(condition: Condition) -> str:
    """Return a condition as it is typed: `--state carry`."""
    return condition if isinstance(condition, str) else " ".join(condition)


def _is_argument(condition: Condition) -> TypeGuard[str]:
    return isinstance(condition, str) and not condition.startswith("-")


def _has_argument(ctx: click.Context, name: str) -> bool:
    """Return whether an argument such as `INPUT` is given."""
    for parameter in ctx.command.params:
        if isinstance(parameter, click.Argument) and parameter.metavar == name:
            return bool(ctx.params[str(parameter.name)])
    raise KeyError(name)


def _shown_condition(condition: Condition, ctx: click.Context) -> str:
    if _is_argument(condition):
        return condition
    if isinstance(condition, str):
        return find_option(ctx, condition).shown(ctx)
    name, value = condition
    return f"{find_option(ctx, name).shown(ctx)} {value}"


def find_option(ctx: click.Context, name: str) -> Option:
    """Return the option of a command with a name, such as `--layers`."""
    for option in ctx.command.params:
        if isinstance(option, Option) and name in option.opts:
            return option
    raise KeyError(name)


def options_on_command_line(*names: str) -> list[str]:
    """Return those of the names whose options are on the command line."""
    ctx = click.get_current_context()
    return [name for name in names if find_option(ctx, name).is_on_command_line(ctx)]


def variable_of(command: str, option: Option) -> str:
    """Return the variable of an option: ELMO_EMBED_LAYERS for `elmo embed --layers`."""
    name = next(name for name in option.opts if name.startswith("--"))
    return start_of_variables(command) + in_variable(name[2:])


def start_of_variables(command: str) -> str:
    """Return what the variables of a command begin with: ELMO_WORD_VECTORS_."""
    return f"ELMO_{in_variable(command)}_"


def in_variable(name: str) -> str:
    """Return the name of a command or an option as it is in a variable: MIN_COUNT."""
    return name.replace("-", "_").upper()
