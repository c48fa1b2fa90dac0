"""Tables of figures, as Markdown and as JSON. All figures are in percent."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from evaluation.bootstrap import Estimate


class Figure(NamedTuple):
    """Figure in percent, with its interval if it was measured here."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return _rounded(self.value)
        return f"{_rounded(self.value)} ({_rounded(self.low)} to {_rounded(self.high)})"


def _rounded(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}"  # The addition turns -0.0 into 0.0.


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
            shown = ["" if cell is None else str(cell) for cell in cells]
            lines.append("| " + " | ".join([name, *shown]) + " |")
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the note and the rows for JSON, without empty cells."""
        return {
            "note": self.note,
            "rows": {
                name: {
                    column: {k: v for k, v in cell._asdict().items() if v is not None}
                    for column, cell in zip(self.columns, cells, strict=True)
                    if cell is not None
                }
                for name, cells in self.rows.items()
            },
        }


def figures(estimate: Estimate) -> list[Figure]:
    """Return the figures of an estimate of shares, in percent."""
    return [
        Figure(100 * float(value), 100 * float(low), 100 * float(high))
        for value, (low, high) in zip(estimate.values, estimate.intervals, strict=True)
    ]


def to_markdown(header: dict[str, str], tables: Iterable[Table]) -> str:
    """Return a page of tables.

    Args:
        header: What was evaluated, such as the model, by name.
        tables: The tables, in their order.
    """
    header_lines = "".join(f"- {name}: {value}\n" for name, value in header.items())
    remark = "Figures are in percent; in brackets are intervals of 95 % (bootstrap).\n"
    return "\n".join(
        ["# Evaluation\n", header_lines, remark, *map(Table.to_markdown, tables)]
    )


def to_json(header: dict[str, str], tables: Iterable[Table]) -> str:
    """Return the tables as JSON; see `to_markdown`."""
    tests = {table.name: table.to_dict() for table in tables}
    content = {
        **header,
        "unit": "percent",
        "interval": "95 % (bootstrap)",
        "tests": tests,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
