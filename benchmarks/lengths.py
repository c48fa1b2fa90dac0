"""Speed on texts with unusual lengths of lines."""

import statistics

from process import figures_of
from setting import Row, Setting

FACTOR = 2.0
LONG = 5000


def length_rows(setting: Setting) -> list[Row]:
    """Compare tokens per second of such texts with the ordinary text, in turns."""
    lines = list(setting.lines)
    tokens = " ".join(lines).split()
    long_line = " ".join((tokens * (1 + LONG // len(tokens)))[:LONG])
    texts = {
        "the ordinary text": lines,
        f"one line of {LONG:,} tokens among the others": [*lines, long_line],
        f"the line of {LONG:,} tokens alone": [long_line],
        "all lines equal": [lines[0]] * len(lines),
        "all lines one token": tokens,
    }
    turns = [{name: _speed(setting, texts[name]) for name in texts} for _ in range(setting.repeats)]
    ordinary, *others = texts
    # A single long line has no target, because its steps depend on each other.
    return [_row(name, [(turn[name], turn[ordinary]) for turn in turns]) for name in others]


def _row(name: str, turns: list[tuple[float, float]]) -> Row:
    speed = statistics.median(speed for speed, _ in turns)
    ratio = statistics.median(speed / ordinary for speed, ordinary in turns)
    has_target = "alone" not in name
    return Row(
        name,
        f"at least 1/{FACTOR:.0f} of the ordinary text's" if has_target else "",
        f"{speed:,.0f} tokens/s ({ratio:.2f})",
        ratio >= 1 / FACTOR if has_target else None,
        {"tokens_per_second": turns},
    )


def _speed(setting: Setting, lines: list[str]) -> float:
    text, output = setting.write("lengths.txt", lines), setting.folder / "lengths.hdf5"
    command = setting.ours("measure_embed.py", setting.model, text, output)
    return figures_of(command)["tokens_per_second"]
