"""Parquet of three commands, as other programs read it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import TINY, elmo

PACKAGES = ("duckdb", "pandas", "polars", "pyarrow.parquet")
duckdb, pandas, polars, parquet = map(pytest.importorskip, PACKAGES)

Columns = dict[str, list[Any]]
FORMS = {
    "sentences": "embed items.csv OUT --layers all --keep-columns all",
    "one layer": "embed items.csv OUT --layers top --keep-columns all",
    "pooled": "embed items.csv OUT --layers top --pooling mean --keep-columns all",
    "pooled layers": (
        "embed items.csv OUT --layers 1,2 --pooling mean --keep-columns all"
    ),
    "tokens": "embed items.csv OUT --layers 1,2 --rows tokens --keep-columns all",
    "occurrences": (
        "occurrences items.csv OUT --words words.txt --layers all --keep-columns all"
    ),
    "parts": "distribute in.txt OUT --engine none --part-size 0.001 --layers top",
    "pooled parts": (
        "distribute in.txt OUT --engine none --part-size 0.0001 --pooling mean"
    ),
}


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    """Return the name of each form."""
    return str(request.param)


@pytest.fixture(scope="module", params=["float32", "float16"])
def dtype(request: pytest.FixtureRequest) -> str:
    """Return each data type."""
    return str(request.param)


@pytest.fixture(scope="module")
def output(
    form: str, dtype: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Write a form in a data type, in a folder of its own, and return its path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("items"))
        Path("items.csv").write_text(
            'id,text,group\n1,"the "" cat",x\n2,,y\n3,dog NA null,\n'
        )
        Path("words.txt").write_text("dog\ncat\n")
        lines = [f"the {number} cat\n" for number in range(40)]
        Path("in.txt").write_text("".join(lines))
        path = "out" if "parts" in form else "out.parquet"
        command = FORMS[form].replace("OUT", path).split()
        assert elmo(*command, "--dtype", dtype, "--model", TINY).exit_code == 0
        yield path


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
    table = duckdb.read_parquet(path)
    rows = table.fetchall()
    columns = {}
    for position, name in enumerate(table.columns):
        columns[name] = [row[position] for row in rows]
    return columns


READERS: dict[str, Callable[[str], Columns]] = {
    "pyarrow": lambda path: parquet.read_table(path).to_pydict(),
    "pandas": lambda path: pandas.read_parquet(path).to_dict("list"),
    "polars": lambda path: polars.read_parquet(path).to_dict(as_series=False),
    "duckdb": read_by_duckdb,
    "spark": read_by_spark,
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_has_the_same_values(
    reader: str, form: str, dtype: str, output: str
) -> None:
    if reader == "spark" and dtype == "float16":
        pytest.skip("Spark has no float16")
    paths = [output]
    if "parts" in form:
        assert len(list(Path(output).glob("*.parquet"))) > 1
        if reader in ("polars", "duckdb"):
            paths.append(f"{output}/*.parquet")
    expected = parquet.read_table(output).to_pydict()
    for path in paths:
        columns = READERS[reader](path)
        assert list(columns) == list(expected)
        assert {name: plain(columns[name]) for name in columns} == expected


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("rows", ["sentences", "tokens"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_output_joins_its_input_by_id(kind: str, rows: str) -> None:
    source = f"stimuli.{kind}"
    numbers = range(1, 41)
    table = pandas.DataFrame({"id": numbers, "text": [f"the cat {n}" for n in numbers]})
    getattr(table, f"to_{kind}")(source, index=False)
    command = f"embed {source} out.parquet --layers top --rows {rows} --overwrite"
    assert elmo(*command.split(), "--model", TINY).exit_code == 0
    n_rows = 120 if rows == "tokens" else 40
    for package in (pandas, polars):
        stimuli = getattr(package, f"read_{kind}")(source)
        join = stimuli.merge if package is pandas else stimuli.join
        assert len(join(package.read_parquet("out.parquet"), on="id")) == n_rows
    query = f"SELECT count(*) FROM '{source}' JOIN 'out.parquet' USING (id)"
    assert duckdb.sql(query).fetchall() == [(n_rows,)]
