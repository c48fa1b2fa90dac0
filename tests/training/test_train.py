"""Trained and fine-tuned folders, the record of a run, and bad starts."""

import json
import re
import shlex
import shutil
import sys
from contextlib import nullcontext
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmo_cli.cli.commands import train as train_command
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors.exceptions import (
    InputError,
    ModelError,
    SettingsError,
    StoppedError,
)
from elmo_cli.errors.optional_imports import install_command
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.perplexity import measure_perplexity
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.text.tokenizers import make_tokenizer
from elmo_cli.training.processes import Processes
from elmo_cli.training.train import LOG_STEPS
from elmo_cli.training.training_folder import WRITTEN_FILES
from elmo_cli.training.training_settings import TrainingSettings, complete_settings
from tests.support import reference
from tests.support.accept import CheckExample
from tests.support.commands import assert_fails, elmo
from tests.support.golden import GOLDEN
from tests.support.runs import stop_after
from tests.support.strategies import make_model, small_architecture
from tests.support.training_runs import (
    assert_same_weights,
    content,
    log_entries,
    run_in,
    train,
    tune,
    weights,
)
from tests.support.transcripts import Example, each_example

pytestmark = pytest.mark.usefixtures("training_folder")


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_trained_folder_is_a_model(state: str) -> None:
    perplexity = train("model", state=state)
    embedder = ElmoEmbedder(model="model")
    assert embedder.embed_sentence(["a", "b"]).shape == (3, 2, 6)
    assert embedder.state == {"zero": "zero", "carry": "warm"}[state]
    assert LanguageModel(model="model").state == embedder.state
    assert ElmoEmbedder(model="model", state="zero").state == "zero"
    options = json.loads(Path("model/options.json").read_text())
    assert options["training"] == {"state": state}
    assert options["char_cnn"]["n_characters"] == 262
    assert perplexity["tokens"] == 7
    assert perplexity["unknown"] == 1 / 7
    words = read_vocabulary("model/vocab.txt").words
    assert words[:3] == ["<S>", "</S>", "<UNK>"]
    assert len(words) == 29
    assert f"average {perplexity['average']:.2f}" in Path("model/card.md").read_text()
    first, second, *_, last = log_entries("model")
    assert first["step"] == 10
    assert second["step"] == 20
    assert last["validation"] == perplexity


def test_training_learns_a_repeated_text() -> None:
    Path("text.txt").write_text("a b c d e f\n" * 100)
    # With carried state each stream starts from zero, which training sees only once.
    Path("validation.txt").write_text("a b c d e f\n" * 30)
    Path("options.json").write_text(
        json.dumps(small_architecture(dim=16, projection_dim=12))
    )
    settings = {
        "epochs": 2,
        "dropout": 0.0,
        "negative_samples": 0,
        "learning_rate": 0.05,
    }
    for state in ("zero", "carry"):
        perplexity = train(f"model-{state}", state=state, **settings)
        assert perplexity["average"] < 2  # There are 9 words, so chance would be 9.


def test_training_tokenizes_raw_text() -> None:
    raw = "".join(f'Mr. {a} said, "{b}".\n' for a in "abcd" for b in "efgh")
    tokenizer = make_tokenizer("moses")
    tokenized = "\n".join(
        " ".join(tokenizer.tokenize(line)) for line in raw.splitlines()
    )
    Path("validation.txt").write_text(raw)
    Path("text.txt").write_text(raw)
    perplexity = train("raw", tokenizer=tokenizer, steps=5)
    assert "| tokenizer | moses:en |" in Path("raw/card.md").read_text()
    with pytest.raises(
        ModelError, match=r"has tokenizer moses:en \(now whitespace\); norm"
    ):
        train("raw", steps=5)
    for name in ("text.txt", "validation.txt"):
        Path(name).write_text(tokenized)
    assert train("tokenized", steps=5) == perplexity
    assert_same_weights("raw", "tokenized")


def test_trained_model_equals_allennlp() -> None:
    folder = GOLDEN / "trained"
    embedder = ElmoEmbedder(model=folder, state="zero")
    sentences = (folder / "sentences.txt").read_text().splitlines()
    with h5py.File(folder / "allennlp-all.hdf5") as allennlp:
        for index, sentence in enumerate(sentences):
            activations = embedder.embed_sentence(sentence.split())
            np.testing.assert_allclose(activations, allennlp[str(index)][:], atol=1e-5)
    allennlps = json.loads((folder / "options.json").read_text())
    # Every key that AllenNLP wants is written, though none of these need be given.
    content = small_architecture()
    del content["lstm"]["use_skip_connections"]
    Path("options.json").write_text(json.dumps(content))
    train("model", steps=1)
    written = json.loads(Path("model/options.json").read_text())
    for section in ("lstm", "char_cnn"):
        assert written[section].keys() == allennlps[section].keys()


