"""Options of a run, from callers and from options.json."""

from dataclasses import fields

import pytest

from elmo_cli.cli.train_command import train
from elmo_cli.errors import OptionsError
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
    for optimizer, rate, norm in (("adagrad", 0.1, 5.0), ("adamw", 0.002, 1.0)):
        options = complete_options({"optimizer": optimizer, "unroll": 4}, published)
        assert (options.dropout, options.epochs, options.batch_size, options.unroll) == (
            0.3,
            1,
            2,
            4,
        )
        assert (options.learning_rate, options.max_grad_norm) == (rate, norm)
        assert options.negative_samples == 7
    assert complete_options({}, {"sample_softmax": False}).negative_samples == 0
    for content in ({"bidirectional": False}, {"share_embedding_softmax": True}):
        with pytest.raises(OptionsError, match=r"^\w+: (true|false) is not supported\. "):
            complete_options({}, content)
    for key, value, message in (
        ("n_epochs", "3", "epochs in options.json: expected an integer from 1 to 1,000,000,000"),
        ("batch_size", 10**400, "batch_size in options.json: expected an integer from 1 to"),
        ("dropout", 1, "dropout in options.json: expected a number from 0 to below 1"),
        ("learning_rate", 0, "learning_rate in options.json: expected a number above 0, up to"),
        ("learning_rate", 1e300, "learning_rate in options.json: expected a number above 0"),
    ):
        with pytest.raises(OptionsError, match=f"^{message}.*, found .*[.]$"):
            complete_options({"optimizer": "adagrad"}, {key: value})
