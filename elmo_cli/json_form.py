"""JSON files of this project, parsed into dataclasses and named tuples that describe their form.

The annotations of the fields are the form: str, int, float, bool, None, `list[X]`, `dict[str, X]`,
`X | None`, and other dataclasses and named tuples. Unknown names in a file are ignored, so that
later versions can add names.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from elmo_cli.errors import InputError

_Form = TypeVar("_Form")
_Build = Callable[[Any], Any]
"""Function that checks a value of JSON and builds an object of the form."""
_SHOWN_CHARACTERS = 60
_MAX_FLOAT = sys.float_info.max  # JSON may have NaN, infinity and larger whole numbers.
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


class FormError(ValueError):
    """Value that does not have its form. The message says where and why."""


def parse_json(content: bytes | str, form: type[_Form], name: str, remedy: str = "") -> _Form:
    """Parse a file of JSON and check its form.

    Args:
        content: Content of the file.
        form: Dataclass or named tuple that describes the content.
        name: Name of the file, for the error.
        remedy: Sentence that ends the error.

    Raises:
        InputError: The content is not JSON, or has another form. The message is one line.
    """
    try:
        return build(form, json.loads(content))
    except (ValueError, RecursionError) as error:  # Deeply nested JSON raises RecursionError.
        reason = error if isinstance(error, FormError) else "it is empty or cut"
        raise InputError(f"{name}: the file is damaged: {reason}. {remedy}".rstrip()) from None


def build(form: type[_Form], value: object) -> _Form:
    """Build a dataclass or named tuple from a value of JSON. Raise a `FormError` if it differs."""
    return cast(_Form, _builder(cast(Any, form))(value))


@lru_cache(maxsize=64)
def _builder(form: Any) -> _Build:
    """Return the function that builds a form. It is created once and used for each value."""
    origin, arguments = get_origin(form), get_args(form)
    if origin in (Union, UnionType):
        return _optional(_builder(next(each for each in arguments if each is not NoneType)))
    if origin is list:
        return _list_of(_builder(arguments[0]))
    if origin is dict:
        return _dict_of(_builder(arguments[1]))
    if form in _NAMES:
        return _plain(form)
    return _fields_of(form)


def _plain(form: type) -> _Build:
    # JSON writes 1.0 as 1. In Python, True is an int.
    kinds = (int, float) if form is float else (form,)

    def check(value: Any) -> Any:
        if type(value) not in kinds or (form is float and not abs(value) <= _MAX_FLOAT):
            raise FormError(f"expected {_NAMES[form]}, found {_shown(value)}")
        return value

    return check


def _optional(of_value: _Build) -> _Build:
    return lambda value: None if value is None else of_value(value)


def _list_of(of_item: _Build) -> _Build:
    def check(value: Any) -> Any:
        if type(value) is not list:
            raise FormError(f"expected a list, found {_shown(value)}")
        return [*map(of_item, value)]

    return check


def _dict_of(of_item: _Build) -> _Build:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise FormError(f"expected an object, found {_shown(value)}")
        return {name: of_item(item) for name, item in value.items()}

    return check


def _fields_of(form: Any) -> _Build:
    hints = get_type_hints(form)
    if is_dataclass(form):
        required = {
            field.name
            for field in fields(form)
            if field.default is MISSING and field.default_factory is MISSING
        }
    else:
        required = {*form._fields} - {*form._field_defaults}
    builders = {name: _builder(hints[name]) for name in hints}

    def check(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise FormError(f"expected an object, found {_shown(value)}")
        if missing := sorted(required - value.keys()):
            raise FormError(f"expected {missing[0]!r}, found none")
        built = {}
        for name in builders.keys() & value.keys():
            try:
                built[name] = builders[name](value[name])
            except FormError as error:
                raise FormError(f"{name}: {error}") from None
        return form(**built)

    return check


def _shown(value: object) -> str:
    return json.dumps(value)[:_SHOWN_CHARACTERS]
