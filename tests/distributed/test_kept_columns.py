"""`elmo distribute --keep-columns`: a folder equals a file of `elmo embed`."""

import datetime
import decimal
import shutil
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from commands import TINY, elmo
from pyarrow import parquet
from table_files import write_table

from elmo_cli import open_activations
from elmo_cli.distributed import inputs as column_types

POOLED = ("--layers", "top", "--pooling", "mean")
RUN = ("--engine", "none", "--part-size", "0.0002", "--model", TINY, *POOLED)
Row = dict[str, Any]


pytestmark = pytest.mark.usefixtures("folder")


def assert_rows_equal_embed(source: str, *options: str) -> None:
    """Assert that a folder in several parts has the columns, types and values of one file."""
    assert elmo("embed", source, "plain.parquet", *RUN[4:], *options).exit_code == 0
    result = elmo("distribute", source, "out", *RUN, *options)
    assert result.exit_code == 0, result.output
    assert len(list(Path("out").glob("part-*"))) > 1
    plain, distributed = parquet.read_table("plain.parquet"), parquet.read_table("out")
    assert distributed.schema.remove_metadata() == plain.schema.remove_metadata()
    for name in distributed.schema.names[:-1]:
        assert distributed.column(name).to_pylist() == plain.column(name).to_pylist()
    for part in Path("out").glob("part-*"):
        assert parquet.read_schema(part).types == distributed.schema.types


@pytest.mark.parametrize("keep_columns", ["all", "day,index"])
def test_columns_of_parquet_are_those_of_embed(keep_columns: str) -> None:
    n = 60
    columns = {
        "id": pyarrow.array(range(n), pyarrow.int32()),
        "text": pyarrow.array([f"a b {number}" for number in range(n)]),
        "index": pyarrow.array([None] * (n - 1) + [3], pyarrow.int8()),
        "day": pyarrow.array([datetime.date(2020, 1, 2), *[None] * (n - 1)]),
        "price": pyarrow.array([decimal.Decimal("1.50"), *[None] * (n - 1)]),
        "key": pyarrow.array(["x", "y"] * (n // 2)).dictionary_encode(),
    }
    parquet.write_table(pyarrow.table(columns), "in.parquet", row_group_size=7)
    assert_rows_equal_embed("in.parquet", "--keep-columns", keep_columns)


@pytest.mark.parametrize(("keep_columns", "batch_rows"), [("all", 1), ("late,mixed", 1024)])
def test_columns_of_json_have_one_type_in_all_parts(
    keep_columns: str, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_types, "_BATCH_ROWS", batch_rows)
    rows: list[Row] = [
        {"id": f"a{i}", "text": "a b " * 9, "number": i, "mixed": i, "late": None, "none": None}
        | {"list": [], "object": {"a": i}}
        for i in range(60)
    ]
    rows[50] |= {"mixed": "x", "number": 1.5, "late": True, "list": [1], "object": {"b": "c"}}
    write_table("in.jsonl", rows)
    assert_rows_equal_embed("in.jsonl", "--keep-columns", keep_columns)


def test_a_column_of_later_rows_is_in_all_parts() -> None:
    rows: list[Row] = [{"text": "a b " * 9} for _ in range(60)]
    write_table("in.jsonl", [*rows, {"text": "a", "year": 7, "key": "k"}])
    assert elmo("distribute", "in.jsonl", "out", *RUN, "--keep-columns", "all").exit_code == 0
    table = parquet.read_table("out")
    assert table.column("year").to_pylist() == [None] * 60 + [7]
    with open_activations("out") as opened:  # A kept column `key` is no id.
        assert (opened.key(60), opened.sentence(60)) == (None, "a")


def test_ids_have_one_type_in_all_parts() -> None:
    rows: list[Row] = [{"id": i, "text": "a b " * 9} for i in range(60)]
    rows[7]["text"] = 8
    command = ("distribute", "in.jsonl", "out", *RUN, "--skip-errors")
    for last, kind in ((59, int), (2**63, str), ("x", str)):
        rows[59]["id"] = last
        write_table("in.jsonl", rows)
        shutil.rmtree("out", ignore_errors=True)
        assert elmo(*command).exit_code == 0
        ids = [None if i == 7 else kind(row["id"]) for i, row in enumerate(rows)]
        assert parquet.read_table("out").column("id").to_pylist() == ids
        with open_activations("out") as activations:
            assert (activations.key(7), activations.key(59)) == (None, str(last))


@pytest.mark.parametrize(
    ("kind", "ids", "expected"),
    [
        (pyarrow.int8(), [1, -7], pyarrow.int64()),
        (pyarrow.uint64(), [1, 2**63], pyarrow.uint64()),
        (pyarrow.large_string(), ["a", "b"], pyarrow.string()),
    ],
)
def test_ids_of_parquet_are_integers_or_texts(kind: Any, ids: list[Any], expected: Any) -> None:
    table = pyarrow.table({"id": pyarrow.array(ids, kind), "text": ["a", "b"]})
    parquet.write_table(table, "in.parquet")
    assert elmo("distribute", "in.parquet", "out", *RUN).exit_code == 0
    column = parquet.read_table("out").column("id")
    assert (column.to_pylist(), column.type) == (ids, expected)


def test_kept_columns_are_in_order_and_others_are_refused() -> None:
    write_table("in.jsonl", [{"text": "a", "x": 1, "y": 2}] * 3)
    command = ("distribute", "in.jsonl", "out", *RUN)
    assert elmo(*command, "--keep-columns", "y,x").exit_code == 0
    names = parquet.read_schema("out/part-00000000.parquet").names
    assert names[-3:] == ["y", "x", "activations"]
    for options, here in (((), "none"), (("--keep-columns", "x"), '["x"]')):
        result = elmo(*command, *options)
        assert result.exit_code == 1
        assert f'These differ: --keep-columns (["y", "x"], not {here})' in result.stderr


def test_nested_fields_and_whole_floats_equal_embed() -> None:
    rows = [{"data": {"text": f"word {n} .", "n": n}, "id": float(n)} for n in range(60)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), "in.parquet")
    write_table("in.jsonl", rows)
    options = ("--text-column", "data.text", "--keep-columns", "data.n")
    assert_rows_equal_embed("in.parquet", *options)
    assert parquet.read_schema("plain.parquet").field("id").type == pyarrow.int64()
    shutil.rmtree("out")
    Path("plain.parquet").unlink()
    assert_rows_equal_embed("in.jsonl", *options)
