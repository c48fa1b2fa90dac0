"""CSV, TSV, JSON arrays and Parquet: what is read, and what is refused."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.text import (
    DEFAULT_TEXT_SETTINGS,
    InputFormatName,
    Quotes,
    TextSettings,
)
from elmo_cli.records.columns import renamed_columns
from elmo_cli.records.ids import IdRules
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import open_records
from elmo_cli.records.record import Record
from elmo_cli.records.warnings.expected import UNKNOWN
from tests.support.table_files import NAMES, write_table

pytestmark = pytest.mark.usefixtures("folder")


def read(
    path: str | Path,
    settings: TextSettings = DEFAULT_TEXT_SETTINGS,
    *,
    ids_name_datasets: bool = True,
) -> list[Record]:
    """Read the records of a table, which may have no tokens."""
    rules = IdRules(ids_name_datasets=ids_name_datasets)
    expected = UNKNOWN._replace(may_be_empty=True)
    table = open_input(path, settings)
    with open_records(table, expected, id_rules=rules) as (records, *_):
        return list(records)


def read_text(content: str, name: str = "a.csv", **settings: Any) -> list[Record]:
    """Write a table to the current folder, and read its records."""
    Path(name).write_text(content, encoding="utf-8", newline="")
    return read(Path(name), TextSettings(**settings))


Row = dict[str, Any]
ITEMS: list[Row] = [
    {"id": "a/1", "text": 'The "river" rose, they said.', "year": "1910", "note": None},
    {"id": "a2", "text": "The bank\tclosed\nearly .", "year": "1931", "note": "x"},
    {"id": "a3", "text": None, "year": "1932", "note": "ü"},
]
KEYS: list[Row] = [{"key": "7", "sentence": "a b", "text": "c"}]
TOKENS = [{"text": "New", "id": 0, "start": 0}, {"text": "Oslo", "id": 1, "start": 4}]
NESTED: Row = {
    "data": {"text": "a b", "meta": {"key": 7, "n": 3}},
    "id": "x",
    "data.n": 1,
}
PATHS = {"text_column": "data.text", "id_column": "data.meta.key"}
VALUES = ("json", "jsonl", "parquet")
"""Formats whose values have types."""


PRODIGY: list[Row] = [{"text": "New  Oslo.", "tokens": TOKENS}]


def keep(*columns: str, **settings: Any) -> TextSettings:
    return TextSettings(keep_columns=columns, **settings)


def items(*columns: str) -> list[tuple[str, str, Row]]:
    return [
        (item["id"], item["text"] or "", {name: item[name] for name in columns})
        for item in ITEMS
    ]


LISTS: list[Row] = [
    {"id": n, "tokens": ["New York", "."], "text": "a"} for n in range(8)
]
COUNTS: list[Row] = [{"tokens": 5, "text": "The old dog"}]
FLOATS: list[Row] = [{"id": 1.0, "text": "a"}, {"id": 2.0, "text": "b"}]
SENTENCE = TextSettings(text_column="sentence", id_column="key")
CHOSEN = keep("data.meta.n", "data.n", "id", **PATHS)
FOUND = {"data.meta.n": 3, "data.n": 1, "id": "x"}
LIKE_PATH: list[Row] = [{"data.text": "c", **NESTED}]


class Reading(NamedTuple):
    """Table in some formats, and what is read from it."""

    formats: tuple[str, ...]
    rows: list[Row]
    settings: TextSettings
    expected: Sequence[Any]
    """Id, text or tokens, and kept columns of each record."""


READINGS: dict[str, Reading] = {
    "all columns": Reading(NAMES, ITEMS, keep("all"), items("year", "note")),
    "a column": Reading(NAMES, ITEMS, keep("year"), items("year")),
    "no columns": Reading(NAMES, KEYS, keep(), [(None, "c", {})]),
    "named columns": Reading(NAMES, KEYS, SENTENCE, [("7", "a b", {})]),
    "lists of tokens": Reading(
        VALUES,
        LISTS,
        keep(),
        [(n, ["New York", "."], {}) for n in range(8)],
    ),
    "counts": Reading(
        NAMES,
        COUNTS,
        keep("all"),
        [(None, ["The", "old", "dog"], {"tokens": 5})],
    ),
    "tokens of Prodigy": Reading(
        VALUES, PRODIGY, keep(), [(None, ["New", "Oslo"], {})]
    ),
    "text of Prodigy": Reading(
        VALUES,
        PRODIGY,
        TextSettings(text_column="text"),
        [(None, ["New", "Oslo", "."], {})],
    ),
    "paths": Reading(VALUES, [NESTED], CHOSEN, [(7, "a b", FOUND)]),
    "all fields": Reading(VALUES, [NESTED], keep("all", **PATHS), [(7, "a b", NESTED)]),
    "like a path": Reading(
        VALUES,
        LIKE_PATH,
        TextSettings(text_column="data.text"),
        [("x", "c", {})],
    ),
    "whole floats as ids": Reading(
        VALUES, FLOATS, keep(), [(1, "a", {}), (2, "b", {})]
    ),
}


@pytest.mark.parametrize(
    ("name", "what"),
    [(name, what) for what, reading in READINGS.items() for name in reading.formats],
)
def test_every_format_of_tables_is_read(name: InputFormatName, what: str) -> None:
    reading = READINGS[what]
    table = write_table(f"a.{name}", reading.rows)
    quotes: Quotes | None = "csv" if name == "tsv" else None  # A cell has a line end.
    settings = replace(reading.settings, quotes=quotes)
    records = read(table, settings, ids_name_datasets=False)
    for record, (key, text, columns) in zip(records, reading.expected, strict=True):
        if name not in VALUES:
            columns = {
                each: "" if value is None else str(value)
                for each, value in columns.items()
            }
        assert record.id_value == key
        assert dict(record.columns) == columns
        assert text == (record.text if isinstance(text, str) else record.tokens)


def test_kept_columns_have_other_names_than_own_ones() -> None:
    names = renamed_columns(["year", "line", "input_line"], ["line", "id"])
    assert names == {
        "year": "year",
        "line": "input_input_line",
        "input_line": "input_line",
    }


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@given(
    texts=st.lists(cells, min_size=1, max_size=5),
    name=st.sampled_from(["csv", "tsv", "json"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_texts_are_read_back_as_written(texts: list[str], name: str, end: str) -> None:
    written = io.StringIO(newline="")
    if name == "json":
        json.dump([{"text": text} for text in texts], written)
    else:
        # Before Python 3.12, only characters of the line end itself are quoted by
        # default.
        form: Any = {
            "delimiter": "," if name == "csv" else "\t",
            "quoting": csv.QUOTE_ALL,
        }
        writer = csv.writer(written, lineterminator=end, **form)
        writer.writerows([["text", "n"], *([text, "1"] for text in texts)])
    quotes: Quotes | None = "csv" if name == "tsv" else None
    records = read_text(written.getvalue(), f"items.{name}", quotes=quotes)
    assert [record.text for record in records] == texts


# Delimiters, quotes and cells


@pytest.mark.parametrize(
    "header",
    [
        "item,sentence",
        "item;sentence",
        "item\tsentence",
        "item|sentence",
        '"item";"sentence"',
        "sep=;\nitem;sentence",
        '"sep=;"\r\nitem;sentence',
        "SEP=|\nitem|sentence",
    ],
)
@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_the_header_shows_the_delimiter(header: str, name: str) -> None:
    delimiter = next(each for each in ",;\t|" if each in header.splitlines()[-1])
    columns: dict[str, Any] = {"text_column": "sentence", "id_column": "item"}
    content = f'{header}\n1{delimiter}"The dog, barked; a|b."\n'
    [record] = read_text(content, f"a.{name}", **columns)
    assert record.id == "1"
    assert record.text == "The dog, barked; a|b."
    opened = open_input(f"a.{name}", TextSettings(**columns))
    with open_records(opened, id_rules=IdRules(find_integers=True)) as (records, *_):
        assert [(each.id_value, each.id) for each in records] == [(1, "1")]


def test_the_column_of_the_text_decides_between_delimiters() -> None:
    content = "RT (ms, mean, raw);text;b\n1,5;Hi .;c\n"
    [record] = read_text(content, keep_columns=("all",))
    assert record.text == "Hi ."
    assert dict(record.columns) == {"RT (ms, mean, raw)": "1,5", "b": "c"}
    [record] = read_text("text,a;b;c;d\nHi .,x\n", keep_columns=("a;b;c;d",))
    assert record.text == "Hi ."


def test_a_delimiter_may_be_named() -> None:
    assert read_text("sep=;\nid:text\n1:a;b\n", delimiter=":")[0].text == "a;b"


QUOTED = """id\ttext
a\t" The old plant stood ,
b\tHe closed the plant .
c\tWe must water it . "
d\t" Why ? " she said .
e\t" We must water it . "
"""


def test_quotes_may_be_text() -> None:
    records = read_text(QUOTED, quotes="none")
    assert [f"{each.id}\t{each.text}" for each in records] == QUOTED.splitlines()[1:]
    records = read_text('text\n"a\n""\nb\n', quotes="none")
    assert [each.text for each in records] == ['"a', '""', "b"]


def test_quotes_of_tsv_that_may_be_text_are_errors() -> None:
    records = read_text(QUOTED, "a.tsv", skip_errors=True)
    advice = (
        ". If quotes are text, use quotes='none', "
        "and if they enclose cells or lines, quotes='csv'."
    )
    assert [str(each.error) for each in records if each.error] == [
        f"a.tsv, line 2: not valid TSV: a quoted cell has no end{advice}",
        f"a.tsv, line 5: not valid TSV: '\t' expected after '\"'{advice}",
        f'a.tsv, line 6: the cell " We must water it . " is in quotes{advice}',
    ]
    assert read_text('"id"\t"text"\n"a"\t" We must "\n', "a.tsv")[0].text == " We must "
    records = read_text(
        'id\ttext\na\t"We, ""must"""\n\nb\t"c\nd"\n', "a.tsv", quotes="csv"
    )
    assert [each.text for each in records] == ['We, "must"', "c\nd"]


