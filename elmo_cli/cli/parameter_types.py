"""Types of the values that a user types: paths, numbers, names and formats."""

import math
from collections.abc import Sequence
from typing import Any, Final

import click

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.wording import expected_one_of
from elmo_cli.options.column_names import parse_column_names

_TOO_LARGE: Final = 2**63


class NamedPath(click.Path):
    """File, folder or `-`, completed by TAB.

    An empty name is an error. Other errors are reported where the file is read. An
    argument that stands for several, such as `WORD FILE...`, is checked by its command.
    """

    def __init__(self, remedy: str = "Give the name of a file.") -> None:
        """Take a path. `remedy` is that of an empty name."""
        super().__init__(readable=False, allow_dash=True, path_type=str)
        self._remedy = remedy

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path as it was typed."""
        is_several = isinstance(param, click.Argument) and " " in str(param.metavar)
        if value == "" and not is_several:
            self.fail(f"empty. {self._remedy}", param, ctx)
        return super().convert(value, param, ctx)


class OutputPath(NamedPath):
    """File to write or `-`; the last of several values, after files to read."""


PATH: Final = NamedPath()
TEXT_OR_PATH: Final = NamedPath(
    "Give a text that contains a space, the name of a file, or - for standard input."
)
OUTPUT_PATH: Final = OutputPath()


class WholeNumber(click.IntRange):
    """Whole number in a range. The help says its bounds unless it begins with 1."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number; an error describes the range in words."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"expected a whole number {_after_number(self)}, found {value!r}",
                param,
                ctx,
            )
        # torch and NumPy count with 64 bits.
        if number >= _TOO_LARGE:
            self.fail(f"expected a number below 2^63, found {value!r}", param, ctx)
        return number

    @property
    def bounds(self) -> str:
        """Bounds in words, for the help."""
        if self.min == 1 and self.max is None:
            return ""
        return _bounds_in_words(self)

    def _describe_range(self) -> str:
        return ""  # The help has `bounds` in its place.


class Number(click.FloatRange):
    """Finite number in a range."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number; an error describes the range in words."""
        bounds = _after_number(self)
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"expected a number {bounds}, found {value!r}", param, ctx)
        # click lets nan pass, which is neither in the range nor outside it.
        if not math.isfinite(number):
            self.fail(f"expected a finite number {bounds}, found {value!r}", param, ctx)
        return number

    @property
    def bounds(self) -> str:
        """Bounds in words, for the help."""
        return _bounds_in_words(self)

    def _describe_range(self) -> str:
        return ""  # The help has `bounds` in its place.


POSITIVE: Final = Number(min=0, min_open=True)


def _bounds_in_words(numbers: click.IntRange | click.FloatRange) -> str:
    if numbers.min_open:
        return f"above {numbers.min}"
    if numbers.max is None:
        return f"at least {numbers.min}"
    if numbers.max_open:
        return f"from {numbers.min} to below {numbers.max}"
    return f"from {numbers.min} to {numbers.max}"


def _after_number(numbers: click.IntRange | click.FloatRange) -> str:
    """Return the bounds as they follow `expected a number`."""
    bounds = _bounds_in_words(numbers)
    return f"of {bounds}" if bounds.startswith("at least") else bounds


class NameChoice(click.Choice):  # type: ignore[type-arg]  # not generic before 8.2
    """One of several names.

    The names in `refused` are returned too, for commands that say why they refuse them.
    """

    def __init__(self, choices: Sequence[str], refused: Sequence[str] = ()) -> None:
        super().__init__(choices)
        self.refused = refused

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the name; an error asks whether a similar one was meant."""
        if value not in self.choices and value not in self.refused:
            self.fail(expected_one_of(self.choices, value), param, ctx)
        return str(value)


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
