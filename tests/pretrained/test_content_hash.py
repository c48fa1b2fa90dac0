"""Hashes of all files that a model computes with."""

import json
import shutil
from pathlib import Path

from conftest import GOLDEN
from website import folder_with

from elmo_cli.pretrained.files import content_sha256
from elmo_cli.pretrained.find import find_model


def test_the_hash_of_a_model_changes_with_each_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "many-langs" / "both", folder)
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
