"""Speed on a limited processor: only AVX2, or cores shared with other programs."""

import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from process import in_turns, median, ratios
from setting import HERE, Row, Setting
from speed import measure_with_allennlp, speed_row

from elmo_cli.__main__ import SPIN_COUNT

AVX2_TARGET, QUIET_TARGET, BUSY_TARGET = 7.5, 0.98, 5.0
AVX2 = ["env", "ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2"]


def limited_rows(setting: Setting) -> list[Row]:
    """Measure AVX2 against AllenNLP with AVX2, and waiting threads beside other programs."""
    text, output = setting.write("input.txt", setting.lines), setting.folder / "limited.hdf5"
    ours = setting.ours("measure_embed.py", setting.model, text, output)
    theirs = setting.theirs("embed", "--all", text, setting.folder / "peer.hdf5")
    figures = measure_with_allennlp(setting, [*AVX2, *ours], [*AVX2, *theirs])
    avx2 = speed_row("CPU with AVX2, float32", AVX2_TARGET, *figures)
    return [avx2, *_waiting_rows(setting, ours)]


def _waiting_rows(setting: Setting, embed: Sequence[str]) -> Iterator[Row]:
    """Compare the command's idle threads with OpenMP's, alone and next to other processes."""
    text = str(setting.write("training.txt", [line for line in setting.lines if line.split()]))
    train = [sys.executable, str(HERE / "measure_training.py"), "--alone", "--steps", "3", text]
    for name, command in {"`elmo embed`": embed, "`elmo train`, mini": train}.items():
        commands = {
            "ours": ["env", f"GOMP_SPINCOUNT={SPIN_COUNT}", *command],
            "OpenMP's": ["env", "-u", "GOMP_SPINCOUNT", "-u", "OMP_WAIT_POLICY", *command],
        }
        turns = in_turns(commands, setting.repeats)
        yield _waiting_row(f"{name}, waiting for work, quiet", QUIET_TARGET, turns)
        with _busy_cores():
            turns = in_turns(commands, 1)
        target = BUSY_TARGET if "train" in name else 1.0
        yield _waiting_row(f"{name}, waiting for work, beside others", target, turns)


def _waiting_row(what: str, target: float, turns: Mapping[str, list[dict[str, float]]]) -> Row:
    ratio = statistics.median(ratios(*turns.values()))
    speeds = (f"{median(each, 'tokens_per_second'):,.0f}" for each in turns.values())
    return Row(
        what,
        f"{target} times OpenMP's default",
        f"{' tokens/s over '.join(speeds)}: {ratio:.2f} times",
        ratio >= target,
        dict(turns),
    )


@contextmanager
def _busy_cores() -> Iterator[None]:
    """Run another program that computes with torch on all cores."""
    code = "import torch; a = torch.rand(512, 512)\nwhile True: a @ a"
    other = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        other.kill()
        other.wait()
