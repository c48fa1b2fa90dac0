"""Runs that stop, fail, or end at any moment resume to equal weights."""

import io
import json
import math
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from elmo_cli.errors.exceptions import ElmoError, ModelError, OutputError, StoppedError
from elmo_cli.files.output_names import partial_path
from elmo_cli.training.checkpoint import locked_training_folder
from elmo_cli.training.fingerprint import fingerprint_file
from elmo_cli.training.optimizer import LearningRate
from tests.support.commands import ROOT, elmo, run_python, start_elmo
from tests.support.failing_disk import Disk, kills, restore, state_of
from tests.support.runs import stop_after
from tests.support.training_runs import (
    assert_same_weights,
    content,
    log_entries,
    run_in,
    train,
)
from tests.support.trials import trials
from tests.support.website import zip_with

pytestmark = pytest.mark.usefixtures("training_folder")


@pytest.fixture(scope="module")
def one_step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run after its first step."""
    with run_in(tmp_path_factory) as folder:
        train("model", steps=1, validation_file=None)
    return folder / "model"


@pytest.fixture
def checkpoint(one_step: Path, training_folder: None) -> Path:
    """Copy that run to `model` in the current folder, and return its checkpoint."""
    return shutil.copytree(one_step, Path("model")) / "checkpoint.pt"


def resume(**settings: Any) -> None:
    """Resume that run."""
    train("model", **{"steps": 2, "validation_file": None, **settings})


@pytest.mark.parametrize(
    ("state", "optimizer"), [("zero", "adamw"), ("carry", "adagrad")]
)
def test_stopped_and_resumed_run_equals_whole_run(state: str, optimizer: str) -> None:
    settings = {"state": state, "optimizer": optimizer, "eval_steps": 7, "steps": 14}
    expected = train("whole", **settings)
    message = r"^Stopped after step \d+, \d+\.\d% of the run\. parts has"
    for n_steps in (1, 6, 5):  # The second pass over the text begins after step 11.
        with pytest.raises(StoppedError, match=message):
            train("parts", should_stop=stop_after(n_steps), **settings)
    assert train("parts", **settings) == expected
    assert_same_weights("whole", "parts")
    for resumed_entry, entry in zip(
        log_entries("parts"), log_entries("whole"), strict=True
    ):
        assert resumed_entry["step"] == entry["step"]
        assert resumed_entry.get("training_loss", 0) == pytest.approx(
            entry.get("training_loss", 0)
        )


@pytest.mark.long
def test_run_ended_by_signals_resumes_to_equal_weights() -> None:
    sizes = "--vocabulary-size 40 --batch-tokens 40 --epochs 6 --negative-samples 6"
    checkpoints = "--checkpoint-seconds 0 --keep-checkpoint --output"
    arguments = (
        f"train text.txt --options-file options.json {sizes} {checkpoints}".split()
    )
    before = 0
    for ending in (signal.SIGTERM, signal.SIGINT):
        process = start_elmo(*arguments, "parts")
        while process.poll() is None:
            file = Path("parts/checkpoint.pt")
            if file.exists() and file.stat().st_mtime_ns != before:
                break
            time.sleep(0.01)
        process.send_signal(ending)
        _, errors = process.communicate(timeout=300)
        assert process.returncode in (0, 128 + ending)
        assert process.returncode == 0 or b"The same command resumes training" in errors
        before = file.stat().st_mtime_ns
    for output in ("parts", "whole"):
        assert elmo(*arguments, output).exit_code == 0
    assert_same_weights("whole", "parts")


def test_resume_recognizes_text_by_its_content() -> None:
    train("model", steps=2)
    text = Path("text.txt").read_bytes()
    Path("moved.txt").write_bytes(text)
    train("model", steps=3, files=("moved.txt",))
    Path("text.txt").write_bytes(text[:-1] + bytes([text[-1] ^ 1]))
    size = f"{len(text):,} bytes"
    with pytest.raises(
        ModelError, match=rf"has another text in text.txt: {size}\. Repeat"
    ):
        train("model", steps=3)
    Path("text.txt").write_bytes(text + b"\n")
    with pytest.raises(
        ModelError, match=rf"text.txt: {size} \(now {len(text) + 1:,}\)\. Repeat"
    ):
        train("model", steps=3)


def test_resume_accepts_other_options_that_do_not_change_the_weights(
    checkpoint: Path,
) -> None:
    resume(
        validation_file="validation.txt",
        eval_steps=1,
        checkpoint_seconds=0,
        keep_checkpoint=True,
    )
    assert checkpoint.exists()


def test_fingerprint_samples_large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.training.fingerprint.SAMPLES", 3)
    monkeypatch.setattr("elmo_cli.training.fingerprint.SAMPLE_BYTES", 10)

    def sha256_with_one_at(position: int) -> str:
        content = bytearray(99)
        content[position] = 1
        Path("large.bin").write_bytes(content)
        return fingerprint_file(Path("large.bin"))["sha256"]

    Path("large.bin").write_bytes(bytes(99))
    of_zeros = fingerprint_file(Path("large.bin"))["sha256"]
    # Samples begin at 0, 44 and 89. Nothing else is read.
    assert sha256_with_one_at(40) == of_zeros
    in_samples = {sha256_with_one_at(position) for position in (0, 50, 98)}
    assert len(in_samples) == 3
    assert of_zeros not in in_samples


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
    assert "model/log.jsonl: removed 4 damaged lines" in caplog.messages
    assert [entry["step"] for entry in log_entries("model")] == [10, 10, 11]


def test_first_checkpoint_comes_before_all_other_files() -> None:
    written = []
    for target in ("train.save_checkpoint", "saved_model.write_lines"):
        killed = patch(f"elmo_cli.training.{target}", side_effect=ZeroDivisionError)
        with killed as call, pytest.raises(ZeroDivisionError):
            train("model", eval_steps=1, steps=3)
        written.append(call.call_args.args[0].name)
    assert written == ["model", "options.json"]
    assert [path.name for path in Path("model").iterdir()] == ["checkpoint.pt"]
    for output in ("model", "whole"):
        train(output, steps=3)
    assert_same_weights("whole", "model")


def test_folder_is_locked_during_training() -> None:
    message = r"^model: another process is training there\. "
    with (
        locked_training_folder(Path("model")),
        pytest.raises(OutputError, match=message),
    ):
        train("model")
    train("model", steps=1)


def test_full_disk_keeps_the_last_checkpoint(checkpoint: Path) -> None:
    before = checkpoint.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(
            OutputError, match=r"checkpoint\.pt: cannot be written: File too large"
        ):
            resume()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert checkpoint.read_bytes() == before
    assert not list(Path("model").glob("*partial"))
    resume()


def saved(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def changed(whole: bytes, **entries: Any) -> bytes:
    """Return a checkpoint with other entries; without an entry that is None."""
    state = torch.load(io.BytesIO(whole), weights_only=True) | entries
    return saved({name: value for name, value in state.items() if value is not None})


def with_group(whole: bytes, **settings: Any) -> bytes:
    """Return a checkpoint whose optimizer has other settings."""
    optimizer = torch.load(io.BytesIO(whole), weights_only=True)["optimizer"]
    group = {**optimizer["param_groups"][0], **settings}
    return changed(whole, optimizer={**optimizer, "param_groups": [group]})


def with_tensors(whole: bytes, **tensors: Any) -> bytes:
    """Return a checkpoint whose optimizer has other tensors for a parameter."""
    optimizer = torch.load(io.BytesIO(whole), weights_only=True)["optimizer"]
    state = optimizer["state"]
    return changed(
        whole, optimizer={**optimizer, "state": {**state, 3: {**state[3], **tensors}}}
    )


def with_changed_byte(whole: bytes) -> bytes:
    half = len(whole) // 2
    return whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :]


NO_TENSORS = zip_with(io.BytesIO(), {"model/data.pkl": b"\x80\x02K\x01."}).getvalue()
DAMAGED = r"the checkpoint is damaged \("


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda _: b"no checkpoint", DAMAGED),
        (lambda whole: whole[: len(whole) // 2], DAMAGED),
        (with_changed_byte, DAMAGED),
        (lambda _: NO_TENSORS, DAMAGED),
        (lambda _: saved({"step": Path("x")}), DAMAGED),
        (lambda _: saved({"step": print}), DAMAGED),
        (lambda whole: changed(whole, step=None), DAMAGED),
        (lambda whole: changed(whole, words="a b"), DAMAGED),
        (
            lambda whole: changed(whole, objective={"softmax.bias": torch.zeros(3)}),
            DAMAGED,
        ),
        (lambda whole: changed(whole, optimizer={"param_groups": []}), DAMAGED),
        (lambda whole: changed(whole, progress=(1, 2, 3, 4, 5, 6, 7, 8)), DAMAGED),
        (lambda whole: changed(whole, progress=(0, 0, -5, 1, 1, 0, ())), DAMAGED),
        (lambda whole: changed(whole, progress=(0, 0, "x", 1, 1, 0, ())), DAMAGED),
        (lambda whole: changed(whole, progress=("a", 0, 0, 1, 1, 0, ())), DAMAGED),
        (lambda whole: changed(whole, progress=(0, 0, 0, 1, 1, 0, (1,))), DAMAGED),
        (
            lambda whole: changed(whole, progress=(0, 0, 0, 1, 1, 0, ((["a"], 0),))),
            DAMAGED,
        ),
        (lambda whole: changed(whole, progress=(0, 0, 2**63, 1, 1, 0, ())), DAMAGED),
        (lambda whole: changed(whole, words=["a", []]), DAMAGED),
        (lambda whole: changed(whole, objective={"softmax.bias": "x"}), DAMAGED),
        (lambda whole: with_group(whole, weight_decay={}), DAMAGED),
        (lambda whole: with_group(whole, betas=0.9), DAMAGED),
        (lambda whole: with_group(whole, params=["x"]), DAMAGED),
        (lambda whole: with_tensors(whole, exp_avg="x"), DAMAGED),
        (lambda whole: with_tensors(whole, exp_avg=torch.zeros(0)), DAMAGED),
        (lambda whole: with_tensors(whole, step=torch.tensor(torch.nan)), DAMAGED),
        (lambda whole: with_tensors(whole, exp_avg_sq=None), DAMAGED),
        (lambda whole: with_tensors(whole, other=torch.zeros(1)), DAMAGED),
        (lambda whole: changed(whole, step=-5), DAMAGED),
        (lambda whole: changed(whole, n_tokens=-1), DAMAGED),
        (lambda whole: changed(whole, seconds=math.nan), DAMAGED),
        (lambda whole: changed(whole, seconds=-1.0), DAMAGED),
        (lambda whole: changed(whole, loss_sums=torch.zeros(2)), DAMAGED),
        (lambda whole: changed(whole, carried=[torch.zeros(3, 4)]), DAMAGED),
        (lambda _: saved([1.0]), "not a checkpoint of elmo train"),
        (
            lambda whole: changed(whole, format="elmo train 1"),
            "a checkpoint of another version",
        ),
    ],
)
def test_damaged_or_other_checkpoint_is_one_line(
    damage: Callable[[bytes], bytes], message: str, checkpoint: Path
) -> None:
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    with pytest.raises(ModelError, match=rf"^model/checkpoint.pt: {message}[^\n]*$"):
        resume()


ODD: list[Any] = [-5, "x", None, 2**63, math.nan, [], {}, (), torch.zeros(0), True]
"""Values that a program may write by mistake, or somebody to do harm."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in nested containers, and of the containers."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from leaves(each, (*path, index))


