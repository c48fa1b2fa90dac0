"""Commands and what they print: rows, errors, and the remedies that errors name."""

import re
import shutil
import textwrap
from itertools import chain
from pathlib import Path

import pytest

from tests.support.accept import CheckExample
from tests.support.commands import ROOT
from tests.support.transcripts import (
    Example,
    each_example,
    read_transcript,
    run_example,
)


@pytest.mark.usefixtures("word_model")
@each_example(__file__, "answers.txt")
def test_a_command_prints_its_rows(
    example: Example,
    check_example: CheckExample,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compare rows to the letter. `word_model` lists the bits of each word."""
    monkeypatch.setenv("ELMO_MODEL", "model")
    check_example(example)


@each_example(__file__, "errors.txt")
def test_an_error_has_this_text(
    example: Example,
    check_example: CheckExample,
    prepared: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(prepared)
    monkeypatch.setenv("ELMO_MODEL", "model")
    check_example(example)


@pytest.mark.usefixtures("word_model")
@pytest.mark.parametrize("path", ["CONTRIBUTING.md", "tests/support/transcripts.py"])
def test_an_explained_transcript_is_one(
    path: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_MODEL", "model")
    text = (ROOT / path).read_text(encoding="utf-8")
    block = re.search(r"^ *= text\.txt.*?\[2\]$", text, re.DOTALL | re.MULTILINE)
    assert block is not None
    transcript = folder / "explained.txt"
    transcript.write_text(textwrap.dedent(block[0]), encoding="utf-8")
    for example in chain.from_iterable(read_transcript(transcript)):
        printed = run_example(example)
        assert example.expected.matches(printed), printed


REMEDIES = read_transcript(Path(__file__).with_name("remedies.txt"))
"""Groups: a command whose message has a remedy, then what the remedy says to do."""


@pytest.mark.parametrize("group", REMEDIES, ids=lambda group: str(group[0]))
def test_the_remedy_of_a_message_works(
    group: list[Example],
    check_example: CheckExample,
    prepared: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    monkeypatch.setenv("ELMO_MODEL", "model")
    for example in group:
        check_example(example, may_leave_files=True)
    assert group[-1].expected.status == 0
