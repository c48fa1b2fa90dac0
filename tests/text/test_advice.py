"""Warnings about tokens that are too long, or that are whole phrases."""

import json
import shutil
import subprocess
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


# Texts that are not what they should be


def table(*texts: str) -> str:
    """Return CSV with the texts in a column."""
    return "text,n\n" + "".join('"{}",1\n'.format(text.replace('"', '""')) for text in texts)


WORDS = ("The", "farmer", "sold", "the", "old", "mule.", "Nobody", "had", "seen", "it.")
SEQUENCES = ("CASSLGNEQF", "CASSLGVATGELF", "CASSQEEGGGSW", "CASSPGTGGNEQF", "CASSLRDSYEQF")
PASSAGES = ("I slept through the night. Then it rained.", "Who came? Nobody did.") * 3


@pytest.mark.parametrize(
    ("texts", "warning"),
    [
        (("5", "3"), "the texts of the table are numbers (5). Choose another with --text-column."),
        (("-1.5", " 1,200 ", "+3"), "the texts of the table are numbers (-1.5)."),
        (
            WORDS,
            "10 of the first 10 texts are single words (The farmer sold). If they are the words "
            "of a text, use --word-column.",
        ),
        (
            SEQUENCES,
            "5 of the first 5 texts are one word of capital letters (CASSLGNEQF). If the letters "
            "are residues, use --tokenizer residues.",
        ),
        (
            PASSAGES,
            "6 of the first 6 texts contain several sentences, but the model was trained on "
            "single sentences. Use --split-sentences.",
        ),
        (
            ("If If you you were were north, north,", "to to journey journey"),
            "most words repeat the one before (If If). If the table has a row per word and "
            "subject, keep one row per word.",
        ),
        ((*PASSAGES, *["One sentence here."] * 14), "6 of the first 20 texts contain several"),
    ],
)
def test_texts_of_other_kinds_are_warned_of_once(
    texts: tuple[str, ...], warning: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warnings = warnings_of(table(*texts), tmp_path / "a", caplog, "csv")
    found = [each for each in warnings if "tokens end in punctuation" not in each]
    assert len(found) == 1
    assert found[0].startswith(f"Warning: {warning}")


@pytest.mark.parametrize(
    "texts",
    [
        ("1990 was a year", "5"),
        ("Yes", "no", "maybe", "Help!", "never", "often", "always", "who?", "why"),  # few prompts
        ("Yes.", "No.", "Never!", "Why?", "Perhaps.", "Sure.", "Thanks!", "What?", "Stop!", "Go."),
        ("river", "dog", "desk", "table", "letter", "window", "garden", "item", "paper", "street"),
        ("Hund", "Haus", "Tisch", "Fenster", "Garten", "Nummer", "Papier", "Blume", "Zug", "Brief"),
        ("ELEPHANT", "HOSPITAL", "BUILDING", "MOUNTAIN", "PROBLEMS", "QUESTION", "UMBRELLA"),
        ("PRESIDENT WINS THE ELECTION", "STORM HITS THE COAST", "MARKETS FALL", "A", "B", "C"),
        ("The U.S. Senate met.", "Mr. Smith and Dr. Jones came.", "Gov. Lee met Sen. Poe.") * 4,
        ("Die Pension inkl. Frühstück kostet evtl. Geld.", "Am 3. Mai kam er.") * 5,
        ('He said, "Stop!" and left.', "Wait... What is it", "Yahoo buys Tumblr: report") * 4,
        ("M K V L S P A D K T", "C A S S L G N E Q F") * 5,
        ("He said that that was a very, very long day.", "No no no no."),
    ],
)
def test_good_texts_are_not_warned_of(
    texts: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warnings = warnings_of(table(*texts), tmp_path / "a", caplog, "csv")
    assert [each for each in warnings if "tokens end in punctuation" not in each] == []


def test_sequences_in_the_lines_of_a_text_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [warning] = warnings_of("\n".join(SEQUENCES), tmp_path / "a", caplog)
    assert warning.endswith("If the letters are residues, use --tokenizer residues.")
    words = "ELEPHANT\nHOSPITAL\nBUILDING\nMOUNTAIN\nPROBLEMS\n"
    assert warnings_of(words, tmp_path / "a", caplog) == []


def test_split_texts_are_not_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = "".join(f'{{"tokens": {json.dumps(list(each))}}}\n' for each in SEQUENCES)
    assert warnings_of(rows, tmp_path / "a", caplog, "jsonl") == []
    fasta = "".join(f">{each}\n{each}\n" for each in SEQUENCES)
    assert warnings_of(fasta, tmp_path / "a", caplog, "fasta") == []


@pytest.mark.parametrize(
    ("content", "is_table"),
    [
        ("id\ttext\n1\tThe dog .\n\n2\tThe cat .\n", True),
        ("The\tdog\tbarked\t.\nIt\trained\t.\n", False),
        ("The dog .\na\tb\n", False),
        ("a\tb\n", False),
    ],
)
def test_tabs_in_every_line_are_warned_of(
    content: str, is_table: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warnings = warnings_of(content, tmp_path / "a", caplog)
    assert (
        warnings
        == [
            "Warning: every line of the text has tabs. If it is a table with a header, use "
            "--input-format tsv and --text-column. If each line has a word, write one sentence per "
            """line: `awk 'NF {printf "%s ", $1; next} {print ""}' FILE > FILE.txt` takes the """
            "words in column 1. Otherwise take a column of it with `cut -f N FILE`."
        ]
        * is_table
    )


def test_control_characters_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "It rained .\nShe didn\x92t \x96 know .\n\x93Café\x94 “yes” .\n"
    [warning] = warnings_of(text, tmp_path / "a", caplog)
    assert warning.startswith(
        "Warning: control characters (U+0080 to U+009F): 4, the first in line 2."
    )
    mended = mend(warning, tmp_path / "a")
    assert mended == "It rained .\nShe didn’t – know .\n“Café” “yes” .\n"
    assert warnings_of(mended, tmp_path / "a", caplog) == []


def test_byte_order_marks_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "\ufeffIt rained .\n\ufeffThe \ufeffdog\ufeff .\n"
    [warning] = warnings_of(text, tmp_path / "a", caplog)
    assert warning.startswith(
        "Warning: byte order marks (U+FEFF) within lines: 2, the first in line 2."
    )
    assert mend(warning, tmp_path / "a") == "It rained .\nThe dog .\n"


def mend(warning: str, path: Path) -> str:
    """Run the command that a warning names."""
    if shutil.which("perl") is None:
        pytest.skip("needs perl")
    command = warning.split("`")[1].replace("FILE", str(path))
    return subprocess.run(command, shell=True, check=True, capture_output=True).stdout.decode()
