import hashlib
import io
import stat
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from website import OPTIONS, weights_file, zip_with

from elmo_cli.errors import ModelError
from elmo_cli.pretrained import cache as download
from elmo_cli.pretrained.cache import unpack
from elmo_cli.pretrained.find import find_model
from elmo_cli.pretrained.registry import PublishedModel

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def weights(tmp_path: Path) -> bytes:
    return weights_file(tmp_path / "made.hdf5").read_bytes()


def test_a_zip_file_is_unpacked_once(tmp_path: Path, cache: Path, weights: bytes) -> None:
    members = {"209/options.json": OPTIONS, "209/model.hdf5": weights, "209/vocab.txt.gz": b""}
    others = {"209/run.sh": b"rm", "__MACOSX/209/._model.hdf5": b"", "209/meta.json": b"{}"}
    path = zip_with(tmp_path / "209.zip", members | others)
    files = find_model(path)
    assert (files.name, files.weights.read_bytes()) == (str(path), weights)
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
    files = {file for file in tmp_path.rglob("*") if file.name == "weights.hdf5"}
    assert files == {folder / "weights.hdf5"}
    assert folder.parent.parent == cache


def test_a_link_becomes_a_file(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("weights.hdf5")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
        file.writestr("options.json", OPTIONS)
        file.writestr(link, "/etc/passwd")
    weights_path = find_model(tmp_path / "bad.zip").weights
    assert not weights_path.is_symlink()
    assert weights_path.read_bytes() == b"/etc/passwd"


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip file of members and of options."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in {"options.json": OPTIONS, **members}.items():
            file.writestr(name, content)
    return buffer.getvalue()


NUMPY = io.BytesIO()
np.savez(NUMPY, a=np.zeros(3))
LARGE = archive({"weights.hdf5": bytes(1 << 24)})
LYING = LARGE.replace(struct.pack("<I", 1 << 24), struct.pack("<I", 1000))  # about its sizes
DAMAGED = archive({"model.hdf5": b""}, zipfile.ZIP_STORED).replace(OPTIONS, bytes(len(OPTIONS)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (NUMPY.getvalue(), ": expected options.json and a .hdf5 file, found a.npy"),
        (OPTIONS, ": cannot unpack the zip file: File is not a zip file. Download it again, or"),
        (DAMAGED, ": cannot unpack the zip file: Bad CRC-32 .*$"),
        (LARGE, ": expected at most 1.0 MB when it is unpacked, found 17 MB"),
        (LYING, ": cannot unpack the zip file: Bad CRC-32"),
        (
            archive({"model.hdf5": b""} | {f"{number}.txt": b"" for number in range(2000)}),
            r": .* one model, found 2,002 files\. Unpack it",
        ),
    ],
    ids=["numpy", "no zip file", "damaged", "large", "large and lying", "many files"],
)
def test_other_archives_are_refused_and_leave_no_folder(
    tmp_path: Path, cache: Path, content: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_MAX_BYTES", 1 << 20)
    path = tmp_path / "other.zip"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"^{path}{message}"):
        find_model(path)
    assert not cache.exists()


def test_an_archive_of_a_known_model_has_the_known_weights(tmp_path: Path, weights: bytes) -> None:
    model = PublishedModel("a", weights_sha256=hashlib.sha256(weights).hexdigest())
    members = {"options.json": OPTIONS, "model.hdf5": weights}
    unpack(zip_with(tmp_path / "a.zip", members), tmp_path, model)
    # Both would be preferred to model.hdf5.
    for name in ("encoder.pkl", "model.hdf5"):
        path = zip_with(tmp_path / "b.zip", members | {name: b"other"})
        with pytest.raises(ModelError, match=rf"{name}: wrong content: the SHA-256"):
            unpack(path, tmp_path, model)


def test_the_registry_limits_what_an_archive_of_a_model_unpacks(
    tmp_path: Path, weights: bytes
) -> None:
    path = zip_with(tmp_path / "a.zip", {"options.json": OPTIONS, "model.hdf5": weights})
    model = PublishedModel("a", download_bytes=100)
    with pytest.raises(ModelError, match=r"a.zip: expected at most 200 bytes when it is unpacked"):
        unpack(path, tmp_path, model)
    unpack(path, tmp_path)
