"""Measure the speed and memory of this project and of AllenNLP 0.9.0 on this machine.

    benchmarks/make_allennlp_env.sh /tmp/allennlp      # once
    python benchmarks/measure.py --peer /tmp/allennlp --json result.json

The model has the architecture of the published model with 93.6M parameters, and random
weights: time does not depend on their values. The output is a table in Markdown.
Programs that are compared take turns, each in its own process. Without --peer, AllenNLP
is skipped. --before is a checkout of an earlier version, with its kernels, to compare
the start with. --rows chooses the rows to measure.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import h5py
import torch

# The checkout comes last, so that an installed elmo_cli is the one that is measured.
sys.path.append(str(Path(__file__).parents[1]))

import elmo_cli
from benchmarks.gpu import gpu_rows
from benchmarks.host import host_rows
from benchmarks.precision import frozen_module_rows, precision_rows
from benchmarks.probabilities import probabilities_rows
from benchmarks.setting import ALICE, ORIGINAL, TINY, Row, Setting, make_model
from benchmarks.speed import module_rows, speed_rows
from benchmarks.start import start_rows
from benchmarks.training import training_rows
from elmo_cli.compiled.kernels import has_kernel

ROWS: dict[str, Callable[[Setting], list[Row]]] = {
    "speed": speed_rows,
    "start": start_rows,
    "precision": precision_rows,
    "probabilities": probabilities_rows,
    "modules": module_rows,
    "module-precision": frozen_module_rows,
    "training": training_rows,
    "gpu": gpu_rows,
    "host": host_rows,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write the JSON."""
    options = parse_arguments(arguments)
    with tempfile.TemporaryDirectory() as name:
        setting = make_setting(Path(name), options)
        rows = [row for name in options.rows for row in ROWS[name](setting)]
    print(table(describe(), rows))
    if options.json:
        content = {"machine": describe(), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(content, indent=1) + "\n")


def make_setting(folder: Path, options: argparse.Namespace) -> Setting:
    """Make the models and the text, and find the peer."""
    model = tiny = make_model(folder / "tiny", TINY)
    if not options.tiny:
        model = make_model(folder / "original", ORIGINAL)
    lines = options.text.read_text(encoding="utf-8").splitlines()
    peer = None
    if options.peer is not None:
        peer = options.peer / "bin" / "python"
    return Setting(
        folder=folder,
        model=model,
        tiny_model=tiny,
        lines=lines[: options.lines],
        peer=peer,
        repeats=options.repeats,
        before=options.before,
    )


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", type=Path, help="folder of the AllenNLP environment")
    parser.add_argument(
        "--before", type=Path, help="checkout of an earlier version, for the start"
    )
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--text", type=Path, default=ALICE)
    parser.add_argument("--lines", type=int, default=640)
    parser.add_argument("--repeats", type=int, default=5, help="turns")
    parser.add_argument(
        "--tiny", action="store_true", help="a tiny model, to try the rows out"
    )
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args(arguments)


def table(machine: dict[str, str], rows: Sequence[Row]) -> str:
    """Format the rows in Markdown."""
    lines = [
        "; ".join(f"{name} {value}" for name, value in machine.items()),
        "",
        "| | target | measured | met |",
        "|---|---|---|---|",
    ]
    marks = {True: "yes", False: "no", None: ""}
    for row in rows:
        mark = marks[row.met]
        lines.append(f"| {row.what} | {row.target} | {row.measured} | {mark} |")
    return "\n".join(lines)


def describe() -> dict[str, str]:
    """Return the processor, cores, GPU, versions and commit."""
    kernels = ("product_float32", "product_bfloat16")
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "compiled": ", ".join(name for name in kernels if has_kernel(name)),
        "threads": str(torch.get_num_threads()),
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none",
        "elmo_cli": elmo_cli.__version__,
        "torch": torch.__version__,
        "h5py": h5py.__version__,
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor()


def _commit() -> str:
    """Return the commit that was measured, or "unknown" outside a checkout."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
