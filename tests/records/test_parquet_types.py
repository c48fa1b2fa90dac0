"""Every type of Parquet as a text, tokens, an id or a kept column of `elmo embed`."""

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import TINY, elmo

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("folder")]

TEXT = "the cat"
VALUES: dict[Any, Any] = {
    pyarrow.null(): None,
    pyarrow.bool_(): True,
    pyarrow.int8(): 1,
    pyarrow.uint8(): 1,
    pyarrow.int64(): -(2**63),
    pyarrow.uint64(): 2**64 - 1,
    pyarrow.float32(): 0.5,
    pyarrow.float64(): float("nan"),
    pyarrow.string(): TEXT,
    pyarrow.large_string(): TEXT,
    pyarrow.binary(): b"a\xff",
    pyarrow.binary(3): b"abc",
    pyarrow.date32(): date(2020, 1, 1),
    pyarrow.date64(): date(2020, 1, 1),
    pyarrow.time32("s"): time(1, 2, 3),
    pyarrow.time64("us"): time(1, 2, 3),
    pyarrow.timestamp("ns"): datetime(2020, 1, 1),
    pyarrow.timestamp("us", "Europe/Rome"): datetime(2020, 1, 1),
    pyarrow.duration("s"): timedelta(seconds=1),
    pyarrow.decimal128(10, 2): Decimal(1),
    pyarrow.decimal256(60, 10): Decimal(1),
    pyarrow.list_(pyarrow.string()): ["the", "cat"],
    pyarrow.large_list(pyarrow.string()): ["the", "cat"],
    pyarrow.list_(pyarrow.string(), 2): ["the", "cat"],
    pyarrow.list_(pyarrow.int64()): [1, 2],
    pyarrow.list_(pyarrow.list_(pyarrow.string())): [["the"], ["cat"]],
    pyarrow.struct([("a", pyarrow.string())]): {"a": TEXT},
    pyarrow.map_(pyarrow.string(), pyarrow.int64()): [("a", 1)],
    pyarrow.dictionary(pyarrow.int32(), pyarrow.string()): TEXT,
    pyarrow.dictionary(pyarrow.int8(), pyarrow.int64()): 1,
}
"""A value of each type that Parquet can store."""


@pytest.mark.parametrize("role", ["text", "tokens", "id", "kept"])
@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_a_column_of_any_type_is_read_or_an_error_of_one_line(
    kind: Any, role: str
) -> None:
    columns = {"text": pyarrow.array(["a b", "c"]), "id": pyarrow.array(["x", "y"])}
    if role == "tokens":
        del columns["text"]
    columns[role] = pyarrow.array([VALUES[kind], None], kind)
    parquet.write_table(pyarrow.table(columns), "in.parquet")
    for output in ("out.jsonl", "out.parquet"):
        command = f"embed in.parquet {output} --layers top --keep-columns all"
        result = elmo(*command.split(), "--model", TINY)
        if result.exit_code == 1:
            assert result.stderr.startswith("Error: in.parquet")
            assert result.stderr.count("\n") == 1
            continue
        assert result.exit_code == 0, result.output
        if output == "out.parquet":
            n_rows = parquet.read_table(output).num_rows
        else:
            lines = Path(output).read_text(encoding="utf-8").splitlines()
            n_rows = len([json.loads(line) for line in lines])
        assert n_rows == 2
