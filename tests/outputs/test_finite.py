"""Activations that are not finite: one warning names the first record."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from commands import TINY, elmo

from elmo_cli.outputs.writer import FiniteCheck


@pytest.fixture(autouse=True)
def inputs(folder: Path) -> None:
    """Write a text, words and a model of large finite weights into the current folder."""
    Path("text.txt").write_text("\n" + "The cat sat\n" * 3)
    Path("words.txt").write_text("cat\nsat\n")
    shutil.copytree(TINY, "model")
    with h5py.File("model/weights.hdf5", "r+") as file:
        for name in ("char_embed", "CNN/W_cnn_0", "CNN_proj/W_proj"):
            file[name][...] *= 1e25


def warnings_of(*arguments: str) -> list[str]:
    result = elmo(*arguments)
    assert result.exit_code == 0, result.stderr
    return [line for line in result.stderr.splitlines() if "not finite" in line]


LINE_2 = "activations are not finite (NaN or infinity), the first in line 2"
COMMANDS = {
    "embed text.txt out.hdf5": f"out.hdf5: {LINE_2}",
    "embed text.txt out.hdf5 --layers top --pooling mean": f"out.hdf5: {LINE_2}",
    "usages text.txt out.hdf5 --words words.txt": f"out.hdf5: {LINE_2}",
    "word-vectors words.txt out.txt": "out.txt: the vectors of 2 words are not finite (NaN or "
    "infinity), the first of 'cat'",
    "distribute text.txt out --engine none --part-size 0.001": "text.txt: activations are not "
    "finite (NaN or infinity), the first in record 2",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_warn_once_of_values_that_are_not_finite(command: str) -> None:
    (warning,) = warnings_of(*command.split(), "--model", "model")
    assert warning.startswith("Warning: ")
    assert warning.endswith(f"{COMMANDS[command]}. Check the weights of the model.")


def test_embed_warns_of_values_that_float16_cannot_hold() -> None:
    mix = ("--mix", "0,0,0", "--gamma", "1e6")
    command = ("embed", "text.txt", "out.hdf5", "--model", str(TINY), *mix, "--overwrite")
    assert warnings_of(*command) == []
    (warning,) = warnings_of(*command, "--dtype", "float16")
    assert warning.endswith(
        "the first in line 2. Use --dtype float32, and check the weights of the model."
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 65_520, -65_520])
def test_finite_check_finds_the_record_of_a_single_value(value: float) -> None:
    messages: list[str] = []
    check = FiniteCheck("out", "line", "float16", messages.append)
    values = np.zeros((3, 4, 5), np.float32)
    check.add(values, 1)
    values[0, :, 0] = 65_519
    check.add(values, 2)
    values[2, 3, 4] = value
    check.add(values, 3)
    check.add(values, 4)
    # Records are written in another order than batches are computed.
    batches = FiniteCheck("out", "line", "float16", messages.append)
    for is_finite in (True, False, True):
        batches.add_batch(is_finite)
    with np.errstate(over="ignore"):
        for number, each in enumerate((np.full(3, 65_504), np.full(3, value)), start=1):
            batches.add(each.astype(np.float16), number)
    found = [message.partition("the first in ")[2][:6] for message in messages]
    assert found == ["line 3", "line 2"]
