"""`elmo surprisal`: tables of words, regions and pairs, and the figures in them."""

import json
from pathlib import Path

import pytest
from commands import elmo
from table_files import csv_rows

MODEL = ("--model", "model")
ITEMS = """\
id,text,marked,kind
a,"The cat, sat.","The | cat, | sat.",x
b,the cat sat,the cat | sat,y
"""


@pytest.fixture(autouse=True)
def items(word_model: None) -> None:
    """Write a table in the current folder."""
    Path("items.csv").write_text(ITEMS)


def rows_of(*arguments: str) -> list[dict[str, str]]:
    result = elmo("surprisal", "items.csv", *MODEL, "--format", "csv", *arguments)
    assert result.exit_code == 0, result.stderr
    return csv_rows(result.stdout)


def test_words_have_ids_and_the_sums_of_their_tokens() -> None:
    rows = rows_of("--words-by", "space", "--keep-columns", "kind,text")
    names = ["id", "word_number", "word", "tokens", "surprisal", "log_frequency_by_rank"]
    assert list(rows[0]) == [*names, "length", "known", "kind", "text"]
    # <UNK> has 3 bits, cat 3 and sat 4: moses splits off the comma and the full stop.
    cells = [(row["id"], row["word"], row["tokens"], row["surprisal"]) for row in rows]
    assert cells == [
        ("a", "The", "1", "3.000000"),
        ("a", "cat,", "2", "6.000000"),
        ("a", "sat.", "2", "7.000000"),
        ("b", "the", "1", "2.000000"),
        ("b", "cat", "1", "3.000000"),
        ("b", "sat", "1", "4.000000"),
    ]
    assert [row["known"] for row in rows] == ["0", "0", "0", "1", "1", "1"]
    assert rows[0]["text"] == "The cat, sat."


def test_a_tokenizer_of_the_user_splits_the_words() -> None:
    rows = rows_of("--words-by", "space", "--tokenizer", "whitespace")
    assert [row["tokens"] for row in rows] == ["1"] * 6


def test_regions_are_read_from_their_column() -> None:
    rows = rows_of("--regions", "marked", "--direction", "both")
    cells = [(row["id"], row["region_number"], row["region"], row["tokens"]) for row in rows]
    assert cells == [
        ("a", "1", "The", "1"),
        ("a", "2", "cat,", "2"),
        ("a", "3", "sat.", "2"),
        ("b", "1", "the cat", "2"),
        ("b", "2", "sat", "1"),
    ]
    assert rows[3]["surprisal_average"] == "5.000000"


def test_the_entropy_and_the_directions_are_columns() -> None:
    [first, *_] = rows_of("--direction", "both", "--entropy")
    names = ["surprisal_forward", "surprisal_backward", "surprisal_average"]
    assert list(first)[3:8] == [*names, "entropy_forward", "entropy_backward"]


def test_counts_of_a_file_are_log_frequencies() -> None:
    Path("counts.tsv").write_text("word\tcount\nthe\t3\ncat\t1\n")
    rows = rows_of("--frequencies", "counts.tsv", "--tokenizer", "moses")
    cells = [(row["token"], row["log_frequency"]) for row in rows[:3]]
    assert cells == [("The", "-0.415037"), ("cat", "-2.000000"), (",", "")]


def test_words_that_a_list_lacks_are_counted() -> None:
    Path("counts.tsv").write_text("3\tthe\n1\tcats\n")
    result = elmo(
        "surprisal", "items.csv", *MODEL, "--words-by", "space", "--frequencies", "counts.tsv"
    )
    assert result.stderr.endswith(
        "Warning: 4 of 6 rows have no log frequency, because counts.tsv does not contain their "
        "words. Name its columns word and count.\n"
    )
    Path("counts.tsv").write_text("3\tthe\n1\tcat\n")
    rows = rows_of("--words-by", "space", "--frequencies", "counts.tsv")
    expected = ["-0.415037", "-2.000000", "", "-0.415037", "-2.000000", ""]
    assert [row["log_frequency"] for row in rows] == expected
    rows = rows_of("--regions", "marked", "--frequencies", "counts.tsv")
    assert [row["log_frequency"] for row in rows] == [*expected[:3], "-2.415037", ""]


def test_typographic_marks_are_those_that_the_model_knows() -> None:
    table = 'id,text,marked\na,the cat’s — “sat”…,the cat’s | — “sat”…\nb,the cat\'s - "sat"...,|'
    Path("items.csv").write_text(
        table.replace("\n", "\n", 1).replace('the cat\'s - "sat"...', '"the cat\'s - ""sat""..."')
    )
    rows = rows_of("--words-by", "space")
    assert [row["word"] for row in rows] == [
        *("the", "cat’s", "—", "“sat”…"),
        *("the", "cat's", "-", '"sat"...'),
    ]
    names = ("tokens", "surprisal", "log_frequency_by_rank", "known")
    values = [[row[name] for name in names] for row in rows]
    assert values[:4] == values[4:]
    assert [row["region"] for row in rows_of("--regions", "marked")] == ["the cat’s", "— “sat”…"]


