"""Training from the weights of a model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN
from strategies import make_model, small_architecture
from training_runs import train, tune, weights

from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors import InputError, ModelError
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.model.weights import open_tensors

pytestmark = pytest.mark.usefixtures("training_folder")


def test_fine_tuning_keeps_weights_and_softmax() -> None:
    train("first", steps=3)
    tune("second", "first")
    old, new = weights("first"), weights("second")
    assert old.keys() == new.keys()
    for name, values in old.items():
        np.testing.assert_allclose(new[name], values, atol=1e-6)
    assert Path("first/vocab.txt").read_text() == Path("second/vocab.txt").read_text()


def test_fine_tuning_makes_a_missing_softmax() -> None:
    tune("model", GOLDEN / "relu")
    new = weights("model")
    with open_tensors(GOLDEN / "relu" / "weights.hdf5") as old:
        for name in old.names:
            np.testing.assert_allclose(new[name], old.read(name), atol=1e-6)
    assert len(read_vocabulary("model/vocab.txt")) == 29


def test_fine_tuning_keeps_rows_in_another_vocabulary() -> None:
    train("first", steps=3)
    words = read_vocabulary("first/vocab.txt").words
    Path("words.txt").write_text("".join(f"{w}\n" for w in [*words[:3], "new", words[5]]))
    tune("second", "first", vocabulary_file="words.txt")
    old, new = (weights(name)["softmax/W"] for name in ("first", "second"))
    np.testing.assert_allclose(new[[0, 1, 2, 4]], old[[0, 1, 2, 5]], atol=1e-6)


def test_fine_tuning_from_a_file_of_weights() -> None:
    weight_file = GOLDEN / "relu" / "weights.hdf5"
    train("model", options_file=GOLDEN / "relu" / "options.json", init_from=weight_file, steps=1)
    with pytest.raises(ModelError, match="a file of weights requires --options-file"):
        train("other", options_file=None, init_from=weight_file)


def test_fine_tuning_a_word_level_model_keeps_its_words() -> None:
    Path("words").mkdir()
    make_model({"lstm": small_architecture()["lstm"]}, 0, Path("words"))
    tune("model", "words", negative_samples=0)
    assert read_vocabulary("model/vocab.txt").words == read_vocabulary("words/vocab.txt").words
    Path("other.txt").write_text("<S>\n</S>\n<UNK>\na\n")
    with pytest.raises(InputError, match=r"^words: a word-level model keeps its own vocabulary"):
        tune("other", "words", vocabulary_file="other.txt")


def test_fine_tuning_a_model_without_projections() -> None:
    Path("square").mkdir()
    make_model(small_architecture(dim=3, projection_dim=3), 0, Path("square"), projects=False)
    tune("model", "square")
    assert "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" not in weights("model")


def test_fine_tuning_a_model_with_bilm_tfs_defaults() -> None:
    content = small_architecture(projection_dim=6)
    del content["char_cnn"]["n_highway"], content["lstm"]["n_layers"]
    Path("defaults").mkdir()
    make_model(content, 0, Path("defaults"), projects_features=False)
    tune("model", "defaults")
    new = weights("model")
    assert not {"CNN_proj/W_proj", "CNN_high_0/W_carry"} & new.keys()
    options = json.loads(Path("model/options.json").read_text())
    assert (options["char_cnn"]["n_highway"], options["lstm"]["n_layers"]) == (0, 1)


def test_fine_tuning_refuses_the_folder_of_its_model() -> None:
    train("model", steps=1)
    with pytest.raises(ModelError, match=r"^model: the model to start from is in it"):
        tune("model", "model")


@pytest.mark.parametrize("training", [None, [], "carry", {}, {"state": []}])
def test_unusable_training_section_counts_as_missing(training: Any) -> None:
    train("model", steps=1, state="carry")
    path = Path("model/options.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "training": training}))
    assert ElmoEmbedder(model="model").state == "zero"
