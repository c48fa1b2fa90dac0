"""Options as fields of dataclasses, with their types, defaults, choices and help.

The command line makes its options from these fields, `settings_from` fills them from
keyword arguments, and the documentation lists them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar, cast

from elmo_cli.errors.checks import check_choice, check_flag

_KEY: Final = "option"
"""Key in the metadata of a field."""
_Settings = TypeVar("_Settings")


@dataclass(frozen=True)
class OptionInfo:
    """What is known about an option beside its name, type and default."""

    help: str
    """Template of a `Message`, which Python and the command line spell differently."""
    default_text: str = ""
    """Words for a default that the value does not tell, such as `by the header`."""
    value: str = ""
    """Name of the value in a help: `I/N`."""
    choices: tuple[str, ...] = ()
    name: str = ""
    """Name on the command line where it is not the field's: `--format`."""


def option(
    default: object,
    help: str,
    *,
    default_text: str = "",
    value: str = "",
    choices: tuple[str, ...] = (),
    name: str = "",
) -> Any:
    """Return a field that is an option; see `OptionInfo` for the arguments."""
    info = OptionInfo(
        help=help, default_text=default_text, value=value, choices=choices, name=name
    )
    return field(default=default, metadata={_KEY: info})


def info_of(settings: Any, name: str) -> OptionInfo:
    """Return what the field of a dataclass says about its option."""
    for each in fields(settings):
        if each.name == name:
            info: OptionInfo = each.metadata[_KEY]
            return info
    raise KeyError(name)


def option_fields(settings: Any) -> list[str]:
    """Return the names of the fields that are options."""
    return [each.name for each in fields(settings) if _KEY in each.metadata]


def check_choices(settings: Any) -> None:
    """Raise a `SettingsError` for an option whose value is not one of its choices.

    The choices of a flag are True and False.
    """
    for each in fields(settings):
        value = getattr(settings, each.name)
        is_left_out = value is None and each.default is None
        if _KEY not in each.metadata or is_left_out:
            continue
        info: OptionInfo = each.metadata[_KEY]
        if isinstance(each.default, bool):
            check_flag(each.name, value)
        if info.choices:
            check_choice(each.name, value, info.choices)


def settings_from(kind: type[_Settings], values: Mapping[str, Any]) -> _Settings:
    """Make settings from the values that have the name of a field.

    Other values are not read. A field keeps its default where the value is missing or
    None.
    """
    own = {}
    for each in fields(cast(Any, kind)):
        if values.get(each.name) is not None:
            own[each.name] = values[each.name]
    return kind(**own)
