"""Helps: examples first, bounds and defaults in words, and `embed` on two screens."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from elmo_cli.cli.command import OTHER_OPTIONS
from elmo_cli.cli.command_list import COMMANDS, find_command
from elmo_cli.cli.option_conditions import Option
from elmo_cli.options.text import TextSettings
from elmo_cli.training.training_folder import WRITTEN_FILES
from elmo_cli.training.training_settings import (
    LENGTH_OPTIONS,
    StartSettings,
    TrainingSettings,
)
from tests.support.commands import elmo

PAGES = Path(__file__).parents[2] / "docs" / "commands"

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


@pytest.mark.parametrize("command", ["distribute", "occurrences", "predict"])
def test_a_command_that_cannot_carry_does_not_offer_it(command: str) -> None:
    assert "--state [zero|warm] " in elmo("help", command).stdout
    assert "--state [zero|warm|carry] " in elmo("help", "embed").stdout


def test_the_help_of_embed_fits_on_two_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = elmo("embed", "--help").stdout.splitlines()
    assert len(lines) <= 96
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_groups_of_options_have_one_order(command: str) -> None:
    headings = re.findall(r"^(\w[\w ]*):$", elmo("help", command).stdout, re.MULTILINE)
    usual = ["Options", "Output", "Input", "Model", "Speed", "Other options"]
    assert headings[-1] == "Other options"
    assert [each for each in headings if each in usual] == [
        each for each in usual if each in headings
    ]
    page = (PAGES / f"{command}.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| ([A-Z][\w ]*) \| description \|$", page, re.MULTILINE)
    assert tables == [each for each in headings if each in tables]


@pytest.mark.parametrize(
    ("command", "usages"),
    [
        ("cosine", ["WORD SENTENCE1 SENTENCE2", "--pairs TABLE", "WORD -"]),
        ("distribute", ["INPUT... FOLDER", "--status FOLDER"]),
        (
            "neighbours",
            [
                "WORD SENTENCE FILE...",
                "--queries TABLE FILE...",
                "--sentence TEXT FILE...",
            ],
        ),
        ("predict", ["INPUT"]),
        ("surprisal", ["INPUT", "--pair-columns GOOD,BAD INPUT..."]),
        ("word-vectors", ["INPUT OUTPUT", "--words FILE OUTPUT"]),
    ],
)
def test_help_begins_with_all_usages(command: str, usages: list[str]) -> None:
    first, _, _ = elmo(command, "--help").stdout.partition("\n\n")
    lines = [f"elmo {command} [OPTIONS] {usage}" for usage in usages]
    assert first == "Usage: " + "\n       ".join(lines)


def test_the_help_of_train_names_the_options_that_may_change() -> None:
    """Those of a run, of its length, and of what is printed about the model."""
    fixed = {
        "folder",
        "validation_share",
        *(each.name for each in fields(StartSettings)),
        *(each.name for each in fields(TextSettings)),
        *(each.name for each in fields(TrainingSettings)),
    }
    fixed -= set(LENGTH_OPTIONS)
    may_change = set()
    for option in find_command("train").params:
        is_of_train = isinstance(option, Option) and option.heading != OTHER_OPTIONS
        if is_of_train and option.name not in fixed:
            may_change.add(option.opts[0])
    one_line = re.sub(r"\s+", " ", elmo("help", "train").stdout)
    [listed] = re.findall(r"Only (--[^.]+) may change\.", one_line)
    assert set(re.findall(r"--[a-z-]+", listed)) == may_change


def test_the_page_of_train_lists_all_files_of_its_folder() -> None:
    page = (PAGES / "train.md").read_text(encoding="utf-8")
    _, _, files = page.partition("\n## Files\n")
    table, _, _ = files.partition("\n## ")
    assert set(re.findall(r"`(\w+\.\w+)`", table)) == set(WRITTEN_FILES)


@pytest.mark.parametrize("topic", ["formats", "layers", "numbers"])
def test_topics_fit_into_80_columns(topic: str) -> None:
    lines = elmo("help", topic).stdout.splitlines()
    assert max(map(len, lines)) <= 80
