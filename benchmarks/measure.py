"""Measure the speed and memory of this project and of AllenNLP 0.9.0 on this machine.

    benchmarks/make_allennlp_env.sh /tmp/allennlp      # once
    python benchmarks/measure.py --peer /tmp/allennlp --json result.json

The model has the architecture of the published model with 93.6M parameters, and random weights:
time does not depend on their values. The output is a table in Markdown. Programs that are compared
take turns, each in its own process. Without --peer, AllenNLP is skipped. --rows chooses the rows
to measure.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from cores import core_rows
from gpu import gpu_rows
from growth import growth_rows
from lengths import length_rows
from limited import limited_rows
from machine import describe
from modules import module_rows
from neighbours import neighbour_rows
from precision import precision_rows
from sentences import sentence_rows
from setting import ALICE, ORIGINAL, TINY, Row, Setting, make_model
from speed import speed_rows
from startup import startup_rows
from training import training_rows

ROWS: dict[str, Callable[[Setting], list[Row]]] = {
    "speed": speed_rows,
    "precision": precision_rows,
    "sentence": sentence_rows,
    "startup": startup_rows,
    "lengths": length_rows,
    "limited": limited_rows,
    "cores": core_rows,
    "growth": growth_rows,
    "modules": module_rows,
    "neighbours": neighbour_rows,
    "training": training_rows,
    "gpu": gpu_rows,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write the JSON."""
    options = parse_arguments(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny = make_model(folder / "tiny", TINY)
        setting = Setting(
            folder=folder,
            model=tiny if options.tiny else make_model(folder / "original", ORIGINAL),
            tiny_model=tiny,
            lines=options.text.read_text(encoding="utf-8").splitlines()[: options.lines],
            peer=options.peer and options.peer / "bin" / "python",
            repeats=options.repeats,
            many_lines=options.many_lines,
        )
        rows = [row for name in options.rows for row in ROWS[name](setting)]
    print(table(describe(), rows))
    if options.json:
        content = {"machine": describe(), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", type=Path, help="folder of the AllenNLP environment")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--text", type=Path, default=ALICE)
    parser.add_argument("--lines", type=int, default=640)
    parser.add_argument("--repeats", type=int, default=5, help="turns")
    parser.add_argument("--many-lines", type=int, default=1_000_000, help="lines of the long run")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the rows out")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args(arguments)


def table(machine: dict[str, str], rows: Sequence[Row]) -> str:
    """Format the rows in Markdown."""
    marks = {True: "yes", False: "no", None: ""}
    return "\n".join(
        [
            "; ".join(f"{name} {value}" for name, value in machine.items()),
            "",
            "| | target | measured | met |",
            "|---|---|---|---|",
            *(f"| {row.what} | {row.target} | {row.measured} | {marks[row.met]} |" for row in rows),
        ]
    )


if __name__ == "__main__":
    main()
