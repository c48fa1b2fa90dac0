"""Tables of figures, as Markdown and as JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evaluation.bootstrap import Estimate


class Figure(NamedTuple):
    """Figure with its interval if it was measured here."""

    value: float
    low: float | None = None
    high: float | None = None

    def to_text(self, n_decimals: int) -> str:
        """Return the rounded figure and interval."""
        value = _rounded(self.value, n_decimals)
        if self.low is None or self.high is None:
            return value
        low = _rounded(self.low, n_decimals)
        high = _rounded(self.high, n_decimals)
        return f"{value} ({low} to {high})"


def _rounded(value: float, n_decimals: int) -> str:
    # The addition turns -0.0 into 0.0.
    return f"{round(value, n_decimals) + 0.0:.{n_decimals}f}"


Cell = Figure | None
"""None: there is no figure."""


@dataclass(frozen=True)
class Table:
    """Figures of one test."""

    name: str
    note: str
    """Sentences that describe the figures and the number of items behind them."""
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Cell]]
    unit: str = "percent"
    n_decimals: int = 1

    def to_markdown(self) -> str:
        """Return the heading, the note and the table."""
        lines = [
            f"## {self.name}",
            "",
            self.note,
            "",
            "| " + " | ".join(["", *self.columns]) + " |",
            "|---" + "|--:" * len(self.columns) + "|",
        ]
        for name, cells in self.rows.items():
            shown = []
            for cell in cells:
                shown.append("" if cell is None else cell.to_text(self.n_decimals))
            lines.append("| " + " | ".join([name, *shown]) + " |")
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the note, the unit and the rows for JSON, without empty cells."""
        return {
            "note": self.note,
            "unit": self.unit,
            "rows": {
                name: {
                    column: {k: v for k, v in cell._asdict().items() if v is not None}
                    for column, cell in zip(self.columns, cells, strict=True)
                    if cell is not None
                }
                for name, cells in self.rows.items()
            },
        }


def figures(estimate: Estimate, factor: float = 100) -> list[Figure]:
    """Return the figures of an estimate, times 100 for shares in percent."""
    return [
        Figure(factor * float(value), factor * float(low), factor * float(high))
        for value, (low, high) in zip(estimate.values, estimate.intervals, strict=True)
    ]


def to_markdown(header: dict[str, str], tables: Iterable[Table]) -> str:
    """Return a page of tables.

    Args:
        header: What was evaluated, such as the model, by name.
        tables: The tables, in their order.
    """
    header_lines = "".join(f"- {name}: {value}\n" for name, value in header.items())
    remark = (
        "Figures are in percent unless a test names another unit; in brackets are "
        "intervals of 95 % (bootstrap).\n"
    )
    return "\n".join(
        ["# Evaluation\n", header_lines, remark, *map(Table.to_markdown, tables)]
    )


def to_json(header: dict[str, str], tables: Iterable[Table]) -> str:
    """Return the tables as JSON; see `to_markdown`."""
    tests = {table.name: table.to_dict() for table in tables}
    content = {
        **header,
        "interval": "95 % (bootstrap)",
        "tests": tests,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
