"""Errors for marks that other programs put in the place of hyphens and straight quotes.

A word processor or a web page turns two hyphens into one dash, and straight quotes into
curly ones. For the shell, these are letters.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Final

import click

from elmo_cli.errors.messages import Message, literal

_DASHES: Final = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_OPENING: Final = "\u201c\u201e\u2018\u201a\u00ab"
_CLOSING: Final = "\u201d\u201c\u2019\u2018\u00bb"
"""Closing quotes. German ones open in English."""
_OPTION: Final = re.compile(
    rf"(?:[{_DASHES}-]*[{_DASHES}]-*|-)(?P<name>[a-zA-Z][\w-]*)"
)
"""Name of an option after a dash that is no hyphen, or after one hyphen."""
_QUOTED: Final = re.compile(rf"[{_OPENING}](?P<text>\S+)[{_CLOSING}]")
_BEGIN_OF_QUOTE: Final = re.compile(rf"[{_OPENING}][^\s{_CLOSING}]+")
_END_OF_QUOTE: Final = re.compile(rf"[^\s{_OPENING}]+[{_CLOSING}]")


def check_marks(arguments: Sequence[str], ctx: click.Context) -> None:
    """Raise an error for an option with another dash, and for curly quotes."""
    message = _wrong_dash_message(arguments, ctx) or _wrong_quote_message(arguments)
    if message is not None:
        raise click.UsageError(message.as_options(), ctx)


def _wrong_dash_message(arguments: Sequence[str], ctx: click.Context) -> Message | None:
    """Return the message for the first option without hyphens, or with only one."""
    for argument in arguments:
        if argument == "--":
            break
        match = _OPTION.fullmatch(argument.partition("=")[0])
        if match is None:
            continue
        meant = _option_called(match["name"], ctx)
        if not meant or meant == match[0]:
            continue
        if argument.startswith("-"):
            return Message(f"{match[0]}: no such option", remedy=f"Use {meant}.")
        return Message(
            f"{match[0]}: this dash is not a hyphen", remedy=f"Type {meant}."
        )
    return None


def _option_called(name: str, ctx: click.Context) -> str:
    """Return the option of the command with a name without hyphens, or ""."""
    hyphens = "-" if len(name) == 1 else "--"
    option = f"{hyphens}{name}"
    for each in ctx.command.get_params(ctx):
        if isinstance(each, click.Option) and option in each.opts:
            return option
    return ""


def _wrong_quote_message(arguments: Sequence[str]) -> Message | None:
    """Return the message for a word in curly quotes, or for several arguments."""
    for index, argument in enumerate(arguments):
        value = argument
        if argument.startswith("-"):
            value = argument.partition("=")[2]
        match = _QUOTED.fullmatch(value)
        if match is not None:
            return Message(
                f"{value}: these quotes are not straight",
                remedy=f"Type {literal(shlex.quote(match['text']))}.",
            )
        if _BEGIN_OF_QUOTE.fullmatch(value) is None:
            continue
        for position in range(index + 1, len(arguments)):
            if " " in arguments[position]:
                break
            if _END_OF_QUOTE.fullmatch(arguments[position]) is not None:
                return Message(
                    f"{value}: this quote is not straight", remedy="Type \" or '."
                )
    return None