def replaced_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return nested containers with another value at a path."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, dict):
        return {**value, key: replaced_at(value[key], tuple(rest), new)}
    items = list(value)
    items[key] = replaced_at(items[key], tuple(rest), new)
    return type(value)(items)


@pytest.mark.long
def test_a_forged_checkpoint_is_one_line_or_resumes(checkpoint: Path) -> None:
    whole = checkpoint.read_bytes()
    content = torch.load(io.BytesIO(whole), weights_only=True)
    paths = list(leaves(content))
    for chance in trials("forged checkpoints", at_least=20):
        path = chance.choice(paths)
        odd = chance.choice(ODD)
        print(f"{path}: {odd}")  # noqa: T201
        checkpoint.write_bytes(saved(replaced_at(content, path, odd)))
        with suppress(ElmoError):
            resume()
        shutil.rmtree("model")
        checkpoint.parent.mkdir()


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError, MemoryError, TypeError])
def test_unexpected_errors_propagate_from_a_resume(
    error: type[Exception], checkpoint: Path
) -> None:
    for function in (
        "load",
        "optim.Optimizer.load_state_dict",
        "nn.Module.load_state_dict",
    ):
        with (
            patch(f"torch.{function}", side_effect=error("full")),
            pytest.raises(error),
        ):
            resume()


