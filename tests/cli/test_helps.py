"""Helps: examples first, bounds and defaults in words, and `embed` on two screens."""

import re

import pytest

from elmo_cli.cli.command_list import COMMANDS
from tests.support.commands import elmo

NOTE = r"(at least \S+|above \S+|from \S+ to (below )?\S+|default: .+|required)"
"""What a help says in brackets at its end; parts are separated by semicolons."""


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_stand_under_the_first_line(command: str) -> None:
    _, _, example, *_ = elmo("help", command).stdout.split("\n\n")
    assert example.startswith("  $ ")
    assert f"$ elmo {command} " in example + " "


@pytest.mark.parametrize("command", COMMANDS)
def test_bounds_and_defaults_are_said_in_words(command: str) -> None:
    text = elmo("help", command).stdout
    assert not re.search(r"x[<>]|[<>]=?x", text)
    one_line = re.sub(r"\s+", " ", text)
    for note in re.findall(
        r"\[((?:at least|above|from|default:|required)[^\]]*)\]", one_line
    ):
        for part in note.split("; "):
            assert re.fullmatch(NOTE, part), note


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("plot", "[at least 2; default: one colour per FILE]"),
        ("predict", "[above 0; default: 1]"),
        ("train", "[from 0 to below 1; default: 0.1]"),
        ("train", "[at least 4; default: 25000]"),
        ("train", "[required]"),
        ("neighbours", "[default: 10]"),
    ],
)
def test_a_help_ends_with_its_bounds_and_default(command: str, note: str) -> None:
    assert note in re.sub(r"\s+", " ", elmo("help", command).stdout)


def test_the_help_of_embed_fits_on_two_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = elmo("embed", "--help").stdout.splitlines()
    assert len(lines) <= 96
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("command", "second_usage"),
    [
        ("cosine", "--pairs TABLE"),
        ("distribute", "--status FOLDER"),
        ("neighbours", "--queries TABLE FILE..."),
    ],
)
def test_help_begins_with_both_usages(command: str, second_usage: str) -> None:
    first, second, *_ = elmo(command, "--help").stdout.splitlines()
    assert first.startswith(f"Usage: elmo {command} [OPTIONS] ")
    assert second == f"       elmo {command} [OPTIONS] {second_usage}"


@pytest.mark.parametrize("topic", ["formats", "layers", "numbers"])
def test_topics_fit_into_80_columns(topic: str) -> None:
    lines = elmo("help", topic).stdout.splitlines()
    assert max(map(len, lines)) <= 80
