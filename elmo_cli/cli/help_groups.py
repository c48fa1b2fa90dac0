"""Help in groups: the options of a command under headings."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

OTHER_OPTIONS = "Other options"
"""The heading of the options in no group; it comes last."""


class GroupedCommand(click.Command):
    """A command whose help shows its options in the groups of `option_group`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group in the order of their definition."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups.setdefault(getattr(parameter, "group", OTHER_OPTIONS), []).append(record)
        other = groups.pop(OTHER_OPTIONS)  # with --help, which is always there
        for heading, records in [*groups.items(), (OTHER_OPTIONS, other)]:
            with formatter.section(heading):
                formatter.write_dl(records)


def option_group(
    heading: str, *options: Callable[[_Command], _Command]
) -> Callable[[_Command], _Command]:
    """Add options to a command, under a heading of its help.

    Args:
        heading: what the options are about.
        options: decorators that add one option or several, such as `click.option(...)`.
    """

    def add(command: _Command) -> _Command:
        n_before = len(_parameters(command))
        for option in reversed(options):
            command = option(command)
        for parameter in _parameters(command)[n_before:]:
            parameter.group = heading  # type: ignore[attr-defined]
        return command

    return add


def _parameters(command: Callable[..., Any]) -> list[click.Parameter]:
    """The parameters that decorators have given to the function of a command so far."""
    return getattr(command, "__click_params__", [])
