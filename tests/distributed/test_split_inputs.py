"""Inputs split into parts: any split gives the records and the columns of the whole."""

import datetime
import decimal
import gzip
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from elmo_cli import open_activations
from elmo_cli.callbacks import ignore, never
from elmo_cli.distributed.find_inputs import find_inputs
from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.read_part import read_part
from elmo_cli.distributed.split_inputs import split_inputs
from elmo_cli.errors.exceptions import InputError, OtherInputError
from elmo_cli.files.shared_folder import Folder
from elmo_cli.options.text import TextSettings
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import check_records
from elmo_cli.records.record import Record
from tests.support.commands import TINY, elmo
from tests.support.table_files import write_table

pytestmark = pytest.mark.usefixtures("folder")

SPACE = "\u00a0".encode()
MARK = "\ufeff".encode()
LINES = {
    "text": [b"", b"a b", b"c", "東京 naïve".encode(), b"  d\t", b"\r"],
    # One reader may call a line blank, and another one may not.
    "jsonl": [
        b"",
        SPACE,
        MARK,
        b'{"text": "a b"}',
        MARK + b'{"text": "c"}',
        b"[]",
        b"\xff",
        b"{",
    ],
    # Text before the first header.
    "odd.fasta": [
        b"",
        SPACE,
        MARK,
        b">a b",
        MARK + b">c",
        b"MV",
        b" >d",
        b"\xff",
        b">",
    ],
    "fasta": [
        b"\n>%d of it\nMVLS\nPA\n%s" % (i, end)
        for i in range(5)
        for end in (b"", b"\n")
    ],
}
"""Lines of which random files are made, by suffix."""


def read_all(
    path: Path, columns: TextSettings, n_bytes: int
) -> tuple[list[Part], list[Record]]:
    n_tokens = n_bytes / (1 if path.suffix == ".fasta" else 6)
    parts, types = split_inputs([str(path)], columns, n_tokens)
    records: list[Record] = []
    for index, part in enumerate(parts):
        new = list(read_part(part, columns, has_ids="id" in types))
        assert part.number == index
        assert part.first == len(records)
        assert part.n_records == len(new)
        records += new
    return parts, [with_shown_error(record) for record in records]


def with_shown_error(record: Record) -> Record:
    """Return a record whose error can be compared."""
    return record if record.error is None else record._replace(error=str(record.error))


def records_of_embed(path: Path) -> list[Record]:
    """Return the records of `elmo embed`, which also checks ids."""
    text = open_input(path, TextSettings(skip_errors=True))
    with text.source:
        records, _ = text.format.read(text, ignore, never)
        return [with_shown_error(record) for record in check_records(records, text)]


@pytest.mark.parametrize("suffix", LINES)
@given(
    data=st.data(),
    units=st.integers(1, 60),
    end=st.sampled_from([b"", b"\n"]),
)
def test_any_cut_gives_the_records_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    data: Any,
    units: int,
    end: bytes,
) -> None:
    path = tmp_path_factory.mktemp("cut") / f"a.{suffix}"
    unique_by = bytes.strip if suffix == "fasta" else None  # A repeated id is an error.
    lines = data.draw(st.lists(st.sampled_from(LINES[suffix]), unique_by=unique_by))
    path.write_bytes(b"\n".join(lines) + end)
    _, records = read_all(path, TextSettings(skip_errors=True), units)
    assert records == records_of_embed(path)


def test_read_part_refuses_lines_that_have_changed() -> None:
    Path("text.txt").write_bytes(b"a b\n\xff\n c \n" * 5)
    settings = TextSettings(skip_errors=True, tokenizer="moses")
    parts, _ = split_inputs(["text.txt"], settings, 1)
    Path("text.txt").write_bytes(b"a b\n\xff\n c\n\n" * 5)
    with pytest.raises(OtherInputError, match=r"text.txt: the file has changed"):
        list(read_part(parts[2], settings, has_ids=False))


def test_compressed_data_is_one_part() -> None:
    path = Path("text.txt.gz")
    path.write_bytes(gzip.compress(b"a b\n\nc"))
    parts, records = read_all(path, TextSettings(), 1)
    assert len(parts) == 1
    assert records == records_of_embed(path)


