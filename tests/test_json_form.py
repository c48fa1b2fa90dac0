"""JSON files of our own: any other form is one line."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from elmo_cli.errors import InputError
from elmo_cli.json_form import parse_json


class Item(NamedTuple):
    number: int
    name: str = ""


@dataclass(frozen=True)
class Form:
    items: list[Item]
    texts: dict[str, str] = field(default_factory=dict)
    size: float | None = None
    is_new: bool = False


def test_parse_json_builds_the_form_and_ignores_other_names() -> None:
    content = '{"items": [{"number": 1, "later": 2}], "texts": {"a": "b"}, "size": 3, "x": []}'
    assert parse_json(content, Form, "f") == Form([Item(1)], {"a": "b"}, 3)
    assert parse_json('{"items": [], "size": null}', Form, "f") == Form([])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it is empty or cut"),
        ('{"items": [', "it is empty or cut"),
        ("\xff", "it is empty or cut"),
        ("[" * 100_000, "it is empty or cut"),
        ("null", "expected an object, found null"),
        ("{}", "expected 'items', found none"),
        ('{"items": null}', "items: expected a list, found null"),
        ('{"items": [3]}', "items: expected an object, found 3"),
        ('{"items": [{"number": true}]}', "items: number: expected a whole number, found true"),
        (
            f'{{"items": [{{"number": {2**63}}}]}}',
            f"items: number: expected a whole number, found {2**63}",
        ),
        ('{"items": [], "texts": {"a": 1}}', "texts: expected a text, found 1"),
        ('{"items": [], "texts": []}', "texts: expected an object, found []"),
        ('{"items": [], "size": "9"}', 'size: expected a number, found "9"'),
        ('{"items": [], "size": NaN}', "size: expected a number, found NaN"),
        ('{"items": [], "size": -Infinity}', "size: expected a number, found -Infinity"),
        (f'{{"items": [], "size": {10**400}}}', f"size: expected a number, found {10**400!s:.60}"),
        ('{"items": [], "is_new": 1}', "is_new: expected true or false, found 1"),
    ],
)
def test_parse_json_says_in_one_line_what_differs(content: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_json(content.encode("latin1"), Form, "f.json")
    assert str(caught.value) == f"f.json: the file is damaged: {reason}."
