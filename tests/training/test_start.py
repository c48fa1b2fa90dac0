"""Training from the weights of a model."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from conftest import GOLDEN
from strategies import make_model, small_architecture
from training_runs import train, tune, weights

from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors import InputError, ModelError, SettingsError
from elmo_cli.model.vocabulary import read_vocabulary

pytestmark = pytest.mark.usefixtures("training_folder")


def test_fine_tuning_keeps_weights_and_softmax() -> None:
    train("first", steps=3)
    words = read_vocabulary("first/vocab.txt").words
    Path("words.txt").write_text("".join(f"{w}\n" for w in [*words[:3], "new", words[5]]))
    tune("second", "first")
    tune("third", "first", vocabulary_file="words.txt")
    old, new, other = weights("first"), weights("second"), weights("third")
    assert_close(old, new)
    assert Path("first/vocab.txt").read_text() == Path("second/vocab.txt").read_text()
    kept, rows = old["softmax/W"], other["softmax/W"]
    np.testing.assert_allclose(rows[[0, 1, 2, 4]], kept[[0, 1, 2, 5]], atol=1e-6)
    with pytest.raises(ModelError, match=r"^first: the model to start from is in it"):
        tune("first", "first")


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
    old, new = reference.read_arrays(files.weights), weights("new")
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
    with pytest.raises(InputError, match=r"^old: a word-level model keeps its own vocabulary"):
        tune("other", "old", vocabulary_file="other.txt")


def test_fine_tuning_from_a_file_of_weights() -> None:
    weight_file = GOLDEN / "relu" / "weights.hdf5"
    train("model", options_file=GOLDEN / "relu" / "options.json", init_from=weight_file, steps=1)
    with pytest.raises(SettingsError, match="a file of weights requires --options-file"):
        train("other", options_file=None, init_from=weight_file)


def test_unusable_training_section_counts_as_missing() -> None:
    shutil.copytree(GOLDEN / "relu", "model")
    path = Path("model/options.json")
    sections: list[Any] = [None, [], "carry", {}, {"state": []}]
    for training in sections:
        path.write_text(json.dumps({**json.loads(path.read_text()), "training": training}))
        assert ElmoEmbedder(model="model").state == "zero"
