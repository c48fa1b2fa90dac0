"""`elmo embed` held to less of the processor: to fewer cores, and to AVX2."""

import os

from process import in_turns, median
from setting import Row, Setting
from speed import beside_allennlp, speed_row

AVX2_TARGET = 7.5
AVX2 = ["env", "ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2"]


def limited_rows(setting: Setting) -> list[Row]:
    """From one core to all, which take turns; and with AVX2 beside AllenNLP held to it too."""
    text, output = setting.write("input.txt", setting.lines), setting.folder / "limited.hdf5"
    ours = setting.ours("measure_embed.py", setting.model, text, output)
    theirs = setting.theirs("embed", "--all", text, setting.folder / "peer.hdf5")
    beside = beside_allennlp(setting, [*AVX2, *ours], [*AVX2, *theirs])
    return [*_core_rows(setting, ours), speed_row("CPU with AVX2, float32", AVX2_TARGET, *beside)]


def _core_rows(setting: Setting, command: list[str]) -> list[Row]:
    n_cores = len(os.sched_getaffinity(0))
    numbers = sorted({n_cores, *(2**k for k in range(n_cores.bit_length()) if 2**k <= n_cores)})
    commands = {str(n): ["env", f"OMP_NUM_THREADS={n}", *command] for n in numbers}
    turns = in_turns(commands, setting.repeats)
    one = median(turns["1"], "tokens_per_second")
    return [
        Row(
            f"threads: {name}",
            "",
            f"{median(found, 'tokens_per_second'):,.0f} tokens/s "
            f"({median(found, 'tokens_per_second') / one:.2f})",
            figures={"turns": found},
        )
        for name, found in turns.items()
    ]