def test_words_that_are_read_as_missing_are_named() -> None:
    Path("na.txt").write_text("None of NA , NA\n")
    result = elmo("surprisal", "na.txt", *MODEL)
    assert result.stderr == (
        "Model: model\n"
        "Warning: pandas or R reads 3 texts such as 'NA' and 'None' as missing. Use read_csv(..., "
        'keep_default_na=False, na_values=[""]) in pandas, na.strings="" in R, or --format jsonl.\n'
        "5 tokens, 5 of them unknown\n"
    )
    assert "Warning" not in elmo("surprisal", "na.txt", *MODEL, "--format", "json").stderr


def test_json_is_one_object_per_row_with_kept_columns() -> None:
    result = elmo("surprisal", "items.csv", *MODEL, "--json", "--keep-columns", "all")
    first = json.loads(result.stdout.splitlines()[0])
    assert (first["id"], first["position"], first["token"]) == ("a", 0, "The")
    assert (first["kind"], first["marked"], first["known"]) == ("x", "The | cat, | sat.", False)


def test_the_words_of_a_list_are_tokenized_by_themselves() -> None:
    Path("words.jsonl").write_text('{"id": "n1", "tokens": ["the cat", "sat,", ""]}\n')
    result = elmo("surprisal", "words.jsonl", *MODEL, "--words-by", "space", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    shown = [(row["word_number"], row["word"], row["tokens"]) for row in rows]
    assert shown == [(1, "the cat", 2), (2, "sat,", 2), (3, "", 0)]
    assert [row["surprisal"] for row in rows] == [pytest.approx(5), pytest.approx(7), None]


def test_words_of_regions_have_both() -> None:
    rows = rows_of("--regions", "marked", "--words-by", "space", "--direction", "both")
    cells = [(row["word_number"], row["word"], row["region_number"], row["region"]) for row in rows]
    assert cells == [
        ("1", "The", "1", "The"),
        ("2", "cat,", "2", "cat,"),
        ("3", "sat.", "3", "sat."),
        ("1", "the", "1", "the cat"),
        ("2", "cat", "1", "the cat"),
        ("3", "sat", "2", "sat"),
    ]


# Pairs


def test_pairs_of_two_columns_have_an_accuracy_per_group() -> None:
    Path("pairs.csv").write_text(
        "id,good,bad,kind\np1,the cat,cat sat,x\np2,sat,the,x\np3,the,the,y\np4,the,dog,y\n"
    )
    arguments = ("surprisal", "pairs.csv", *MODEL, "--pairs", "good,bad", "--group-by", "kind")
    result = elmo(*arguments)
    header, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert header == [
        *("id", "surprisal_good", "surprisal_bad", "correct", "unknown_good", "unknown_bad"),
        "kind",
    ]
    # Each sentence ends in </S>, which has 2 bits.
    assert rows == [
        ["p1", "7.000000", "9.000000", "1.000000", "0", "0", "x"],
        ["p2", "6.000000", "4.000000", "0.000000", "0", "0", "x"],
        ["p3", "4.000000", "4.000000", "0.500000", "0", "0", "y"],
        ["p4", "4.000000", "5.000000", "1.000000", "0", "1", "y"],
    ]
    assert result.stderr == (
        "Model: model\n"
        "all pairs: correct forward 2.5 of 4 (62.5%)\n"
        "kind x: correct forward 1 of 2 (50.0%)\n"
        "kind y: correct forward 1.5 of 2 (75.0%)\n"
        "4 pairs, 1 of them with unknown words\n"
    )


def test_pairs_in_both_directions_keep_columns() -> None:
    Path("pairs.csv").write_text("item,good,bad,x\n1,the,cat,2\n2,the,sat,5\n")
    columns = ("--pairs", "good,bad", "--id-column", "item", "--keep-columns", "x,bad")
    result = elmo("surprisal", "pairs.csv", *MODEL, *columns, "--direction", "both")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [(row[0], *row[5:8], *row[-2:]) for row in rows] == [
        ("id", "correct_forward", "correct_backward", "correct_both", "x", "bad"),
        ("1", "1.000000", "1.000000", "1.000000", "2", "cat"),
        ("2", "1.000000", "1.000000", "1.000000", "5", "sat"),
    ]


# Pictures


def test_a_plot_is_drawn() -> None:
    pytest.importorskip("matplotlib", reason='needs pip install "elmo-cli[plot]"')
    result = elmo("surprisal", "items.csv", *MODEL, "--words-by", "space", "--plot", "s.html")
    assert result.stderr == (
        "Model: model\n8 tokens, 3 of them unknown\nWrote s.html: 2 sentences\n"
    )
    assert "cat,: 6.00 bits forward, unknown" in Path("s.html").read_text(encoding="utf-8")
