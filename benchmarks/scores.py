"""Processor time of the uses of a language model, in alternating turns.

    python benchmarks/scores.py [--lines 640] [--turns 3]

The bundled model runs on the lines of examples/alice.txt, on one thread.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from elmo_cli import LanguageModel, measure_perplexity, measure_surprisal, substitute_words

ALICE = Path(__file__).parents[1] / "examples" / "alice.txt"


def main() -> None:
    """Print the median seconds of each use, and their ratio to the perplexity's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=640)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    text = [line.split() for line in ALICE.read_text("utf-8").splitlines()[: arguments.lines]]
    model = LanguageModel(model="mini")
    uses: dict[str, Callable[[], object]] = {
        "perplexity": lambda: measure_perplexity(model, text),
        "surprisal": lambda: list(measure_surprisal(model, text)),
        "surprisal, backward": lambda: list(measure_surprisal(model, text, backward=True)),
        "surprisal and entropy": lambda: list(measure_surprisal(model, text, with_entropy=True)),
        "substitutes": lambda: list(substitute_words(model, text, top=3)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in uses}
    for _ in range(arguments.turns):
        for name, use in uses.items():
            started = time.process_time()
            use()
            seconds[name].append(time.process_time() - started)
    baseline = statistics.median(seconds["perplexity"])
    for name, turns in seconds.items():
        median = statistics.median(turns)
        print(f"{name:22} {median:7.2f} s  {median / baseline:.2f}")


if __name__ == "__main__":
    main()
