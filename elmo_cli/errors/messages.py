"""Messages that name options, which Python and the command line spell differently."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_BRACE: Final = "{{}"
"""Brace of `literal` in a template."""
_PLACEHOLDER: Final = re.compile(r"\{\{\}|\{(?P<option>--[a-z-]+)?(?P<rest>[^{}]*)\}")
"""Option in a template, perhaps with a value after a space, or the name of a value; or
a `_BRACE`."""
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_TRUE: Final = "True"
"""Value of a flag, which is not typed on the command line."""
_EMPTY: Final = '""'
"""Empty value, as it is typed."""
ARGUMENT_OF_OPTION: Final = {
    "--format": "file_format",
}
"""Arguments of Python that are not called like their option."""


class Template(str):
    """Problem without values that names options: `{--gamma} requires {--mix}`."""


@dataclass(frozen=True)
class TypedCommand:
    """Running command, as the user typed it."""

    names: Mapping[str, str]
    """Its options, and the name that was typed for each: `--cuda` for `--device`."""
    words: Sequence[str] = ()
    """`elmo`, the name of the command and its arguments."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Its options that the environment sets, with their variables:
    `--layers (ELMO_EMBED_LAYERS)` for `--layers`."""

    def with_own_names(self) -> "TypedCommand":
        """Return the command with each option by its own name, not the typed one.

        An option that the environment sets keeps its variable.
        """
        names = {name: self.variables.get(name, name) for name in self.names}
        return TypedCommand(names, self.words)


class Message:
    """A problem, and perhaps its remedy, that may name options.

        Message(
            f"{name}: the cell {cell!r} is in quotes",
            remedy="If quotes are text, use {--quotes none}.",
        )

    `str` of a message is `THING: problem. Remedy.` with arguments of Python:
    `quotes='none'`. The command line calls `as_options`. The problem has no full stop
    at its end.

    An option stands in braces. The value of a flag is True: `{--overwrite True}` is
    `overwrite=True` in Python and `--overwrite` on the command line. Braces may also
    hold the name of a value:

        Message("{option}: requires a table", option=option_named("--quotes"))

    A problem without values is shown as it is, with any braces of the user, unless it
    is a `Template`. A remedy is always a template, so what a user has written is a
    value in it, or stands in `literal`:

        Message(Template("{--gamma} requires {--mix}"))
        Message(f"{path}: a file", remedy=f"Remove {literal(path)}.")

    `shell_remedy` replaces `remedy` on the command line, for a remedy that is typed in
    a shell, such as a pipe or another command. Of several remedies, the first one whose
    options the running command has is shown.
    """

    def __init__(
        self,
        problem: str,
        /,
        *,
        remedy: str | Sequence[str] | None = None,
        shell_remedy: str | None = None,
        **values: object,
    ) -> None:
        if not values and not isinstance(problem, Template):
            values = {"problem": problem}
            problem = "{problem}"
        self._problem = problem
        self._remedy = remedy
        self._shell_remedy = shell_remedy
        self._values = values

    def __str__(self) -> str:
        return self._spell(_as_argument, self._remedy, command=None)

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"

    def as_options(self, command: TypedCommand | None = None) -> str:
        """Return the message with options as they are typed: `--quotes none`.

        A remedy with an option that the running command lacks is left out. The problem
        shows the names of options that the user typed, and the remedy their own names.
        None: every option is shown by its own name.
        """
        remedy = self._shell_remedy or self._remedy
        return self._spell(_as_option, remedy, command)

    def _spell(
        self,
        spell: Callable[[str, str], str],
        remedy: str | Sequence[str] | None,
        command: TypedCommand | None,
    ) -> str:
        problem = self._fill(self._problem, spell, command)
        if not remedy:
            return problem
        # A remedy names options as the help does.
        as_in_help = None if command is None else command.with_own_names()
        for each in [remedy] if isinstance(remedy, str) else remedy:
            if command is None or self._options_in(each) <= command.names.keys():
                end = "" if problem.endswith((".", "?", "!")) else "."
                return f"{problem}{end} {self._fill(each, spell, as_in_help)}"
        return problem

    def _fill(
        self,
        template: str,
        spell: Callable[[str, str], str],
        command: TypedCommand | None,
    ) -> str:
        """Replace the options and the names of values in a template.

        Other braces stay.
        """

        def replace(match: re.Match[str]) -> str:
            if match[0] == _BRACE:
                return "{"
            name = match["option"]
            if name is not None:
                typed = name if command is None else command.names.get(name, name)
                return spell(typed, match["rest"].strip())
            if match["rest"] not in self._values:
                return match[0]
            value = self._values[match["rest"]]
            if spell is _as_option:
                return spelled_as_options(value, command)
            return str(value)

        return _PLACEHOLDER.sub(replace, template)

    def _options_in(self, template: str) -> set[str]:
        """Return the options in a template, and those that are values in it."""
        options: set[str] = set()
        for match in _PLACEHOLDER.finditer(template):
            if match["option"] is not None:
                options.add(match["option"])
                continue
            value = self._values.get(match["rest"])
            if isinstance(value, Message):
                options |= value._options_in(value._problem)
        return options


@dataclass(frozen=True)
class PipedCommand:
    """Value of a message: the running command, which reads a pipe in place of a file.

    Python shows `elmo ... -`.
    """

    path: str
    """File, as it was typed."""

    def __str__(self) -> str:
        return "elmo ... -"

    def as_options(self, command: TypedCommand | None = None) -> str:
        """Return the command as it is typed, with `-` in place of the file."""
        if command is None or self.path not in command.words:
            return str(self)
        piped = ["-" if word == self.path else word for word in command.words]
        return shlex.join(piped)


def literal(text: object) -> str:
    """Return text for an f-string that is a template, which shows its braces."""
    return str(text).replace("{", _BRACE)


def option_named(name: str) -> Message:
    """Return an option as a value of a message: `--quotes`, or `--quotes none`."""
    return Message(Template(f"{{{name}}}"))


def option_of(argument: str) -> Message:
    """Return the option of an argument of Python: `--batch-size` of `batch_size`."""
    for option, name in ARGUMENT_OF_OPTION.items():
        if name == argument:
            return option_named(option)
    return option_named("--" + argument.replace("_", "-"))


def joined(parts: Iterable[object], separator: str = ", ") -> Message:
    """Return messages, errors or other values as one message."""
    values = {f"part{index}": part for index, part in enumerate(parts)}
    template = separator.join(f"{{{name}}}" for name in values)
    return Message(template, remedy=None, shell_remedy=None, **values)


def problem_of(error: Exception) -> object:
    """Return the message of an error without its remedy, as a value of a message."""
    message: Message = error.args[0]
    return Message(message._problem, remedy=None, shell_remedy=None, **message._values)


def spelled_as_options(value: object, command: TypedCommand | None = None) -> str:
    """Return a message, an error or another value as the command line shows it."""
    if isinstance(value, BaseException) and len(value.args) == 1:
        value = value.args[0] if isinstance(value.args[0], Message) else value
    if isinstance(value, (Message, PipedCommand)):
        return value.as_options(command)
    return str(value)


def _as_option(name: str, value: str) -> str:
    """Return an option as it is typed: `--quotes none`, or `--overwrite` for True."""
    return f"{name} {value}" if value not in ("", _TRUE) else name


def _as_argument(name: str, value: str) -> str:
    """Return an option as an argument: `quotes='none'`, `batch_size=1`."""
    argument = ARGUMENT_OF_OPTION.get(name, name[2:].replace("-", "_"))
    if not value:
        return argument
    if value == _TRUE or _NUMBER.fullmatch(value):
        return f"{argument}={value}"
    if value == _EMPTY:
        return f"{argument}=''"
    return f"{argument}={value!r}"