def test_a_header_may_have_any_length() -> None:
    name = "x" * 200_000
    for delimiter, suffix in ((",", "csv"), ("\t", "tsv")):
        content = f"text{delimiter}{name}\na b{delimiter}c\n"
        assert read_text(content, f"a.{suffix}")[0].text == "a b"


def test_cells_may_have_any_length() -> None:
    records = read_text(f'id,text\n1,"{"word " * 30_000}"\n2,"{"w" * 200_000}"\n')
    assert [len(each.text) for each in records] == [150_000, 200_000]


def test_rows_of_empty_cells_are_skipped() -> None:
    records = read_text("\n,,,\nid,text,cond,\n1,a,x,\n,,,\n\n2,b,x,\n,,,,,,\n,,,\n")
    assert [each.id for each in records] == ["1", "2"]
    assert [each.text for each in records] == ["a", "b"]
    records = read_text('text\na\n""\nb\n')  # The only cell of a row is its text.
    assert [each.text for each in records] == ["a", "", "b"]


@pytest.mark.parametrize(
    ("ids", "values"),
    [
        ("9223372036854775807 -9223372036854775808 0", [2**63 - 1, -(2**63), 0]),
        ("1294030472427835393 7", [1294030472427835393, 7]),
        ("1.0 2.0", [1, 2]),
        *(
            (text, text.split())
            for text in ("9223372036854775808", "-9223372036854775809")
        ),
        *((text, text.split()) for text in ("01", "1.5", "1 x")),
    ],
)
def test_ids_of_64_bits_are_integers(ids: str, values: list[int | str]) -> None:
    Path("a.csv").write_text(
        "id,text\n" + "".join(f"{each},a\n" for each in ids.split())
    )
    with open_records(open_input("a.csv"), id_rules=IdRules(find_integers=True)) as (
        records,
        *_,
    ):
        assert [record.id_value for record in records] == values


