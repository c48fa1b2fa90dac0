"""Named pipes in place of files: an error, where opening one would wait without end."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import h5py
import pytest

from tests.support.commands import run_python
from tests.support.golden import GOLDEN

MODEL = GOLDEN / "tanh-clip"
OPTIONS = ("--options-file", str(MODEL / "options.json"))
WEIGHTS = ("--weight-file", str(MODEL / "weights.hdf5"))


@pytest.fixture(autouse=True)
def pipe(folder: Path) -> None:
    """Make named pipes and a text in the current folder."""
    os.mkfifo("pipe")
    os.mkfifo("pipe.safetensors")
    os.mkfifo("pipe.parquet")
    Path("text.txt").write_text("the cat sat\n")


def assert_one_error(*arguments: str) -> None:
    """Assert that a command names the pipe in one line, and does not wait for it."""
    result = run_python("-m", "elmo_cli", *arguments, timeout=60)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert "pipe" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["embed", "text.txt", "out.hdf5", "--options-file", "pipe", *WEIGHTS],
        ["embed", "text.txt", "out.hdf5", *OPTIONS, "--weight-file", "pipe"],
        ["embed", "text.txt", "out.hdf5", *OPTIONS, "--weight-file=pipe.safetensors"],
        ["info", "pipe"],
        ["surprisal", "text.txt", "--vocabulary-file", "pipe"],
        ["surprisal", "text.txt", "--softmax-file", "pipe"],
        ["perplexity", "text.txt", "--softmax-file", "pipe.safetensors"],
        ["neighbours", "cat", "the cat", "pipe"],
        ["neighbours", "cat", "the cat", "pipe.parquet"],
        ["convert", "pipe", "out.hdf5"],
        ["train", "text.txt", "-o", "folder", "--options-file", "pipe"],
        [
            "train",
            "text.txt",
            "-o",
            "folder",
            "--preset=mini",
            "--vocabulary-file=pipe",
        ],
    ],
)
def test_a_named_pipe_is_no_file(arguments: Sequence[str]) -> None:
    assert_one_error(*arguments)


def test_a_checkpoint_that_is_a_named_pipe_is_an_error() -> None:
    shutil.copytree(MODEL, "run")
    os.mkfifo("run/checkpoint.pt")
    shutil.copy("run/options.json", "options.json")
    options = ["--options-file", "options.json", "-o", "run", "--steps", "1"]
    result = run_python("-m", "elmo_cli", "train", "text.txt", *options, timeout=60)
    assert "checkpoint.pt: cannot be read: it is a named pipe" in result.stderr


def test_a_plan_that_is_a_named_pipe_is_an_error() -> None:
    pytest.importorskip("pyarrow")
    os.makedirs("parts/_elmo")
    os.mkfifo("parts/_elmo/plan.parquet")
    command = ["distribute", "text.txt", "parts", "--engine", "none"]
    result = run_python("-m", "elmo_cli", *command, timeout=60)
    assert "plan.parquet: the file is damaged: it is a named pipe." in result.stderr


@pytest.mark.parametrize("target", ["pipe", "other.hdf5"])
def test_a_softmax_is_never_followed_out_of_its_file(target: str) -> None:
    os.mkdir("model")
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(MODEL / name, "model")
    if target != "pipe":
        with h5py.File(target, "w") as file:
            file["softmax/W"] = [[1.0]]
    with h5py.File("model/weights.hdf5", "r+") as file:
        file["softmax"] = h5py.ExternalLink(os.path.abspath(target), "/softmax")
    command = ["surprisal", "text.txt", "--model", "model"]
    result = run_python("-m", "elmo_cli", *command, timeout=60)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: model: ")
    result = run_python("-m", "elmo_cli", "info", "model", timeout=60)
    assert result.returncode == 0
