"""What the options.json of a model says about its training."""

from pathlib import Path
from typing import Literal, NamedTuple

from elmo_cli.model.architecture import Architecture
from elmo_cli.model.json_objects import read_json
from elmo_cli.model.options_json import architecture_from
from elmo_cli.options.tokenizer_names import recorded_tokenizer


class TrainedWith(NamedTuple):
    """Defaults for the use of a model, from its training by `elmo train`."""

    initial_state: Literal["zero", "warm"]
    """Initial state of sentences. It is `warm` for a model that was trained with
    carried state, which does not know the zero state. A fixed state keeps sentences
    independent."""
    tokenizer: str | None
    """Name such as `moses:en`. None if the text had tokens, or if it is unknown."""


def read_architecture_and_training(
    path: str | Path,
) -> tuple[Architecture, TrainedWith]:
    """Read the architecture of a model, and the defaults from its training."""
    content = read_json(path)
    architecture = architecture_from(content, path)
    # `elmo train` writes an object. Other values are ignored.
    training = content.get("training")
    if not isinstance(training, dict):
        training = {}
    return architecture, TrainedWith(
        initial_state="warm" if training.get("state") == "carry" else "zero",
        tokenizer=recorded_tokenizer(training),
    )
