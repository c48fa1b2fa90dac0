"""Stopping and resuming a run."""

import gzip
import json
import re
import resource
import signal
import time
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from commands import elmo, start_elmo
from runs import stop_after
from strategies import small_architecture
from training_runs import assert_same_weights, content, log_entries, train

from elmo_cli.errors import ElmoError, ModelError, OutputError, StoppedError
from elmo_cli.training.checkpoint import fingerprint, own_folder

pytestmark = pytest.mark.usefixtures("training_folder")


class KilledError(Exception):
    """Stand-in for a kill."""


@pytest.mark.parametrize(
    ("state", "optimizer"),
    [("zero", "adamw"), ("carry", "adagrad"), ("zero", "adagrad"), ("carry", "adamw")],
)
def test_stopped_and_resumed_run_equals_whole_run(state: str, optimizer: str) -> None:
    settings = {"state": state, "optimizer": optimizer, "eval_steps": 7}
    expected = train("whole", **settings)
    message = r"^Stopped after step \d+, \d+\.\d% of the run\. parts has"
    for step in (1, 6, 9):
        with pytest.raises(StoppedError, match=message):
            train("parts", should_stop=stop_after(step), **settings)
    assert train("parts", **settings) == expected
    assert_same_weights("whole", "parts")
    for resumed_entry, entry in zip(log_entries("parts"), log_entries("whole"), strict=True):
        assert resumed_entry["step"] == entry["step"]
        assert resumed_entry.get("training_loss", 0) == pytest.approx(entry.get("training_loss", 0))


@pytest.mark.long
def test_killed_process_resumes_to_equal_weights() -> None:
    arguments = [
        *("text.txt", "--options-file", "options.json", "--vocabulary-size", "40"),
        *("--batch-tokens", "40", "--epochs", "6", "--negative-samples", "6"),
        *("--checkpoint-seconds", "0", "--keep-checkpoint", "--output"),
    ]
    checkpoint = Path("parts/checkpoint.pt")
    before = 0
    for ending in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        process = start_elmo("train", *arguments, "parts")
        while process.poll() is None:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                break
            time.sleep(0.01)
        process.send_signal(ending)
        _, errors = process.communicate(timeout=300)
        if process.returncode not in (0, -signal.SIGKILL):
            assert process.returncode == 128 + ending
            assert b"The same command resumes training" in errors
        before = checkpoint.stat().st_mtime_ns
    assert elmo("train", *arguments, "parts").exit_code == 0
    assert elmo("train", *arguments, "whole").exit_code == 0
    assert_same_weights("whole", "parts")


@pytest.mark.parametrize(
    ("other", "mismatch"),
    [
        ({"dropout": 0.2}, r"dropout 0.1 \(now 0.2\)"),
        ({"options_file": "other.json"}, r"lstm\.dim 5 \(now 6\)"),
        ({"vocabulary_size": 19}, r"vocabulary_size 40 \(now 19\)"),
        ({"validation_share": 0.3, "seed": 1}, r"validation_share 0.2 \(now 0.3\); seed 0 \(now 1"),
        ({"files": ("text.txt", "text.txt.gz")}, r"another number of text files: 1 \(now 2\)"),
        ({"vocabulary_file": "words.txt"}, r"vocabulary_size 40 \(now not given\); another vocab"),
        ({"init_from": "first"}, r"vocabulary_size .* model to start from"),
    ],
)
def test_resume_refuses_another_run(other: dict[str, Any], mismatch: str) -> None:
    Path("other.json").write_text(json.dumps(small_architecture(dim=6)))
    Path("words.txt").write_text("<S>\n</S>\n<UNK>\na\n")
    Path("text.txt.gz").write_bytes(gzip.compress(b"a b\n"))
    settings = {"validation_file": None, "validation_share": 0.2, "steps": 2}
    if "init_from" in other:
        train("first", steps=1, validation_file=None)
        other = {"options_file": None, **other}
    train("model", **settings)
    before = content("model")
    with pytest.raises(ModelError, match=f"^model: the run in this folder has {mismatch}") as error:
        train("model", **{**settings, **other})
    assert str(error.value).endswith("choose another folder and --init-from model for a new run.")
    assert content("model") == before


def test_resume_recognizes_text_by_its_content() -> None:
    train("model", steps=2)
    text = Path("text.txt").read_bytes()
    Path("moved.txt").write_bytes(text)
    train("model", steps=3, files=("moved.txt",))
    Path("text.txt").write_bytes(text[:-1] + bytes([text[-1] ^ 1]))
    size = f"{len(text):,} bytes"
    with pytest.raises(ModelError, match=rf"has another text in text.txt: {size}\. Repeat"):
        train("model", steps=3)
    Path("text.txt").write_bytes(text + b"\n")
    with pytest.raises(ModelError, match=rf"text.txt: {size} \(now {len(text) + 1:,}\)\. Repeat"):
        train("model", steps=3)


