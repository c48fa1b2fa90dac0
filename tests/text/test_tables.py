"""CSV, TSV, JSON arrays and Parquet: what is read, and what is refused."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_cli.errors import InputError
from elmo_cli.text.input_formats import IdUse, open_input, open_records
from elmo_cli.text.records import DEFAULT_SETTINGS, Record, TextSettings, renamed_columns

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
    records = read(path, TextSettings(keep_columns=("all",)), "all")
    assert [record.id for record in records] == ["a/1", "a2", "a3"]
    assert [record.text for record in records] == [item["text"] or "" for item in ITEMS]
    assert [record.tokens for record in records] == [(i["text"] or "").split() for i in ITEMS]
    missing = None if name in ("json", "parquet") else ""
    columns = [{"year": i["year"], "note": i["note"] or missing} for i in ITEMS]
    assert [dict(record.columns) for record in records] == columns
    assert "cannot name a dataset of HDF5" in error_of(path)
    one = read(path, TextSettings(keep_columns=("year",)), "all")
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
        f": no column 'tokens' or 'text'. {columns} Name the text with --text-column."
    )
    assert error_of(path, TextSettings(text_column="x")).startswith(f": no column 'x'. {columns}")
    options = TextSettings(text_column="sentence", id_column="id")
    assert error_of(path, options) == (
        f": no column 'id'. {columns} Name the ids with --id-column."
    )
    options = TextSettings(text_column="sentence", keep_columns=("year",))
    assert error_of(path, options).startswith(f": no column 'year'. {columns}")


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_a_missing_field_is_an_error_of_its_record(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"items.{name}"
    row = '{"key": "7", "sentence": "a b"}'
    path.write_text(f"[{row}]" if name == "json" else row)
    location = "record 1" if name == "json" else "line 1"
    assert error_of(path, TextSettings(text_column="x")) == (
        f", {location}: expected a field 'x', found 'key', 'sentence'"
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
    assert [record.text for record in read(path)] == texts


# What is refused


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,text\n1,a\n2\n", ", line 3: expected 2 fields, as in the header, found 1"),
        ("a.csv", 'text\n"a\n\nb"\n', None),
        ("a.csv", 'text\n"a"b\n', ", line 2: not valid CSV: ',' expected after '\"'"),
        ("a.csv", 'text\na\n"b\nc\n', ", line 3: not valid CSV: unexpected end of data"),
        ("a.csv", "text,text\na,b\n", ": several columns 'text'. The columns are 'text', 'text'."),
        ("a.csv", "", None),
        (
            "a.tsv",
            "text\tid\na\t1\nb\t1\n",
            ", line 3: the id '1' is that of line 2 already, and ids name the datasets of HDF5 "
            "and npz. Make them unique, or use --layout packed, Parquet or JSON lines. To number "
            'the records instead, use --id-column "".',
        ),
        (
            "a.tsv",
            "text\tid\na\t1\nb\t\n",
            ", line 3: expected an id, found an empty cell. To number the records instead, use "
            '--id-column "".',
        ),
        ("a.json", '{"text": "a"}', ": expected a JSON array of objects, found '{'. If each line"),
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
        ", line 1, column 15: not valid UTF-8 (byte 0xe9). If it is Latin-1, convert it with "
        "`iconv -f latin1 -t utf-8`."
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
