"""Rows of tables, read and joined by the readers that people use."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import elmo, run_r
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.cli.answers import LIKE_MISSING, RowWriter, cell
from elmo_cli.errors import InputError

HARD = [
    *('"', '""', "'", '"a', 'a"b', ",", "\t", "\n", "a\nb", "\\", '\\"', "#", "# a", " ", " a "),
    *("=1+1", "-", "--", ";", "|", "a;b|c", "T", "TRUE", "1", "01", "1e5", "0x10", "Inf", "東京"),
    *("a\rb", "a\r\nb", "\r"),
    *("\N{NO-BREAK SPACE}", "\u2028", "\x85", "\x0b", "é", "e\u0301", "😀", "<S>", "%s", "`", "/*"),
]
"""Tokens that a reader may misread."""
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
formats = st.sampled_from(["csv", "tsv"])
Rows = list[dict[Any, Any]]


def table(tokens: Sequence[object], row_format: str = "csv", **columns: object) -> str:
    written: list[str] = []
    writer = RowWriter(written.append, row_format, ["id", "token", "surprisal"])
    for number, token in enumerate(tokens):
        writer.write([(f"s{number}", token, 0.5)], columns)
    writer.write([])
    return "".join(written)


@given(st.lists(texts, min_size=1), formats)
def test_python_reads_back_every_text(tokens: list[str], row_format: str) -> None:
    text = table(tokens, row_format)
    delimiter = {"csv": ",", "tsv": "\t"}[row_format]
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    assert [row[1] for row in rows] == ["token", *tokens]
    assert [json.loads(line)["token"] for line in table(tokens, "jsonl").split("\n")[:-1]] == tokens


@given(st.lists(texts.filter(lambda text: text not in LIKE_MISSING), min_size=1), formats)
def test_pandas_reads_back_every_text(tokens: list[str], row_format: str) -> None:
    pandas = pytest.importorskip("pandas")
    read = {"csv": pandas.read_csv, "tsv": pandas.read_table}[row_format]
    # The first token keeps pandas from reading a column of numbers.
    frame = read(io.BytesIO(table(["the", *tokens], row_format).encode()))
    assert list(frame["token"]) == ["the", *tokens]
    assert list(frame["id"]) == [f"s{number}" for number in range(1 + len(tokens))]


@pytest.mark.parametrize("row_format", ["csv", "tsv"])
@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb"])
def test_readers_give_every_row_and_token(row_format: str, package: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{row_format}"
    path.write_text(table(["the", *HARD], row_format), encoding="utf-8", newline="")
    assert [row["token"] for row in READERS[package](path)] == ["the", *HARD]


def read_with_pandas(path: Path) -> Rows:
    pandas = pytest.importorskip("pandas")
    frame = (pandas.read_csv if path.suffix == ".csv" else pandas.read_table)(path)
    return list(frame.to_dict("records"))


def read_with_polars(path: Path) -> Rows:
    polars = pytest.importorskip("polars")
    frame = polars.read_csv(path, separator="," if path.suffix == ".csv" else "\t")
    return list(frame.rows(named=True))


def read_with_duckdb(path: Path) -> Rows:
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql(f"SELECT * FROM '{path}'")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


READERS: dict[str, Callable[[Path], Rows]] = {
    "pandas": read_with_pandas,
    "polars": read_with_polars,
    "duckdb": read_with_duckdb,
}


@pytest.mark.parametrize(("row_format", "read"), [("csv", "read.csv"), ("tsv", "read.delim")])
def test_r_gives_every_row_and_token(row_format: str, read: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{row_format}"
    path.write_text(table(["the", *HARD], row_format), encoding="utf-8", newline="")
    code = f"for (t in {read}('{path}')$token) cat(utf8ToInt(t), '\\n')"
    tokens = ["".join(map(chr, map(int, line.split()))) for line in run_r(code).splitlines()]
    # R reads every line end in a text as a line feed.
    assert tokens == [re.sub("\r\n?", "\n", token) for token in ["the", *HARD]]


TEXTS = [
    *("the cat sat", 'the "cat" sat', '" the "', "the NA cat", "None null", "the\tcat", "the\ncat"),
    *("the , cat", "東京 the", "naïve ' cat", "\\ the # ;", "the | cat", "1 2 3", "TRUE F T"),
]
STIMULI = [(f"s{n:02}", TEXTS[n % len(TEXTS)], n % 2) for n in range(40)]
JOINED = Counter({(name, group): len(text.split()) for name, text, group in STIMULI})
"""Number of joined rows of each id and condition."""


@pytest.mark.usefixtures("word_model")
@pytest.mark.parametrize("row_format", ["tsv", "csv"])
@pytest.mark.parametrize("package", [*READERS, "R"])
def test_one_command_gives_a_table_that_joins_by_id(package: str, row_format: str) -> None:
    stimuli, surprisals = Path("stimuli.csv"), Path(f"table.{row_format}")
    with open(stimuli, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text", "condition"), *STIMULI])
    options = ["--tokenizer", "whitespace", *(["--format", "csv"] if row_format == "csv" else [])]
    result = elmo("surprisal", "stimuli.csv", "--model", "model", *options)
    assert result.exit_code == 0, result.stderr
    surprisals.write_text(result.stdout, encoding="utf-8", newline="")
    if package == "R":
        assert join_with_r(stimuli, surprisals) == JOINED
        return
    conditions = {row["id"]: row["condition"] for row in READERS[package](stimuli)}
    rows = READERS[package](surprisals)
    assert Counter((row["id"], conditions[row["id"]]) for row in rows) == JOINED
    assert {type(row["surprisal"]) for row in rows} == {float}


def join_with_r(stimuli: Path, table: Path) -> dict[tuple[str, int], int]:
    read = "read.csv" if table.suffix == ".csv" else "read.delim"
    code = (
        f"joined <- merge(read.csv('{stimuli}'), {read}('{table}'), by = 'id')\n"
        "stopifnot(is.numeric(joined$surprisal))\n"
        "counts <- aggregate(surprisal ~ id + condition, joined, length)\n"
        "write.csv(counts, row.names = FALSE)\n"
    )
    _, *rows = csv.reader(run_r(code).splitlines())
    return {(name, int(group)): int(n) for name, group, n in rows}


def test_texts_that_are_read_as_missing_are_counted() -> None:
    writer = RowWriter(lambda text: None, "csv", ["token"])
    writer.write([["NA"], ["None"], [None], ["nature"]], {"kept": "null"})
    assert writer.like_missing == {"NA": 1, "None": 1}


def test_missing_values_and_numbers_are_cells() -> None:
    values: list[Any] = [None, "", True, 3, 2.0, 1.5e-7, -0.0123456789, 0.0]
    assert [cell(value) for value in values] == [
        *("", '""', "1", "3", "2.000000", "1.5e-07", "-0.012346", "0.000000")
    ]


def test_kept_columns_are_exact_and_may_be_renamed() -> None:
    text = table(["a"], condition="x,y", token=0.1 + 0.2, parts=["b", 1])
    assert text == (
        "id,token,surprisal,condition,input_token,parts\n"
        's0,a,0.500000,"x,y",0.30000000000000004,"[""b"", 1]"\n'
    )
    assert json.loads(table(["a"], "jsonl", id=7)) == {
        **{"id": "s0", "token": "a", "surprisal": 0.5, "input_id": 7}
    }


def test_a_table_without_rows_has_a_header() -> None:
    assert table([], "tsv") == "id\ttoken\tsurprisal\n"
    assert table([], "jsonl") == ""


def test_records_with_other_columns_fit_json_alone() -> None:
    for row_format in ("csv", "jsonl"):
        writer = RowWriter(lambda text: None, row_format, ["token"])
        writer.write([["a"]], {"x": 1})
        writer.write([["a"]])
        if row_format == "jsonl":
            writer.write([["a"]], {"y": 1})
            continue
        with pytest.raises(InputError, match=r"^column 'y': the first record does not have it"):
            writer.write([["a"]], {"y": 1})
