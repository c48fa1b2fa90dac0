"""The model that a run writes: the files that `--model` reads."""

import json
from dataclasses import asdict
from typing import Any

from elmo_cli.files.atomic import write_lines
from elmo_cli.language_model.softmax_file import write_softmax
from elmo_cli.model.weights import write_weights
from elmo_cli.training.description import Description
from elmo_cli.training.training_folder import (
    OPTIONS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_cli.training.training_run import Run


def write_model(run: Run, description: Description) -> None:
    """Write options.json, weights.hdf5, vocab.txt and softmax.hdf5."""
    folder = description.folder
    options = json.dumps(_options_of(run, description), indent=1)
    write_lines(folder / OPTIONS_FILE, [options])
    write_weights(folder / WEIGHTS_FILE, run.objective.bilm)
    write_lines(folder / VOCABULARY_FILE, run.vocabulary.words)
    softmax = run.objective.softmax
    weight = softmax.weight.detach().cpu().numpy()
    bias = softmax.bias.detach().cpu().numpy()
    write_softmax(folder / SOFTMAX_FILE, weight, bias)


def _options_of(run: Run, description: Description) -> dict[str, Any]:
    """Return the content of options.json. AllenNLP requires every key."""
    content = description.start.content
    architecture = run.objective.bilm.architecture
    options: dict[str, Any] = {}
    options["lstm"] = {**content["lstm"], **asdict(architecture.lstm)}
    char_cnn = architecture.char_cnn
    if char_cnn is not None:
        # n_characters is 261 in bilm-tf's training, and 262 where a model is used.
        options["char_cnn"] = {
            **content["char_cnn"],
            "n_highway": char_cnn.n_highway,
            "max_characters_per_token": char_cnn.max_characters_per_token,
            "n_characters": 262,
        }
    options["training"] = {
        "state": run.settings.state,
        **description.training_text.tokenizer.to_attributes(),
    }
    return options
