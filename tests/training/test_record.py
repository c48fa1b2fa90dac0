"""The record of a run, and folders of runs that have ended."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from runs import stop_after
from training_runs import content, train

from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors import ModelError, StoppedError

pytestmark = pytest.mark.usefixtures("training_folder")


def test_finished_training_removes_its_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "elmo_cli")
    settings: dict[str, Any] = {"steps": 3, "keep_checkpoint": False, "validation_file": None}
    settings["validation_share"] = 0.2
    expected = train("model", **settings)
    assert not Path("model/checkpoint.pt").exists()
    before = content("model")
    assert train("model", **settings) == expected
    assert "model: training is finished, and nothing is left to train" in caplog.messages
    for other, message in (
        ({"steps": 4}, "training is finished, and its checkpoint was removed. To train"),
        ({"dropout": 0.2}, "the run in this folder has dropout 0.1 (now 0.2). Repeat"),
        ({"vocabulary_size": 9}, "the run in this folder has vocabulary_size 40 (now 9). "),
    ):
        with pytest.raises(ModelError, match=f"^{re.escape('model: ' + message)}"):
            train("model", **{**settings, **other})
    assert content("model") == before
    for record in (None, "", "{", "[]", '{"finished": true, "signature": {}}'):
        path = Path("model/training.json")
        path.unlink() if record is None else path.write_text(record)
        before = content("model")
        with pytest.raises(ModelError, match=r"contains weights.hdf5, but no checkpoint.pt\. "):
            train("model", **settings)
        assert content("model") == before


def test_stopped_training_leaves_a_model_that_says_so() -> None:
    with pytest.raises(StoppedError, match=r"^Stopped after step 4, 40\.0% of the run\. model has"):
        train("model", should_stop=stop_after(4), steps=10)
    assert ElmoEmbedder(model="model").embed_sentence(["a", "b"]).shape == (3, 2, 6)
    record = json.loads(Path("model/training.json").read_text())
    assert (record["finished"], record["step"], record["perplexity"]) == (False, 4, None)
    card = Path("model/card.md").read_text()
    assert "**Training is not finished**: this is the model after step 4, 40.0% of the run" in card
    assert "The perplexity of this model was not measured." in card
    train("model", steps=10)
    assert "not finished" not in Path("model/card.md").read_text()
    assert json.loads(Path("model/training.json").read_text())["finished"] is True


def test_record_has_the_options_that_had_an_effect() -> None:
    runs: dict[str, dict[str, Any]] = {
        "steps": {"steps": 10, "warmup_steps": 200},
        "resumed": {"steps": 10, "warmup_steps": 200, "should_stop": stop_after(1)},
        "epochs": {"epochs": 1, "negative_samples": 500, "state": "carry", "optimizer": "adagrad"},
    }
    for name, settings in runs.items():
        with suppress(StoppedError):
            train(name, **settings)
        train(name, **{**settings, "should_stop": lambda: False})
        options = json.loads(Path(name, "training.json").read_text())["options"]
        if name == "epochs":
            assert options["negative_samples"] == 0  # All 29 words are in the softmax.
            assert options["warmup_steps"] == 0
            assert not {"steps", "batch_tokens", "max_length", "weight_decay"} & options.keys()
        else:
            assert options["warmup_steps"] == 1  # A tenth of the run.
            assert not {"epochs", "batch_size", "unroll"} & options.keys()


def test_resume_restores_missing_validation_lines() -> None:
    settings: dict[str, Any] = {"validation_file": None, "validation_share": 0.2}
    train("model", steps=2, **settings)
    lines = Path("model/validation.txt").read_text()
    Path("model/validation.txt").unlink()
    train("model", steps=3, **settings)
    assert Path("model/validation.txt").read_text() == lines
