"""Parquet of `elmo embed`, `elmo usages` and `elmo distribute`, as other programs read it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import TINY, elmo
from numpy.testing import assert_allclose

parquet = pytest.importorskip("pyarrow.parquet")

Columns = dict[str, list[Any]]
FORMS = {
    "sentences": "embed items.csv OUT --layers all --keep-columns all",
    "one layer": "embed items.csv OUT --layers top --keep-columns all",
    "pooled": "embed items.csv OUT --layers top --pooling mean --keep-columns all",
    "pooled layers": "embed items.csv OUT --layers 1,2 --pooling mean --keep-columns all",
    "tokens": "embed items.csv OUT --layers 1,2 --rows tokens --keep-columns all",
    "usages": "usages items.csv OUT --words words.txt --layers all --keep-columns all",
    "parts": "distribute in.txt OUT --engine none --part-size 0.001 --layers top",
    "pooled parts": "distribute in.txt OUT --engine none --part-size 0.0001 --layers top "
    "--pooling mean",
}


@pytest.fixture(scope="module", autouse=True)
def items(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Write a table, words and a text into the current folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("items"))
        Path("items.csv").write_text('id,text,group\n1,"the "" cat",x\n2,,y\n3,dog NA null,\n')
        Path("words.txt").write_text("dog\ncat\n")
        Path("in.txt").write_text("".join(f"the {number} cat\n" for number in range(40)))
        yield


def plain(values: Any) -> Any:
    """Return lists of numbers, texts and None in place of the arrays of a reader."""
    if isinstance(values, (list, tuple, np.ndarray)):
        return [plain(each) for each in values]
    return None if values is None or values != values else values


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


READERS: dict[str, Callable[[str], Columns]] = {
    "pyarrow": lambda path: parquet.read_table(path).to_pydict(),
    "pandas": read_by_pandas,
    "polars": read_by_polars,
    "duckdb": read_by_duckdb,
    "spark": read_by_spark,
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_has_the_same_values(reader: str, form: str, dtype: str) -> None:
    output = f"{form.replace(' ', '-')}-{dtype}{'' if 'parts' in form else '.parquet'}"
    if not Path(output).exists():
        command = FORMS[form].replace("OUT", output).split()
        assert elmo(*command, "--dtype", dtype, "--model", TINY).exit_code == 0
    paths = [output]
    if "parts" in form:
        assert len(list(Path(output).glob("*.parquet"))) > 1
        paths += [f"{output}/*.parquet"] * (reader in ("polars", "duckdb"))
    expected = parquet.read_table(output).to_pydict()
    for path in paths:
        columns = READERS[reader](path)
        assert list(columns) == list(expected)
        for name in expected:
            if name in ("activations", "vector") or name.startswith("layer_"):
                for one, other in zip(columns[name], expected[name], strict=True):
                    assert_equal_numbers(one, other)
            else:
                assert plain(columns[name]) == plain(expected[name])


def assert_equal_numbers(one: Any, other: Any) -> None:
    """Assert that nested lists or arrays have the same numbers."""
    if other and isinstance(other[0], list):
        for each, expected in zip(one, other, strict=True):
            assert_equal_numbers(each, expected)
    else:
        assert_allclose(plain(one), other, rtol=1e-6)


@pytest.mark.parametrize("rows", ["sentences", "tokens"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_output_joins_its_input_by_id(kind: str, rows: str) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    text = "id,text,group\n" + "".join(f"{n},the cat {n},g{n % 2}\n" for n in range(1, 41))
    Path("stimuli.csv").write_text(text)
    pandas.read_csv("stimuli.csv").to_parquet("stimuli.parquet")
    source = f"stimuli.{kind}"
    command = ("embed", source, "out.parquet", "--layers", "top", "--rows", rows, "--overwrite")
    assert elmo(*command, "--model", TINY).exit_code == 0
    n_rows = 120 if rows == "tokens" else 40
    for package in (pandas, polars):
        stimuli = getattr(package, f"read_{kind}")(source)
        join = stimuli.merge if package is pandas else stimuli.join
        assert len(join(package.read_parquet("out.parquet"), on="id")) == n_rows
    query = f"SELECT count(*) FROM '{source}' JOIN 'out.parquet' USING (id)"
    assert duckdb.sql(query).fetchall() == [(n_rows,)]