@pytest.mark.parametrize("position", [0, -1, 40, 50])
def test_fingerprint_samples_large_files(position: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.training.checkpoint._SAMPLES", 3)
    monkeypatch.setattr("elmo_cli.training.checkpoint._SAMPLE_BYTES", 10)
    path = Path("large.bin")
    content = bytearray(range(99))
    path.write_bytes(content)
    before = fingerprint(path)
    content[position] ^= 1
    path.write_bytes(content)
    is_sampled = position != 40  # Samples begin at 0, 44 and 89.
    assert (fingerprint(path) != before) == is_sampled


def test_resume_names_the_first_different_word() -> None:
    words = ["<S>", "</S>", "<UNK>", "a", "b"]
    Path("words.txt").write_text("\n".join(words))
    train("model", steps=1, vocabulary_file="words.txt", vocabulary_size=None)
    for other, mismatch in (
        ("ba", "'a' in line 4 (now 'b')"),
        ("a", "'b' in line 5 (now no word)"),
    ):
        Path("words.txt").write_text("\n".join([*words[:3], *other]))
        with pytest.raises(ModelError, match=re.escape(f"another vocabulary: {mismatch}. Repeat")):
            train("model", steps=2, vocabulary_file="words.txt", vocabulary_size=None)


def test_resume_keeps_counted_words_in_their_order() -> None:
    train("whole", steps=4)
    train("model", steps=2)
    path = Path("model/vocab.txt")
    words = path.read_text().splitlines()
    path.write_text("\n".join([*words[:3], *reversed(words[3:])]))
    train("model", steps=4)
    assert path.read_text().splitlines() == words
    assert_same_weights("whole", "model")


def test_damaged_log_does_not_stop_a_resume(caplog: pytest.LogCaptureFixture) -> None:
    train("model", steps=10)
    log = Path("model/log.jsonl")
    lines = log.read_bytes()
    log.write_bytes(lines + b'{"step": 1\n[]\n\xff\xfe\n{"step": "2"}\n{"st')
    train("model", steps=11)
    assert log.read_bytes().startswith(lines)
    assert "Warning: model/log.jsonl: removed 4 damaged lines." in caplog.messages
    assert [entry["step"] for entry in log_entries("model")] == [10, 10, 11]


def test_first_checkpoint_comes_before_all_other_files() -> None:
    written: list[str] = []

    def kill(path: Path, *_: object) -> None:
        written.append(path.name)
        raise KilledError

    for target in ("train.save_checkpoint", "run_report.write_lines"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"elmo_cli.training.{target}", kill)
            with pytest.raises(KilledError):
                train("model", eval_steps=1)
    assert written == ["model", "options.json"]
    assert [path.name for path in Path("model").iterdir()] == ["checkpoint.pt"]
    train("model")
    train("whole")
    assert_same_weights("whole", "model")


def test_folder_is_locked_during_training() -> None:
    message = r"^model: another process is training there\. "
    with own_folder(Path("model")), pytest.raises(OutputError, match=message):
        train("model")
    train("model", steps=1)


def test_full_disk_keeps_the_last_checkpoint() -> None:
    train("model", steps=3)
    before = content("model")["checkpoint.pt"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"checkpoint\.pt: cannot be written: File too large"):
            train("model", steps=5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content("model")["checkpoint.pt"] == before
    assert not list(Path("model").glob("*partial"))
    train("model", steps=5)


_CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "without_step": lambda state: state.pop("step"),
    "words_as_text": lambda state: state.update(words="a b"),
    "other_shapes": lambda state: state["objective"].update({"softmax.bias": torch.zeros(3)}),
    "other_format": lambda state: state.update(format="elmo train 1"),
    "other_optimizer": lambda state: state["optimizer"]["param_groups"].clear(),
    "other_progress": lambda state: state.update(progress=(1, 2, 3, 4, 5, 6, 7, 8)),
}
_DAMAGED = r"the checkpoint is damaged \("


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *((name, _DAMAGED) for name in ("replaced", "cut", "changed", "code", "function", "zip")),
        ("list", "not a checkpoint of elmo train"),
        ("without_step", _DAMAGED),
        ("words_as_text", _DAMAGED),
        ("other_optimizer", _DAMAGED),
        ("other_progress", _DAMAGED),
        ("other_shapes", _DAMAGED),
        ("other_format", "a checkpoint of another version of elmo-cli"),
    ],
)
def test_damaged_or_other_checkpoint_is_one_line(damage: str, message: str) -> None:
    train("model", steps=1)
    path = Path("model/checkpoint.pt")
    whole = path.read_bytes()
    half = len(whole) // 2
    if damage in _CHANGES:
        state = torch.load(path, weights_only=True)
        _CHANGES[damage](state)
        torch.save(state, path)
    elif damage in ("code", "function"):
        torch.save({"step": Path("x") if damage == "code" else print}, path)
    elif damage == "list":
        torch.save([1.0], path)
    elif damage == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", b"\x80\x02K\x01.")
            archive.writestr("readme.txt", "no tensors")
    elif damage == "changed":
        path.write_bytes(whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :])
    else:
        path.write_bytes(whole[:half] if damage == "cut" else b"no checkpoint")
    with pytest.raises(ModelError, match=f"^model/checkpoint.pt: {message}") as error:
        train("model", steps=2)
    assert "\n" not in str(error.value)


def test_unexpected_errors_propagate_from_a_resume() -> None:
    train("model", steps=1)
    functions = ("load", "optim.Optimizer.load_state_dict", "nn.Module.load_state_dict")
    for function, error in product(
        functions, (torch.cuda.OutOfMemoryError, MemoryError, TypeError)
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"torch.{function}", Mock(side_effect=error("CUDA out of memory")))
            with pytest.raises(error, match=r"^CUDA out of memory$"):
                train("model", steps=2)


def test_infinite_loss_keeps_the_last_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    train("model", steps=2)
    before = content("model")["checkpoint.pt"]
    monkeypatch.setattr(
        "elmo_cli.training.training_run.learning_rate_at", lambda *_: (float("nan"), False)
    )
    with pytest.raises(ElmoError, match=r"^step 5: the loss is not finite, so training has failed"):
        train("model", steps=5)
    assert content("model")["checkpoint.pt"] == before
