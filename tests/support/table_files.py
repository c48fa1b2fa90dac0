"""Tables in all formats."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

NAMES = ("csv", "tsv", "json", "jsonl", "parquet")


def write_table(path: str | Path, rows: list[dict[str, Any]]) -> str:
    """Write rows in the format of a path's suffix, and return the path."""
    path = Path(path)
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.Table.from_pylist(rows)
        pytest.importorskip("pyarrow.parquet").write_table(
            table, path, row_group_size=3
        )
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8"
        )
    elif path.suffix == ".conllu":
        path.write_text("".join(map(_conllu_sentence, rows)), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(
                file, rows[0], delimiter="\t" if path.suffix == ".tsv" else ","
            )
            writer.writeheader()
            writer.writerows(rows)
    return str(path)


def write_matrices(path: str | Path, matrices: Mapping[str, Any]) -> str:
    """Write one matrix per word as occurrences, and return the path."""
    rows = []
    for word, matrix in matrices.items():
        for line, vector in enumerate(matrix, start=1):
            row = {"word": word, "form": word, "line": line, "id": None}
            row |= {"position": 0, "sentence": word, "vector": vector.tolist()}
            rows.append(row)
    return write_table(path, rows)


def _conllu_sentence(row: dict[str, Any]) -> str:
    words = "".join(f"{n}\t{word}\n" for n, word in enumerate(row["text"].split(), 1))
    return f"# sent_id = {row['id']}\n{words}\n"


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """Read the rows of JSON lines, Parquet or CSV."""
    path = Path(path)
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = (
            pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
        )
        return rows
    text = path.read_text(encoding="utf-8")
    return (
        [*map(json.loads, io.StringIO(text))]
        if path.suffix == ".jsonl"
        else csv_rows(text)
    )


def csv_rows(text: str, delimiter: str = ",") -> list[dict[str, Any]]:
    """Return the rows of CSV that a command prints."""
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))
