"""Tables of surprisal, joined with their stimuli by the readers that people use."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import elmo, run_r

TEXTS = [
    *("the cat sat", 'the "cat" sat', '" the "', "the NA cat", "None null", "the\tcat", "the\ncat"),
    *("the , cat", "東京 the", "naïve ' cat", "\\ the # ;", "the | cat", "1 2 3", "TRUE F T"),
]
STIMULI = [(f"s{n:02}", TEXTS[n % len(TEXTS)], n % 2) for n in range(40)]
Counts = dict[tuple[str, int], int]
"""Number of joined rows of each id and condition."""
EXPECTED: Counts = {(name, group): len(text.split()) for name, text, group in STIMULI}


def join_with_pandas(stimuli: Path, table: Path) -> Counts:
    pandas = pytest.importorskip("pandas")
    read = pandas.read_csv if table.suffix == ".csv" else pandas.read_table
    joined = pandas.read_csv(stimuli).merge(read(table), on="id")
    assert joined["surprisal"].dtype == "float64"
    return {key: int(n) for key, n in joined.groupby(["id", "condition"]).size().items()}


def join_with_polars(stimuli: Path, table: Path) -> Counts:
    polars = pytest.importorskip("polars")
    surprisals = polars.read_csv(table, separator="," if table.suffix == ".csv" else "\t")
    joined = polars.read_csv(stimuli).join(surprisals, on="id")
    assert joined["surprisal"].dtype == polars.Float64
    counts = joined.group_by("id", "condition").len().rows()
    return {(name, group): n for name, group, n in counts}


def join_with_duckdb(stimuli: Path, table: Path) -> Counts:
    duckdb = pytest.importorskip("duckdb")
    query = (
        f"SELECT id, condition, count(*) FROM '{stimuli}' JOIN '{table}' USING (id) "
        "WHERE surprisal > 0.0 GROUP BY id, condition"
    )
    return {(name, group): n for name, group, n in duckdb.sql(query).fetchall()}


def join_with_r(stimuli: Path, table: Path) -> Counts:
    read = "read.csv" if table.suffix == ".csv" else "read.delim"
    code = (
        f"joined <- merge(read.csv('{stimuli}'), {read}('{table}'), by = 'id')\n"
        "stopifnot(is.numeric(joined$surprisal))\n"
        "counts <- aggregate(surprisal ~ id + condition, joined, length)\n"
        "write.csv(counts, row.names = FALSE)\n"
    )
    _, *rows = csv.reader(run_r(code).splitlines())
    return {(name, int(group)): int(n) for name, group, n in rows}


@pytest.mark.usefixtures("word_model")
@pytest.mark.parametrize("row_format", ["tsv", "csv"])
@pytest.mark.parametrize(
    "join", [join_with_pandas, join_with_polars, join_with_duckdb, join_with_r]
)
def test_one_command_gives_a_table_that_joins_by_id(
    join: Callable[[Path, Path], Counts], row_format: str
) -> None:
    stimuli, table = Path("stimuli.csv"), Path(f"table.{row_format}")
    with open(stimuli, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text", "condition"), *STIMULI])
    options = ["--tokenizer", "whitespace", *(["--format", "csv"] if row_format == "csv" else [])]
    result = elmo("surprisal", "stimuli.csv", "--model", "model", *options)
    assert result.exit_code == 0, result.stderr
    table.write_text(result.stdout, encoding="utf-8", newline="")
    assert join(stimuli, table) == EXPECTED
