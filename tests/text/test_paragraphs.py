"""Hard-wrapped text: joined by paragraphs, and warned of otherwise."""

import textwrap
from pathlib import Path

import pytest

from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.records import Record, TextSettings
from elmo_cli.text.tokenizers import Tokenizer, make_tokenizer

SENTENCE = "The river rose in the night and the people of the town went up into the hills . "
BOOK = "\n\n".join(textwrap.fill(SENTENCE * 8, 70) for _ in range(5))


def read(path: Path, tokenizer: Tokenizer | None = None, *, paragraphs: bool) -> list[Record]:
    settings = TextSettings("text", skip_errors=True, paragraphs=paragraphs)
    with open_records(open_input(path, settings, tokenizer)) as (records, *_):
        return list(records)


def test_lines_until_a_blank_line_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_bytes(b"\n\nThe river\nrose .\n\n\n\xff\nThe\nend .")
    records = read(path, paragraphs=True)
    assert [record.text for record in records] == ["The river rose .", "", "The end ."]
    assert [record.error is None for record in records] == [True, False, True]


def test_sentences_of_paragraphs_know_their_line(tmp_path: Path) -> None:
    pytest.importorskip("sentencex")
    path = tmp_path / "book.txt"
    path.write_text("\nOne two\nthree. Four\nfive.\n\n\nSix.\n")
    splitter = make_tokenizer("whitespace", "en", split_sentences=True)
    records = read(path, splitter, paragraphs=True)
    assert [record.text for record in records] == ["One two three.", "Four five.", "Six."]
    assert [record.attributes["line"] for record in records] == [1, 1, 6]


def test_joined_text_logs_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "book.txt"
    path.write_text(BOOK)
    assert [record.text for record in read(path, paragraphs=False)] == BOOK.split("\n")
    caplog.clear()
    assert len(read(path, paragraphs=True)) == 5
    assert caplog.messages == []
