"""This project and AllenNLP: `elmo embed` with whole files, and `Elmo` inside a model."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from benchmarks.process import Figures, in_turns, median, ratios
from benchmarks.setting import HERE, Row, Setting

SPEED_TARGET, LOADING_TARGET = 5.5, 0.5
AGREEMENT, EXTRA_MB, FILES_TARGET = 1e-5, 700, 0.05
FROZEN_TARGET, TUNED_TARGET = 8.0, 4.0
KINDS = {
    "`Elmo`, frozen, in training": ([], FROZEN_TARGET),
    "`Elmo`, frozen, in evaluation": (["--evaluate"], FROZEN_TARGET),
    "`Elmo`, frozen, with boundaries": (["--boundaries"], FROZEN_TARGET),
    "`HubElmo`, frozen, in training": (["--hub"], FROZEN_TARGET),
    "`Elmo`, fine-tuned": (["--requires-grad"], TUNED_TARGET),
}


def speed_rows(setting: Setting) -> list[Row]:
    """Run whole files through both programs, in turns."""
    text = setting.write("input.txt", setting.lines)
    ours_file, peer_file = setting.folder / "ours.hdf5", setting.folder / "peer.hdf5"
    ours, peers = measure_with_allennlp(
        setting,
        setting.ours("measure_embed.py", setting.model, text, ours_file),
        setting.theirs("--all", text, peer_file),
    )
    speed = speed_row("CPU, float32, all layers to HDF5", SPEED_TARGET, ours, peers)
    rows = [speed, _loading(ours, peers), _memory(ours, setting.model), _files(ours)]
    if peers:
        rows.insert(1, _agreement(ours_file, peer_file))
    return rows


def measure_with_allennlp(
    setting: Setting, ours: Sequence[str], theirs: Sequence[str]
) -> tuple[list[Figures], list[Figures]]:
    """Measure our command and AllenNLP's, if it is installed, in turns."""
    commands = {"ours": ours, "theirs": theirs} if setting.peer else {"ours": ours}
    turns = in_turns(commands, setting.repeats)
    return turns["ours"], turns.get("theirs", [])


def speed_row(
    what: str, target: float, ours: list[Figures], peers: list[Figures]
) -> Row:
    """Return a row with tokens per second, and their ratio to AllenNLP's if it was measured."""
    measured = f"{median(ours, 'tokens_per_second'):,.0f} tokens/s"
    times = ratios(ours, peers)
    if times:
        measured += f", AllenNLP {median(peers, 'tokens_per_second'):,.0f}: "
        measured += f"{statistics.median(times):.1f} times"
    return Row(
        what,
        f"{target} times AllenNLP",
        measured,
        statistics.median(times) >= target if times else None,
        {"ours": ours, "peer": peers, "ratios": times},
    )


def _agreement(ours: Path, peer: Path) -> Row:
    """Compare the first batch with AllenNLP's, which carries its state to later batches."""
    with h5py.File(ours) as our, h5py.File(peer) as their:
        keys = [str(line) for line in range(min(64, len(their) - 1))]
        largest = max(float(np.abs(our[key][:] - their[key][:]).max()) for key in keys)
    return Row(
        "largest difference from AllenNLP, first 64 lines",
        f"{AGREEMENT:.0e}",
        f"{largest:.1e}",
        largest <= AGREEMENT,
        {"largest": largest},
    )


def _loading(ours: list[Figures], peers: list[Figures]) -> Row:
    measured, met = f"{median(ours, 'load_seconds'):.1f} s", None
    if peers:
        measured += f", AllenNLP {median(peers, 'load_seconds'):.1f} s"
        ratio = median(ours, "load_seconds") / median(peers, "load_seconds")
        met = ratio <= LOADING_TARGET
    return Row("loading, files in the disk cache", "half of AllenNLP's", measured, met)


def _memory(ours: list[Figures], model: Path) -> Row:
    weights = (model / "weights.hdf5").stat().st_size / 1e6
    peak = median(ours, "peak_memory_mb")
    return Row(
        "peak memory, MB",
        f"weights + {EXTRA_MB}",
        f"{weights:,.0f} + {peak - weights:,.0f}",
        peak - weights <= EXTRA_MB,
        {"peak_memory_mb": peak, "weights_mb": weights},
    )


def _files(ours: list[Figures]) -> Row:
    shares = [turn["files_seconds"] / turn["embed_seconds"] for turn in ours]
    share = statistics.median(shares)
    return Row(
        "reading and writing files, of the whole run",
        f"at most {FILES_TARGET:.0%}",
        f"{share:.1%}",
        share <= FILES_TARGET,
        {"shares": shares},
    )


def module_rows(setting: Setting) -> list[Row]:
    """Run batches of 32 sentences through both classes, in turns."""
    text = setting.write("batches.txt", setting.lines)
    rows = []
    for what, (options, target) in KINDS.items():
        ours = setting.ours("measure_module.py", setting.model, *options, text)
        peers = [
            option for option in ours[2:] if option != "--hub"
        ]  # AllenNLP has only `Elmo`.
        theirs = [str(setting.peer), str(HERE / "measure_module.py"), *peers, "--peer"]
        rows.append(
            speed_row(what, target, *measure_with_allennlp(setting, ours, theirs))
        )
    return rows
