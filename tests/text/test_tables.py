"""CSV, TSV, JSON arrays and Parquet: what is read, and what is refused."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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

NAMES = ("csv", "tsv", "json", "parquet")
Row = dict[str, Any]


def write(path: Path, rows: list[Row]) -> None:
    """Write a table, by the suffix of its path."""
    names = list(rows[0])
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.Table.from_pylist(rows)
        __import__("pyarrow.parquet").parquet.write_table(table, path, row_group_size=3)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    else:
        delimiter = "," if path.suffix == ".csv" else "\t"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names, delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)


def read(
    path: Path, settings: TextSettings = DEFAULT_SETTINGS, ids: IdUse = "datasets"
) -> list[Record]:
    """Read the records of a table."""
    with open_records(open_input(path, settings), ids=ids) as (records, *_):
        return list(records)


def error_of(path: Path, settings: TextSettings = DEFAULT_SETTINGS) -> str:
    """Read a table that is not valid; return the error without the path."""
    with pytest.raises(InputError) as caught:
        read(path, settings)
    return str(caught.value).removeprefix(str(path))


ITEMS: list[Row] = [
    {"id": "a/1", "text": 'The "river" rose, they said.', "year": "1910", "note": None},
    {"id": "a2", "text": "The bank\tclosed\nearly .", "year": "1931", "note": "x"},
    {"id": "a3", "text": None, "year": "1932", "note": "ü"},
]


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_records_with_ids_and_columns(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"items.{name}"
    write(path, ITEMS)
    quotes = "csv" if name == "tsv" else None  # A cell has a line end.
    settings = TextSettings(keep_columns=("all",), tokenizer="whitespace", quotes=quotes)
    records = read(path, settings, "all")
    assert [record.id for record in records] == ["a/1", "a2", "a3"]
    assert [record.text for record in records] == [item["text"] or "" for item in ITEMS]
    assert [record.tokens for record in records] == [(i["text"] or "").split() for i in ITEMS]
    missing = None if name in ("json", "parquet") else ""
    columns = [{"year": i["year"], "note": i["note"] or missing} for i in ITEMS]
    assert [dict(record.columns) for record in records] == columns
    assert "cannot name a dataset of HDF5" in error_of(path, TextSettings(quotes=quotes))
    one = read(path, TextSettings(keep_columns=("year",), quotes=quotes), "all")
    assert [dict(record.columns) for record in one] == [{"year": item["year"]} for item in ITEMS]


def test_kept_columns_are_read_by_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    write(path, ITEMS)
    for keep_columns, names in {("all",): ["year", "note"], ("year",): ["year"], (): []}.items():
        settings = TextSettings(keep_columns=keep_columns)
        with open_records(open_input(path, settings)) as (records, *_):
            assert [list(record.columns) for record in records] == [names] * len(ITEMS)


def test_kept_columns_have_other_names_than_own_ones() -> None:
    names = renamed_columns(["year", "line", "input_line"], ["line", "id"])
    assert names == {"year": "year", "line": "input_input_line", "input_line": "input_line"}


@pytest.mark.parametrize("name", NAMES)
def test_columns_may_be_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"items.{name}"
    write(path, [{"key": "7", "sentence": "a b", "text": "c"}])
    [record] = read(path)
    assert (record.tokens, record.id, dict(record.columns)) == (["c"], None, {})
    [record] = read(path, TextSettings(text_column="sentence", id_column="key"))
    assert (record.tokens, record.id) == (["a", "b"], "7")


@pytest.mark.parametrize("name", ["csv", "tsv", "parquet"])
def test_a_missing_column_lists_the_columns(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"items.{name}"
    write(path, [{"key": "7", "sentence": "a b"}])
    columns = "The columns are 'key', 'sentence'."
    assert error_of(path) == (
        f": no column 'tokens' or 'text'. {columns} Choose one with --text-column."
    )
    assert error_of(path, TextSettings(text_column="x")).startswith(f": no column 'x'. {columns}")
    options = TextSettings(text_column="sentence", id_column="id")
    assert error_of(path, options) == (f": no column 'id'. {columns} Choose one with --id-column.")
    options = TextSettings(text_column="sentence", keep_columns=("year",))
    assert error_of(path, options).startswith(f": no column 'year'. {columns}")


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_a_missing_field_is_an_error_of_its_record(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"items.{name}"
    row = '{"key": "7", "sentence": "a b"}'
    path.write_text(f"[{row}]" if name == "json" else row)
    location = "record 1" if name == "json" else "line 1"
    assert error_of(path, TextSettings(text_column="x")) == (
        f", {location}: expected a field 'x', found 'key', 'sentence'. "
        "Choose one with --text-column."
    )
    options = TextSettings(text_column="sentence", id_column="id")
    assert error_of(path, options) == f", {location}: field 'id': expected an id, found none"


def test_lists_of_tokens_are_read_from_parquet(tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    write(path, [{"id": number, "tokens": ["New York", "."], "text": "a"} for number in range(8)])
    records = read(path)
    assert [record.id for record in records] == list("01234567")
    assert all(record.tokens == ["New York", "."] for record in records)


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
            delimiter = "," if name == "csv" else "\t"
            # Before Python 3.12, only characters of the line end itself are quoted by default.
            writer = csv.writer(
                file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL
            )
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
    assert error_of(path, TextSettings("jsonl", delimiter=":")) == (
        "--delimiter requires --input-format csv or tsv, found jsonl"
    )
    assert error_of(path, TextSettings("text", quotes="none")) == (
        "--quotes requires --input-format csv or tsv, found text"
    )


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
    assert error_of(path).startswith(", line 4: not valid TSV: a quoted cell has no end")


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
    ("ids", "are_integers"),
    [
        (["9223372036854775807", "-9223372036854775808", "0"], True),
        (["1294030472427835393", "7"], True),
        (["1.0", "2.0"], True),
        (["9223372036854775808"], False),
        (["-9223372036854775809"], False),
        (["01"], False),
        (["1.5"], False),
        (["1", "x"], False),
    ],
)
def test_ids_of_64_bits_are_integers(ids: list[str], are_integers: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,text\n" + "".join(f"{each},a\n" for each in ids))
    with open_records(open_input(path), finds_integers=True) as (records, *_):
        values = [id_value(record.id) for record in records]
    integers = [int(each.removesuffix(".0")) for each in ids] if are_integers else []
    assert values == (integers or ids)


@pytest.mark.parametrize("name", ["json", "parquet"])
def test_ids_that_are_whole_floats_are_integers(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name}"
    write(path, [{"id": 1.0, "text": "a"}, {"id": 2.0, "text": "b"}])
    assert [id_value(record.id) for record in read(path)] == [1, 2]
    write(path, [{"id": 1.0, "text": "a"}, {"id": 2.5, "text": "b"}])
    assert error_of(path).endswith(" 2: field 'id': expected a text or an integer, found 2.5")


# Which column, and which field


@pytest.mark.parametrize("name", NAMES)
def test_counts_of_tokens_are_no_text(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name}"
    write(path, [{"tokens": 5 if name in ("json", "parquet") else "5", "text": "The old dog"}])
    [record] = read(path, TextSettings(keep_columns=("all",)))
    assert record.tokens == ["The", "old", "dog"]
    assert list(record.columns) == ["tokens"]


@pytest.mark.parametrize("name", ["json", "parquet"])
def test_tokens_of_prodigy_are_their_texts(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name}"
    tokens = [{"text": "New", "id": 0, "start": 0}, {"text": "Oslo", "id": 1, "start": 4}]
    write(path, [{"text": "New  Oslo.", "tokens": tokens}])
    assert read(path)[0].tokens == ["New", "Oslo"]
    assert read(path, TextSettings(text_column="text"))[0].tokens == ["New", "Oslo", "."]


@pytest.mark.parametrize("name", ["json", "parquet"])
def test_nested_fields_are_named_by_paths(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name}"
    row = {"data": {"text": "a b", "meta": {"key": 7, "n": 3}}, "id": "x", "data.n": 1}
    write(path, [row])
    settings = TextSettings(text_column="data.text", id_column="data.meta.key")
    [record] = read(path, replace(settings, keep_columns=("data.meta.n", "data.n", "id")))
    assert (record.tokens, record.id) == (["a", "b"], "7")
    assert dict(record.columns) == {"data.meta.n": 3, "data.n": 1, "id": "x"}
    [record] = read(path, replace(settings, keep_columns=("all",)))
    assert dict(record.columns) == row
    assert "'data'" in error_of(path, TextSettings(text_column="data.words"))
    write(path, [{"data.text": "c", **row}])  # A column with this name comes first.
    assert read(path, TextSettings(text_column="data.text"))[0].tokens == ["c"]


def test_the_fields_of_json_are_listed_with_their_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"id": 1, "data": {"text": "The cat sat."}}]')
    assert error_of(path) == (
        ", record 1: expected a field 'tokens' or 'text', found 'id', 'data', 'data.text'. "
        "Choose one with --text-column."
    )


# What is refused


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,text\n1,a\n2\n", ", line 3: expected 2 fields, as in the header, found 1"),
        ("a.csv", 'text\n"a\n\nb"\n', None),
        ("a.csv", 'text\n"a"b\n', ", line 2: not valid CSV: ',' expected after '\"'"),
        (
            "a.csv",
            'text\na\n"b\nc\n',
            ", line 3: not valid CSV: a quoted cell has no end. If",
        ),
        ("a.csv", "text,text\na,b\n", ": several columns 'text'. The columns are 'text', 'text'."),
        ("a.csv", "", None),
        (
            "a.tsv",
            "text\tid\na\t1\nb\t1\n",
            ", line 3: the id '1' is also in line 2, but ids name the datasets of HDF5 "
            "and npz. Make them unique, or use --layout packed, Parquet or JSON lines. To number "
            'the records instead, use --id-column "".',
        ),
        (
            "a.tsv",
            "text\tid\na\t1\nb\t\n",
            ', line 3: the id is empty. To number the records instead, use --id-column "".',
        ),
        ("a.json", '{"item": "a"}', ": expected a JSON array of objects, found '{'. If each line"),
        (
            "a.json",
            '[{"text": "a"}',
            ": not valid JSON (line 1, column 15): Expecting ',' delimiter",
        ),
        (
            "a.json",
            '[{"text": "a"},\n {"te',
            ": not valid JSON (line 2, column 3): Unterminated st",
        ),
        ("a.json", '[{"text": "a"}, 3]', ", record 2: expected a JSON object, found 3"),
        ("a.json", f"[{'[' * 100_000}", ": not valid JSON: too many nested brackets"),
        ("a.json", "[]", None),
        ("a.json", "", ": expected a JSON array of objects, found ''. If each line"),
        ("a.parquet", "text", ": cannot read the Parquet file: "),
    ],
)
def test_errors_of_tables_are_one_line(
    name: str, content: str, message: str | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content, newline="")
    if message is None:
        assert len(read(path)) == (content.count("b"))
    else:
        error = error_of(path)
        assert error.startswith(message)
        assert "\n" not in error


def test_rows_in_error_may_be_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,text\n1,a\n2\n3,"b\n\xff"\n4,d\n')
    records = read(path, TextSettings(skip_errors=True))
    assert [record.id for record in records] == ["1", None, None, "4"]
    assert str(records[1].error).endswith("line 3: expected 2 fields, as in the header, found 1")
    assert "line 5, column 1: not valid UTF-8 (byte 0xff)" in str(records[2].error)


@pytest.mark.parametrize("end", [b'"}]', b""])
def test_a_byte_that_is_not_utf8_in_json_is_reported(end: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"text": "caf\xe9' + end)
    assert error_of(path) == (
        ", line 1, column 15: not valid UTF-8 (byte 0xe9). If it is Windows-1252 or "
        "Latin-1, convert it with `iconv -f windows-1252 -t utf-8`."
    )


@pytest.mark.parametrize("name", ["text", "fasta", "conllu"])
def test_columns_of_other_formats_are_refused(name: str) -> None:
    for options, option in (
        (TextSettings(name, text_column="a"), "--text-column"),
        (TextSettings(name, id_column="a"), "--id-column"),
        (TextSettings(name, keep_columns=("all",)), "--keep-columns"),
    ):
        with (
            pytest.raises(InputError, match=f"^{option} has no effect with {name}: it has no col"),
            open_records(open_input(io.StringIO(), options)),
        ):
            pass


def test_parquet_needs_a_file() -> None:
    with (
        pytest.raises(InputError, match="standard input: parquet needs a file, not a stream"),
        open_records(open_input("-", TextSettings("parquet"))),
    ):
        pass


# Streams


@pytest.mark.parametrize("name", ["csv", "json"])
def test_an_open_file_and_bytes_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name}"
    write(path, [{"text": "a\rb\nc", "id": "1"}] * 1)
    counts: list[int] = []
    with open_records(open_input(path), on_bytes=counts.append) as (records, *_):
        assert [record.text for record in records] == ["a\rb\nc"]
    assert sum(counts) == path.stat().st_size
    text = TextSettings(name)
    with path.open(newline="") as file, open_records(open_input(file, text)) as (records, *_):
        assert [record.text for record in records] == ["a\rb\nc"]


def test_bytes_of_parquet_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, [{"text": f"word {number}"} for number in range(3000)])
    counts: list[int] = []
    with open_records(open_input(path), on_bytes=counts.append) as (records, *_):
        assert len(list(records)) == 3000
    assert (sum(counts), len(counts) > 2) == (path.stat().st_size, True)
