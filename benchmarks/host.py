"""Time of the host per token: everything around a biLM that takes no time."""

import statistics

from benchmarks.gpu import shuffled
from benchmarks.process import in_turns
from benchmarks.setting import Row, Setting

KINDS = {
    "all layers, float32": ["--layers=all"],
    "average, float16": ["--layers=average", "--dtype=float16"],
    "average, float16, packed": [
        "--layers=average",
        "--dtype=float16",
        "--layout=packed",
    ],
}


def host_rows(setting: Setting) -> list[Row]:
    """Measure the processor time of the host.

    To compare checkouts, set PYTHONPATH in turns.
    """
    text = setting.write("shuffled.txt", shuffled(setting.lines))
    output = setting.folder / "host.h5"
    commands = {}
    for what, options in KINDS.items():
        commands[what] = setting.ours(
            "measure_embed.py", setting.model, "--host", *options, text, output
        )
    rows = []
    for what, turns in in_turns(commands, setting.repeats).items():
        times = [1e6 * turn["processor_seconds"] / turn["tokens"] for turn in turns]
        median = statistics.median(times)
        measured = f"{median:.1f} microseconds per token, least {min(times):.1f}"
        rows.append(Row(f"host, {what}", "", measured, figures={"microseconds": times}))
    return rows
