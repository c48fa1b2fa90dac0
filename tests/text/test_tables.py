"""CSV, TSV, JSON arrays and Parquet: what is read, and what is refused."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_files import NAMES, write_table

from elmo_cli.errors import InputError
from elmo_cli.text.ids import IdUse
from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.records import (
    DEFAULT_SETTINGS,
    NumericId,
    Record,
    TextSettings,
    id_value,
    renamed_columns,
)


def read(
    path: Path, settings: TextSettings = DEFAULT_SETTINGS, ids: IdUse = "datasets"
) -> list[Record]:
    """Read the records of a table."""
    with open_records(open_input(path, settings), ids=ids) as (records, *_):
        return list(records)


Row = dict[str, Any]
ITEMS: list[Row] = [
    {"id": "a/1", "text": 'The "river" rose, they said.', "year": "1910", "note": None},
    {"id": "a2", "text": "The bank\tclosed\nearly .", "year": "1931", "note": "x"},
    {"id": "a3", "text": None, "year": "1932", "note": "ü"},
]
KEYS: list[Row] = [{"key": "7", "sentence": "a b", "text": "c"}]
TOKENS = [{"text": "New", "id": 0, "start": 0}, {"text": "Oslo", "id": 1, "start": 4}]
NESTED: Row = {"data": {"text": "a b", "meta": {"key": 7, "n": 3}}, "id": "x", "data.n": 1}
PATHS = TextSettings(text_column="data.text", id_column="data.meta.key")
VALUES = ("json", "jsonl", "parquet")
"""Formats whose values have types."""


PRODIGY: list[Row] = [{"text": "New  Oslo.", "tokens": TOKENS}]


def keep(*columns: str, settings: TextSettings = DEFAULT_SETTINGS) -> TextSettings:
    return replace(settings, keep_columns=columns)


def items(*columns: str) -> list[tuple[str, str, Row]]:
    return [(i["id"], i["text"] or "", {name: i[name] for name in columns}) for i in ITEMS]


LISTS: list[Row] = [{"id": n, "tokens": ["New York", "."], "text": "a"} for n in range(8)]
COUNTS: list[Row] = [{"tokens": 5, "text": "The old dog"}]
FLOATS: list[Row] = [{"id": 1.0, "text": "a"}, {"id": 2.0, "text": "b"}]
SENTENCE = TextSettings(text_column="sentence", id_column="key")
CHOSEN = keep("data.meta.n", "data.n", "id", settings=PATHS)
FOUND = {"data.meta.n": 3, "data.n": 1, "id": "x"}
LIKE_PATH: list[Row] = [{"data.text": "c", **NESTED}]
READINGS: dict[str, tuple[tuple[str, ...], list[Row], TextSettings, Sequence[Any]]] = {
    "all columns": (NAMES, ITEMS, keep("all"), items("year", "note")),
    "a column": (NAMES, ITEMS, keep("year"), items("year")),
    "no columns": (NAMES, KEYS, keep(), [(None, "c", {})]),
    "named columns": (NAMES, KEYS, SENTENCE, [("7", "a b", {})]),
    "lists of tokens": (VALUES, LISTS, keep(), [(n, ["New York", "."], {}) for n in range(8)]),
    "counts": (NAMES, COUNTS, keep("all"), [(None, ["The", "old", "dog"], {"tokens": 5})]),
    "tokens of Prodigy": (VALUES, PRODIGY, keep(), [(None, ["New", "Oslo"], {})]),
    "text of Prodigy": (
        *(VALUES, PRODIGY, TextSettings(text_column="text")),
        [(None, ["New", "Oslo", "."], {})],
    ),
    "paths": (VALUES, [NESTED], CHOSEN, [(7, "a b", FOUND)]),
    "all fields": (VALUES, [NESTED], keep("all", settings=PATHS), [(7, "a b", NESTED)]),
    "like a path": (VALUES, LIKE_PATH, TextSettings(text_column="data.text"), [("x", "c", {})]),
    "whole floats as ids": (VALUES, FLOATS, keep(), [(1, "a", {}), (2, "b", {})]),
}
"""Formats, rows, settings and what is read: ids, texts or tokens, and kept columns."""


@pytest.mark.parametrize(
    ("name", "what"), [(name, what) for what, (names, *_) in READINGS.items() for name in names]
)
def test_every_format_of_tables_is_read(name: str, what: str, tmp_path: Path) -> None:
    _, rows, options, expected = READINGS[what]
    write_table(tmp_path / f"a.{name}", rows)
    quotes = "csv" if name == "tsv" else None  # A cell has a line end.
    records = read(tmp_path / f"a.{name}", replace(options, quotes=quotes), "all")
    for record, (key, text, columns) in zip(records, expected, strict=True):
        if name not in VALUES:
            columns = {each: "" if value is None else str(value) for each, value in columns.items()}
        assert (id_value(record.id), dict(record.columns)) == (key, columns)
        assert text == (record.text if isinstance(text, str) else record.tokens)


def test_kept_columns_have_other_names_than_own_ones() -> None:
    names = renamed_columns(["year", "line", "input_line"], ["line", "id"])
    assert names == {"year": "year", "line": "input_input_line", "input_line": "input_line"}


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(cells, min_size=1, max_size=5),
    name=st.sampled_from(["csv", "tsv", "json"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_texts_are_read_back_as_written(
    texts: list[str], name: str, end: str, tmp_path: Path
) -> None:
    path = tmp_path / f"items.{name}"
    if name == "json":
        path.write_text(json.dumps([{"text": text} for text in texts]), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            # Before Python 3.12, only characters of the line end itself are quoted by default.
            form: Any = {"delimiter": "," if name == "csv" else "\t", "quoting": csv.QUOTE_ALL}
            writer = csv.writer(file, lineterminator=end, **form)
            writer.writerows([["text", "n"], *([text, "1"] for text in texts)])
    quotes = "csv" if name == "tsv" else None
    assert [record.text for record in read(path, TextSettings(quotes=quotes))] == texts


# Delimiters, quotes and cells


@pytest.mark.parametrize(
    "header",
    [
        *("item,sentence", "item;sentence", "item\tsentence", "item|sentence", '"item";"sentence"'),
        *("sep=;\nitem;sentence", '"sep=;"\r\nitem;sentence', "SEP=|\nitem|sentence"),
    ],
)
@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_the_header_shows_the_delimiter(header: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name}"
    delimiter = next(each for each in ",;\t|" if each in header.splitlines()[-1])
    path.write_text(f'{header}\n1{delimiter}"The dog, barked; a|b."\n', newline="")
    settings = TextSettings(text_column="sentence", id_column="item")
    [record] = read(path, settings)
    assert (record.id, record.text) == ("1", "The dog, barked; a|b.")
    with open_records(open_input(path, settings), finds_integers=True) as (records, *_):
        assert [(type(each.id), each.id) for each in records] == [(NumericId, "1")]


def test_the_column_of_the_text_decides_between_delimiters(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("RT (ms, mean, raw);text;b\n1,5;Hi .;c\n")
    [record] = read(path, TextSettings(keep_columns=("all",)))
    assert (record.text, dict(record.columns)) == ("Hi .", {"RT (ms, mean, raw)": "1,5", "b": "c"})
    path.write_text("text,a;b;c;d\nHi .,x\n")
    assert read(path, TextSettings(keep_columns=("a;b;c;d",)))[0].text == "Hi ."


def test_a_delimiter_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sep=;\nid:text\n1:a;b\n")
    assert read(path, TextSettings(delimiter=":"))[0].text == "a;b"


QUOTED = """id\ttext
a\t" The old plant stood ,
b\tHe closed the plant .
c\tWe must water it . "
d\t" Why ? " she said .
e\t" We must water it . "
"""


def test_quotes_may_be_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(QUOTED)
    records = read(path, TextSettings(quotes="none"))
    assert [f"{each.id}\t{each.text}" for each in records] == QUOTED.splitlines()[1:]
    path.write_text('text\n"a\n""\nb\n')
    assert [each.text for each in read(path, TextSettings(quotes="none"))] == ['"a', '""', "b"]


def test_quotes_of_tsv_that_may_be_text_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(QUOTED)
    errors = [str(each.error) for each in read(path, TextSettings(skip_errors=True)) if each.error]
    advice = (
        ". If quotes are text, use --quotes none, and if they enclose cells or lines, --quotes csv."
    )
    assert [error.removeprefix(f"{path}, ") for error in errors] == [
        f"line 2: not valid TSV: a quoted cell has no end{advice}",
        f"line 5: not valid TSV: '\t' expected after '\"'{advice}",
        f'line 6: the cell " We must water it . " is in quotes{advice}',
    ]
    path.write_text('"id"\t"text"\n"a"\t" We must "\n')
    assert read(path)[0].text == " We must "
    path.write_text('id\ttext\na\t"We, ""must"""\n\nb\t"c\nd"\n')
    assert [each.text for each in read(path, TextSettings(quotes="csv"))] == ['We, "must"', "c\nd"]


