import stat
import zipfile
from pathlib import Path

import pytest
from website import OPTIONS, weights_file, zip_with

from elmo_cli.errors import ModelError
from elmo_cli.pretrained.loading import find_model

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def weights(tmp_path: Path) -> bytes:
    return weights_file(tmp_path / "made.hdf5").read_bytes()


def test_a_zip_file_is_unpacked_once(tmp_path: Path, cache: Path, weights: bytes) -> None:
    members = {"209/options.json": OPTIONS, "209/model.hdf5": weights, "209/vocab.txt.gz": b""}
    others = {"209/run.sh": b"rm", "__MACOSX/209/._model.hdf5": b"", "209/meta.json": b"{}"}
    path = zip_with(tmp_path / "209.zip", members | others)
    files = find_model(path)
    assert files.name == str(path)
    assert files.weights.read_bytes() == weights
    assert files.vocabulary is not None
    assert cache in files.weights.parents
    names = {file.name for file in files.weights.parent.iterdir()}
    assert names == {"options.json", "model.hdf5", "vocab.txt.gz", "meta.json"}
    changed = files.weights.stat().st_mtime_ns
    assert find_model(path) == files
    assert files.weights.stat().st_mtime_ns == changed
    zip_with(path, members | {"options.json": OPTIONS, "209/options.json": OPTIONS + b" "})
    with pytest.raises(ModelError, match=r"expected one options.json, found several"):
        find_model(path)


@pytest.mark.parametrize("name", ["../weights.hdf5", "/etc/weights.hdf5"])
def test_members_cannot_leave_the_folder(
    tmp_path: Path, cache: Path, weights: bytes, name: str
) -> None:
    path = zip_with(tmp_path / "bad.zip", {"options.json": OPTIONS, name: weights})
    folder = find_model(path).weights.parent
    found = {file for file in tmp_path.rglob("*") if file.name == "weights.hdf5"}
    assert found == {folder / "weights.hdf5"}
    assert folder.parent.parent == cache


def test_a_link_becomes_a_file(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("weights.hdf5")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
        file.writestr("options.json", OPTIONS)
        file.writestr(link, "/etc/passwd")
    found = find_model(tmp_path / "bad.zip").weights
    assert not found.is_symlink()
    assert found.read_bytes() == b"/etc/passwd"


def test_a_zip_file_without_a_model_is_reported(tmp_path: Path) -> None:
    path = zip_with(tmp_path / "other.zip", {"options.json": OPTIONS, "text.doc": b""})
    with pytest.raises(ModelError) as caught:
        find_model(path)
    found = "options.json, text.doc"
    assert str(caught.value) == f"{path}: expected options.json and a .hdf5 file, found {found}"
    path.write_bytes(OPTIONS)
    with pytest.raises(ModelError, match=r"expected a name, a folder or a zip file, found another"):
        find_model(path)


def test_a_damaged_zip_file(tmp_path: Path, cache: Path, weights: bytes) -> None:
    members = {"options.json": OPTIONS, "model.hdf5": weights}
    path = zip_with(tmp_path / "damaged.zip", members, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(OPTIONS, bytes(len(OPTIONS))))
    with pytest.raises(ModelError, match=r"cannot unpack the zip file: Bad CRC-32 .*$"):
        find_model(path)
    assert [file for file in cache.rglob("*") if file.is_file()] == []
