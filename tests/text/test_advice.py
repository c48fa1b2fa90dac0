"""Warnings about texts that are not what they should be: each given once, and followed."""

import json
import logging
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.records import TextSettings
from elmo_cli.text.report import UNKNOWN, Expected, TokenLimit
from elmo_cli.text.tokenizers import make_tokenizer

BYTES, CHARACTERS = Expected(TokenLimit(48, "bytes")), Expected(TokenLimit(48, "characters"))
ENGLISH, FRENCH = Expected(language="English"), Expected(language="French")
URL = "https://example.org/" + "a" * 60
CHINESE = "今天天气很好我们一起去公园散步吧然后再去吃饭。"
SEQUENCES = ("CASSLGNEQF", "CASSLGVATGELF", "CASSQEEGGGSW", "CASSPGTGGNEQF", "CASSLRDSYEQF")
SENTENCE = "The river rose in the night and the people of the town went up into the hills . "
BOOK = "\n\n".join(textwrap.fill(SENTENCE * 8, 70) for _ in range(5))
RAW = 'He said, "We sat by the river."\n'
MARKS = "1\tthe\t_\t_\t_\t_\t0\t_\t_\t_\n2\t’s\t_\t_\t_\t_\t0\t_\t_\t_\n\n"
PASSAGES = ("I slept through the night. Then it rained.", "Who came? Nobody did.") * 3


def warnings_of(
    content: str,
    caplog: pytest.LogCaptureFixture,
    input_format: str = "text",
    expected: Expected = UNKNOWN,
    tokenizer: str | None = None,
    language: str | None = None,
) -> list[str]:
    """Return the warnings that reading a text logs."""
    Path("a").write_text(content, encoding="utf-8")
    caplog.clear()
    made = make_tokenizer(tokenizer, language) if tokenizer else None
    text = open_input("a", TextSettings(input_format), made)
    with caplog.at_level(logging.WARNING, "elmo_cli"), open_records(text, expected) as opened:
        list(opened.records)
    return [message.removeprefix("Warning: ") for message in caplog.messages]


def table(*texts: str) -> str:
    """Return CSV with the texts in a column."""
    return "text,n\n" + "".join('"{}",1\n'.format(text.replace('"', '""')) for text in texts)


def column(words: str) -> str:
    """Return CSV with a word per row."""
    return table(*words.split())