def test_cells_may_have_any_length(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'id,text\n1,"{"word " * 30_000}"\n2,"{"w" * 200_000}"\n')
    assert [len(record.text) for record in read(path)] == [150_000, 200_000]


def test_rows_of_empty_cells_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n,,,\nid,text,cond,\n1,a,x,\n,,,\n\n2,b,x,\n,,,,,,\n,,,\n")
    assert [(record.id, record.text) for record in read(path)] == [("1", "a"), ("2", "b")]
    path.write_text('text\na\n""\nb\n')  # The only cell of a row is its text.
    assert [record.text for record in read(path)] == ["a", "", "b"]


@pytest.mark.parametrize(
    ("ids", "values"),
    [
        ("9223372036854775807 -9223372036854775808 0", [2**63 - 1, -(2**63), 0]),
        ("1294030472427835393 7", [1294030472427835393, 7]),
        ("1.0 2.0", [1, 2]),
        *((text, text.split()) for text in ("9223372036854775808", "-9223372036854775809")),
        *((text, text.split()) for text in ("01", "1.5", "1 x")),
    ],
)
def test_ids_of_64_bits_are_integers(ids: str, values: list[int | str], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,text\n" + "".join(f"{each},a\n" for each in ids.split()))
    with open_records(open_input(path), finds_integers=True) as (records, *_):
        assert [id_value(record.id) for record in records] == values


# What is refused


@pytest.mark.parametrize(
    ("name", "content", "n_rows"),
    [("a.csv", 'text\n"a\n\nb"\n', 1), ("a.csv", "", 0), ("a.json", "[]", 0)],
)
def test_tables_may_be_small(name: str, content: str, n_rows: int, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, newline="")
    assert len(read(tmp_path / name)) == n_rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", "text", ": cannot read the Parquet file: "),
        ("a.json", "[" * 100_000, ": not valid JSON: too many nested brackets$"),
    ],
    ids=["parquet", "json"],
)
def test_a_file_of_another_form_is_an_error(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=rf"{name}{message}"):
        read(tmp_path / name)


