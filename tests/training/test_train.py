"""`train_model` and `elmo train`: the folder, stopping and going on, where a run starts from."""

import json
import random
import re
import resource
import shlex
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import numpy as np
import pytest
import torch
from commands import assert_fails, assert_misused, elmo, start_elmo
from conftest import GOLDEN
from runs import stop_after
from strategies import make_model, small_architecture

from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors import (
    ElmoError,
    InputError,
    ModelError,
    OptionsError,
    OutputError,
    StoppedError,
    install_command,
)
from elmo_cli.language_model.perplexity import measure_perplexity
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.model.weights import open_tensors
from elmo_cli.text.tokenizers import make_tokenizer
from elmo_cli.training.options import training_options
from elmo_cli.training.run import Processes, owned
from elmo_cli.training.train import train_model

SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "batch_tokens": 40,
    "max_length": 12,
    "batch_size": 4,
    "unroll": 5,
    "negative_samples": 6,
    "learning_rate": 0.01,
    "vocabulary_size": 40,
}
WRITTEN = ("options.json", "weights.hdf5", "vocab.txt", "softmax.hdf5", "card.md")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of each test, with two texts and the options of a small model."""
    monkeypatch.chdir(tmp_path)
    words = random.Random(0)
    lines = [" ".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=n % 15)) for n in range(60)]
    Path("text.txt").write_text("\n".join(lines))
    Path("validation.txt").write_text("a b c d\ne f ?\n")
    Path("options.json").write_text(json.dumps(small_architecture()))
    return tmp_path


def train(output: str, **settings: Any) -> Any:
    given: dict[str, Any] = {"options_file": "options.json", "validation_file": "validation.txt"}
    return train_model(["text.txt"], output, **{**given, **SETTINGS, **settings})


def tune(output: str, model: str | Path, **settings: Any) -> Any:
    """Fine-tune for a few steps, at so small a rate that nothing moves."""
    small = {"learning_rate": 1e-9, "steps": 3}
    return train(output, options_file=None, init_from=model, **{**small, **settings})


def log_entries(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(output, "log.jsonl").read_text().splitlines()]


def content(output: str) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in Path(output).iterdir()}


def weights(output: str) -> dict[str, Any]:
    """All values of a trained folder, its softmax among them."""
    found: dict[str, Any] = {}
    for name in ("weights.hdf5", "softmax.hdf5"):
        with open_tensors(Path(output) / name) as file:
            found |= {tensor: file.read(tensor) for tensor in file.names}
    return found


def assert_same_weights(one: str, other: str) -> None:
    """Assert equality to the bit."""
    expected, found = weights(one), weights(other)
    assert expected.keys() == found.keys()
    for name, values in expected.items():
        assert np.array_equal(values, found[name]), name


# The folder.


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_a_trained_folder_is_a_model(state: str) -> None:
    found = train("model", state=state)
    assert {name for name in WRITTEN if (Path("model") / name).exists()} == set(WRITTEN)
    assert ElmoEmbedder(model="model").embed_sentence(["a", "b"]).shape == (3, 2, 6)
    assert ElmoEmbedder(model="model").state == {"zero": "zero", "carry": "warm"}[state]
    assert LanguageModel(model="model").state == ElmoEmbedder(model="model").state
    assert ElmoEmbedder(model="model", state="zero").state == "zero"
    options = json.loads(Path("model/options.json").read_text())
    assert options["training"] == {"state": state}
    assert options["char_cnn"]["n_characters"] == 262
    assert (found["tokens"], found["unknown"]) == (7, 1 / 7)
    words = read_vocabulary("model/vocab.txt").words
    assert words[:3] == ["<S>", "</S>", "<UNK>"]
    assert len(words) == 29
    assert f"average {found['average']:.2f}" in Path("model/card.md").read_text()
    entries = log_entries("model")
    assert entries[-1] == {"step": entries[-1]["step"], "validation": found}
    assert [entry["step"] for entry in entries[:2]] == [10, 20]


@pytest.mark.slow
def test_training_learns_a_text_by_heart() -> None:
    Path("text.txt").write_text("a b c d e f\n" * 200)
    # With carried state each of 32 streams starts from zero, which training never sees again.
    Path("validation.txt").write_text("a b c d e f\n" * 400)
    options = small_architecture(dim=16, projection_dim=12)
    Path("options.json").write_text(json.dumps(options))
    for state in ("zero", "carry"):
        found = train(f"model-{state}", state=state, epochs=4, dropout=0.0, negative_samples=0)
        assert found["average"] < 2  # of 9 words


def test_raw_text_is_trained_on_as_the_tokens_that_it_has(caplog: pytest.LogCaptureFixture) -> None:
    raw = "".join(f'Mr. {a} said, "{b}".\n' for a in "abcd" for b in "efgh")
    tokenizer = make_tokenizer("moses")
    lines = ["".join(f"{token} " for token in tokenizer.cut(line)) for line in raw.splitlines()]
    Path("validation.txt").write_text(raw)
    Path("text.txt").write_text(raw)
    found = train("raw", tokenizer=tokenizer, steps=5)
    assert "| tokenizer | moses:en |" in Path("raw/card.md").read_text()
    assert "end in punctuation" not in caplog.text
    with pytest.raises(ModelError, match="has another text; give the same command"):
        train("raw", steps=5)
    assert "48 of the first 64 tokens end in punctuation" in caplog.text
    for name in ("text.txt", "validation.txt"):
        Path(name).write_text("\n".join(lines))
    assert train("tokenized", steps=5) == found
    assert_same_weights("raw", "tokenized")


def test_a_word_model_is_trained_with_its_words() -> None:
    Path("options.json").write_text(json.dumps({"lstm": small_architecture()["lstm"]}))
    train("model", steps=3)
    assert ElmoEmbedder(model="model").embed_sentence(["a", "b"]).shape == (3, 2, 6)
    with open_tensors("model/weights.hdf5") as file:
        assert file.read("embedding").shape == (29, 3)


def test_allennlp_reads_a_trained_model_and_gives_its_activations() -> None:
    folder = GOLDEN / "trained"
    embedder = ElmoEmbedder(model=folder, state="zero")
    sentences = (folder / "sentences.txt").read_text().splitlines()
    with h5py.File(folder / "allennlp-all.hdf5") as allennlp:
        for number, sentence in enumerate(sentences):
            found = embedder.embed_sentence(sentence.split())
            np.testing.assert_allclose(found, allennlp[str(number)][:], atol=1e-5)
    allennlps = json.loads((folder / "options.json").read_text())
    # Every key that AllenNLP wants is written, though none of these need be given.
    content = small_architecture()
    del content["lstm"]["use_skip_connections"]
    Path("options.json").write_text(json.dumps(content))
    train("model", steps=1)
    written = json.loads(Path("model/options.json").read_text())
    for section in ("lstm", "char_cnn"):
        assert written[section].keys() == allennlps[section].keys()


def test_steps_take_the_place_of_epochs_and_a_longer_run_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "elmo_cli")
    for steps, taken in ((3, 3), (5, 5), (2, 5)):
        caplog.clear()
        train("model", steps=steps)
        assert json.loads(Path("model/training.json").read_text())["step"] == taken
    assert "resuming after step 5, the last one: nothing is left to train" in caplog.messages
    assert "counting" not in caplog.text


def test_a_share_is_validation_and_kept() -> None:
    found = train("model", steps=3, validation_file=None, validation_share=0.2)
    validation = Path("model/validation.txt").read_text().split()
    assert found["tokens"] == len(validation) > 20


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_the_perplexity_is_that_of_the_folder(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.training.train.FEW_TOKENS", 4)
    found = train("model", state=state, steps=3, eval_steps=2)
    expected = measure_perplexity(
        LanguageModel(model="model"), [["a", "b", "c", "d"], ["e", "f", "?"]]
    )
    directions = {name: found[name] for name in ("forward", "backward", "average")}
    assert directions == asdict(expected.all_words)
    assert (found["tokens"], found["unknown"]) == (expected.tokens, expected.unknown)
    entries = log_entries("model")
    # While training goes on, the first sentences with so many tokens are enough.
    assert [entry["validation"]["tokens"] for entry in entries] == [4, 7]


def test_bfloat16_trains_too() -> None:
    for state in ("zero", "carry"):
        found = train(f"model-{state}", steps=5, precision="bfloat16", state=state)
        assert found["average"] < 40


# Stopping and going on.


class KilledError(Exception):
    """What ends a run without warning."""


def kill_after(n_steps: int) -> Callable[[], bool]:
    """A `should_stop` that raises after so many steps."""
    stop = stop_after(n_steps)

    def should_stop() -> bool:
        if stop():
            raise KilledError
        return False

    return should_stop


@pytest.mark.parametrize(
    ("state", "optimizer"),
    [
        ("zero", "adamw"),
        ("carry", "adagrad"),
        pytest.param("zero", "adagrad", marks=pytest.mark.slow),
        pytest.param("carry", "adamw", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_stopped_and_goes_on_is_the_run_that_was_not(
    state: str, optimizer: str
) -> None:
    settings = {"state": state, "optimizer": optimizer, "eval_steps": 7}
    expected = train("whole", **settings)
    for step in (1, 6, 9):
        with pytest.raises(StoppedError, match=r"^Stopped after step \d+, which is kept in parts"):
            train("parts", should_stop=stop_after(step), **settings)
    assert train("parts", **settings) == expected
    assert_same_weights("whole", "parts")
    for found, entry in zip(log_entries("parts"), log_entries("whole"), strict=True):
        assert found["step"] == entry["step"]
        assert found.get("training_loss", 0) == pytest.approx(entry.get("training_loss", 0))


@pytest.mark.slow
@pytest.mark.parametrize("state", ["zero", "carry"])
def test_a_run_that_is_killed_at_random_steps_is_the_run_that_was_not(state: str) -> None:
    train("whole", state=state)
    chosen = random.Random(state)
    n_kills = 0
    for _ in range(12):
        seconds = chosen.choice([0.0, 0.02, 1000.0])  # between checkpoints
        kill = kill_after(chosen.randint(1, 12))
        try:
            train("parts", state=state, should_stop=kill, checkpoint_seconds=seconds)
        except KilledError:
            n_kills += 1
    train("parts", state=state)
    assert n_kills >= 3
    assert_same_weights("whole", "parts")


@pytest.mark.slow
def test_a_run_in_a_process_that_is_killed_goes_on() -> None:
    arguments = [
        *("text.txt", "--options-file", "options.json", "--vocabulary-size", "40"),
        *("--batch-tokens", "40", "--epochs", "6", "--negative-samples", "6"),
        *("--checkpoint-seconds", "0", "--output"),
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
            assert b"the same command resumes it" in errors
        before = checkpoint.stat().st_mtime_ns
    assert elmo("train", *arguments, "parts").exit_code == 0
    assert elmo("train", *arguments, "whole").exit_code == 0
    assert_same_weights("whole", "parts")


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({"dropout": 0.2}, "dropout 0.1"),
        ({"options_file": "other.json"}, "another architecture"),
        ({"vocabulary_size": 19}, "another vocabulary"),
        ({"validation_share": 0.3, "vocabulary_size": 19}, "another text and vocabulary"),
    ],
)
def test_another_run_is_refused_and_leaves_the_model(other: dict[str, Any], found: str) -> None:
    Path("other.json").write_text(json.dumps(small_architecture(dim=6)))
    settings = {"validation_file": None, "validation_share": 0.2, "steps": 2}
    train("model", **settings)
    before = content("model")
    with pytest.raises(ModelError, match=f"^model: the run that was begun there has {found}; give"):
        train("model", **{**settings, **other})
    assert content("model") == before


def test_two_processes_do_not_train_into_one_folder() -> None:
    message = r"^model: another process trains into it$"
    with owned(Path("model")), pytest.raises(OutputError, match=message):
        train("model")
    train("model", steps=1)


def test_a_full_disk_keeps_the_checkpoint_before() -> None:
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
    assert not list(Path("model").glob("*.partial"))
    train("model", steps=5)


@pytest.mark.parametrize("damage", ["replaced", "cut off", "changed", "code", "another"])
def test_a_damaged_checkpoint_is_named(damage: str) -> None:
    train("model", steps=1)
    path = Path("model/checkpoint.pt")
    whole = path.read_bytes()
    half = len(whole) // 2
    if damage == "code":
        torch.save({"step": Path("x")}, path)
    elif damage == "another":
        torch.save([1.0], path)
    elif damage == "changed":
        path.write_bytes(whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :])
    else:
        path.write_bytes(whole[:half] if damage == "cut off" else b"no checkpoint")
    with pytest.raises(ModelError, match=r"^model/checkpoint.pt: the checkpoint is damaged \("):
        train("model", steps=2)


def test_an_error_of_our_own_is_not_called_damage() -> None:
    train("model", steps=1)
    places = ("load", "optim.Optimizer.load_state_dict", "nn.Module.load_state_dict")
    for place, error in product(places, (torch.cuda.OutOfMemoryError, MemoryError, TypeError)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"torch.{place}", Mock(side_effect=error("CUDA out of memory")))
            with pytest.raises(error, match=r"^CUDA out of memory$"):
                train("model", steps=2)


# Starting from a model.


def test_fine_tuning_starts_from_the_weights_and_softmax_of_a_model() -> None:
    train("first", steps=3)
    tune("second", "first")
    old, new = weights("first"), weights("second")
    assert old.keys() == new.keys()
    for name, values in old.items():
        np.testing.assert_allclose(new[name], values, atol=1e-6)
    assert Path("first/vocab.txt").read_text() == Path("second/vocab.txt").read_text()


def test_fine_tuning_without_a_softmax_trains_a_new_one() -> None:
    tune("model", GOLDEN / "relu")
    new = weights("model")
    with open_tensors(GOLDEN / "relu" / "weights.hdf5") as old:
        for name in old.names:
            np.testing.assert_allclose(new[name], old.read(name), atol=1e-6)
    assert len(read_vocabulary("model/vocab.txt")) == 29


def test_words_keep_their_softmax_in_another_vocabulary() -> None:
    train("first", steps=3)
    words = read_vocabulary("first/vocab.txt").words
    Path("words.txt").write_text("".join(f"{w}\n" for w in [*words[:3], "new", words[5]]))
    tune("second", "first", vocabulary_file="words.txt")
    old, new = (weights(name)["softmax/W"] for name in ("first", "second"))
    np.testing.assert_allclose(new[[0, 1, 2, 4]], old[[0, 1, 2, 5]], atol=1e-6)


def test_fine_tuning_takes_a_file_of_weights_with_options() -> None:
    weight_file = GOLDEN / "relu" / "weights.hdf5"
    train("model", options_file=GOLDEN / "relu" / "options.json", init_from=weight_file, steps=1)
    with pytest.raises(ModelError, match="expected an options file with a single weights file"):
        train("other", options_file=None, init_from=weight_file)


def test_fine_tuning_a_word_model_keeps_its_words() -> None:
    Path("words").mkdir()
    make_model({"lstm": small_architecture()["lstm"]}, 0, Path("words"))
    tune("model", "words", negative_samples=0)
    assert read_vocabulary("model/vocab.txt").words == read_vocabulary("words/vocab.txt").words
    Path("other.txt").write_text("<S>\n</S>\n<UNK>\na\n")
    with pytest.raises(InputError, match=r"^words: a word-level model, which is trained with its"):
        tune("other", "words", vocabulary_file="other.txt")


def test_a_model_without_projections_is_trained() -> None:
    Path("square").mkdir()
    make_model(small_architecture(dim=3, projection_dim=3), 0, Path("square"), projects=False)
    tune("model", "square")
    assert "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" not in weights("model")


def test_a_model_is_not_trained_into_its_own_folder() -> None:
    train("model", steps=1)
    with pytest.raises(ModelError, match=r"^model: expected another folder than that of the model"):
        tune("model", "model")


# The command.

COMMAND = ("train", "text.txt", "--output", "model")


def test_a_preset_is_an_architecture() -> None:
    result = elmo(*COMMAND, "--preset", "mini", "--steps", "1", "--batch-tokens", "20", "-q")
    assert (result.exit_code, result.stdout) == (0, "")
    embedder = ElmoEmbedder(model="model")
    assert embedder.options.lstm.projection_dim == 512
    assert embedder.options == ElmoEmbedder().options


def test_a_size_of_a_vocabulary_that_is_there_already_is_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    train("model", steps=1)
    size = ("--vocabulary-size", "9", "--steps", "1", "--negative-samples", "0")
    result = elmo("train", "text.txt", "--init-from", "model", *size, "--output", "tuned")
    assert result.exit_code == 0
    message = "Warning: the words to predict are those of model, and none are counted"
    assert caplog.messages.count(message) == 1


def test_without_the_package_of_tensorboard_nothing_is_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert_fails(
        elmo("train", "text.txt", "--preset", "mini", "--output", "new", "--tensorboard"),
        "TensorBoard needs a package that is not installed; " + install_command("tensorboard"),
    )
    assert not Path("new").exists()


def test_wrong_usage_is_wrong_usage() -> None:
    assert_misused(elmo(*COMMAND), "expected --preset, --options-file or --init-from")
    for name, value, allowed in (("dropout", "1", "0<=x<1"), ("learning-rate", "0", "x>0")):
        result = elmo(*COMMAND, "--preset", "mini", f"--{name}", value)
        message = f"Invalid value for '--{name}': {float(value)} is not in the range {allowed}."
        assert_misused(result, message)


def test_the_training_settings_of_bilm_tf_are_taken() -> None:
    published = {
        "bidirectional": True,
        **{"dropout": 0.3, "n_epochs": 1, "batch_size": 2, "unroll_steps": 3},
        **{"all_clip_norm_val": 5.0, "learning_rate": 0.1, "n_negative_samples_batch": 7},
        **{"n_train_tokens": 768648884, "n_tokens_vocab": 793471},
    }
    for optimizer, rate, norm in (("adagrad", 0.1, 5.0), ("adamw", 0.002, 1.0)):
        found = training_options(published, optimizer=optimizer, unroll=4)
        assert (found.dropout, found.epochs, found.batch_size, found.unroll) == (0.3, 1, 2, 4)
        assert (found.learning_rate, found.max_grad_norm) == (rate, norm)
        assert found.negative_samples == 7
    assert training_options({"sample_softmax": False}).negative_samples == 0
    for refused in ({"bidirectional": False}, {"share_embedding_softmax": True}):
        with pytest.raises(OptionsError, match=r"^\w+: found (true|false), which is not offered$"):
            training_options(refused)
    for key, value, message in (
        ("n_epochs", "3", "epochs in options.json: expected a whole number, 1 or more, found '3'"),
        ("dropout", 1, "dropout in options.json: expected a number from 0 to below 1, found 1"),
        ("learning_rate", 0, "learning_rate in options.json: expected a number above 0, found 0"),
    ):
        with pytest.raises(OptionsError, match=f"^{message}$"):
            training_options({key: value}, optimizer="adagrad")


def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"^<!-- (.+?) -->\n```\w+\n(.*?)^```$", page, re.M | re.S))
    Path("tiny.json").write_text(found["tiny.json"])
    Path("more.txt").write_text("a b c\n" * 20)
    commands = [shlex.split(line) for line in found["example"].replace("\\\n", "").splitlines()]
    for command in commands:
        result = elmo(*command[1:])
        assert result.exit_code == 0, result.stderr
        if "--validation-share" in command:
            assert set(json.loads(result.stdout)) == {
                *("forward", "backward", "average", "tokens", "unknown")
            }
            last = result.stderr.splitlines()[-1]
            assert last == "tiny: a model; its card.md says how it was made"
    assert [command[1] for command in commands] == ["train", "embed", "train"]
    page_files = set(re.findall(r"`([\w.]+)`", page.split("| file |")[1].split("\n\n")[0]))
    assert page_files == {path.name for path in Path("tiny").iterdir()}


def test_training_that_fails_says_so_and_keeps_the_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train("model", steps=2)
    before = content("model")["checkpoint.pt"]
    monkeypatch.setattr("elmo_cli.training.run.learning_rate", lambda *_: float("nan"))
    with pytest.raises(ElmoError, match=r"^step 5: the loss is not finite, training has failed"):
        train("model", steps=5)
    assert content("model")["checkpoint.pt"] == before


@pytest.mark.parametrize("content", ["", "\n \n", "a b\n\xff\n"], ids=["empty", "blank", "latin"])
def test_a_validation_text_that_cannot_be_measured_is_named_before_training(content: str) -> None:
    Path("odd.txt").write_bytes(content.encode("latin-1"))
    message = "odd.txt: no sentence" if not content.strip() else "odd.txt, line 2, column 1"
    with pytest.raises(InputError, match=message):
        train("new", validation_file="odd.txt")
    assert not Path("new").exists()


def test_streams_that_cannot_be_shared_out_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    two = nullcontext(Processes(torch.device("cpu"), 0, 2))
    monkeypatch.setattr("elmo_cli.training.train.all_processes", lambda _: two)
    with pytest.raises(OptionsError, match=r"^batch_size 3: expected a multiple of the 2 process"):
        train("new", state="carry", batch_size=3)


def test_a_share_that_holds_nothing_out_is_named_and_leaves_no_folder() -> None:
    with pytest.raises(InputError, match=r"validation_share 1e-06: expected a line to hold out"):
        train("new/model", validation_file=None, validation_share=1e-6)
    assert not Path("new").exists()


def test_a_model_without_its_checkpoint_is_not_trained_over() -> None:
    train("model", steps=2)
    Path("model/checkpoint.pt").unlink()
    before = content("model")
    with pytest.raises(ModelError, match=r"^model: expected a new folder or one of a run"):
        train("model", steps=1, vocabulary_size=9)
    assert content("model") == before