def test_json_lines_have_columns() -> None:
    path = Path("rows.jsonl")
    texts = ["a b", ["c d", "e"], None] * 5
    write_table(path, [{"t": text, "id": 7} for text in texts])
    columns = TextSettings(text_column="t", id_column="id")
    _, records = read_all(path, columns, 20)
    tokens = [["a", "b"], ["c d", "e"], []] * 5
    assert [record.tokens for record in records] == tokens
    assert {record.id for record in records} == {"7"}


def test_parquet_has_columns() -> None:
    path = Path("rows.parquet")
    texts = ["a b", "", ""] * 5
    write_table(path, [{"t": text, "id": 7} for text in texts])
    columns = TextSettings(text_column="t", id_column="id")
    n_parts = {}
    for n_bytes in (1, 30, 100, 10_000):
        parts, records = read_all(path, columns, n_bytes)
        assert [record.text for record in records] == texts
        n_parts[n_bytes] = len(parts)
    assert n_parts[1] == 15
    assert n_parts[10_000] == 1


@pytest.mark.parametrize(
    ("name", "unit"), [("rows.jsonl", "line"), ("rows.parquet", "row")]
)
def test_a_record_without_an_id_is_invalid_in_every_part(name: str, unit: str) -> None:
    ids = [None, None, 2, None, None, None, 6, None]
    write_table(name, [{"text": "a", "id": each} for each in ids])
    for n_bytes in (1, 20, 10_000):
        _, records = read_all(Path(name), TextSettings(skip_errors=True), n_bytes)
        valid = [index for index, record in enumerate(records) if not record.error]
        assert valid == [2, 6]
        assert len(records) == 8
    problem = f"{name}, {unit} 8: field 'id': expected an id, found none"
    assert str(records[7].error) == problem


@pytest.mark.parametrize(
    ("name", "unit"), [("rows.jsonl", "line"), ("rows.parquet", "row")]
)
def test_an_empty_id_is_invalid(name: str, unit: str) -> None:
    write_table(name, [{"text": "a", "id": each} for each in ["x", "", "x"]])
    for n_bytes in (1, 10_000):
        _, records = read_all(Path(name), TextSettings(skip_errors=True), n_bytes)
        assert [record.id for record in records] == ["x", None, "x"]
        error = str(records[1].error)
        assert error.startswith(f"{name}, {unit} 2: the id is empty")


def test_a_named_column_of_ids_is_required() -> None:
    path = Path(write_table("rows.jsonl", [{"text": "a"}] * 3))
    settings = TextSettings(skip_errors=True, id_column="id")
    _, records = read_all(path, settings, 1)
    assert all(record.error for record in records)


def test_inputs_with_ids_and_without_are_refused() -> None:
    without = write_table("a.jsonl", [{"text": "a"}])
    with_ids = write_table("b.jsonl", [{"text": "a", "id": "1"}])
    empty = write_table("c.jsonl", [])
    problem = r"a.jsonl: no ids, but the records of .*b.jsonl have ids"
    with pytest.raises(InputError, match=problem):
        split_inputs([without, with_ids, empty], TextSettings(), 100)
    _, types = split_inputs([with_ids, empty], TextSettings(), 100)
    assert "id" in types
    _, types = split_inputs([empty], TextSettings(), 100)
    assert "id" not in types