# What is refused


def test_tables_may_be_small() -> None:
    sizes = [len(read_text(content)) for content in ('text\n"a\n\nb"\n', "")]
    assert [*sizes, len(read_text("[]", "a.json"))] == [1, 0, 0]


def test_a_file_of_another_form_is_an_error() -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match=r"a\.parquet: cannot read the Parquet file: "):
        read_text("text", "a.parquet")
    with pytest.raises(
        InputError,
        match=r"a\.json: not valid JSON: too many nested brackets. Correct the file\.$",
    ):
        read_text("[" * 100_000, "a.json")


def test_rows_in_error_may_be_skipped() -> None:
    Path("a.csv").write_bytes(b'id,text\n1,a\n2\n3,"b\n\xff"\n4,d\n')
    records = read(Path("a.csv"), TextSettings(skip_errors=True))
    assert [record.id for record in records] == ["1", None, None, "4"]
    assert str(records[1].error).endswith(
        "line 3: expected 2 fields, as in the header, found 1. Add the missing cells."
    )
    assert "line 5, column 1: not valid UTF-8 (byte 0xff)" in str(records[2].error)


@pytest.mark.parametrize("opened", range(5))
@pytest.mark.parametrize("closing", ["", '"d"x', "'"])
def test_an_open_quote_skips_its_line_only(opened: int, closing: str) -> None:
    cells = ["a", "b", "c", "d", "e"]
    cells[opened] = f'"{cells[opened]}'
    content = "".join(f"{number},{cell}\n" for number, cell in enumerate(cells))
    records = read_text(f"id,text\n{content}9,f{closing}\n", skip_errors=True)
    expected = ["0", "1", "2", "3", "4", "9"]
    expected[opened] = None  # type: ignore[call-overload]
    assert [record.id for record in records] == expected
    assert f"line {opened + 2}: not valid CSV" in str(records[opened].error)


# Streams


@pytest.mark.parametrize("name", ["csv", "json"])
def test_an_open_file_and_bytes_are_read(name: InputFormatName) -> None:
    path = Path(f"a.{name}")
    write_table(path, [{"text": "a\rb\nc", "id": "1"}])
    counts: list[int] = []
    with open_records(open_input(path), on_bytes=counts.append) as (records, *_):
        assert [record.text for record in records] == ["a\rb\nc"]
    assert sum(counts) == path.stat().st_size
    text = TextSettings(input_format=name)
    with (
        path.open(newline="") as file,
        open_records(open_input(file, text)) as (records, *_),
    ):
        assert [record.text for record in records] == ["a\rb\nc"]


def test_bytes_of_parquet_are_counted() -> None:
    path = write_table(
        "a.parquet", [{"text": f"word {number}"} for number in range(3000)]
    )
    counts: list[int] = []
    with open_records(open_input(path), on_bytes=counts.append) as (records, *_):
        assert len(list(records)) == 3000
    assert sum(counts) == Path(path).stat().st_size
    assert len(counts) > 2
