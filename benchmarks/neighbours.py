"""Search for the neighbours of a word, in files of growing size.

python benchmarks/neighbours.py FILE     # print the time and memory of a search in one file
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
from process import Figures, figures_of
from setting import HERE, Row, Setting

from elmo_cli import neighbours, open_activations
from elmo_cli.outputs.output_formats import OutputSettings
from elmo_cli.outputs.writer import ActivationsWriter, end_attributes
from elmo_cli.text.records import Progress, Record

TARGET = 5.0
WIDTH = 1024
LINE_TOKENS = 20


def neighbour_rows(setting: Setting) -> list[Row]:
    """Search the ten nearest tokens among a million random tokens, and among fewer."""
    figures: dict[str, Figures] = {}
    for n_tokens in (setting.many_lines // 100, setting.many_lines // 10, setting.many_lines):
        path = setting.folder / "random.hdf5"
        write_random(path, n_tokens)
        command = [sys.executable, str(HERE / "neighbours.py"), str(path)]
        turns = [figures_of(command) for _ in range(setting.repeats)]
        figures[f"{n_tokens:,}"] = min(turns, key=lambda turn: turn["seconds"])
        path.unlink()
    measured = [
        f"{n_tokens}: {each['seconds']:.2f} s, {each['peak_memory_mb']:,.0f} MB"
        for n_tokens, each in figures.items()
    ]
    what = f"neighbours by number of tokens, float16, packed, {WIDTH} wide, the fastest turn"
    is_met = figures[f"{setting.many_lines:,}"]["seconds"] <= TARGET
    return [Row(what, f"{TARGET:.0f} s per million", "; ".join(measured), is_met, {**figures})]


def write_random(path: Path, n_tokens: int) -> None:
    """Write a packed file of random vectors, one layer of float16."""
    output_format = OutputSettings(layout="packed", dtype="float16").for_path(path, pooled=False)
    random = np.random.default_rng(0)
    rows = random.standard_normal((100 * LINE_TOKENS, WIDTH)).astype(np.float16)
    with ActivationsWriter(path, output_format, {"layers": "top"}) as writer:
        for start in range(0, n_tokens, LINE_TOKENS):
            n = min(LINE_TOKENS, n_tokens - start)
            at = start % len(rows)
            text = " ".join(f"w{token}" for token in range(start, start + n))
            writer.write(Record(text, text.split()), rows[at : at + n])
        writer.finish(end_attributes(writer.n_records, Progress(writer.n_records, ""), {}))


def main(path: str) -> None:
    """Search once, and print the figures."""
    query = np.random.default_rng(1).standard_normal((1, WIDTH))
    with open_activations(path) as activations:
        started = time.perf_counter()
        neighbours(activations, query)
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_memory_mb": peak}))


if __name__ == "__main__":
    main(sys.argv[1])
