"""`elmo train` and its bare products, for the smallest and the largest architecture."""

import statistics
import sys

from benchmarks.process import in_turns, median
from benchmarks.setting import HERE, Row, Setting

SHARE_TARGET = 0.6
STEPS = {"mini": 5, "original": 3}
WARM_UP = 8
"""Steps before the measurement. After them, most steps reuse memory that was freed."""


def training_rows(setting: Setting) -> list[Row]:
    """Measure steps of 2,048 tokens in both precisions, in turns."""
    lines = [line for line in setting.lines if line.split()]
    text = setting.write("training.txt", lines)
    is_tiny = setting.model == setting.tiny_model
    steps_of = {"mini": 1} if is_tiny else STEPS
    warm_up = 1 if is_tiny else WARM_UP
    rows = []
    for preset, steps in steps_of.items():
        commands = {}
        for precision in ("float32", "bfloat16"):
            command = [sys.executable, str(HERE / "measure_training.py"), str(text)]
            command += ["--preset", preset, "--precision", precision]
            command += ["--steps", str(steps), "--warm-up", str(warm_up)]
            commands[precision] = command
        for precision, turns in in_turns(commands, setting.repeats).items():
            shares = [
                turn["products_seconds"] / turn["embed_seconds"] for turn in turns
            ]
            share = statistics.median(shares)
            speed = median(turns, "tokens_per_second")
            rows.append(
                Row(
                    f"`elmo train --preset {preset}`, {precision}",
                    f"{SHARE_TARGET:.0%} of its bare products",
                    f"{speed:,.0f} tokens/s: {share:.0%}",
                    met=share >= SHARE_TARGET,
                    figures={"turns": turns, "shares": shares},
                )
            )
    return rows
