"""Folders, zip files and files of other programs as models, and their hash."""

import gzip
import hashlib
import io
import os
import shutil
import stat
import struct
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from elmo_cli import ElmoEmbedder
from elmo_cli.errors.exceptions import ElmoError, ModelError, WeightsError
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.archive import unpack
from elmo_cli.pretrained.checksums import content_sha256
from elmo_cli.pretrained.describe import describe_model
from elmo_cli.pretrained.find_model import find_files_by_name, find_files_by_settings
from elmo_cli.pretrained.model_folder import read_folder
from elmo_cli.pretrained.other_programs import refuse_other_program
from elmo_cli.pretrained.registry import PublishedModel
from elmo_cli.pretrained.trained_with import read_architecture_and_training
from tests.support.accept import CheckExample
from tests.support.commands import TINY, elmo
from tests.support.golden import GOLDEN
from tests.support.transcripts import Example, each_example
from tests.support.website import OPTIONS, WEIGHTS, folder_with, zip_with

MANY_LANGS = GOLDEN / "many-langs" / "both"
LANGUAGE_MODEL = ("options.json", "weights.hdf5", "vocab.txt", "softmax.hdf5")

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize(
    ("taken", "others"),
    [
        (["options.json", "weights.hdf5"], []),
        (
            ["options.json", "model.hdf5", "vocab.txt", "softmax.hdf5"],
            ["old_options.json"],
        ),
        (
            [
                "elmo_options.json",
                "elmo_weights.hdf5",
                None,
                "elmo_softmax_weights.hdf5",
            ],
            [],
        ),
        (
            ["options.json", "lm.hdf5", "vocab-2016-09-10.txt"],
            ["._weights.hdf5", "notes.txt"],
        ),
        (["options.json", "weights.hdf5", "vocab.txt.gz"], []),
        (["config.json", "model.safetensors"], ["README.md"]),
        (["options.json", "weights.hdf5"], ["vocab-1.txt", "vocab-2.txt"]),
    ],
)
def test_a_folder_is_searched_for_each_file_by_its_usual_names(
    tmp_path: Path, taken: list[str | None], others: list[str]
) -> None:
    names = [*filter(None, taken), *others]
    folder = folder_with(tmp_path / "model", *names)
    files = find_files_by_name(folder)
    paths = (files.options, files.weights, files.vocabulary, files.softmax)
    assert [path and path.name for path in paths] == [*taken, None, None][:4]
    assert {path.name for path in folder.iterdir()} == set(names)


@pytest.mark.parametrize("name", [*LANGUAGE_MODEL, "word.dic"])
def test_files_that_are_not_regular_are_refused(tmp_path: Path, name: str) -> None:
    for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")):
        folder = tmp_path / make.__name__
        shutil.copytree(MANY_LANGS if name == "word.dic" else TINY, folder)
        (folder / name).unlink(missing_ok=True)
        make(folder / name)
        with pytest.raises(
            ModelError, match=f"^{folder / name}: expected a regular file, found an"
        ):
            find_files_by_name(folder)


def test_a_card_that_is_a_pipe_is_not_opened(tmp_path: Path) -> None:
    folder = shutil.copytree(TINY, tmp_path / "model")
    os.mkfifo(folder / "card.md")
    assert describe_model(str(folder))["card"] == []


def test_weights_that_are_cut_off_are_not_described(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(TINY, tmp_path / "model"))
    weights = folder / "weights.hdf5"
    weights.write_bytes(weights.read_bytes()[:3000])
    with pytest.raises(WeightsError, match=r"^.*weights\.hdf5: the file is incomplete"):
        describe_model(str(folder))


def test_a_folder_as_training_writes_it_is_a_language_model(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", *LANGUAGE_MODEL)
    two_files = ModelSettings(
        options_file=folder / "options.json", weight_file=folder / "weights.hdf5"
    )
    for settings in (ModelSettings(folder), two_files):
        files = find_files_by_settings(settings, with_softmax=True)
        assert files.softmax == folder / "softmax.hdf5"
        assert files.vocabulary == folder / "vocab.txt"


def test_the_bundled_model_may_have_a_softmax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path / "mini", *LANGUAGE_MODEL)
    monkeypatch.setattr("elmo_cli.pretrained.cache.BUNDLED_FOLDER", folder)
    assert (
        find_files_by_settings(ModelSettings(), with_softmax=True).softmax
        == folder / "softmax.hdf5"
    )
    assert (
        find_files_by_name("mini", with_softmax=True).softmax == folder / "softmax.hdf5"
    )
    with pytest.raises(
        ModelError, match=r"Choose one of mini, original, original-5.5b, or"
    ):
        find_files_by_settings(ModelSettings("small"), with_softmax=True)


