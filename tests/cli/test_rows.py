"""Rows of tables, read and joined by the readers that people use."""

import csv
import io
import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from commands import run_r
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
        has_columns = row_format == "csv"
        message = r"^column 'y': the first record does not have it"
        with pytest.raises(InputError, match=message) if has_columns else nullcontext():
            writer.write([["a"]], {"y": 1})


# The readers that people use: every row, token, id and number is there


def read_with(package: str, path: Path) -> list[tuple[str, str, object]]:
    """Return the ids, tokens and surprisals of a table."""
    if package == "R":
        read = "read.csv" if path.suffix == ".csv" else "read.delim"
        code = (
            f"rows <- {read}('{path}'); stopifnot(is.numeric(rows$surprisal))\n"
            "for (n in 1:nrow(rows)) cat(rows$id[n], utf8ToInt(rows$token[n]), '\\n')"
        )
        lines = [line.split() for line in run_r(code).splitlines()]
        return [(name, "".join(map(chr, map(int, codes))), 0.5) for name, *codes in lines]
    module = pytest.importorskip(package)
    if package == "duckdb":
        found: list[tuple[str, str, object]] = module.sql(f"SELECT * FROM '{path}'").fetchall()
        return found
    separator = "," if path.suffix == ".csv" else "\t"
    frame = module.read_csv(path, **{"sep" if package == "pandas" else "separator": separator})
    return list(zip(frame["id"], frame["token"], frame["surprisal"], strict=True))


@pytest.mark.parametrize("row_format", ["csv", "tsv"])
@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb", "R"])
def test_readers_give_every_row_and_token(row_format: str, package: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{row_format}"
    path.write_text(table(["the", *HARD], row_format), encoding="utf-8", newline="")
    # R reads every line end in a text as a line feed.
    tokens = [re.sub("\r\n?", "\n", each) if package == "R" else each for each in ["the", *HARD]]
    expected = [(f"s{number}", token, 0.5) for number, token in enumerate(tokens)]
    assert read_with(package, path) == expected


@given(st.lists(texts.filter(lambda text: text not in LIKE_MISSING), min_size=1), formats)
def test_pandas_reads_back_every_text(tokens: list[str], row_format: str) -> None:
    pandas = pytest.importorskip("pandas")
    separator = {"csv": ",", "tsv": "\t"}[row_format]
    # The first token keeps pandas from reading a column of numbers.
    content = table(["the", *tokens], row_format).encode()
    assert list(pandas.read_csv(io.BytesIO(content), sep=separator)["token"]) == ["the", *tokens]
