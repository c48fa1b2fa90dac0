"""Measured programs, each in its own process."""

import json
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence

Figures = dict[str, float]


def figures_of(command: Sequence[str]) -> Figures:
    """Run a script that prints its figures as JSON on its last line. Return the figures."""
    return figures_together([command])[0]


def figures_together(commands: Sequence[Sequence[str]]) -> list[Figures]:
    """Run scripts at the same time, and return the figures of each; see `figures_of`."""
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(each, stdout=pipe, stderr=pipe, text=True) for each in commands]
    outputs = [process.communicate() for process in processes]
    all_figures = []
    for command, process, (output, errors) in zip(commands, processes, outputs, strict=True):
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}\n{errors}")
        figures: Figures = json.loads(output.splitlines()[-1])
        if "tokens" in figures:
            figures["tokens_per_second"] = figures["tokens"] / figures["embed_seconds"]
        all_figures.append(figures)
    return all_figures


def in_turns(commands: Mapping[str, Sequence[str]], repeats: int) -> dict[str, list[Figures]]:
    """Return the figures of each script. The scripts take turns."""
    turns = [
        {name: figures_of(command) for name, command in commands.items()} for _ in range(repeats)
    ]
    return {name: [turn[name] for turn in turns] for name in commands}


def seconds_of(command: Sequence[str]) -> float:
    """Return the seconds that a command takes, from start to end."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def alternate(commands: Sequence[Sequence[str]], repeats: int) -> list[list[float]]:
    """Return the seconds of each command. The commands take turns."""
    turns = [[seconds_of(command) for command in commands] for _ in range(repeats)]
    return [list(column) for column in zip(*turns, strict=True)]


def median(turns: Sequence[Figures], key: str) -> float:
    """Return the median of a figure over turns."""
    return statistics.median(turn[key] for turn in turns)


def ratios(turns: Sequence[Figures], others: Sequence[Figures]) -> list[float]:
    """Return the ratio of tokens per second of each turn, or an empty list without other turns."""
    return [
        turn["tokens_per_second"] / other["tokens_per_second"]
        for turn, other in zip(turns, others, strict=False)
    ]
