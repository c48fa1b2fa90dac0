import os
import shutil
from pathlib import Path

import pytest
from conftest import GOLDEN
from website import folder_with

from elmo_cli.errors import ModelError
from elmo_cli.pretrained.find import describe_model, find_model


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
    ("name", "kind"),
    [
        ("options.json", "pipe"),
        ("weights.hdf5", "device"),
        ("vocab.txt", "folder"),
        ("softmax.hdf5", "pipe"),
        ("word.dic", "pipe"),
    ],
)
def test_files_that_are_not_regular_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / ("many-langs/both" if name == "word.dic" else "relu"), folder)
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "device":
        path.symlink_to("/dev/zero")
    else:
        {"pipe": os.mkfifo, "folder": os.mkdir}[kind](path)
    with pytest.raises(ModelError, match=f"^{path}: expected a regular file, found another kind"):
        find_model(folder)


def test_a_card_that_is_a_pipe_is_not_opened(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "relu", folder)
    os.mkfifo(folder / "card.md")
    assert describe_model(str(folder))["card"] == []
