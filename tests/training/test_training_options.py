"""Options of a run, from callers and from options.json."""

from dataclasses import asdict, fields

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
