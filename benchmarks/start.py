"""Time of `elmo embed` until its first sentence is written, which is its start."""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.setting import Row, Setting

START_TARGET = 0.7
TURNS = 5
"""Turns per repeat: a start is short, and varies."""


class Start(NamedTuple):
    """Seconds of a command that embeds one sentence."""

    wall: float
    """Until the sentence is written."""
    processor: float
    """Of the whole command, on all cores."""


def start_rows(setting: Setting) -> list[Row]:
    """Compare with an earlier checkout, if one is given, in turns."""
    text = setting.write("one.txt", setting.lines[:1])
    turns: list[Start] = []
    before: list[Start] = []
    for _ in range(TURNS * setting.repeats):
        turns.append(start(setting.model, text))
        if setting.before is not None:
            before.append(start(setting.model, text, setting.before))
    seconds = statistics.median(turn.wall for turn in turns)
    processor = statistics.median(turn.processor for turn in turns)
    measured = f"{seconds:.2f} s, processor {processor:.2f} s"
    met = None
    ratios = [now.wall / then.wall for now, then in zip(turns, before, strict=False)]
    if ratios:
        ratio = statistics.median(ratios)
        measured += f": {ratio:.0%} of the earlier version's"
        met = ratio <= START_TARGET
    return [
        Row(
            "start: until the first sentence is written",
            f"{START_TARGET:.0%} of an earlier version's",
            measured,
            met=met,
            figures={"turns": turns, "before": before, "ratios": ratios},
        )
    ]


def start(model: Path, text: Path, checkout: Path | None = None) -> Start:
    """Embed a text, by this version or by another checkout."""
    environment = {**os.environ}
    if checkout is not None:
        environment["PYTHONPATH"] = str(checkout)
    command = [sys.executable, "-m", "elmo_cli", "embed", str(text), "-"]
    command += ["--format=jsonl", "--pooling=mean", f"--model={model}"]
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=text.parent,  # Python imports from the current folder first.
        env=environment,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        wall = time.perf_counter() - started
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or not line:
        raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}")
    return Start(wall, processor=usage.ru_utime + usage.ru_stime)
