"""Files of other programs in place of a model: one line with a remedy each (`errors.txt`)."""

import gzip
import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import GOLDEN
from transcripts import Transcript, each_transcript
from website import zip_with

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import ElmoError
from elmo_cli.pretrained.files import check_kind
from elmo_cli.pretrained.find import find_model

MODEL = GOLDEN / "relu"

pytestmark = pytest.mark.usefixtures("cache")


def saved(*, is_zip: bool) -> bytes:
    """Return a file of tensors, as PyTorch writes and wrote them."""
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(2)}, buffer, _use_new_zipfile_serialization=is_zip)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with files of PyTorch and archives, a text, and the options of a model."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "s.txt").write_text("a b\n")
    shutil.copy(MODEL / "options.json", folder)
    for name in ("model.pt", "epoch=3.ckpt", "encoder.pkl"):
        (folder / name).write_bytes(saved(is_zip=True))
    (folder / "weights.th").write_bytes(saved(is_zip=False))
    zip_with(folder / "other.zip", {"a.docx": b""})
    with tarfile.open(folder / "weights.tar", "w") as file:
        file.addfile(tarfile.TarInfo("saved_model.pb"))
    (folder / "elmo_3.tar.gz").write_bytes(gzip.compress((folder / "weights.tar").read_bytes()))
    return folder


@each_transcript(__file__)
def test_what_is_no_model_is_one_line(
    transcript: Transcript, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    transcript.check()


def test_other_files_are_no_other_kind() -> None:
    check_kind(Path("model.ckpt-11"))  # a missing file
    for path in (MODEL, *MODEL.iterdir(), *(GOLDEN / "many-langs" / "both").iterdir()):
        if path.suffix != ".pkl":
            check_kind(path)


def test_remedies_lead_to_a_model(folder: Path) -> None:
    """Follow the remedies of the messages above, as far as no other program is needed."""
    expected = ElmoEmbedder(MODEL / "options.json", MODEL / "weights.hdf5").embed_sentence(["a"])
    shutil.copytree(MODEL, folder / "in" / "model")
    shutil.make_archive("model", "gztar", folder / "in")
    with pytest.raises(ElmoError, match="Unpack it, and give what is in it"):
        find_model("model.tar.gz")
    shutil.unpack_archive("model.tar.gz", "out")
    assert np.array_equal(ElmoEmbedder(model="out/model").embed_sentence(["a"]), expected)
    # AllenNLP: the options and weights of its config.json.
    files = {name: str(MODEL / name) for name in ("options.json", "weights.hdf5")}
    config = {"options_file": files["options.json"], "weight_file": files["weights.hdf5"]}
    Path("config.json").write_text(json.dumps({"token_embedders": {"elmo": config}}))
    found = json.loads(Path("config.json").read_text())["token_embedders"]["elmo"]
    named = ElmoEmbedder(found["options_file"], found["weight_file"])
    assert np.array_equal(named.embed_sentence(["a"]), expected)
    # ELMoForManyLangs: the folder with all its files.
    source = GOLDEN / "many-langs" / "both"
    assert find_model(source).weights.name == "encoder.pkl"
