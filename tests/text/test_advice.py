"""Warnings about tokens that are too long, or that are whole phrases."""

from pathlib import Path

import pytest

from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.records import TextSettings
from elmo_cli.text.report import Expected, TokenLimit

CHINESE = "今天天气很好我们一起去公园散步吧然后再去吃饭。"


def warnings_of(
    content: str,
    path: Path,
    caplog: pytest.LogCaptureFixture,
    input_format: str = "text",
    limit: TokenLimit | None = None,
) -> list[str]:
    """Return the warnings that reading a file logs."""
    path.write_text(content, encoding="utf-8")
    caplog.clear()
    text = open_input(path, TextSettings(input_format))
    with open_records(text, Expected(limit)) as (records, *_):
        list(records)
    return caplog.messages


BYTES = TokenLimit(48, "bytes")
URL = "https://example.org/" + "a" * 60


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a " + "b" * 48, None),
        ("é" * 24, None),
        (f"a\nb {URL}\n{URL} c\n", "2 tokens are longer than the 48 bytes that the model reads"),
        (f"a\n\n{'é' * 25}", "1 token is longer than the 48 bytes that the model reads"),
    ],
)
def test_long_tokens_are_counted_once(
    content: str, expected: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warnings = warnings_of(content, tmp_path / "a", caplog, limit=BYTES)
    line = 2 if URL in content else 3
    rest = f". The rest is ignored. The first is in line {line}."
    assert warnings == ([f"Warning: {expected}{rest}"] if expected else [])
    assert warnings_of(content, tmp_path / "a", caplog) == []


def test_a_limit_may_count_characters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limit = TokenLimit(48, "characters")
    assert warnings_of("é" * 48, tmp_path / "a", caplog, limit=limit) == []
    [warning] = warnings_of("é" * 49, tmp_path / "a", caplog, limit=limit)
    assert warning.startswith("Warning: 1 token is longer than the 48 characters")


@pytest.mark.parametrize(
    ("language", "text", "advice"),
    [
        ("Chinese", CHINESE, "Use --tokenizer spacy:zh."),
        ("Japanese", "今日は天気がいいので公園へ散歩に行きましょう。", "Use --tokenizer spacy:ja."),
        ("Thai", "วันนี้อากาศดีมากเราไปเดินเล่นที่สวนสาธารณะกันเถอะ", "Use --tokenizer spacy:th."),
        ("Khmer", "ថ្ងៃនេះអាកាសធាតុល្អណាស់យើងទៅដើរលេងនៅសួន", "Separate its words by spaces first."),
    ],
)
def test_phrases_without_spaces_are_warned_of(
    language: str, text: str, advice: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(f"{text}\n" * 3, tmp_path / "a", caplog) == [
        f"Warning: the text is in {language} without spaces between words, so a whole phrase "
        f"becomes one token. {advice}"
    ]


@pytest.mark.parametrize(
    "content",
    [
        "今天 天气 很 好 。\n",
        "วันนี้ อากาศ ดี มาก\n",
        "오늘은 날씨가 좋습니다\n",
        "Donaudampfschifffahrt\n",
    ],
)
def test_words_are_not_taken_for_phrases(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(content * 5, tmp_path / "a", caplog) == []


def test_tokens_of_fasta_are_not_checked_for_phrases(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(">a\nMKV\n", tmp_path / "a", caplog, "fasta", BYTES) == []
