"""Speed on texts whose lines are of odd lengths."""

from process import figures_of
from setting import Row, Setting

FACTOR = 2.0
LONG = 5000


def length_rows(setting: Setting) -> list[Row]:
    """Tokens a second of such texts against the ordinary one."""
    lines = list(setting.lines)
    tokens = " ".join(lines).split()
    long_line = " ".join((tokens * (1 + LONG // len(tokens)))[:LONG])
    speeds = {
        name: _speed(setting, some)
        for name, some in {
            "the ordinary text": lines,
            f"one line of {LONG:,} tokens among the others": [*lines, long_line],
            f"the line of {LONG:,} tokens alone": [long_line],
            "all lines equal": [lines[0]] * len(lines),
            "all lines one token": tokens,
        }.items()
    }
    ordinary = speeds["the ordinary text"]
    # A single long line is bound by its own steps: no target.
    return [
        Row(
            name,
            "" if "alone" in name else f"at least 1/{FACTOR:.0f} of the ordinary text's",
            f"{speed:,.0f} tokens/s ({speed / ordinary:.2f})",
            None if "alone" in name else speed >= ordinary / FACTOR,
            {"tokens_per_second": speed},
        )
        for name, speed in speeds.items()
        if name != "the ordinary text"
    ]


def _speed(setting: Setting, lines: list[str]) -> float:
    text, output = setting.write("lengths.txt", lines), setting.folder / "lengths.hdf5"
    command = setting.ours("measure_embed.py", setting.model, text, output)
    return figures_of(command)["tokens_per_second"]
