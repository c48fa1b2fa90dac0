"""Types of the values that a user types: paths, numbers, names and formats."""

from typing import Any, Final

import click

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.options.column_names import parse_column_names

PATH: Final = click.Path(readable=False, allow_dash=True, path_type=str)
"""File, folder or `-`, completed by TAB. Its errors are reported where it is read."""


class WholeNumber(click.IntRange):
    """Whole number in a range. The help shows the range unless it begins with 1."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number; an error describes the range in words."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"expected a whole number {_range_in_words(self)}, found {value!r}",
                param,
                ctx,
            )

    def _describe_range(self) -> str:
        if self.min == 1 and self.max is None:
            return ""
        return super()._describe_range()


class Number(click.FloatRange):
    """Number in a range."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number; an error describes the range in words."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"expected a number {_range_in_words(self)}, found {value!r}",
                param,
                ctx,
            )


POSITIVE: Final = Number(min=0, min_open=True)


def _range_in_words(numbers: click.IntRange | click.FloatRange) -> str:
    lower = f"above {numbers.min}" if numbers.min_open else f"of at least {numbers.min}"
    if numbers.max is None:
        return lower
    if numbers.max_open:
        return f"{lower} and below {numbers.max}"
    return f"{lower} and of at most {numbers.max}"


class FormatChoice(click.Choice):  # type: ignore[type-arg]  # not generic before 8.2
    """Name of a format for rows or vectors. `json` is the old name of `jsonl`."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the name of the format."""
        if value == "json" and "jsonl" in self.choices:
            value = "jsonl"
        return str(super().convert(value, param, ctx))


def names_with_commas(text: str) -> tuple[str, ...]:
    """Split names at commas; quotes may enclose a name with a comma, as in CSV."""
    try:
        return parse_column_names(text)
    except SettingsError as error:
        raise click.BadParameter(str(error)) from None


def numbers_with_commas(text: str) -> tuple[float, ...]:
    """Split numbers at commas."""
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise click.BadParameter(
            f"expected numbers separated by commas, found {text!r}"
        ) from None


def one_character(text: str) -> str:
    r"""Return a delimiter: one character, which `tab` and `\t` may name."""
    delimiter = "\t" if text in ("tab", r"\t") else text
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise click.BadParameter(f"expected one character, or tab, found {text!r}")
    return delimiter
