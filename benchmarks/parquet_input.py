"""A large Parquet file as input, against the same sentences as text: speed, memory and joins.

    python benchmarks/parquet_input.py --repeats 3 --output parquet_input.json

The inputs take turns. Each output is read back and compared: ids and kept columns with the input,
and vectors with the output of the text.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

N_WORDS = 2000
"""Number of distinct words in the sentences."""
_BATCH_ROWS = 4096


def write_inputs(folder: Path, n_rows: int) -> None:
    """Write the same sentences as text and as Parquet with ids and other columns."""
    words = [f"w{number}" for number in range(N_WORDS)]
    choices = random.Random(0)
    lines = [" ".join(choices.choices(words, k=3 + number % 15)) for number in range(n_rows)]
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    columns = {
        "id": np.arange(n_rows) * 3,
        "text": lines,
        "year": np.arange(n_rows) % 200 + 1800,
        "note": [None if number % 2 else f'"{number}"' for number in range(n_rows)],
    }
    parquet.write_table(pyarrow.table(columns), folder / "in.parquet")


def measure(source: Path, output: Path, options: list[str]) -> dict[str, float]:
    """Run `elmo embed`, and return its seconds and its peak memory in MB."""
    command = [sys.executable, "-m", "elmo_cli", "embed", source, output, "--overwrite", *options]
    started = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status:
        raise RuntimeError(f"{command}: exit status {os.waitstatus_to_exitcode(status)}")
    return {"seconds": seconds, "peak_memory_mb": usage.ru_maxrss / 1024}


def check(folder: Path) -> int:
    """Compare the two outputs and the input row by row. Return the number of rows."""
    names = ["out-text.parquet", "out-table.parquet", "in.parquet"]
    files = [parquet.ParquetFile(folder / name) for name in names]
    column_lists = [["activations"], ["id", "year", "note", "sentence", "activations"], None]
    batches = [
        file.iter_batches(_BATCH_ROWS, columns=columns)
        for file, columns in zip(files, column_lists, strict=True)
    ]
    n_rows = 0
    for text, table, source in zip(*map(_same_sizes, batches), strict=True):
        for name in ("id", "year", "note"):
            assert table.column(name).to_pylist() == source.column(name).to_pylist(), name
        assert table.column("sentence").to_pylist() == source.column("text").to_pylist()
        actual, expected = map(_vectors, (table, text))
        np.testing.assert_allclose(actual, expected, atol=1e-5)
        n_rows += table.num_rows
    return n_rows


def _vectors(table: Any) -> Any:
    """Return the values of the vectors in a table."""
    return table.column("activations").combine_chunks().flatten().to_numpy()


def _same_sizes(batches: Any) -> Any:
    """Yield the rows of batches of any sizes in batches of equal sizes."""
    held: list[Any] = []
    for batch in batches:
        held.append(pyarrow.Table.from_batches([batch]))
        whole = pyarrow.concat_tables(held)
        while whole.num_rows >= _BATCH_ROWS:
            yield whole.slice(0, _BATCH_ROWS).combine_chunks()
            whole = whole.slice(_BATCH_ROWS)
        held = [whole]
    if held and held[0].num_rows:
        yield held[0].combine_chunks()


def main() -> None:
    """Measure, check, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    options = ["--model", arguments.model, "--layers", "top", "--pooling", "mean"]
    turns: dict[str, list[dict[str, float]]] = {"text": [], "table": [], "short table": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        short = folder / "short"
        short.mkdir()
        write_inputs(folder, arguments.rows)
        write_inputs(short, arguments.rows // 10)
        table_options = [*options, "--keep-columns", "all"]
        for _ in range(arguments.repeats):
            output = folder / "out-text.parquet"
            turns["text"].append(measure(folder / "in.txt", output, options))
            output = folder / "out-table.parquet"
            turns["table"].append(measure(folder / "in.parquet", output, table_options))
            output = short / "out-table.parquet"
            turns["short table"].append(measure(short / "in.parquet", output, table_options))
        n_checked = check(folder)
    ratios = [
        table["seconds"] / text["seconds"]
        for table, text in zip(turns["table"], turns["text"], strict=True)
    ]
    figures = {"rows": n_checked, "seconds of table over text": statistics.median(ratios)}
    for name, each in turns.items():
        for figure in ("seconds", "peak_memory_mb"):
            figures[f"{figure}, {name}"] = statistics.median(turn[figure] for turn in each)
    print(json.dumps(figures, indent=1))
    if arguments.output:
        arguments.output.write_text(json.dumps({"figures": figures, "turns": turns}, indent=1))


if __name__ == "__main__":
    main()