def test_rows_in_error_may_be_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,text\n1,a\n2\n3,"b\n\xff"\n4,d\n')
    records = read(path, TextSettings(skip_errors=True))
    assert [record.id for record in records] == ["1", None, None, "4"]
    assert str(records[1].error).endswith("line 3: expected 2 fields, as in the header, found 1")
    assert "line 5, column 1: not valid UTF-8 (byte 0xff)" in str(records[2].error)


# Streams


@pytest.mark.parametrize("name", ["csv", "json"])
def test_an_open_file_and_bytes_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name}"
    write_table(path, [{"text": "a\rb\nc", "id": "1"}])
    counts: list[int] = []
    with open_records(open_input(path), on_bytes=counts.append) as (records, *_):
        assert [record.text for record in records] == ["a\rb\nc"]
    assert sum(counts) == path.stat().st_size
    text = TextSettings(name)
    with path.open(newline="") as file, open_records(open_input(file, text)) as (records, *_):
        assert [record.text for record in records] == ["a\rb\nc"]


def test_bytes_of_parquet_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_table(path, [{"text": f"word {number}"} for number in range(3000)])
    counts: list[int] = []
    with open_records(open_input(path), on_bytes=counts.append) as (records, *_):
        assert len(list(records)) == 3000
    assert (sum(counts), len(counts) > 2) == (path.stat().st_size, True)
