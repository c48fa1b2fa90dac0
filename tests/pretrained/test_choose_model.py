from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import GOLDEN
from website import folder_with

from elmo_cli.errors import ModelError
from elmo_cli.model.model_options import read_options_and_training
from elmo_cli.pretrained import cache as downloads
from elmo_cli.pretrained.find import choose_model, find_model
from elmo_cli.settings import ModelSettings

MODEL = ("options.json", "weights.hdf5")
pytestmark = pytest.mark.usefixtures("cache")


def test_a_folder_as_training_writes_it_is_a_language_model(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", *MODEL, "vocab.txt", "softmax.hdf5")
    for model in ([folder], [None, folder / "options.json", folder / "weights.hdf5"]):
        files = choose_model(*model, with_softmax=True)
        assert (files.softmax, files.vocabulary) == (folder / "softmax.hdf5", folder / "vocab.txt")


def test_the_bundled_model_may_have_a_softmax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path / "mini", *MODEL, "vocab.txt", "softmax.hdf5")
    monkeypatch.setattr(downloads, "BUNDLED_FOLDER", folder)
    assert choose_model(with_softmax=True).softmax == folder / "softmax.hdf5"
    assert find_model("mini", with_softmax=True).softmax == folder / "softmax.hdf5"
    with pytest.raises(ModelError, match=r"Choose one of mini, original, original-5.5b, or"):
        choose_model("small", with_softmax=True)


def test_options_of_a_folder_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=read_options_and_training)
    monkeypatch.setattr("elmo_cli.model.model_options.read_options_and_training", read)
    settings = ModelSettings(GOLDEN / "relu")
    assert settings.resolved.tokenizer is None
    files = settings.find_files()
    assert (files.parsed_options.n_layers, files.initial_state) == (3, "zero")
    read.assert_called_once_with(GOLDEN / "relu" / "options.json")


def test_single_files_take_precedence(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", *MODEL, "vocab.txt", "softmax.hdf5")
    other = folder_with(tmp_path / "other", "s.hdf5", "v.txt")
    files = choose_model(folder, None, None, other / "v.txt", other / "s.hdf5", with_softmax=True)
    assert (files.softmax, files.vocabulary) == (other / "s.hdf5", other / "v.txt")
    (folder / "vocab.txt").unlink()
    (other / "v.txt").rename(other / "vocab.txt")  # next to the softmax
    files = choose_model(folder, softmax_file=other / "s.hdf5", with_softmax=True)
    assert files.vocabulary == other / "vocab.txt"
