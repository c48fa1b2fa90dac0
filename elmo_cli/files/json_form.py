"""JSON files of this project, parsed into dataclasses and named tuples.

The annotations of their fields are the form of the file: str, int, float, bool,
`list[X]`, `dict[str, X]`, `X | None`, and other dataclasses and named tuples. Unknown
names in a file are ignored, so that later versions can add names.
"""

import inspect
import json
import sys
from collections.abc import Callable
from functools import lru_cache
from types import UnionType
from typing import Any, Final, TypeVar, cast, get_args, get_origin

from elmo_cli.errors.exceptions import InputError

_Form = TypeVar("_Form")
_Build = Callable[[Any], Any]
"""Function that checks a value of JSON, and returns what it stands for."""

_EXPECTED: Final = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
"""Word for a value of each simple form."""
_LARGEST_INT: Final = 2**63 - 1


class _FormError(ValueError):
    """Value that does not have its form. The message says where and why."""


def json_text(value: object, indent: int | None = None) -> str:
    """Return a value as JSON, in one line by default.

    NaN and infinity become null. Dates and other values of Parquet become texts.
    """
    text = json.dumps(value, ensure_ascii=False, default=str, indent=indent)
    if "NaN" in text or "Infinity" in text:
        with_null = json.loads(text, parse_constant=lambda _: None)
        return json.dumps(with_null, ensure_ascii=False, indent=indent)
    return text


def parse_json(
    content: bytes | str, form: type[_Form], name: str, remedy: str | None = None
) -> _Form:
    """Parse a file of JSON and check its form. An error begins with `name`."""
    try:
        return cast(_Form, _builder(cast(Any, form))(json.loads(content)))
    # Deeply nested JSON raises RecursionError.
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, _FormError) else "it is empty or cut"
        raise InputError(
            f"{name}: the file is damaged: {reason}", remedy=remedy
        ) from None


def _form_error(value: Any, expected: str) -> _FormError:
    return _FormError(f"expected {expected}, found {json.dumps(value)[:60]}")


@lru_cache(maxsize=64)
def _builder(form: Any) -> _Build:
    """Return the function that checks a value of JSON and builds the form from it."""
    if form in (int, float):
        return _number_builder(form)
    if form in _EXPECTED:
        return _simple_builder(form)
    origin = get_origin(form)
    arguments = get_args(form)
    if origin is list:
        return _list_builder(_builder(arguments[0]))
    if origin is dict:
        return _dict_builder(_builder(arguments[1]))
    if origin is UnionType:
        return _optional_builder(_builder(arguments[0]))
    return _object_builder(form)


def _simple_builder(form: Any) -> _Build:
    expected = _EXPECTED[form]

    def build(value: Any) -> Any:
        # In Python, True is an int too, so the type has to be the same.
        if type(value) is not form:
            raise _form_error(value, expected)
        return value

    return build


def _number_builder(form: Any) -> _Build:
    expected = _EXPECTED[form]
    # JSON may write 1.0 as 1.
    types = (int,) if form is int else (int, float)
    # Python also reads NaN and infinity in JSON.
    largest = _LARGEST_INT if form is int else sys.float_info.max

    def build(value: Any) -> Any:
        if type(value) not in types or not abs(value) <= largest:
            raise _form_error(value, expected)
        return value

    return build


def _list_builder(build_item: _Build) -> _Build:
    def build(value: Any) -> Any:
        if type(value) is not list:
            raise _form_error(value, "a list")
        return [build_item(item) for item in value]

    return build


def _dict_builder(build_item: _Build) -> _Build:
    def build(value: Any) -> Any:
        if type(value) is not dict:
            raise _form_error(value, "an object")
        return {name: build_item(item) for name, item in value.items()}

    return build


def _optional_builder(build_item: _Build) -> _Build:
    def build(value: Any) -> Any:
        return None if value is None else build_item(value)

    return build


def _object_builder(form: Any) -> _Build:
    """Return the function that builds a dataclass or named tuple from an object."""
    parameters = inspect.signature(form, eval_str=True).parameters
    builders = {
        name: _builder(parameter.annotation) for name, parameter in parameters.items()
    }
    required = {
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
    }

    def build(value: Any) -> Any:
        if type(value) is not dict:
            raise _form_error(value, "an object")
        missing = required - value.keys()
        if missing:
            raise _FormError(f"expected {min(missing)!r}, found none")
        fields = {}
        for name in builders.keys() & value.keys():
            try:
                fields[name] = builders[name](value[name])
            except _FormError as error:
                raise _FormError(f"{name}: {error}") from None
        return form(**fields)

    return build
