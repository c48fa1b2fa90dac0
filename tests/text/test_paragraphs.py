"""Hard-wrapped text: joined by paragraphs, and warned of otherwise."""

from pathlib import Path

import pytest

from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.records import Record, TextSettings
from elmo_cli.text.tokenizers import Tokenizer, make_tokenizer


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
