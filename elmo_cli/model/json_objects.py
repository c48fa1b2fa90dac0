"""JSON objects in files, and checks of their values."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.errors.missing_files import (
    empty_file_error,
    is_empty_file,
    unreadable_file_error,
)
from elmo_cli.errors.wording import json_problem, shown
from elmo_cli.files.text_files import read_text

MAX_OPTIONS_BYTES: Final = 1_000_000  # Published models have less than 1 kB.


class ValueCheck(NamedTuple):
    """Check of one value."""

    expected: str
    """Description of valid values, for error messages."""
    accepts: Callable[[Any], bool]
    default: Any = None
    """Value in place of one that is missing or null."""


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a file with a JSON object. Raise a `ModelError` for any other file."""
    if is_empty_file(path):
        raise empty_file_error(path, ModelError)
    try:
        content = json.loads(read_text(path, MAX_OPTIONS_BYTES))
    except OSError as error:
        raise unreadable_file_error(
            path, "options", error=error, kind=ModelError
        ) from None
    # Bytes that are not UTF-8 raise a ValueError, too.
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path}: {json_problem(error)}", remedy="Correct it, or copy it again."
        ) from None
    if not isinstance(content, dict):
        found = shown_json(content)
        raise ModelError(f"{path}: expected a JSON object, found {found}")
    return content


class Section(NamedTuple):
    """Object inside another one, as it was read."""

    values: dict[str, Any]
    problems: list[str]
    """What is wrong with it: a message per invalid value."""


def read_section(
    content: Mapping[str, Any], name: str, checks: Mapping[str, ValueCheck]
) -> Section:
    """Read and check an object inside another one. Keys without a check are ignored."""
    section = content.get(name)
    if not isinstance(section, dict):
        problem = f"{name}: expected an object, found {shown_json(section)}"
        return Section({}, [problem])
    values = {}
    problems = []
    for key, check in checks.items():
        value = section.get(key)
        if value is None:
            value = check.default
        if not check.accepts(value):
            problems.append(
                f"{name}.{key}: expected {check.expected}, found {shown_json(value)}"
            )
        values[key] = value
    return Section(values, problems)


def shown_json(value: Any) -> str:
    """Return a value as JSON for a message, shortened if it is long."""
    if value is None:
        return "no value"
    return shown(json.dumps(value, ensure_ascii=False))


def is_number(value: Any) -> bool:
    """Return whether a value is a number. In Python, True and False are numbers too."""
    return type(value) in (int, float)


def is_whole(value: Any, least: int, most: int) -> bool:
    """Return whether a value is a whole number from `least` to `most`."""
    return type(value) is int and least <= value <= most


def whole(least: int, most: int, default: int | None = None) -> ValueCheck:
    """Return the check for a whole number from `least` to `most`."""
    return ValueCheck(
        expected=f"a whole number, {least} to {most:,}",
        accepts=lambda value: is_whole(value, least, most),
        default=default,
    )