def test_steps_replace_epochs_and_can_be_extended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "elmo_cli")
    for steps, taken in ((3, 3), (5, 5), (2, 5)):
        caplog.clear()
        train("model", steps=steps)
        assert json.loads(Path("model/training.json").read_text())["step"] == taken
    assert (
        "Resuming after step 5, the last step. Nothing is left to train."
        in caplog.messages
    )
    assert "counting" not in caplog.text


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_training_returns_the_perplexity_of_its_model(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.training.train.EVALUATION_TOKENS", 4)
    perplexity = train("model", state=state, steps=3, eval_steps=2)
    measured = measure_perplexity(
        LanguageModel(model="model"), [list("abcd"), list("ef?")]
    )
    expected = {"tokens": measured.tokens, "unknown": measured.unknown}
    assert perplexity == asdict(measured.all_words) | expected
    # During training only the first sentences of the validation text are read.
    assert [entry["validation"]["tokens"] for entry in log_entries("model")] == [4, 7]


def test_training_in_bfloat16() -> None:
    for precision in ("float32", "bfloat16"):
        train(precision, steps=5, precision=precision, state="carry")
    trained = weights("bfloat16")
    differences = []
    for name, values in weights("float32").items():
        differences.append(np.abs(values - trained[name]).max())
    # Without bfloat16 there would be no difference.
    assert 1e-5 < max(differences) < 0.05


def test_preset_is_an_architecture() -> None:
    command = (
        "train text.txt --output model --preset mini --steps 1 --batch-tokens 20 -q"
    )
    result = elmo(*command.split())
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert ElmoEmbedder(model="model").architecture == ElmoEmbedder().architecture


def test_unused_vocabulary_size_gives_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    train("model", steps=1)
    size = "--vocabulary-size 9 --steps 1 --negative-samples 0"
    command = f"train text.txt --init-from model {size} --output tuned"
    assert elmo(*command.split()).exit_code == 0
    effect = "has no effect: the words to predict are those of model"
    assert caplog.messages.count(f"vocabulary_size {effect}") == 1


def test_missing_tensorboard_is_reported_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    message = (
        "TensorBoard needs torch.utils.tensorboard, which is not installed. Install it "
        "with"
    )
    result = elmo(
        "train", "text.txt", "--preset", "mini", "--output", "new", "--tensorboard"
    )
    assert_fails(result, f"{message} {install_command('tensorboard')}.")
    assert not Path("new").exists()


def test_training_page_runs_and_prints_what_it_shows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "training.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"^<!-- (.+?) -->\n```\w+\n(.*?)^```$", page, re.M | re.S))
    Path("tiny.json").write_text(blocks["tiny.json"])
    Path("examples").mkdir()
    shutil.copy(root / "examples" / "alice.txt", "examples")
    Path("more.txt").write_text("a b c\n" * 20)

    commands = [blocks[name].replace("\\\n", "") for name in ("train", "embed", "tune")]
    results = [elmo(*shlex.split(command)[1:]) for command in commands]
    assert [result.exit_code for result in results] == [0, 0, 0]
    measured = results[0].stdout.split()
    shown = blocks["perplexity"].split()
    assert [word for word in measured if word.isalpha()] == [
        word for word in shown if word.isalpha()
    ]
    figures = json.loads(Path("tiny/training.json").read_text())["perplexity"]
    assert measured[-1] == f"{figures['average']:.2f}"
    assert float(measured[-1]) == pytest.approx(float(shown[-1]), rel=0.01)
    again = elmo(*shlex.split(commands[0])[1:], "--json")
    assert json.loads(again.stdout) == figures
    assert "Wrote the model to tiny. See its card.md." in caplog.messages
    assert {path.name for path in Path("tiny").iterdir()} <= {*WRITTEN_FILES}


def test_streams_must_divide_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    two = nullcontext(Processes(torch.device("cpu"), 0, 2))
    monkeypatch.setattr("elmo_cli.training.train.join_processes", lambda _: two)
    message = "^batch_size 3: must be a multiple of the number of processes"
    with pytest.raises(SettingsError, match=message):
        train("new", state="carry", batch_size=3)


def test_fine_tuning_keeps_weights_and_softmax() -> None:
    train("first", steps=3)
    words = read_vocabulary("first/vocab.txt").words
    Path("words.txt").write_text(
        "".join(f"{w}\n" for w in [*words[:3], "new", words[5]])
    )
    tune("second", "first")
    tune("third", "first", vocabulary_file="words.txt")
    old = weights("first")
    new = weights("second")
    other = weights("third")
    assert_close(old, new)
    assert Path("first/vocab.txt").read_text() == Path("second/vocab.txt").read_text()
    kept = old["softmax/W"]
    rows = other["softmax/W"]
    np.testing.assert_allclose(rows[[0, 1, 2, 4]], kept[[0, 1, 2, 5]], atol=1e-6)


def assert_close(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert old.keys() <= new.keys()
    for name, values in old.items():
        np.testing.assert_allclose(new[name], values, atol=1e-6, err_msg=name)


DEFAULTS = small_architecture(projection_dim=6)
del DEFAULTS["char_cnn"]["n_highway"], DEFAULTS["lstm"]["n_layers"]


@pytest.mark.parametrize(
    ("content", "projects"),
    [
        (small_architecture(), {}),
        (small_architecture(dim=3, projection_dim=3), {"projects": False}),
        (DEFAULTS, {"projects_features": False}),
        ({"lstm": small_architecture()["lstm"]}, {}),
    ],
    ids=["no softmax", "no projections", "bilm-tf's defaults", "words"],
)
def test_fine_tuning_keeps_the_weights_of_any_model(
    content: dict[str, Any], projects: dict[str, Any]
) -> None:
    Path("old").mkdir()
    files = make_model(content, 0, Path("old"), **projects)
    tune("new", "old", negative_samples=0)
    old = reference.read_arrays(files.weights)
    new = weights("new")
    assert_close(old, new)
    assert new.keys() - old.keys() == {"softmax/W", "softmax/b"}
    words = read_vocabulary("new/vocab.txt").words
    if "char_cnn" in content:
        assert len(words) == 29
        char_cnn = json.loads(Path("new/options.json").read_text())["char_cnn"]
        assert char_cnn["n_highway"] == content["char_cnn"].get("n_highway", 0)
        return
    assert words == read_vocabulary("old/vocab.txt").words
    Path("other.txt").write_text("<S>\n</S>\n<UNK>\na\n")
    with pytest.raises(
        InputError, match=r"^old: a word-level model keeps its own vocabulary"
    ):
        tune("other", "old", vocabulary_file="other.txt")


def test_fine_tuning_from_a_file_of_weights() -> None:
    weight_file = GOLDEN / "relu" / "weights.hdf5"
    train(
        "model",
        options_file=GOLDEN / "relu" / "options.json",
        init_from=weight_file,
        steps=1,
        learning_rate=1e-9,  # It changes no weight.
    )
    tuned = weights("model")
    for name, values in reference.read_arrays(weight_file).items():
        np.testing.assert_allclose(tuned[name], values, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("steps", [LOG_STEPS, LOG_STEPS + 2])
def test_without_validation_text_the_last_training_loss_is_said(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "elmo_cli")
    assert train("model", steps=steps, validation_file=None) is None
    [message] = [each for each in caplog.messages if "training loss" in each]
    found = re.fullmatch(rf"Step {steps}, training loss (\d+\.\d+)", message)
    assert found is not None
    entries = Path("model/log.jsonl").read_text(encoding="utf-8").splitlines()
    logged = json.loads(entries[-1])["training_loss"]
    if steps == LOG_STEPS:
        assert float(found[1]) == pytest.approx(logged, abs=0.001)
    else:
        assert 0 < float(found[1]) < 2 * logged


def test_finished_training_removes_its_checkpoint(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "elmo_cli")
    settings: dict[str, Any] = {
        "steps": 3,
        "keep_checkpoint": False,
        "validation_file": None,
    }
    settings["validation_share"] = 0.2
    expected = train("model", **settings)
    assert not Path("model/checkpoint.pt").exists()
    before = content("model")
    assert train("model", **settings) == expected
    assert "model: training is finished already" in caplog.messages
    for other, message in (
        (
            {"steps": 4},
            "training is finished, and its checkpoint was removed. To train",
        ),
        ({"dropout": 0.2}, "the run in this folder has dropout 0.1 (now 0.2). Repeat"),
        (
            {"vocabulary_size": 9},
            "the run in this folder has vocabulary_size 40 (now 9). ",
        ),
    ):
        with pytest.raises(ModelError, match=f"^{re.escape('model: ' + message)}"):
            train("model", **{**settings, **other})
    assert content("model") == before
    for record in (None, "", "{", "[]", '{"finished": true, "signature": {}}'):
        path = Path("model/training.json")
        path.unlink() if record is None else path.write_text(record)
        before = content("model")
        with pytest.raises(
            ModelError, match=r"contains weights.hdf5, but no checkpoint.pt\. "
        ):
            train("model", **settings)
        assert content("model") == before


def test_stopped_training_leaves_a_model_that_says_so() -> None:
    with pytest.raises(
        StoppedError, match=r"^Stopped after step 4, 40\.0% of the run\. model has"
    ):
        train("model", should_stop=stop_after(4), steps=10)
    assert ElmoEmbedder(model="model").embed_sentence(["a", "b"]).shape == (3, 2, 6)
    record = json.loads(Path("model/training.json").read_text())
    assert record["finished"] is False
    assert record["step"] == 4
    assert record["perplexity"] is None
    card = Path("model/card.md").read_text()
    assert (
        "**Training is not finished**: this is the model after step 4, 40.0% of the run"
        in card
    )
    assert "The perplexity of this model was not measured." in card
    train("model", steps=10)
    assert "not finished" not in Path("model/card.md").read_text()
    assert json.loads(Path("model/training.json").read_text())["finished"] is True


def test_record_has_the_options_that_had_an_effect() -> None:
    settings = {"steps": 10, "warmup_steps": 200}
    train("whole", **settings)
    with pytest.raises(StoppedError):
        train("resumed", should_stop=stop_after(1), **settings)
    train("resumed", **settings)
    train("epochs", epochs=1, negative_samples=500, state="carry", optimizer="adagrad")
    whole, resumed, epochs = (
        json.loads(Path(name, "training.json").read_text())["options"]
        for name in ("whole", "resumed", "epochs")
    )
    assert resumed == whole
    assert whole["warmup_steps"] == 1  # A tenth of the run.
    assert not {"epochs", "batch_size", "unroll"} & whole.keys()
    assert epochs["negative_samples"] == 0  # All 29 words are in the softmax.
    assert epochs["warmup_steps"] == 0
    assert not {"steps", "batch_tokens", "max_length", "weight_decay"} & epochs.keys()


def test_resume_restores_missing_validation_lines() -> None:
    train("model", steps=2, validation_file=None, validation_share=0.2)
    lines = Path("model/validation.txt").read_text()
    Path("model/validation.txt").unlink()
    train("model", steps=3, validation_file=None, validation_share=0.2)
    assert Path("model/validation.txt").read_text() == lines


def test_train_has_an_option_for_each_training_option() -> None:
    options = {field.name for field in fields(TrainingSettings)}
    assert options <= {parameter.name for parameter in train_command.train.params}


def test_options_from_a_bilm_tf_options_file() -> None:
    published = {
        "bidirectional": True,
        "dropout": 0.3,
        "n_epochs": 1,
        "batch_size": 2,
        "unroll_steps": 3,
        "all_clip_norm_val": 5.0,
        "learning_rate": 0.1,
        "n_negative_samples_batch": 7,
        "n_train_tokens": 768648884,
        "n_tokens_vocab": 793471,
    }
    given = {"optimizer": "adagrad", "unroll": 4}
    assert complete_settings(given, published) == TrainingSettings(
        optimizer="adagrad",
        dropout=0.3,
        epochs=1,
        batch_size=2,
        unroll=4,
        max_grad_norm=5.0,
        learning_rate=0.1,
        negative_samples=7,
        warmup_steps=0,
        decay_share=0.0,
    )
    given = {"optimizer": "adamw", "unroll": 4}
    assert complete_settings(given, published) == TrainingSettings(
        optimizer="adamw",
        dropout=0.3,
        epochs=1,
        batch_size=2,
        unroll=4,
        negative_samples=7,
    )
    full = complete_settings({}, {"sample_softmax": False})
    assert full.negative_samples == 0
    full = complete_settings(
        {}, {"sample_softmax": False, "n_negative_samples_batch": 7}
    )
    assert full.negative_samples == 0


RUN = (
    "train --options-file options.json --batch-tokens 40 --max-length 12 "
    "--negative-samples 6"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two texts, options, and `model`, a resumable run."""
    with run_in(tmp_path_factory) as folder:
        run = f"{RUN} text.txt --output model --steps 1 --keep-checkpoint"
        assert elmo(*run.split()).exit_code == 0
        shutil.copytree("model", "other")
    return folder


@each_example(__file__)
def test_what_stops_a_run_changes_nothing(
    example: Example,
    check_example: CheckExample,
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(runs)
    before = content("model")
    check_example(example)
    assert content("model") == before