def test_split_sentences_know_their_lines_in_every_part() -> None:
    pytest.importorskip("sentencex")
    Path("a.txt").write_text("One. Two.\n" * 9)
    parts, records = read_all(Path("a.txt"), TextSettings(split_sentences=True), 20)
    assert len(parts) > 1
    assert [record.line for record in records] == [1 + i // 2 for i in range(18)]


def test_inputs_are_found_by_patterns_and_uris(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).touch()
    for location in (str(tmp_path), f"file://{tmp_path}"):
        found = find_inputs((f"{location}/*.txt",), Folder("out"))
        paths = [path for path, _ in found]
        assert paths == [f"{location}/a.txt", f"{location}/b.txt"]
    bad = os.fsdecode(b"caf\xe9.tsv")
    (tmp_path / bad).touch()
    not_utf8 = r"caf\xe9.tsv: the name of the file is not UTF-8"
    problems = {
        "none.txt": "none.txt",
        "*.none": "*.none",
        bad: not_utf8,
        "*.tsv": not_utf8,
    }
    for name, problem in problems.items():
        with pytest.raises(InputError, match=re.escape(problem)):
            find_inputs((f"{tmp_path}/{name}",), Folder("out"))


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_files_of_the_output_folder_are_left_out(
    tmp_path: Path, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "out/_elmo").mkdir(parents=True)
    for name in ("a.txt", "out/b.txt", "out/_elmo/c.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "out")
    folder = Folder(f"{scheme}{tmp_path}/link")
    found = find_inputs((f"{tmp_path}/**/*.txt", f"{tmp_path}/[ao]*"), folder)
    assert [path for path, _ in found] == [f"{tmp_path}/a.txt"] * 2
    assert "*.txt: skipped 4 files in the output folder" in caplog.text
    problem = r"b.txt: the input is in the output folder. Choose"
    with pytest.raises(InputError, match=problem):
        find_inputs((f"{tmp_path}/out/b.txt",), folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"a\nb\nc\xff\n", ", line 3, column 2: not valid UTF-8 (byte 0xff)"),
        (
            "a.jsonl",
            b'{"text": "a"}\n\n[]\n',
            ", line 3: expected a JSON object, found []",
        ),
        (
            "a.txt.gz",
            b"\x1f\x8bno gzip",
            ", line 1: reading failed: Compressed file ended",
        ),
        (
            "a.parquet",
            b"no parquet",
            ": cannot read the Parquet file: it is incomplete, or not Parquet",
        ),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_line(
    name: str, content: bytes, message: str
) -> None:
    Path(name).write_bytes(content)
    with pytest.raises(InputError, match=f"^{re.escape(name + message)}"):
        read_all(Path(name), TextSettings(), 1)


# Columns

POOLED = ("--model", TINY, "--layers", "top", "--pooling", "mean")
SMALL_PARTS = ("--engine", "none", "--part-size", "0.0002", *POOLED)
LONG_TEXT = "a b " * 9


def assert_rows_equal_embed(source: str, *options: str) -> None:
    """Assert that a folder in parts has the columns, types and values of one file."""
    assert elmo("embed", source, "plain.parquet", *POOLED, *options).exit_code == 0
    result = elmo("distribute", source, "out", *SMALL_PARTS, *options)
    assert result.exit_code == 0, result.output
    assert len(list(Path("out").glob("part-*"))) > 1
    plain = parquet.read_table("plain.parquet")
    distributed = parquet.read_table("out")
    assert distributed.schema.remove_metadata() == plain.schema.remove_metadata()
    kept = distributed.schema.names[:-1]
    assert distributed.select(kept).to_pylist() == plain.select(kept).to_pylist()
    for part in Path("out").glob("part-*"):
        assert parquet.read_schema(part).types == distributed.schema.types


@pytest.mark.parametrize("keep_columns", ["all", "day,index"])
def test_columns_of_parquet_are_those_of_embed(keep_columns: str) -> None:
    columns = {
        "id": pyarrow.array(range(60), pyarrow.int32()),
        "text": pyarrow.array([f"a b {number}" for number in range(60)]),
        "index": pyarrow.array([None] * 59 + [3], pyarrow.int8()),
        "day": pyarrow.array([datetime.date(2020, 1, 2), *[None] * 59]),
        "price": pyarrow.array([decimal.Decimal("1.50"), *[None] * 59]),
        "key": pyarrow.array(["x", "y"] * 30).dictionary_encode(),
    }
    parquet.write_table(pyarrow.table(columns), "in.parquet", row_group_size=7)
    assert_rows_equal_embed("in.parquet", "--keep-columns", keep_columns)


@pytest.mark.parametrize(
    ("keep_columns", "batch_rows"), [("all", 1), ("late,mixed", 1024)]
)
def test_columns_of_json_have_one_type_in_all_parts(
    keep_columns: str, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.distributed.column_types.BATCH_ROWS", batch_rows)
    rows: list[dict[str, Any]] = []
    for i in range(60):
        row = {
            "id": f"a{i}",
            "text": LONG_TEXT,
            "number": i,
            "mixed": i,
            "late": None,
            "none": None,
            "list": [],
            "object": {"a": i},
        }
        rows.append(row)
    rows[50]["number"] = 1.5
    rows[50]["mixed"] = "x"
    rows[50]["late"] = True
    rows[50]["list"] = [1]
    rows[50]["object"] = {"b": "c"}
    write_table("in.jsonl", rows)
    assert_rows_equal_embed("in.jsonl", "--keep-columns", keep_columns)


def test_a_column_of_later_rows_is_in_all_parts() -> None:
    rows: list[dict[str, Any]] = [{"text": LONG_TEXT}] * 60
    write_table("in.jsonl", [*rows, {"text": "a", "year": 7, "key": "k"}])
    result = elmo(
        "distribute", "in.jsonl", "out", *SMALL_PARTS, "--keep-columns", "all"
    )
    assert result.exit_code == 0
    table = parquet.read_table("out")
    assert table.column("year").to_pylist() == [None] * 60 + [7]
    with open_activations("out") as opened:
        assert opened.sentence(60) == "a"
        assert opened.id(60) is None  # A kept column `key` is no id.


@pytest.mark.parametrize(("last", "kind"), [(59, int), (2**63, str), ("x", str)])
def test_ids_have_one_type_in_all_parts(last: object, kind: type) -> None:
    ids: list[object] = [*range(59), last]
    rows: list[dict[str, Any]] = [{"id": each, "text": LONG_TEXT} for each in ids]
    rows[7]["text"] = 8  # no text, and so the record is skipped
    write_table("in.jsonl", rows)
    result = elmo("distribute", "in.jsonl", "out", *SMALL_PARTS, "--skip-errors")
    assert result.exit_code == 0
    expected = [kind(each) for each in ids]
    expected[7] = None
    assert parquet.read_table("out").column("id").to_pylist() == expected
    with open_activations("out") as activations:
        assert activations.id(7) is None
        assert activations.id(59) == str(last)


@pytest.mark.parametrize(
    ("kind", "ids", "expected"),
    [
        (pyarrow.int8(), [1, -7], pyarrow.int64()),
        (pyarrow.uint64(), [1, 2**63], pyarrow.uint64()),
        (pyarrow.large_string(), ["a", "b"], pyarrow.string()),
    ],
)
def test_ids_of_parquet_are_integers_or_texts(
    kind: Any, ids: list[Any], expected: Any
) -> None:
    table = pyarrow.table({"id": pyarrow.array(ids, kind), "text": ["a", "b"]})
    parquet.write_table(table, "in.parquet")
    assert elmo("distribute", "in.parquet", "out", *SMALL_PARTS).exit_code == 0
    column = parquet.read_table("out").column("id")
    assert column.to_pylist() == ids
    assert column.type == expected


def test_kept_columns_are_in_order_and_others_are_refused() -> None:
    write_table("in.jsonl", [{"text": "a", "x": 1, "y": 2}] * 3)
    result = elmo(
        "distribute", "in.jsonl", "out", *SMALL_PARTS, "--keep-columns", "y,x"
    )
    assert result.exit_code == 0
    names = parquet.read_schema("out/part-00000000.parquet").names
    assert names[-3:] == ["y", "x", "activations"]
    for options, here in (("", "none"), ("--keep-columns x", '["x"]')):
        result = elmo("distribute", "in.jsonl", "out", *SMALL_PARTS, *options.split())
        difference = f'--keep-columns (it has ["y", "x"], this run has {here})'
        assert f"These differ: {difference}" in result.stderr


def test_nested_fields_and_whole_floats_are_those_of_embed() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(60):
        rows.append({"data": {"text": f"word {n} .", "n": n}, "id": float(n)})
    parquet.write_table(pyarrow.Table.from_pylist(rows), "in.parquet")
    write_table("in.jsonl", rows)
    options = ["--text-column", "data.text", "--keep-columns", "data.n"]
    assert_rows_equal_embed("in.parquet", *options)
    assert parquet.read_schema("plain.parquet").field("id").type == pyarrow.int64()
    shutil.rmtree("out")
    Path("plain.parquet").unlink()
    assert_rows_equal_embed("in.jsonl", *options)


def test_a_message_counts_the_records_of_a_part() -> None:
    part = Part(
        number=1, first=1, path="text.txt", start=4, line=2, n_lines=1, n_records=1
    )
    assert str(part) == "part 1 (text.txt, 1 record from 2)"
    longer = part._replace(n_records=1200)
    assert str(longer) == "part 1 (text.txt, 1,200 records from 2)"
