"""Parquet of `elmo embed`, `elmo usages` and `elmo distribute`, as other programs read it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import TINY, elmo
from numpy.testing import assert_allclose

parquet = pytest.importorskip("pyarrow.parquet")

Columns = dict[str, list[Any]]
Reader = Callable[[str], Columns]
ITEMS = 'id,text,group\n1,"the "" cat",x\n2,,y\n3,dog NA null,\n'
FORMS = {
    "sentences": ("embed", "--layers", "all"),
    "one layer": ("embed", "--layers", "top"),
    "pooled": ("embed", "--layers", "top", "--pooling", "mean"),
    "pooled layers": ("embed", "--layers", "1,2", "--pooling", "mean"),
    "tokens": ("embed", "--layers", "1,2", "--rows", "tokens"),
    "usages": ("usages", "--words", "words.txt", "--layers", "all"),
}


def run(*arguments: str) -> None:
    """Run a command with the tiny model."""
    result = elmo(*arguments, "--model", TINY)
    assert result.exit_code == 0, result.output


def plain(values: Any) -> Any:
    """Lists of numbers, texts and None, in place of the arrays of a reader."""
    if isinstance(values, (list, tuple, np.ndarray)):
        return [plain(each) for each in values]
    return None if values is None or values != values else values


@pytest.fixture(autouse=True)
def items(folder: Path) -> None:
    """Write a table into the current folder."""
    Path("items.csv").write_text(ITEMS)
    Path("words.txt").write_text("dog\ncat\n")


def read_by_spark(path: str) -> Columns:
    """Read by Spark, if it is installed with Java."""
    sql = pytest.importorskip("pyspark.sql")
    try:
        session = sql.SparkSession.builder.master("local[1]").getOrCreate()
    except Exception as error:
        pytest.skip(f"Spark does not start: {error}")
    frame = session.read.parquet(os.path.abspath(path))
    rows = [row.asDict() for row in frame.collect()]
    return {name: [row[name] for row in rows] for name in frame.columns}


def read_by_duckdb(path: str) -> Columns:
    """Read by DuckDB, rows first."""
    table = pytest.importorskip("duckdb").read_parquet(path)
    return dict(zip(table.columns, map(list, zip(*table.fetchall(), strict=True)), strict=True))


def read_by_pandas(path: str) -> Columns:
    """Read by pandas."""
    frame = pytest.importorskip("pandas").read_parquet(path)
    return {name: list(frame[name]) for name in frame}


def read_by_polars(path: str) -> Columns:
    """Read by Polars."""
    columns: Columns = pytest.importorskip("polars").read_parquet(path).to_dict(as_series=False)
    return columns


READERS: dict[str, Reader] = {
    "pyarrow": lambda path: parquet.read_table(path).to_pydict(),
    "pandas": read_by_pandas,
    "polars": read_by_polars,
    "duckdb": read_by_duckdb,
    "spark": read_by_spark,
}


def assert_equal_columns(columns: Columns, expected: Columns) -> None:
    """Assert that two tables have the same rows; the values of float16 as float32."""
    assert list(columns) == list(expected)
    for name in expected:
        if name in ("activations", "vector") or name.startswith("layer_"):
            for one, other in zip(plain(columns[name]), plain(expected[name]), strict=True):
                assert_allclose(flat(one), flat(other), rtol=1e-6)
        else:
            assert plain(columns[name]) == plain(expected[name])


def flat(values: Any) -> list[float]:
    """Return the numbers of nested lists."""
    return (
        [number for each in values for number in flat(each)]
        if isinstance(values, list)
        else [float(values)]
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_has_the_same_values(reader: str, form: str, dtype: str) -> None:
    command, *options = FORMS[form]
    run(command, "items.csv", "out.parquet", *options, "--dtype", dtype, "--keep-columns", "all")
    run(command, "items.csv", "out.jsonl", *options, "--keep-columns", "all")
    expected = parquet.read_table("out.parquet").to_pydict()
    assert_equal_columns(READERS[reader]("out.parquet"), expected)
    rows = [row for row in Path("out.jsonl").read_text().splitlines() if row]
    assert len(rows) == len(expected["id"])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("pooling", [(), ("--pooling", "mean")])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_a_distributed_run(
    reader: str, pooling: tuple[str, ...], dtype: str
) -> None:
    Path("in.txt").write_text("".join(f"the {number} cat\n" for number in range(40)))
    options = ("--layers", "top", "--dtype", dtype, *pooling)
    size = "0.0001" if pooling else "0.001"
    run("distribute", "in.txt", "out", "--engine", "none", "--part-size", size, *options)
    parts = sorted(str(path) for path in Path("out").glob("*.parquet"))
    assert len(parts) > 1
    expected = parquet.read_table(parts).to_pydict()
    assert expected["index"] == list(range(40))
    read = READERS[reader]
    if reader not in ("pandas", "spark"):  # They have no patterns.
        pattern = "out" if reader == "pyarrow" else os.path.join("out", "*.parquet")
        assert_equal_columns(read(pattern), expected)
    assert_equal_columns(read("out"), expected)


@pytest.mark.parametrize("rows", ["sentences", "tokens"])
@pytest.mark.parametrize("source", ["stimuli.csv", "stimuli.parquet"])
def test_an_output_joins_its_input_by_id(source: str, rows: str) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    text = "id,text,group\n" + "".join(f"{n},the cat {n},g{n % 2}\n" for n in range(1, 41))
    Path("stimuli.csv").write_text(text)
    pandas.read_csv("stimuli.csv").to_parquet("stimuli.parquet")
    run("embed", source, "out.parquet", "--layers", "top", "--rows", rows)
    n_rows = 120 if rows == "tokens" else 40
    is_csv = source.endswith("csv")
    stimuli = (pandas.read_csv if is_csv else pandas.read_parquet)(source)
    assert len(stimuli.merge(pandas.read_parquet("out.parquet"), on="id")) == n_rows
    frame = (polars.read_csv if is_csv else polars.read_parquet)(source)
    assert len(frame.join(polars.read_parquet("out.parquet"), on="id")) == n_rows
    query = f"SELECT count(*) FROM '{source}' JOIN 'out.parquet' USING (id)"
    assert duckdb.sql(query).fetchall() == [(n_rows,)]
