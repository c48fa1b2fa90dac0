"""Files of other programs that people give as a model: one line with a remedy for each."""

import gzip
import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import assert_fails, elmo
from conftest import GOLDEN
from website import zip_with

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import ElmoError
from elmo_cli.pretrained.files import check_kind
from elmo_cli.pretrained.find import find_model

MODEL = GOLDEN / "relu"

TENSORFLOW = (
    "a checkpoint of TensorFlow. Write HDF5 from its folder with bilm-tf: `python "
    "bin/dump_weights.py --save_dir FOLDER --outfile weights.hdf5`."
)
PICKLE = (
    "a pickle or a file of PyTorch. Give ELMo's HDF5 weights and options, which AllenNLP names in "
    "the config.json next to it."
)
MANY_LANGS = (
    "a part of an ELMoForManyLangs model. Give the folder with all its files, including "
    "config.json, as the model."
)
PACKED = "a packed file. Unpack it, and give what is in it."
VECTORS = "a file of word vectors. Give a name of `elmo models`, or the folder of an ELMo model."
LFS = "a pointer of git-lfs. Get the file with `git lfs pull`."
PAGE = "a web page. Download the file itself."

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(autouse=True)
def text(folder: Path) -> None:
    Path("s.txt").write_text("a b\n")


def saved(*, is_zip: bool) -> bytes:
    """Return a file of tensors, as PyTorch writes and wrote them."""
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(2)}, buffer, _use_new_zipfile_serialization=is_zip)
    return buffer.getvalue()


def tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        file.addfile(tarfile.TarInfo("saved_model.pb"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "description"),
    [
        ("model.ckpt-10.index", b"", TENSORFLOW),
        ("model.ckpt-10.data-00000-of-00001", b"\0" * 9, TENSORFLOW),
        ("model.ckpt-10.meta", b"\n\x0c", TENSORFLOW),
        ("checkpoint", b'model_checkpoint_path: "model.ckpt-10"\n', TENSORFLOW),
        ("model.pt", saved(is_zip=True), PICKLE),
        ("weights.th", saved(is_zip=False), PICKLE),
        ("epoch=3.ckpt", saved(is_zip=True), PICKLE),
        ("gensim.model", b"\x80\x04\x95", PICKLE),
        ("encoder.pkl", saved(is_zip=True), MANY_LANGS),
        ("elmo_3.tar.gz", gzip.compress(tar(), mtime=0), PACKED),
        ("weights.tar", tar(), PACKED),
        ("model.7z", b"7z\xbc\xaf\x27\x1c", PACKED),
        ("vectors.txt", b"2 3\na 1 2 3\nb 4 5 6\n", VECTORS),
        ("vectors.bin", b"2 3\na " + bytes(12), VECTORS),
        ("cc.en.300.bin", b"\xba\x16\x4f\x2f\x0c\0\0\0", VECTORS),
        ("lfs.hdf5", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", LFS),
        ("page.hdf5", b"\n<!DOCTYPE html><html>", PAGE),
    ],
)
def test_a_file_of_another_program_has_a_remedy(
    name: str, content: bytes, description: str
) -> None:
    Path(name).write_bytes(content)
    message = f"{name}: {description}"
    assert_fails(elmo("convert", name, "out.hdf5"), message)
    for model in (name, f"./{name}"):
        assert_fails(elmo("embed", "s.txt", "out.hdf5", "-q", "--model", model), message)
    files = ("--options-file", MODEL / "options.json", "--weight-file", name)
    result = elmo("embed", "s.txt", "out.hdf5", "-q", *files)
    if name.endswith(".pkl"):  # `--weight-file` takes it, with the options of such a model.
        assert result.exit_code == 1
    else:
        assert_fails(result, message)


def test_the_name_of_a_checkpoint_is_known_by_its_files() -> None:
    for suffix in ("index", "meta"):
        Path(f"model.ckpt-10.{suffix}").touch()
    message = f"model.ckpt-10: {TENSORFLOW}"
    assert_fails(elmo("convert", "model.ckpt-10", "out.hdf5"), message)
    assert_fails(elmo("embed", "s.txt", "out.hdf5", "-q", "--model", "model.ckpt-10"), message)
    check_kind(Path("model.ckpt-11"))


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (
            {"options.json": b"{}", "checkpoint": b""},
            f"no weights.hdf5. checkpoint is {TENSORFLOW}",
        ),
        ({"config.json": b"{}", "weights.th": saved(is_zip=True)}, f"weights.th is {PICKLE}"),
        ({"encoder.pkl": b""}, f"no options.json. encoder.pkl is {MANY_LANGS}"),
        (
            {"saved_model.pb": b"\x08", "variables/variables.index": b""},
            "saved_model.pb is a module of TensorFlow. Use the model `original` for TF-Hub's elmo.",
        ),
        (
            {"checkpoint.pt": b"", "log.txt": b"2 3\n"},
            "checkpoint.pt is a checkpoint of `elmo train`. Give its folder when that is done.",
        ),
        (
            {"config.json": b'{"architectures": ["BertModel"]}', "pytorch_model.bin": b"\x80\2"},
            "config.json is part of a transformers model. Give a name of `elmo models`, or the "
            "folder of an ELMo model.",
        ),
        (
            {"config.json": b'{"model_type": "bert"}', "model.safetensors": b""},
            "config.json: part of a transformers model. Give a name of `elmo models`, or the "
            "folder of an ELMo model.",
        ),
        ({"options.json": b"{}", "weights.hdf5": b"version https://git-lfs"}, LFS),
    ],
)
def test_a_folder_of_another_program_has_a_remedy(
    folder: Path, files: dict[str, bytes], problem: str
) -> None:
    for name, content in files.items():
        path = folder / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    result = elmo("embed", "s.txt", "out.hdf5", "-q", "--model", "model")
    assert result.exit_code == 1
    assert result.stderr.endswith(f"{problem}\n")
    assert result.stderr.count("\n") == 1


def test_other_files_are_called_what_they_are() -> None:
    Path("a.txt").write_text("some text\n")
    message = "a.txt: not HDF5, nor named .safetensors. Give the file of the weights, such as "
    assert_fails(elmo("convert", "a.txt", "b.safetensors"), f"{message}weights.hdf5.")
    zip_with(Path("other.zip"), {"a.docx": b""})
    assert_fails(
        elmo("info", "other.zip"),
        "other.zip: expected options.json and a .hdf5 file, found a.docx. Give the zip file or "
        "folder of an ELMo model, or a name of `elmo models`.",
    )


def test_ordinary_files_have_no_other_kind() -> None:
    for path in (MODEL, *MODEL.iterdir(), *(GOLDEN / "many-langs" / "both").iterdir()):
        if path.suffix != ".pkl":
            check_kind(path)


# Remedies, followed.


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
