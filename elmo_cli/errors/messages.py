"""Messages that name options, which Python and the command line spell differently."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\{(?P<option>--[a-z-]+)?(?P<rest>[^{}]*)\}")
"""Option in a template, perhaps with a value after a space, or the name of a value."""
_TRUE: Final = "True"
"""Value of a flag, which is not typed on the command line."""
_EMPTY: Final = '""'
"""Empty value, as it is typed."""
_ARGUMENTS: Final = {"--format": "file_format", "--sample": "n_samples"}
"""Arguments of Python that are not called like their option."""


class Message:
    """A problem, and perhaps its remedy, that may name options.

        Message(
            "{name}: the cell {cell} is in quotes",
            remedy="If quotes are text, use {--quotes none}.",
            name=source.name,
            cell=cell,
        )

    `str` of a message spells options as arguments of Python: `quotes='none'`. The
    command line calls `as_options`. Only the author of a message writes braces: they
    hold an option, or the name of a value, which is inserted as it is. A value may be a
    message or an error itself. The value of a flag is True: `{--overwrite True}` is
    `overwrite=True` or `--overwrite`.

    `shell_remedy` replaces `remedy` on the command line, for a remedy that is typed in
    a shell, such as a pipe or another command. Of several remedies, the first one whose options the
    running command has is shown.
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
        self._problem = problem
        self._remedy = remedy
        self._shell_remedy = shell_remedy
        self._values = values

    def __str__(self) -> str:
        return self._spell(_argument, self._remedy, offered=None)

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"

    def as_options(self, offered: Mapping[str, str] | None = None) -> str:
        """Return the message with options as they are typed: `--quotes none`.

        `offered` has the options of the running command; None are all. A remedy with
        another option is left out. Its values are the names that the user typed, such
        as `--cuda` for `--device`. The problem shows them, and the remedy does not.
        """
        return self._spell(_option, self._shell_remedy or self._remedy, offered)

    def _spell(
        self,
        spell: Callable[[str, str], str],
        remedy: str | Sequence[str] | None,
        offered: Mapping[str, str] | None,
    ) -> str:
        problem = self._fill(self._problem, spell, offered, offered or {})
        if remedy is None:
            return problem
        for each in [remedy] if isinstance(remedy, str) else remedy:
            if _is_offered(each, offered):
                end = "" if problem.endswith((".", "?", "!")) else "."
                return f"{problem}{end} {self._fill(each, spell, offered, {})}"
        return problem

    def _fill(
        self,
        template: str,
        spell: Callable[[str, str], str],
        offered: Mapping[str, str] | None,
        typed_names: Mapping[str, str],
    ) -> str:
        """Replace the options and the names of values in a template."""

        def replace(match: re.Match[str]) -> str:
            option = match["option"]
            if option is not None:
                return spell(typed_names.get(option, option), match["rest"].strip())
            value = self._values[match["rest"]]
            if spell is _option:
                return spelled_as_options(value, offered)
            return str(value)

        return _PLACEHOLDER.sub(replace, template)


def option_of(argument: str) -> Message:
    """Return the option of an argument of Python: `--batch-size` of `batch_size`."""
    for option, name in _ARGUMENTS.items():
        if name == argument:
            return Message(f"{{{option}}}")
    return Message(f"{{--{argument.replace('_', '-')}}}")


def _is_offered(remedy: str, offered: Mapping[str, str] | None) -> bool:
    """Return whether a command has all options of a remedy."""
    if offered is None:
        return True
    options = [match["option"] for match in _PLACEHOLDER.finditer(remedy)]
    return all(option is None or option in offered for option in options)


def joined(parts: Iterable[object], separator: str = ", ") -> Message:
    """Return messages, errors or other values as one message."""
    values = {f"part{index}": part for index, part in enumerate(parts)}
    template = separator.join(f"{{{name}}}" for name in values)
    return Message(template, remedy=None, shell_remedy=None, **values)


def spelled_as_options(value: object, offered: Mapping[str, str] | None = None) -> str:
    """Return a message, an error or another value as the command line shows it."""
    if isinstance(value, BaseException) and len(value.args) == 1:
        value = value.args[0] if isinstance(value.args[0], Message) else value
    return value.as_options(offered) if isinstance(value, Message) else str(value)


def _option(name: str, value: str) -> str:
    """Return an option as it is typed: `--quotes none`, or `--overwrite` for True."""
    return f"{name} {value}" if value not in ("", _TRUE) else name


def _argument(option: str, value: str) -> str:
    """Return an option as an argument: `quotes='none'`, or `overwrite=True`."""
    name = _ARGUMENTS.get(option, option[2:].replace("-", "_"))
    if not value:
        return name
    if value == _TRUE:
        return f"{name}=True"
    if value == _EMPTY:
        return f"{name}=''"
    return f"{name}={value!r}"
