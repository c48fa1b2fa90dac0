"""Rows as people have them: without a header, scattered, and FASTA of DNA."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from elmo_cli import ElmoEmbedder, InputError
from elmo_cli.options.text import TextSettings
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import open_records
from elmo_cli.records.record import Record
from tests.support.commands import TINY, elmo

pytestmark = pytest.mark.usefixtures("folder")

COLA = 'gj01\t1\t\tThe cat sat .\ngj01\t0\t*\tCat the "sat .\ngj02\t1\t\tShe ran .\n'


def read(content: str, name: str, **settings: object) -> list[Record]:
    """Read the records of a file in the current folder."""
    Path(name).write_text(content)
    text = open_input(name, TextSettings(**settings))  # type: ignore[arg-type]
    with open_records(text) as read:
        return list(read.records)


# Without a header


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
def test_columns_without_a_header_have_numbers(delimiter: str) -> None:
    content = COLA.replace('"', "").replace("\t", delimiter)
    records = read(
        content,
        "a.csv",
        no_header=True,
        text_column="4",
        id_column="1",
        keep_columns=("2",),
    )
    assert [record.text for record in records] == [
        "The cat sat .",
        "Cat the sat .",
        "She ran .",
    ]
    assert [record.id for record in records] == ["gj01", "gj01", "gj02"]
    assert [record.columns for record in records] == [
        {"2": "1"},
        {"2": "0"},
        {"2": "1"},
    ]


def test_no_header_is_an_option_of_python(tiny: ElmoEmbedder) -> None:
    Path("cola.tsv").write_text(COLA)
    summary = tiny.embed_file(
        "cola.tsv", "o.hdf5", no_header=True, text_column="4", quotes="none"
    )
    assert summary.n_records == 3


def test_no_header_requires_a_table_of_cells() -> None:
    Path("a.jsonl").write_text('{"text": "the cat"}\n')
    result = elmo(
        "embed", "a.jsonl", "o.hdf5", "--no-header", "--input-format", "jsonl"
    )
    expected = "--no-header: requires --input-format csv or --input-format tsv"
    assert f"{expected}, found jsonl" in result.stderr


@pytest.mark.parametrize(
    "row",
    [
        "gj01\t1\t\tThe cat sat on the mat .",
        "1\tBrazil\tn\tnut\tn",
        "1.1.whole\tIf",
        'a,"She ran away!"'.replace(",", "\t"),
    ],
)
def test_an_error_sees_that_a_header_is_missing(row: str) -> None:
    with pytest.raises(InputError) as error:
        read(f"{row}\n{row}\n", "a.tsv")
    assert "the first row looks like data" in str(error.value)
    assert "no_header=True" in str(error.value)


def test_an_error_of_a_header_lists_its_names() -> None:
    with pytest.raises(InputError, match="The columns are 'key', 'satz'"):
        read("key\tsatz\n1\tDer Hund.\n", "a.tsv")


def test_a_sentence_as_the_name_of_a_column_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = read(COLA, "a.tsv", text_column="The cat sat .", quotes="none")
    assert len(records) == 2
    assert "looks like a row of data, which is not read" in caplog.text


# Rows of a text that are not together

SORTED = "word,zone,item\nbank,2,1\nThe,1,1\nThe,1,2\nwas,3,1\nwas,3,2\n"


def test_scattered_rows_of_a_text_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read(SORTED, "sorted.csv", word_column="word", id_column="item")
    assert "the rows of texts are not together, for example of '1'" in caplog.text
    assert "Sort by id" in caplog.text
    assert "Tell them apart by their line or index" not in caplog.text


# Ids that name several texts

CONDITIONS = {"good": "The author is here", "bad": "The author are here"}


def rows_of_conditions(*, by_item: bool = True) -> list[dict[str, object]]:
    """Return the rows of two items in two conditions, with a word per row."""
    rows: list[dict[str, object]] = []
    for condition, text in CONDITIONS.items():
        for item in (1, 2):
            for zone, word in enumerate(text.split(), start=1):
                rows.append(
                    {"item": item, "condition": condition, "zone": zone, "word": word}
                )
    if by_item:
        rows.sort(key=lambda row: str(row["item"]))
    return rows


def csv_of(rows: list[dict[str, object]]) -> str:
    lines = [",".join(map(str, row.values())) for row in rows]
    return "\n".join(["item,condition,zone,word", *lines, ""])


def warnings_of_merged(content: str, name: str, caplog: Any) -> list[str]:
    caplog.clear()
    read(content, name, word_column="word", id_column="item")
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if "several texts" in message]


@pytest.mark.parametrize("by_item", [True, False])
def test_conditions_of_an_item_are_warned_of(caplog: Any, by_item: bool) -> None:
    rows = rows_of_conditions(by_item=by_item)
    [warning] = warnings_of_merged(csv_of(rows), "a.csv", caplog)
    assert warning == (
        "a.csv: the rows of '1' seem to be several texts, one for each 'condition'. "
        "Use id_column='item,condition'."
    )
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    assert warnings_of_merged(lines, "a.jsonl", caplog)


def test_named_conditions_and_sentences_of_a_passage_are_not_warned_of(
    caplog: Any,
) -> None:
    content = csv_of(rows_of_conditions())
    read(content, "a.csv", word_column="word", id_column="item,condition")
    passage = "item,sentence,word\n"
    for number, sentence in enumerate(
        ["It was cold .", "We sat down .", "A dog ran ."]
    ):
        passage += "".join(f"1,{number},{word}\n" for word in sentence.split())
    read(passage, "b.csv", word_column="word", id_column="item")
    assert "several texts" not in caplog.text


def test_rows_that_are_together_are_not_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    content = "".join(
        sorted(SORTED.splitlines(keepends=True)[1:], key=lambda line: line[-2])
    )
    read("word,zone,item\n" + content, "a.csv", word_column="word", id_column="item")
    assert "not together" not in caplog.text


# Small inputs, and words


def test_several_sentences_of_a_table_of_words_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = "The cat came home. It was late. The dog slept.".split()  # noqa: SIM905
    rows = "".join(f"{item},{word}\n" for item in (1, 2) for word in words * 30)
    read(f"id,word\n{rows}", "a.csv", word_column="word")
    assert "2 of the first 2 texts contain several sentences" in caplog.text


def test_numbers_in_place_of_words_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read("id,zone\n1,1\n1,2\n2,1\n2,2\n", "a.csv", word_column="zone")
    assert "the texts of the table are numbers (1 2)" in caplog.text


def test_several_sentences_of_one_text_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read("id,text\n1,The cat came home. It was late.\n", "a.csv")
    assert "the text contains several sentences" in caplog.text


def test_three_sequences_are_suspicious(caplog: pytest.LogCaptureFixture) -> None:
    read("id,text\n1,CASSLGQAYEQYF\n2,CASSPGTGYEQYF\n3,CASSLAGGNEQFF\n", "a.csv")
    assert "3 of the first 3 texts are one word of capital letters" in caplog.text


# FASTA

PROTEIN = "MKTAYIAKQRQISFVKSHFSRQ"


def test_the_whole_header_is_a_column_of_parquet(tiny: ElmoEmbedder) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    Path("a.fasta").write_text(f">a Membrane test\n{PROTEIN}\n>b\n{PROTEIN}\n")
    tiny.embed_file("a.fasta", "o.parquet", "top", pooling="mean")
    tiny.embed_file("a.fasta", "o.jsonl", "top", pooling="mean", file_format="jsonl")
    headers = ["a Membrane test", "b"]
    assert parquet.read_table("o.parquet")["original_id"].to_pylist() == headers
    lines = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
    assert [line["original_id"] for line in lines] == headers


@pytest.mark.parametrize(
    ("sequence", "kind"),
    [
        ("the quick brown fox jumps over the dog", "text"),
        ("läzy dögs", "text"),
        ("ACGTACGTACGT", "DNA"),
        ("acguacguacgu", "RNA"),
    ],
)
def test_sequences_that_are_no_proteins_are_warned_of(
    sequence: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    read(f">a\n{PROTEIN}\n>b\n{sequence}\n>c\n{sequence}\n", "a.fasta")
    found = "sequences that do not look like proteins: 2. The first one, 'b' in line 3"
    assert f"{found}, looks like {kind}" in caplog.text


def test_residues_of_a_table_are_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    read("id,text\nx,ACGTACGTACGT\n", "a.csv", tokenizer="residues")
    assert "The first one, 'x' in line 2, looks like DNA" in caplog.text


@pytest.mark.parametrize("sequence", [PROTEIN, "MXXX*", "GGGG", "AC", "MKU", "M-K*"])
def test_proteins_are_not_warned_of(
    sequence: str, caplog: pytest.LogCaptureFixture
) -> None:
    read(f">a\n{sequence}\n", "a.fasta")
    assert "proteins" not in caplog.text


# Pairs of lists


def test_characters_count_in_joined_tokens_on_both_sides() -> None:
    sentences = {"sentence1": "A bank by the bank", "sentence2": "The bank of a bank"}
    places = {"start1": 14, "end1": 18, "start2": 14, "end2": 18}
    lists = {name: text.split() for name, text in sentences.items()}
    Path("text.jsonl").write_text(json.dumps({**sentences, **places}) + "\n")
    Path("lists.jsonl").write_text(json.dumps({**lists, **places}) + "\n")
    objects = {
        name: [{"text": token, "id": 0} for token in tokens]
        for name, tokens in lists.items()
    }
    Path("objects.jsonl").write_text(json.dumps({**objects, **places}) + "\n")
    printed = []
    for name in ("text.jsonl", "lists.jsonl", "objects.jsonl"):
        options = ["--format", "csv", "--tokenizer", "whitespace", "--layers", "2"]
        result = elmo("cosine", "--pairs", name, "--model", TINY, *options)
        assert result.exit_code == 0, result.stderr
        (row,) = csv.DictReader(io.StringIO(result.stdout))
        assert {name: row[name] for name in sentences} == sentences
        printed.append(row["cosine"])
    assert printed[0] == printed[1] == printed[2] != ""


def test_a_second_sentence_of_other_values_is_an_error() -> None:
    pair = {"word": "a", "sentence1": ["a"], "sentence2": [1, 2]}
    Path("pairs.jsonl").write_text(json.dumps(pair) + "\n")
    result = elmo("cosine", "--pairs", "pairs.jsonl", "--model", TINY)
    assert result.exit_code == 1
    message = "pairs.jsonl, line 1: sentence2[0]: expected a string, found 1"
    assert message in result.stderr
