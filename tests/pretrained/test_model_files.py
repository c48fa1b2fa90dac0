"""The files of a model: which of a folder are taken, and the hash of all."""

import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import GOLDEN
from website import folder_with

from elmo_cli.errors import ModelError
from elmo_cli.model.model_options import read_options_and_training
from elmo_cli.pretrained import cache as downloads
from elmo_cli.pretrained.files import content_sha256
from elmo_cli.pretrained.find import choose_model, describe_model, find_model
from elmo_cli.settings import ModelSettings

MODEL = ("options.json", "weights.hdf5")
pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize(
    ("taken", "others"),
    [
        (["options.json", "weights.hdf5"], []),
        (["options.json", "model.hdf5", "vocab.txt", "softmax.hdf5"], ["old_options.json"]),
        (["elmo_options.json", "elmo_weights.hdf5", None, "elmo_softmax_weights.hdf5"], []),
        (["options.json", "lm.hdf5", "vocab-2016-09-10.txt"], ["._weights.hdf5", "notes.txt"]),
        (["options.json", "weights.hdf5", "vocab.txt.gz"], []),
        (["config.json", "model.safetensors"], ["README.md"]),
        (["options.json", "weights.hdf5"], ["vocab-1.txt", "vocab-2.txt"]),
    ],
)
def test_the_files_of_a_folder(tmp_path: Path, taken: list[str | None], others: list[str]) -> None:
    names = [*filter(None, taken), *others]
    folder = folder_with(tmp_path / "model", *names)
    files = find_model(folder)
    paths = (files.options, files.weights, files.vocabulary, files.softmax)
    assert [path and path.name for path in paths] == [*taken, None, None][:4]
    assert {path.name for path in folder.iterdir()} == set(names)


@pytest.mark.parametrize(
    "name", ["options.json", "weights.hdf5", "vocab.txt", "softmax.hdf5", "word.dic"]
)
def test_files_that_are_not_regular_are_refused(tmp_path: Path, name: str) -> None:
    model = GOLDEN / ("many-langs/both" if name == "word.dic" else "relu")
    for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")):
        folder = shutil.copytree(model, tmp_path / "model")
        path = folder / name
        path.unlink(missing_ok=True)
        make(path)
        with pytest.raises(ModelError, match=f"^{path}: expected a regular file, found another"):
            find_model(folder)
        folder.rename(tmp_path / make.__name__)


def test_a_card_that_is_a_pipe_is_not_opened(tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN / "relu", tmp_path / "model")
    os.mkfifo(folder / "card.md")
    assert describe_model(str(folder))["card"] == []


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


def test_the_hash_of_a_model_changes_with_each_of_its_files(tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN / "many-langs" / "both", tmp_path / "model")
    hashes = {content_sha256(find_model(folder))}
    for name in ("char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl"):
        with open(folder / name, "ab") as file:
            file.write(b"\n")
        hashes.add(content_sha256(find_model(folder)))
    assert len(hashes) == 5
    (folder / "notes.txt").write_text("not read")
    assert content_sha256(find_model(folder)) in hashes


def test_the_hash_of_a_word_model_changes_with_its_vocabulary(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", "weights.hdf5", "vocab.txt")
    lstm = {"dim": 4, "projection_dim": 2, "n_layers": 1}
    (folder / "options.json").write_text(json.dumps({"lstm": lstm}))
    before = content_sha256(find_model(folder))
    (folder / "vocab.txt").write_text("other words")
    assert content_sha256(find_model(folder)) != before