def test_infinite_loss_keeps_the_last_checkpoint(checkpoint: Path) -> None:
    before = checkpoint.read_bytes()
    message = r"^step 5: the loss is not finite, so training has failed"
    target = "elmo_cli.training.training_run.learning_rate_at"
    with (
        patch(target, return_value=LearningRate(math.nan, is_rising=False)),
        pytest.raises(ElmoError, match=message),
    ):
        resume(steps=5)
    assert checkpoint.read_bytes() == before


def test_training_resumes_after_any_call_that_failed() -> None:
    """Refuse each call, and kill before each. Finish a run from each state left."""
    settings: dict[str, Any] = {"steps": 2, "eval_steps": 2, "checkpoint_seconds": 0.0}
    settings["keep_checkpoint"] = False
    Path("whole").mkdir()
    # Files of runs that were stopped at the same point are equal if no time passes.
    with patch("time.monotonic", return_value=0.0):
        with kills(Path("whole")) as states:
            train("whole", **settings)
        counting = Disk()
        with counting.used():
            train("counted", **settings)
        whole = content("counted")
        del whole["log.jsonl"]
        for number in range(1, counting.n_calls + 1):
            refusing = Disk([number])
            with refusing.used(), suppress(ElmoError):
                train(f"failed-{number}", **settings)
            assert refusing.n_calls >= number  # The call was reached.
            state = state_of(Path(f"failed-{number}"))
            if state not in states:
                states.append(state)
        for name in [*whole, "checkpoint.pt"]:
            path = Path(name)
            assert any(path in state for state in states)
            assert any(partial_path(path) in state for state in states)
        for number, state in enumerate(states):
            restore(state, Path(str(number)))
            train(str(number), **settings)
            resumed = content(str(number))
            del resumed["log.jsonl"]  # A validation may stand twice in it.
            assert resumed == whole


@pytest.mark.long
def test_run_killed_at_random_moments_equals_whole_run() -> None:
    result = run_python(
        "-m",
        "tests.support.killed_training",
        timeout=3600,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    counts = json.loads(result.stdout.splitlines()[-1])
    print(counts)  # noqa: T201
    assert counts["kills"] > 0
    assert counts["finished_runs"] > 0
