"""JSON files of this project, parsed into dataclasses and named tuples that describe their form.

The annotations of the fields are the form: str, int, float, bool, `list[X]`, `dict[str, X]`,
`X | None`, and other dataclasses and named tuples. Unknown names in a file are ignored, so that
later versions can add names.
"""

import inspect
import json
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin

from elmo_cli.errors.exceptions import InputError

_Form = TypeVar("_Form")


_NAMES = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


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
    content: bytes | str, form: type[_Form], name: str, remedy: str = ""
) -> _Form:
    """Parse a file of JSON and check its form. An error begins with `name`, ends with `remedy`."""
    try:
        return cast(_Form, _builder(cast(Any, form))(json.loads(content)))
    except (
        ValueError,
        RecursionError,
    ) as error:  # Deeply nested JSON raises RecursionError.
        reason = error if isinstance(error, _FormError) else "it is empty or cut"
        raise InputError(
            f"{name}: the file is damaged: {reason}. {remedy}".rstrip()
        ) from None


def _checked(value: Any, kinds: tuple[type, ...], expected: str) -> Any:
    """Return a value whose type is one of `kinds`. In Python, True is an int too."""
    if type(value) not in kinds:
        raise _FormError(f"expected {expected}, found {json.dumps(value)[:60]}")
    return value


@lru_cache(maxsize=64)
def _builder(form: Any) -> Callable[[Any], Any]:
    """Return the function that checks a value of JSON and builds the form from it."""
    origin, arguments = get_origin(form), get_args(form)
    if form in (int, float):
        return partial(_number, form)
    if form in _NAMES:
        # Lists of tokens come through here: a call per token would take as long as all the rest.
        return lambda value: (
            value if type(value) is form else _checked(value, (), _NAMES[form])
        )
    if origin not in (list, dict, UnionType):
        return _object_builder(form)
    of_item = _builder(arguments[1 if origin is dict else 0])
    if origin is list:
        return lambda value: [*map(of_item, _checked(value, (list,), "a list"))]
    if origin is UnionType:
        return lambda value: None if value is None else of_item(value)
    return lambda value: {
        name: of_item(item)
        for name, item in _checked(value, (dict,), "an object").items()
    }


def _number(form: type, value: Any) -> Any:
    """Check a number. JSON may write 1.0 as 1; Python also reads NaN and infinity there."""
    kinds, most = (
        ((int,), 2**63 - 1) if form is int else ((int, float), sys.float_info.max)
    )
    is_number = type(value) in kinds and abs(value) <= most
    return _checked(value, kinds if is_number else (), _NAMES[form])


def _object_builder(form: Any) -> Callable[[Any], Any]:
    """Return the function that builds a dataclass or named tuple from an object."""
    parameters = inspect.signature(form, eval_str=True).parameters
    builders = {name: _builder(each.annotation) for name, each in parameters.items()}
    required = {name for name, each in parameters.items() if each.default is each.empty}

    def build(value: Any) -> Any:
        if missing := sorted(required - _checked(value, (dict,), "an object").keys()):
            raise _FormError(f"expected {missing[0]!r}, found none")
        built = {}
        for name in builders.keys() & value.keys():
            try:
                built[name] = builders[name](value[name])
            except _FormError as error:
                raise _FormError(f"{name}: {error}") from None
        return form(**built)

    return build
