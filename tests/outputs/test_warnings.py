"""Warnings of outputs: records without text, and activations that are not finite."""

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo_cli.errors.exceptions import StoppedError
from elmo_cli.errors.messages import Message
from elmo_cli.outputs.finite import FiniteCheck
from tests.support.commands import TINY, elmo
from tests.support.runs import embed, stop_after

pytestmark = pytest.mark.usefixtures("inputs_with_warnings")


@pytest.fixture
def inputs_with_warnings(folder: Path) -> None:
    """Write texts, words and a model of large finite weights."""
    Path("text.txt").write_text("\n" + "The cat sat\n" * 3)
    Path("blank.txt").write_text("The cat sat\n\n\nthe bank\n   \nof a river\n" * 2)
    Path("blank.jsonl").write_text('{"text": null}\n{"text": "a bank"}\n{"text": ""}\n')
    Path("words.txt").write_text("cat\nsat\n")
    shutil.copytree(TINY, "model")
    with h5py.File("model/weights.hdf5", "r+") as file:
        for name in ("char_embed", "CNN/W_cnn_0", "CNN_proj/W_proj"):
            file[name][...] *= 1e25


def warnings_of(command: str, model: Path) -> list[str]:
    result = elmo(*command.split(), "--model", model)
    assert result.exit_code == 0, result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith("Warning: ")]


EMPTY = {
    "embed blank.txt out.hdf5": "",
    "embed blank.txt out.hdf5 --pooling mean": (
        "6 lines without text, whose vectors are zeros"
    ),
    "embed blank.txt out.npy --pooling max": (
        "6 lines without text, whose vectors are zeros"
    ),
    "embed blank.txt out.parquet": "6 lines without text",
    "embed blank.txt out.jsonl --rows tokens": "6 lines without text",
    "embed blank.jsonl o.npy --pooling mean": (
        "2 records without text, whose vectors are zeros"
    ),
    "distribute blank.jsonl out --engine none": "2 records without text",
}


@pytest.mark.parametrize("command", EMPTY)
def test_records_without_text_are_counted(command: str) -> None:
    expected = [f"Warning: {EMPTY[command]}"] if EMPTY[command] else []
    assert warnings_of(command, TINY) == expected


def test_a_resumed_run_counts_all_records_without_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings: dict[str, Any] = {"pooling": "mean", "checkpoint_tokens": 1}
    with pytest.raises(StoppedError):
        embed("blank.txt", "out", should_stop=stop_after(4), **settings)
    assert embed("blank.txt", "out", **settings).resumed_from > 0
    assert "6 lines without text, whose vectors are zeros" in caplog.messages


LINE_2 = "activations are not finite (NaN or infinity), the first in line 2"
NOT_FINITE = {
    "embed text.txt out.hdf5": f"out.hdf5: {LINE_2}",
    "embed text.txt out.hdf5 --layers top --pooling mean": f"out.hdf5: {LINE_2}",
    "occurrences text.txt out.hdf5 --words words.txt": f"out.hdf5: {LINE_2}",
    "word-vectors --words words.txt out.txt": (
        "out.txt: the vectors of 2 words are not finite (NaN or infinity), "
        "the first of 'cat'"
    ),
    "distribute text.txt out --engine none --part-size 0.001": (
        "text.txt: activations are not finite (NaN or infinity), the first in record 2"
    ),
}


@pytest.mark.parametrize("command", NOT_FINITE)
def test_commands_warn_once_of_values_that_are_not_finite(command: str) -> None:
    (warning,) = (
        each for each in warnings_of(command, Path("model")) if "finite" in each
    )
    assert warning.endswith(f"{NOT_FINITE[command]}. Check the weights of the model.")


def test_embed_warns_of_values_that_float16_cannot_hold() -> None:
    command = "embed text.txt out.hdf5 --mix 0,0,0 --gamma 1e6 --overwrite"
    assert warnings_of(command, TINY) == []
    (warning,) = warnings_of(f"{command} --dtype float16", TINY)
    remedy = "Use --dtype float32, and check the weights of the model."
    assert warning.endswith(f"the first in line 2. {remedy}")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 65_520, -65_520])
def test_finite_check_finds_the_record_of_a_single_value(value: float) -> None:
    messages: list[Message] = []
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
    batches.add(np.full(3, 65_504, np.float16), 1)
    batches.add(np.full(3, np.inf, np.float16), 2)
    found = [str(message).partition("the first in ")[2][:6] for message in messages]
    assert found == ["line 3", "line 2"]
