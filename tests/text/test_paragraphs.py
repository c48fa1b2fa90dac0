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


def test_hard_wrapped_text_logs_a_warning_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "book.txt"
    path.write_text(BOOK)
    assert [record.text for record in read(path, paragraphs=False)] == BOOK.split("\n")
    assert caplog.messages == [
        "Warning: the text seems to be hard-wrapped: most lines end within a sentence. Use "
        "--paragraphs to join the lines until a blank line."
    ]
    caplog.clear()
    assert len(read(path, paragraphs=True)) == 5
    assert caplog.messages == []


@pytest.mark.parametrize(
    "content",
    [
        SENTENCE * 10,
        f"{SENTENCE.strip()}\n" * 100,
        "".join(f"a headline without a full stop{' and more' * (i % 9)}\n" for i in range(100)),
        "word\n" * 100,
        f"{SENTENCE * 9} and\n" * 100,
    ],
    ids=["one line", "sentences", "headlines", "words", "long lines"],
)
def test_other_text_is_not_taken_for_hard_wrapped(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text").write_text(content)
    read(tmp_path / "text", paragraphs=False)
    assert [message for message in caplog.messages if "wrapped" in message] == []
