"""Measured programs, each in its own process."""

import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence

Figures = dict[str, float]


def figures_of(command: Sequence[str]) -> Figures:
    """Run a script that prints its figures as JSON last. Return the figures."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}"
        )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    if "tokens" in figures:
        figures["tokens_per_second"] = figures["tokens"] / figures["embed_seconds"]
    return figures


def in_turns(
    commands: Mapping[str, Sequence[str]], repeats: int
) -> dict[str, list[Figures]]:
    """Return the figures of each script. The scripts take turns."""
    turns: dict[str, list[Figures]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            turns[name].append(figures_of(command))
    return turns


def median(turns: Sequence[Figures], key: str) -> float:
    """Return the median of a figure over turns."""
    return statistics.median(turn[key] for turn in turns)


def ratios(turns: Sequence[Figures], others: Sequence[Figures]) -> list[float]:
    """Return the ratio of tokens per second of each turn.

    The list is empty without other turns.
    """
    return [
        turn["tokens_per_second"] / other["tokens_per_second"]
        for turn, other in zip(turns, others, strict=False)
    ]