def test_a_command_looks_up_a_folder_and_reads_its_options_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The cat sat .\n")
    look_up = Mock(wraps=read_folder)
    read = Mock(wraps=read_architecture_and_training)
    monkeypatch.setattr("elmo_cli.pretrained.find_model.read_folder", look_up)
    monkeypatch.setattr(
        "elmo_cli.pretrained.model_files.read_architecture_and_training", read
    )
    result = elmo("embed", text, tmp_path / "vectors.hdf5", "--model", TINY)
    assert result.exit_code == 0, result.output
    look_up.assert_called_once_with(TINY, str(TINY), "")
    read.assert_called_once_with(TINY / "options.json")


def test_single_files_take_precedence(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", *LANGUAGE_MODEL)
    other = folder_with(tmp_path / "other", "s.hdf5", "v.txt")
    settings = ModelSettings(
        folder, vocabulary_file=other / "v.txt", softmax_file=other / "s.hdf5"
    )
    files = find_files_by_settings(settings, with_softmax=True)
    assert files.softmax == other / "s.hdf5"
    assert files.vocabulary == other / "v.txt"
    (folder / "vocab.txt").unlink()
    (other / "v.txt").rename(other / "vocab.txt")  # next to the softmax
    files = find_files_by_settings(
        replace(settings, vocabulary_file=None), with_softmax=True
    )
    assert files.vocabulary == other / "vocab.txt"


def test_the_hash_of_a_model_changes_with_each_of_its_files(tmp_path: Path) -> None:
    many_langs = shutil.copytree(MANY_LANGS, tmp_path / "many-langs")
    words = folder_with(tmp_path / "words", "weights.hdf5", "vocab.txt")
    (words / "options.json").write_bytes(OPTIONS)
    for folder, names in (
        (many_langs, ("char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl")),
        (words, ("weights.hdf5", "vocab.txt")),
    ):
        hashes = {content_sha256(find_files_by_name(folder))}
        for name in names:
            with open(folder / name, "ab") as file:
                file.write(b"\n")
            hashes.add(content_sha256(find_files_by_name(folder)))
        assert len(hashes) == 1 + len(names)
        (folder / "notes.txt").write_text("not read")
        assert content_sha256(find_files_by_name(folder)) in hashes


def test_a_zip_file_is_unpacked_once(tmp_path: Path, cache: Path) -> None:
    members = {
        "209/options.json": OPTIONS,
        "209/model.hdf5": WEIGHTS,
        "209/vocab.txt.gz": b"",
    }
    others = {
        "209/run.sh": b"rm",
        "__MACOSX/209/._model.hdf5": b"",
        "209/meta.json": b"{}",
    }
    path = zip_with(tmp_path / "209.zip", {**members, **others, "209/char.dic": b""})
    files = find_files_by_name(path)
    assert files.name == str(path)
    assert files.weights.read_bytes() == WEIGHTS
    assert files.vocabulary is not None
    assert cache in files.weights.parents
    names = {file.name for file in files.weights.parent.iterdir()}
    assert names == {
        "options.json",
        "model.hdf5",
        "vocab.txt.gz",
        "meta.json",
        "char.dic",
    }
    changed = files.weights.stat().st_mtime_ns
    assert find_files_by_name(path) == files
    assert files.weights.stat().st_mtime_ns == changed
    zip_with(
        path, members | {"options.json": OPTIONS, "209/options.json": OPTIONS + b" "}
    )
    with pytest.raises(ModelError, match=r"expected one options.json, found several"):
        find_files_by_name(path)


def test_another_zip_file_of_equal_size_and_time_is_unpacked(
    tmp_path: Path, cache: Path
) -> None:
    path = tmp_path / "m.zip"
    other_weights = bytearray(WEIGHTS)
    other_weights[-1] ^= 1
    sizes = set()
    for weights in (WEIGHTS, bytes(other_weights)):
        with zipfile.ZipFile(path, "w") as archive:  # It is not compressed.
            archive.writestr("options.json", OPTIONS)
            archive.writestr("weights.hdf5", weights)
        os.utime(path, (1e9, 1e9))
        sizes.add(path.stat().st_size)
        assert find_files_by_name(path).weights.read_bytes() == weights
    assert len(sizes) == 1


@pytest.mark.parametrize("name", ["../weights.hdf5", "/etc/weights.hdf5"])
def test_members_cannot_leave_the_folder(
    tmp_path: Path, cache: Path, name: str
) -> None:
    path = zip_with(tmp_path / "bad.zip", {"options.json": OPTIONS, name: WEIGHTS})
    folder = find_files_by_name(path).weights.parent
    assert [*tmp_path.rglob("weights.hdf5")] == [folder / "weights.hdf5"]
    assert folder.parent.parent == cache


def test_a_link_becomes_a_file(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("weights.hdf5")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = zip_with(
        tmp_path / "bad.zip", {"options.json": OPTIONS, link: b"/etc/passwd"}
    )
    weights = find_files_by_name(path).weights
    assert not weights.is_symlink()
    assert weights.read_bytes() == b"/etc/passwd"


def archive(
    members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """Return a zip file of members and of options."""
    return zip_with(
        io.BytesIO(), {"options.json": OPTIONS, **members}, compression
    ).getvalue()


NUMPY = io.BytesIO()
np.savez(NUMPY, a=np.zeros(3))
LARGE = archive({"weights.hdf5": bytes(1 << 24)})
# It lies about its sizes.
LYING = LARGE.replace(struct.pack("<I", 1 << 24), struct.pack("<I", 1000))
DAMAGED = archive({"model.hdf5": b""}, zipfile.ZIP_STORED).replace(
    OPTIONS, bytes(len(OPTIONS))
)
MANY = archive({"model.hdf5": b"", **{f"{number}.txt": b"" for number in range(2000)}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (NUMPY.getvalue(), "expected options.json and a .hdf5 file, found a.npy"),
        (
            OPTIONS,
            "cannot unpack the zip file: File is not a zip file. Copy or download it "
            "again, or",
        ),
        (DAMAGED, "cannot unpack the zip file: Bad CRC-32 .*$"),
        (LARGE, "expected at most 1.0 MB when it is unpacked, found 17 MB"),
        (LYING, "cannot unpack the zip file: Bad CRC-32"),
        (MANY, r".* one model, found 2,002 files\. Unpack it"),
    ],
    ids=["numpy", "no zip file", "damaged", "large", "large and lying", "many files"],
)
def test_other_archives_are_refused_and_leave_no_folder(
    tmp_path: Path,
    cache: Path,
    content: bytes,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elmo_cli.pretrained.limits.MAX_BYTES", 1 << 20)
    path = tmp_path / "other.zip"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"^{path}: {message}"):
        find_files_by_name(path)
    assert not cache.exists()


def test_the_registry_limits_an_archive_in_size_and_content(tmp_path: Path) -> None:
    members = {"options.json": OPTIONS, "model.hdf5": WEIGHTS}
    path = zip_with(tmp_path / "a.zip", members)
    with pytest.raises(
        ModelError, match=r"a.zip: expected at most 200 bytes when it is unpacked"
    ):
        unpack(path, tmp_path, PublishedModel("a", download_bytes=100))
    model = PublishedModel("a", weights_sha256=hashlib.sha256(WEIGHTS).hexdigest())
    for known in (None, model):
        unpack(path, tmp_path, known)
    # Both would be preferred to model.hdf5.
    for name in ("encoder.pkl", "model.hdf5"):
        path = zip_with(tmp_path / "b.zip", members | {name: b"other"})
        with pytest.raises(ModelError, match=rf"{name}: wrong content: the SHA-256"):
            unpack(path, tmp_path, model)


@pytest.fixture(scope="module")
def other_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with files of PyTorch, archives, a text, and a model."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "s.txt").write_text("a b\n")
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(TINY / name, folder)
    for name in ("model.pt", "epoch=3.ckpt", "encoder.pkl", "weights.th"):
        is_zip = name != "weights.th"  # Older versions of PyTorch wrote no zip files.
        torch.save(
            {"a": torch.ones(2)}, folder / name, _use_new_zipfile_serialization=is_zip
        )
    zip_with(folder / "other.zip", {"a.docx": b""})
    with tarfile.open(folder / "weights.tar", "w") as file:
        file.addfile(tarfile.TarInfo("saved_model.pb"))
    (folder / "elmo_3.tar.gz").write_bytes(
        gzip.compress((folder / "weights.tar").read_bytes())
    )
    return folder


@each_example(__file__)
def test_what_is_no_model_is_one_line(
    example: Example,
    check_example: CheckExample,
    other_files: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(other_files)
    check_example(example)
    assert not cache.exists()


def test_other_files_are_no_other_kind() -> None:
    refuse_other_program(Path("model.ckpt-11"))  # a missing file
    for path in (TINY, *TINY.iterdir(), *MANY_LANGS.iterdir()):
        if path.suffix != ".pkl":
            refuse_other_program(path)


def test_remedies_lead_to_a_model(folder: Path) -> None:
    """Follow the remedies above, as far as no other program is needed."""
    expected = ElmoEmbedder(
        TINY / "options.json", TINY / "weights.hdf5"
    ).embed_sentence(["a"])
    shutil.copytree(TINY, folder / "in" / "model")
    shutil.make_archive("model", "gztar", folder / "in")
    with pytest.raises(ElmoError, match="Unpack it, and give what is in it"):
        find_files_by_name("model.tar.gz")
    shutil.unpack_archive("model.tar.gz", "out")
    assert np.array_equal(
        ElmoEmbedder(model="out/model").embed_sentence(["a"]), expected
    )
    # ELMoForManyLangs: the folder with all its files.
    assert find_files_by_name(MANY_LANGS).weights.name == "encoder.pkl"
