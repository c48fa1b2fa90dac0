"""Warnings about texts that are not what they should be, each given once.

In `advice.txt`, `= N OPTIONS | CONTENT` is a text: N times its content, a literal of Python, where
a list becomes the column `text` of CSV. The options are the format of the input, what is expected
of the text, a tokenizer and its language. `!` begins the only warning; good texts have none.
"""

import ast
import csv
import io
import logging
import textwrap
from pathlib import Path
from typing import Any

import pytest

from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.records import TextSettings
from elmo_cli.text.report import UNKNOWN, Expected, TokenLimit
from elmo_cli.text.tokenizers import make_tokenizer

EXPECTED = {
    "bytes": Expected(TokenLimit(48, "bytes")),
    "characters": Expected(TokenLimit(48, "characters")),
    "English": Expected(language="English"),
    "French": Expected(language="French"),
}
SENTENCE = "The river rose in the night and the people of the town went up into the hills . "
LONG = {
    "BOOK": "\n\n".join(textwrap.fill(SENTENCE * 8, 70) for _ in range(5)),
    "HEADLINES": "".join(
        f"a headline without a full stop{' and more' * (i % 9)}\n" for i in range(100)
    ),
}
"""Texts that are too long for a line."""


def read_advice() -> list[tuple[str, list[str]]]:
    """Return the texts with their warnings."""
    cases: list[tuple[str, list[str]]] = []
    for line in Path(__file__).with_name("advice.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("= "):
            cases.append((line[2:], []))
        elif line.startswith("! "):
            cases[-1][1].append(line[2:])
    return cases


def content_of(text: str, number: int) -> str:
    content: Any = LONG.get(text) or ast.literal_eval(text)
    if isinstance(content, str):
        return content * number
    table = io.StringIO()
    csv.writer(table).writerows([("text", "n"), *((cell, 1) for cell in content * number)])
    return table.getvalue()


@pytest.mark.parametrize(("case", "warnings"), read_advice())
def test_a_text_of_another_kind_is_warned_of_once(
    case: str, warnings: list[str], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options, _, text = case.partition(" | ")
    number, name, *more = options.split()
    expected = EXPECTED[more.pop(0)] if more and more[0] in EXPECTED else UNKNOWN
    Path("a").write_text(content_of(text, int(number)), encoding="utf-8", newline="")
    tokenizer = make_tokenizer(*more) if more else None
    caplog.set_level(logging.WARNING, "elmo_cli")
    with open_records(open_input("a", TextSettings(name), tokenizer), expected) as (records, *_):
        list(records)
    assert [message.removeprefix("Warning: ") for message in caplog.messages] == warnings
