"""Warnings about texts that a model may not be made for. Good texts have none."""

import csv
import io
import logging
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from elmo_cli.errors.messages import spelled_as_options
from elmo_cli.model.token_limit import TokenLimit
from elmo_cli.options.text import InputFormatName, TextSettings
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import open_records
from elmo_cli.records.warnings.expected import UNKNOWN, Expected
from elmo_cli.text.tokenizers import Tokenizer, make_tokenizer

BYTES = Expected(TokenLimit(48, "bytes"))
CHARACTERS = Expected(TokenLimit(48, "characters"))
ENGLISH = Expected(language="English")
FRENCH = Expected(language="French")


@dataclass(frozen=True)
class InputFile:
    """Content of a file, and how it is read."""

    content: str
    input_format: InputFormatName = "text"
    expected: Expected = UNKNOWN
    tokenizer: Tokenizer | None = None

    def __str__(self) -> str:
        return self.content[:40]


def column(cells: str, times: int = 1) -> str:
    """Return CSV with these cells, separated by `|`, in a column `text`."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["text", "n"])
    for cell in times * cells.split("|"):
        writer.writerow([cell, 1])
    return table.getvalue()


def warnings_of(text: InputFile, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Write a text into the current folder, read it, and return the warnings."""
    Path("a").write_text(text.content, encoding="utf-8", newline="")
    caplog.set_level(logging.WARNING, "elmo_cli")
    opened = open_input(
        "a", TextSettings(input_format=text.input_format), text.tokenizer
    )
    with open_records(opened, text.expected) as (records, *_):
        for _record in records:
            pass
    arguments = [record.args for record in caplog.records]
    return [spelled_as_options(*each) for each in arguments if each]


