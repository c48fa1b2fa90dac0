"""Measure `elmo embed` and AllenNLP 0.9.0 side by side, on this machine.

    benchmarks/make_allennlp_env.sh /tmp/allennlp      # once
    python benchmarks/compare.py --peer /tmp/allennlp --json result.json

Both embed the same text with the same random weights of the published 93.6M
architecture, all layers to HDF5, in processes of their own that take turns.
Prints a table in Markdown: medians, and the median of the ratios of the turns.
Without --peer only `elmo embed` is measured.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

import elmo_cli
from elmo_cli.bilm import BiLm
from elmo_cli.options import parse_options
from elmo_cli.weights import write_weights

HERE = Path(__file__).parent
ORIGINAL = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "embedding": {"dim": 16},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}

Figures = dict[str, float]


def main() -> None:
    """Measure, print the table, write the JSON."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder), ORIGINAL)
        text = Path(folder, "input.txt")
        lines = arguments.text.read_text(encoding="utf-8").splitlines()[: arguments.lines]
        text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        programs: dict[str, Callable[[], Figures]] = {
            "elmo embed": lambda: run_ours(model, text, Path(folder, "ours.hdf5"))
        }
        if arguments.peer:
            python = arguments.peer / "bin" / "python"
            programs["AllenNLP 0.9.0"] = lambda: run_peer(
                python, model, text, Path(folder, "peer.hdf5")
            )
        turns = [
            {name: program() for name, program in programs.items()}
            for _ in range(arguments.repeats)
        ]
        result = summarize(turns)
        if arguments.peer:
            result["largest_difference"] = largest_difference(Path(folder))
    print(table(result))
    if arguments.json:
        arguments.json.write_text(json.dumps({**result, "turns": turns}, indent=1) + "\n")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", type=Path, help="folder of the AllenNLP environment")
    parser.add_argument("--text", type=Path, default=HERE.parent / "examples" / "alice.txt")
    parser.add_argument("--lines", type=int, default=640)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write all figures there")
    return parser.parse_args()


def make_model(folder: Path, options: dict[str, Any]) -> Path:
    """A folder with options.json and random weights of that architecture."""
    torch.manual_seed(0)
    (folder / "options.json").write_text(json.dumps(options))
    write_weights(folder / "weights.hdf5", BiLm(parse_options(options)))
    return folder


def run_ours(model: Path, text: Path, output: Path) -> Figures:
    """The figures of one `elmo embed`, as `allennlp_elmo.py` has them, in seconds and MB."""
    return measure([sys.executable, str(HERE / "measure_embed.py"), *names(model, text, output)])


def run_peer(python: Path, model: Path, text: Path, output: Path) -> Figures:
    """The same of AllenNLP, batches of 64 sentences, its default."""
    script = [str(python), str(HERE / "allennlp_elmo.py"), "embed", "--all"]
    return measure([*script, *names(model, text, output)])


def names(model: Path, text: Path, output: Path) -> list[str]:
    """The arguments that both scripts share."""
    options, weights = model / "options.json", model / "weights.hdf5"
    return [f"--options-file={options}", f"--weight-file={weights}", str(text), str(output)]


def measure(command: Sequence[str]) -> Figures:
    """Run a script that prints its figures as JSON on its last line."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    figures["tokens_per_second"] = figures["tokens"] / figures["embed_seconds"]
    return figures


def summarize(turns: list[dict[str, Figures]]) -> dict[str, Any]:
    """Medians of all figures, and of the ratio of the speeds in each turn."""
    programs = {
        name: {key: statistics.median(turn[name][key] for turn in turns) for key in turns[0][name]}
        for name in turns[0]
    }
    ours, *peers = turns[0]
    ratios = {
        peer: [turn[ours]["tokens_per_second"] / turn[peer]["tokens_per_second"] for turn in turns]
        for peer in peers
    }
    return {
        "machine": machine(),
        "elmo_cli": elmo_cli.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit(),
        "programs": programs,
        "speed_over": {peer: statistics.median(values) for peer, values in ratios.items()},
    }


def machine() -> str:
    """The processor, and how many cores there are."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    name = models[0] if models else platform.processor()
    return f"{name}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}"


def commit() -> str:
    """The commit that was measured; "unknown" outside a checkout."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True
    )
    return done.stdout.strip() or "unknown"


def largest_difference(folder: Path) -> float:
    """How far the first batch is from AllenNLP's, whose state is zero there alone."""
    with h5py.File(folder / "ours.hdf5") as ours, h5py.File(folder / "peer.hdf5") as peer:
        keys = [str(line) for line in range(min(64, len(peer) - 1))]
        return max(float(np.abs(ours[key][:] - peer[key][:]).max()) for key in keys)


def table(result: dict[str, Any]) -> str:
    """The result in Markdown."""
    rows = [
        f"{result['machine']}; torch {result['torch']}; commit {result['commit']}",
        "",
        "| | tokens/s | over it | load, s | peak memory, MB |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, figures in result["programs"].items():
        over = result["speed_over"].get(name)
        rows.append(
            f"| {name} | {figures['tokens_per_second']:,.0f} "
            f"| {f'{over:.1f}' if over else ''} | {figures['load_seconds']:.1f} "
            f"| {figures['peak_memory_mb']:,.0f} |"
        )
    if "largest_difference" in result:
        rows += ["", f"Largest difference of the first batch: {result['largest_difference']:.1e}"]
    return "\n".join(rows)


if __name__ == "__main__":
    main()
