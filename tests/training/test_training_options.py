"""Options of a run, and what stops a run at its start (errors.txt)."""

import shutil
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
from commands import elmo
from training_runs import content, write_run_files
from transcripts import Transcript, each_transcript

from elmo_cli.cli.train_command import train
from elmo_cli.training.training_options import TrainingOptions, complete_options


def test_train_has_an_option_for_each_training_option() -> None:
    parameters = {parameter.name for parameter in train.params}
    assert {field.name for field in fields(TrainingOptions)} <= parameters


def test_options_from_a_bilm_tf_options_file() -> None:
    published = {
        "bidirectional": True,
        **{"dropout": 0.3, "n_epochs": 1, "batch_size": 2, "unroll_steps": 3},
        **{"all_clip_norm_val": 5.0, "learning_rate": 0.1, "n_negative_samples_batch": 7},
        **{"n_train_tokens": 768648884, "n_tokens_vocab": 793471},
    }
    taken = {"dropout": 0.3, "epochs": 1, "batch_size": 2, "unroll": 4, "negative_samples": 7}
    for optimizer, rate, norm in (("adagrad", 0.1, 5.0), ("adamw", 0.002, 1.0)):
        options = complete_options({"optimizer": optimizer, "unroll": 4}, published)
        expected = taken | {"learning_rate": rate, "max_grad_norm": norm}
        assert asdict(options) == asdict(options) | expected
    assert complete_options({}, {"sample_softmax": False}).negative_samples == 0


RUN = "train --options-file options.json --batch-tokens 40 --max-length 12 --negative-samples 6"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two texts, options, and `model`, a run that can be resumed."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_run_files()
        run = f"{RUN} text.txt --output model --steps 1 --keep-checkpoint"
        assert elmo(*run.split()).exit_code == 0
    shutil.copytree(folder / "model", folder / "other")
    return folder


@each_transcript(__file__)
def test_what_stops_a_run_changes_nothing(
    transcript: Transcript, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    before = content("model")
    replace(transcript, command=transcript.command.replace("RUN", RUN)).check()
    assert content("model") == before
