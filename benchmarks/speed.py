"""This project and AllenNLP: `elmo embed`, and `Elmo` inside a model."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from benchmarks.process import Figures, in_turns, median, ratios
from benchmarks.setting import HERE, Row, Setting

SPEED_TARGET = 5.5
LOADING_TARGET = 0.5
AGREEMENT = 1e-5
EXTRA_MB = 700
FILES_TARGET = 0.05
FROZEN_TARGET = 8.0
TUNED_TARGET = 4.0
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
    ours_file = setting.folder / "ours.hdf5"
    peer_file = setting.folder / "peer.hdf5"
    ours, peers = measure_with_allennlp(
        setting,
        setting.ours("measure_embed.py", setting.model, text, ours_file),
        setting.theirs("--all", text, peer_file),
    )
    rows = [speed_row("CPU, float32, all layers to HDF5", SPEED_TARGET, ours, peers)]
    if peers:
        rows.append(_agreement(ours_file, peer_file))
    rows.append(_loading(ours, peers))
    rows.append(_memory(ours, setting.model))
    rows.append(_files(ours))
    return rows


def measure_with_allennlp(
    setting: Setting, ours: Sequence[str], theirs: Sequence[str]
) -> tuple[list[Figures], list[Figures]]:
    """Measure our command and AllenNLP's, if it is installed, in turns."""
    commands = {"ours": ours}
    if setting.peer is not None:
        commands["theirs"] = theirs
    turns = in_turns(commands, setting.repeats)
    return turns["ours"], turns.get("theirs", [])


def speed_row(
    what: str, target: float, ours: list[Figures], peers: list[Figures]
) -> Row:
    """Return a row with tokens per second, and their ratio to AllenNLP's if known."""
    measured = f"{median(ours, 'tokens_per_second'):,.0f} tokens/s"
    times = ratios(ours, peers)
    met = None
    if times:
        measured += f", AllenNLP {median(peers, 'tokens_per_second'):,.0f}: "
        measured += f"{statistics.median(times):.1f} times"
        met = statistics.median(times) >= target
    return Row(
        what,
        f"{target} times AllenNLP",
        measured,
        met=met,
        figures={"ours": ours, "peer": peers, "ratios": times},
    )


def _agreement(ours: Path, peer: Path) -> Row:
    """Compare the first batch with AllenNLP's, which carries state to later ones."""
    with h5py.File(ours) as our, h5py.File(peer) as their:
        keys = [str(line) for line in range(min(64, len(their) - 1))]
        largest = max(float(np.abs(our[key][:] - their[key][:]).max()) for key in keys)
    return Row(
        "largest difference from AllenNLP, first 64 lines",
        f"{AGREEMENT:.0e}",
        f"{largest:.1e}",
        met=largest <= AGREEMENT,
        figures={"largest": largest},
    )


def _loading(ours: list[Figures], peers: list[Figures]) -> Row:
    seconds = median(ours, "load_seconds")
    measured = f"{seconds:.1f} s"
    met = None
    if peers:
        peer_seconds = median(peers, "load_seconds")
        measured += f", AllenNLP {peer_seconds:.1f} s"
        met = seconds / peer_seconds <= LOADING_TARGET
    what = "loading, files in the disk cache"
    return Row(what, "half of AllenNLP's", measured, met=met)


def _memory(ours: list[Figures], model: Path) -> Row:
    weights = (model / "weights.hdf5").stat().st_size / 1e6
    peak = median(ours, "peak_memory_mb")
    return Row(
        "peak memory, MB",
        f"weights + {EXTRA_MB}",
        f"{weights:,.0f} + {peak - weights:,.0f}",
        met=peak - weights <= EXTRA_MB,
        figures={"peak_memory_mb": peak, "weights_mb": weights},
    )


def _files(ours: list[Figures]) -> Row:
    shares = [turn["files_seconds"] / turn["embed_seconds"] for turn in ours]
    share = statistics.median(shares)
    return Row(
        "reading and writing files, of the whole run",
        f"at most {FILES_TARGET:.0%}",
        f"{share:.1%}",
        met=share <= FILES_TARGET,
        figures={"shares": shares},
    )


def module_rows(setting: Setting) -> list[Row]:
    """Run batches of 32 sentences through both classes, in turns."""
    text = setting.write("batches.txt", setting.lines)
    rows = []
    for what, (options, target) in KINDS.items():
        ours = setting.ours("measure_module.py", setting.model, *options, text)
        # AllenNLP has only `Elmo`.
        arguments = [option for option in ours[2:] if option != "--hub"]
        script = str(HERE / "measure_module.py")
        theirs = [str(setting.peer), script, *arguments, "--peer"]
        our_turns, peer_turns = measure_with_allennlp(setting, ours, theirs)
        rows.append(speed_row(what, target, our_turns, peer_turns))
    return rows