LONG = "longer than the 48 {} that the model reads. The rest is ignored. The first is in line {}."
PHRASES = "the text is in {} without spaces between words, so a whole phrase becomes one token. {}"
RESIDUES = (
    "5 of the first 5 {} are one word of capital letters (CASSLGNEQF). If the letters are "
    "residues, use --tokenizer residues."
)
SEVERAL = (
    "{} of the first {} {} contain several sentences, but the model was trained on single "
    "sentences. Use --split-sentences."
)
PUNCTUATION = (
    "{} of the first {} tokens end in punctuation ({}), which becomes part of the word. Use "
    "--tokenizer moses to split it off."
)
TYPOGRAPHY = (
    "{} with typographic marks ({}), which the model hardly knows, the first in line {}. Use "
    "--tokenizer moses for raw text, which makes them plain. Replace them first in text that is "
    "tokenized already."
)
NUMBERS = "the texts of the table are numbers ({}). Choose another with --text-column."
WARNED: list[tuple[str, tuple[str | Expected, ...], str]] = [
    (f"a\nb {URL}\n{URL} c\n", ("text", BYTES), "2 tokens are " + LONG.format("bytes", 2)),
    (f"a\n\n{'é' * 25}", ("text", BYTES), "1 token is " + LONG.format("bytes", 3)),
    ("é" * 49, ("text", CHARACTERS), "1 token is " + LONG.format("characters", 1)),
    (f"{CHINESE}\n" * 3, (), PHRASES.format("Chinese", "Use --tokenizer spacy:zh.")),
    (
        "今日は天気がいいので公園へ散歩に行きましょう。\n" * 3,
        (),
        PHRASES.format("Japanese", "Use --tokenizer spacy:ja."),
    ),
    (
        "วันนี้อากาศดีมากเราไปเดินเล่นที่สวนสาธารณะกันเถอะ\n" * 3,
        (),
        PHRASES.format("Thai", "Use --tokenizer spacy:th."),
    ),
    (
        "ថ្ងៃនេះអាកាសធាតុល្អណាស់យើងទៅដើរលេងនៅសួន\n" * 3,
        (),
        PHRASES.format("Khmer", "Separate its words by spaces first."),
    ),
    (table("5", "3"), ("csv",), NUMBERS.format("5")),
    (table("-1.5", " 1,200 ", "+3"), ("csv",), NUMBERS.format("-1.5")),
    (
        table("The", "farmer", "sold", "the", "old", "mule.", "Nobody", "had", "seen", "it."),
        ("csv",),
        "10 of the first 10 texts are single words (The farmer sold). If they are the words of a "
        "text, use --word-column.",
    ),
    (table(*SEQUENCES), ("csv",), RESIDUES.format("texts")),
    ("\n".join(SEQUENCES), (), RESIDUES.format("texts")),
    (table(*PASSAGES), ("csv",), SEVERAL.format(6, 6, "texts")),
    (
        table(*("She left. He ran.", "I like it. You do.") * 3),
        ("csv",),
        SEVERAL.format(6, 6, "texts"),
    ),
    (table(*PASSAGES, *["One sentence here."] * 14), ("csv",), SEVERAL.format(6, 20, "texts")),
    ("He left. She ran.\n" * 6, ("text", UNKNOWN, "moses"), SEVERAL.format(6, 6, "lines")),
    (f"{SENTENCE * 9} and\n" * 100, (), SEVERAL.format(100, 100, "lines")),
    ("“ Go ! ” He left .\nHe ran .\n" * 6, ("text",), SEVERAL.format(6, 12, "lines")),
    (
        table("If If you you were were north, north,", "to to journey journey"),
        ("csv",),
        "most words repeat the one before (If If). If the table has a row per word and subject, "
        "keep one row per word.",
    ),
    (
        "id\ttext\n1\tThe dog .\n\n2\tThe cat .\n",
        (),
        "every line of the text has tabs. If it is a table with a header, use --input-format tsv "
        "and --text-column. If each line has a word, write one sentence per line: "
        """`awk 'NF {printf "%s ", $1; next} {print ""}' FILE > FILE.txt` takes the words in """
        "column 1. Otherwise take a column of it with `cut -f N FILE`.",
    ),
    (
        BOOK,
        (),
        "the text seems to be hard-wrapped: most lines end within a sentence. Use --paragraphs to "
        "join the lines until a blank line.",
    ),
    (RAW, (), PUNCTUATION.format("2", "7", 'said, river."')),
    (RAW * 400, (), PUNCTUATION.format("286", "1,001", 'said, river." said,')),
    (
        "the café\nHe isn’t here —\n“ never ” … a‘b é\n",
        ("text", ENGLISH),
        TYPOGRAPHY.format("6 tokens", "isn’t — “", 2),
    ),
    (MARKS, ("conllu", ENGLISH), TYPOGRAPHY.format("1 token", "’s", 1)),
]
"""Texts, how they are read, and the warning."""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("content", "options", "warning"), WARNED)
def test_a_text_of_another_kind_is_warned_of_once(
    content: str, options: tuple[str, ...], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(content, caplog, *options) == [warning]  # type: ignore[arg-type]


HEADLINES = "".join(f"a headline without a full stop{' and more' * (i % 9)}\n" for i in range(100))
CAPITALS = ["ELEPHANT", "HOSPITAL", "BUILDING", "MOUNTAIN", "PROBLEMS"]
ABBREVIATIONS = ("The U.S. Senate met.", "Mr. Smith and Dr. Jones came.", "Gov. Lee met Sen. Poe.")
GOOD: dict[str, tuple[str | Expected, ...]] = {
    "a " + "b" * 48: ("text", BYTES),
    "é" * 24: ("text", BYTES),
    "é" * 48: ("text", CHARACTERS),
    f"a\nb {URL}\n{URL} c\n": (),
    # Words are no phrases
    "今天 天气 很 好 。\n" * 5: (),
    "วันนี้ อากาศ ดี มาก\n" * 5: (),
    "오늘은 날씨가 좋습니다\n" * 5: (),
    "Donaudampfschifffahrt\n" * 5: (),
    ">a\nMKV\n": ("fasta", BYTES),
    # Tables
    table("1990 was a year", "5"): ("csv",),
    table("Yes", "no", "maybe", "Help!", "never", "often", "always", "who?", "why"): ("csv",),
    column("Yes. No. Never! Why? Perhaps. Sure. Thanks! What? Stop! Go."): ("csv",),
    column("river dog desk table letter window garden item paper street"): ("csv",),
    column("Hund Haus Tisch Fenster Garten Nummer Papier Blume Zug Brief"): ("csv",),
    table(*CAPITALS, "QUESTION", "UMBRELLA"): ("csv",),
    table("PRESIDENT WINS THE ELECTION", "STORM HITS THE COAST", "MARKETS FALL", "A"): ("csv",),
    table(*ABBREVIATIONS * 4): ("csv",),
    table(*["Smith et al. The study", "cats etc. They ran", "7 p.m. The end"] * 3): ("csv",),
    table(*["Die Pension inkl. Frühstück kostet evtl. Geld.", "Am 3. Mai kam er."] * 5): ("csv",),
    table(*['He said, "Stop!" and left.', "Wait... What is it", "Yahoo buys X: report"] * 4): (
        "csv",
    ),
    table(*["M K V L S P A D K T", "C A S S L G N E Q F"] * 5): ("csv",),
    table("He said that that was a very, very long day.", "No no no no."): ("csv",),
    "".join(f'{{"tokens": {json.dumps(list(each))}}}\n' for each in SEQUENCES): ("jsonl",),
    "".join(f">{each}\n{each}\n" for each in SEQUENCES): ("fasta",),
    # Lines
    "\n".join(CAPITALS): (),
    "The\tdog\tbarked\t.\nIt\trained\t.\n": (),
    "The dog .\na\tb\n": (),
    "a\tb\n": (),
    SENTENCE * 10: (),
    f"{SENTENCE.strip()}\n" * 100: (),
    HEADLINES: (),
    "word\n" * 100: (),
    "Mr. Poe left .\nHe met J . K . Lee .\nIt rained . She ran .\n" + 5 * "It did .\n": (),
    # Tokens and marks
    "We sat by the river .\n": (),
    "a b Mr. d\n" + 17 * "e " + "\n": (),
    '. , " ?\n': (),
    "He isn’t here —\n": (),
    "He isn’t here — \n": ("text", FRENCH),
    "He isn’t here  —\n": ("text", ENGLISH, "moses"),
    "z.B. d.h. u.a.\n": ("text", UNKNOWN, "moses", "de"),
}
"""Texts that nothing is wrong with, and how they are read."""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("content", GOOD)
def test_a_good_text_is_not_warned_of(content: str, caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(content, caplog, *GOOD[content]) == []  # type: ignore[arg-type]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "start", "mended"),
    [
        (
            "It rained .\nShe didn\x92t \x96 know .\n\x93Café\x94 “yes” .\n",
            "control characters (U+0080 to U+009F): 4, the first in line 2.",
            "It rained .\nShe didn’t – know .\n“Café” “yes” .\n",
        ),
        (
            "\ufeffIt rained .\n\ufeffThe \ufeffdog\ufeff .\n",
            "byte order marks (U+FEFF) within lines: 2, the first in line 2.",
            "It rained .\nThe dog .\n",
        ),
    ],
)
def test_characters_are_counted_and_mended(
    text: str, start: str, mended: str, caplog: pytest.LogCaptureFixture
) -> None:
    [warning] = warnings_of(text, caplog)
    assert warning.startswith(start)
    if shutil.which("perl") is None:
        pytest.skip("needs perl")
    command = warning.split("`")[1].replace("FILE", "a")
    result = subprocess.run(command, shell=True, check=True, capture_output=True).stdout.decode()
    assert result == mended
    assert warnings_of(mended, caplog) == []