SENTENCE = (
    "The river rose in the night and the people of the town went up into the hills . "
)
LINK = "https://example.org/" + 60 * "a"
BOOK = "\n\n".join(textwrap.fill(8 * SENTENCE, 70) for _ in range(5))
HEADLINES = "".join(
    f"a headline without a full stop{(i % 9) * ' and more'}\n" for i in range(100)
)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            InputFile(f"a\nb {LINK}\n{LINK} c\n", expected=BYTES),
            "2 tokens are longer than the 48 bytes that the model reads. The rest "
            "is ignored. The first is in line 2.",
        ),
        (
            InputFile("a\n\nééééééééééééééééééééééééé", expected=BYTES),
            "1 token is longer than the 48 bytes that the model reads. The rest "
            "is ignored. The first is in line 3.",
        ),
        (
            InputFile(7 * "ééééééé", expected=CHARACTERS),
            "1 token is longer than the 48 characters that the model reads. The "
            "rest is ignored. The first is in line 1.",
        ),
        (
            InputFile(3 * "今天天气很好我们一起去公园散步吧然后再去吃饭。\n"),
            "the text is in Chinese without spaces between words, so a whole "
            "phrase becomes one token. Use --tokenizer spacy:zh.",
        ),
        (
            InputFile(3 * "今日は天気がいいので公園へ散歩に行きましょう。\n"),
            "the text is in Japanese without spaces between words, so a whole "
            "phrase becomes one token. Use --tokenizer spacy:ja.",
        ),
        (
            InputFile(3 * "วันนี้อากาศดีมากเราไปเดินเล่นที่สวนสาธารณะกันเถอะ\n"),
            "the text is in Thai without spaces between words, so a whole phrase "
            "becomes one token. Use --tokenizer spacy:th.",
        ),
        (
            InputFile(3 * "ថ្ងៃនេះអាកាសធាតុល្អណាស់យើងទៅដើរលេងនៅសួន\n"),
            "the text is in Khmer without spaces between words, so a whole phrase "
            "becomes one token. Separate its words by spaces first.",
        ),
        (
            InputFile(column("5|3"), input_format="csv"),
            "the texts of the table are numbers (5). Choose another "
            "column with --text-column.",
        ),
        (
            InputFile(column("-1.5| 1,200 |+3"), input_format="csv"),
            "the texts of the table are numbers (-1.5). Choose another "
            "column with --text-column.",
        ),
        (
            InputFile(
                column("The|farmer|sold|the|old|mule.|Nobody|had|seen|it."),
                input_format="csv",
            ),
            "10 of the first 10 texts are single words (The farmer sold). If they "
            "are the words of a text, use --word-column.",
        ),
        (
            InputFile(
                column(
                    "CASSLGNEQF|CASSLGVATGELF|CASSQEEGGGSW|CASSPGTGGNEQF|CASSLRDSYEQF"
                ),
                input_format="csv",
            ),
            "5 of the first 5 texts are one word of capital letters (CASSLGNEQF). "
            "If the letters are residues, use --tokenizer residues.",
        ),
        (
            InputFile(
                "CASSLGNEQF\nCASSLGVATGELF\nCASSQEEGGGSW\nCASSPGTGGNEQF\nCASSLRDSYEQF"
            ),
            "5 of the first 5 texts are one word of capital letters (CASSLGNEQF). "
            "If the letters are residues, use --tokenizer residues.",
        ),
        (
            InputFile(
                column(
                    "I slept through the night. Then it rained.|Who came? Nobody did.",
                    times=3,
                ),
                input_format="csv",
            ),
            "6 of the first 6 texts contain several sentences, but the model was "
            "trained on single sentences. Use --split-sentences.",
        ),
        (
            InputFile(
                column("She left. He ran.|I like it. You do.", times=3),
                input_format="csv",
            ),
            "6 of the first 6 texts contain several sentences, but the model was "
            "trained on single sentences. Use --split-sentences.",
        ),
        (
            InputFile(
                column(
                    "I slept through the night. Then it rained.|Who came? Nobody "
                    "did.|I slept through the night. Then it rained.|Who came? "
                    "Nobody did.|I slept through the night. Then it rained.|Who "
                    "came? Nobody did.|One sentence here.|One sentence here.|One "
                    "sentence here.|One sentence here.|One sentence here.|One "
                    "sentence here.|One sentence here.|One sentence here.|One "
                    "sentence here.|One sentence here.|One sentence here.|One "
                    "sentence here.|One sentence here.|One sentence here."
                ),
                input_format="csv",
            ),
            "6 of the first 20 texts contain several sentences, but the model was "
            "trained on single sentences. Use --split-sentences.",
        ),
        (
            InputFile(6 * "He left. She ran.\n", tokenizer=make_tokenizer("moses")),
            "6 of the first 6 lines contain several sentences, but the model was "
            "trained on single sentences. Use --split-sentences.",
        ),
        (
            InputFile(100 * (9 * SENTENCE + " and\n")),
            "100 of the first 100 lines contain several sentences, but the model "
            "was trained on single sentences. Use --split-sentences.",
        ),
        (
            InputFile(6 * "“ Go ! ” He left .\nHe ran .\n"),
            "6 of the first 12 lines contain several sentences, but the model was "
            "trained on single sentences. Use --split-sentences.",
        ),
        (
            InputFile(
                column("If If you you were were north, north,|to to journey journey"),
                input_format="csv",
            ),
            "most words repeat the one before (If If). If the table has a row per "
            "word and subject, keep one row per word.",
        ),
        (
            InputFile("id\ttext\n1\tThe dog .\n\n2\tThe cat .\n"),
            "every line of the text has tabs. If it is a table, use --input-format tsv "
            "and --text-column, and --no-header if it has no header. If each line has "
            'a word, write one sentence per line: `awk \'NF {printf "%s ", $1; next} '
            """{print ""}' a > a.lines.txt` takes the words in column 1.""",
        ),
        (
            InputFile(BOOK),
            "the text seems to be hard-wrapped: most lines end within a sentence. "
            "Use --paragraphs to join the lines until a blank line.",
        ),
        (
            InputFile(
                "the café\nHe isn’t here —\n“ never ” … a‘b é\n", expected=ENGLISH
            ),
            "6 tokens with typographic marks (isn’t — “), which the model hardly "
            "knows, the first in line 2. If the text is raw, use --tokenizer moses. If "
            "it is tokenized, replace them by plain quotes and dashes.",
        ),
        (
            InputFile(
                "1\tthe\t_\t_\t_\t_\t0\t_\t_\t_\n2\t’s\t_\t_\t_\t_\t0\t_\t_\t_\n\n",
                input_format="conllu",
                expected=ENGLISH,
            ),
            "1 token with typographic marks (’s), which the model hardly knows, "
            "the first in line 1. If the text is raw, use --tokenizer moses. If it is "
            "tokenized, replace them by plain quotes and dashes.",
        ),
        (
            InputFile("It rained .\nShe didn\x92t \x96 know .\n\x93Café\x94 “yes” .\n"),
            "control characters (U+0080 to U+009F): 4, the first in line 2. They "
            "are probably quotes and dashes of Windows-1252 that were read as "
            "Latin-1. Repair them with `perl -CSD -MEncode -pe "
            "'s/[\\x80-\\x9f]/decode(\"cp1252\", $&)/ge' a > a.clean`.",
        ),
        (
            InputFile("\ufeffIt rained .\n\ufeffThe \ufeffdog\ufeff .\n"),
            "byte order marks (U+FEFF) within lines: 2, the first in line 2. They "
            "become part of words. Remove them with `perl -pe "
            "'s/\\xef\\xbb\\xbf//g' a > a.clean`.",
        ),
    ],
    ids=str,
)
def test_text_of_another_kind_is_warned_of_once(
    text: InputFile, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(text, caplog) == [warning]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "text",
    [
        InputFile("a bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", expected=BYTES),
        InputFile(12 * "éé", expected=BYTES),
        InputFile(24 * "éé", expected=CHARACTERS),
        InputFile(f"a\nb {LINK}\n{LINK} c\n"),
        InputFile(5 * "今天 天气 很 好 。\n"),
        InputFile(5 * "วันนี้ อากาศ ดี มาก\n"),
        InputFile(5 * "오늘은 날씨가 좋습니다\n"),
        InputFile(5 * "Donaudampfschifffahrt\n"),
        InputFile(">a\nMKV\n", input_format="fasta", expected=BYTES),
        InputFile(column("1990 was a year|5"), input_format="csv"),
        InputFile(
            column("Yes|no|maybe|Help!|never|often|always|who?|why"), input_format="csv"
        ),
        InputFile(
            column("Yes.|No.|Never!|Why?|Perhaps.|Sure.|Thanks!|What?|Stop!|Go."),
            input_format="csv",
        ),
        InputFile(
            column("river|dog|desk|table|letter|window|garden|item|paper|street"),
            input_format="csv",
        ),
        InputFile(
            column("Hund|Haus|Tisch|Fenster|Garten|Nummer|Papier|Blume|Zug|Brief"),
            input_format="csv",
        ),
        InputFile(
            column("ELEPHANT|HOSPITAL|BUILDING|MOUNTAIN|PROBLEMS|QUESTION|UMBRELLA"),
            input_format="csv",
        ),
        InputFile(
            column("PRESIDENT WINS THE ELECTION|STORM HITS THE COAST|MARKETS FALL|A"),
            input_format="csv",
        ),
        InputFile(
            column(
                "The U.S. Senate met.|Mr. Smith and Dr. Jones came.|Gov. Lee "
                "met Sen. Poe.",
                times=4,
            ),
            input_format="csv",
        ),
        InputFile(
            column("Smith et al. The study|cats etc. They ran|7 p.m. The end", times=3),
            input_format="csv",
        ),
        InputFile(
            column(
                "Die Pension inkl. Frühstück kostet evtl. Geld.|Am 3. Mai kam er.",
                times=5,
            ),
            input_format="csv",
        ),
        InputFile(
            column(
                'He said, "Stop!" and left.|Wait... What is it|Yahoo buys X: report',
                times=4,
            ),
            input_format="csv",
        ),
        InputFile(
            column("M K V L S P A D K T|C A S S L G N E Q F", times=5),
            input_format="csv",
        ),
        InputFile(
            column("He said that that was a very, very long day.|No no no no."),
            input_format="csv",
        ),
        InputFile(
            (
                '{"tokens": ["C", "A", "S", "S", "L", "G", "N", "E", "Q", '
                '"F"]}\n{"tokens": ["C", "A", "S", "S", "L", "G", "V", "A", "T", '
                '"G", "E", "L", "F"]}\n{"tokens": ["C", "A", "S", "S", "Q", "E", '
                '"E", "G", "G", "G", "S", "W"]}\n{"tokens": ["C", "A", "S", "S", '
                '"P", "G", "T", "G", "G", "N", "E", "Q", "F"]}\n{"tokens": ["C", '
                '"A", "S", "S", "L", "R", "D", "S", "Y", "E", "Q", "F"]}\n'
            ),
            input_format="jsonl",
        ),
        InputFile(
            ">CASSLGNEQF\nCASSLGNEQF\n>CASSLGVATGELF\nCASSLGVATGELF\n>CASSQEEGGGSW\nCASSQEEGGGSW\n>CASSPGTGGNEQF\nCASSPGTGGNEQF\n>CASSLRDSYEQF\nCASSLRDSYEQF\n",
            input_format="fasta",
        ),
        InputFile("ELEPHANT\nHOSPITAL\nBUILDING\nMOUNTAIN\nPROBLEMS"),
        InputFile("The\tdog\tbarked\t.\nIt\trained\t.\n"),
        InputFile("The dog .\na\tb\n"),
        InputFile("a\tb\n"),
        InputFile(
            10
            * (
                "The river rose in the night and the people of the town went up "
                "into the hills . "
            )
        ),
        InputFile(
            100
            * (
                "The river rose in the night and the people of the town went up "
                "into the hills .\n"
            )
        ),
        InputFile(HEADLINES),
        InputFile(100 * "word\n"),
        InputFile(
            "Mr. Poe left .\nHe met J . K . Lee .\nIt rained . She ran .\nIt "
            "did .\nIt did .\nIt did .\nIt did .\nIt did .\n"
        ),
        InputFile("We sat by the river .\n"),
        InputFile("a b Mr. d\ne e e e e e e e e e e e e e e e e \n"),
        InputFile('. , " ?\n'),
        InputFile("He isn’t here —\n"),
        InputFile("He isn’t here — \n", expected=FRENCH),
        InputFile(
            "He isn’t here  —\n", expected=ENGLISH, tokenizer=make_tokenizer("moses")
        ),
        InputFile("z.B. d.h. u.a.\n", tokenizer=make_tokenizer("moses", "de")),
        InputFile("It rained .\nShe didn’t – know .\n“Café” “yes” .\n"),
    ],
    ids=str,
)
def test_good_text_has_no_warning(
    text: InputFile, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(text, caplog) == []
