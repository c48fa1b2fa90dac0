"""Answers on standard output: rows with tabs between, or JSON."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click


def as_json_line(answer: Any) -> str:
    """An answer as a line of JSON."""
    return json.dumps(answer, ensure_ascii=False)


def as_row(values: Iterable[Any]) -> str:
    """Values with tabs between, empty where there is none."""
    return "\t".join(map(_cell, values))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    return str(int(value)) if isinstance(value, bool) else "" if value is None else str(value)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, as_json: bool) -> None:
    """Print the rows of a table, without its header; in JSON, an object each."""
    lines = [
        as_json_line(dict(zip(columns, row, strict=True))) if as_json else as_row(row)
        for row in rows
    ]
    if lines:
        click.echo("\n".join(lines))
