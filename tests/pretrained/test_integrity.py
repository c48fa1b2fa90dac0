from pathlib import Path
from typing import Any

import pytest
from website import weights_file

from elmo_cli.pretrained.integrity import archive_fault, hdf5_fault, json_fault, text_fault


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ({"libver": "earliest"}, 0),
        ({"libver": ("v108", "v108")}, 2),
        ({"libver": "latest"}, 3),
        ({"libver": "earliest", "userblock_size": 1024}, 0),
    ],
)
def test_an_hdf5_file_knows_its_end(tmp_path: Path, options: dict[str, Any], version: int) -> None:
    path = weights_file(tmp_path / "weights.hdf5", **options)
    content = path.read_bytes()
    assert content[content.index(b"\x89HDF") + 8] == version
    assert hdf5_fault(path) is None
    path.write_bytes(content + b"more")
    assert hdf5_fault(path) is None
    path.write_bytes(content[:-1])
    expected = f"cut off: expected {len(content):,} bytes, found {len(content) - 1:,}"
    assert hdf5_fault(path) == expected


def test_version_1_has_four_bytes_more(tmp_path: Path) -> None:
    address = [number.to_bytes(8, "little") for number in (0, 2**64 - 1, 500, 2**64 - 1)]
    sizes = b"\1\0\0\0\0\x08\x08\0" + bytes(8) + b"\x20\0\0\0"
    path = tmp_path / "weights.hdf5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + sizes + b"".join(address) + bytes(448))
    assert path.stat().st_size == 508
    assert hdf5_fault(path) is None
    path.write_bytes(path.read_bytes()[:499])
    assert hdf5_fault(path) == "cut off: expected 500 bytes, found 499"


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\3\4", b"<html>", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + b"\xff" * 90],
)
def test_other_content_is_no_hdf5(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.hdf5"
    path.write_bytes(content)
    assert str(hdf5_fault(path)).startswith("expected HDF5, found ")


@pytest.mark.parametrize("content", [b"", b"<!DOCTYPE html>", b"[]", b'{"lstm": ', b"\xff{}"])
def test_other_content_is_no_json_object(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "options.json"
    path.write_bytes(content)
    assert str(json_fault(path)).startswith("expected a JSON object, found ")
    path.write_bytes(b'{"lstm": {}}')
    assert json_fault(path) is None


@pytest.mark.parametrize("content", [b"", b"\n <!DOCTYPE html>", b"<HTML>", b"\x89HDF\0"])
def test_other_content_is_no_vocabulary(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    assert str(text_fault(path)).startswith("expected a word a line, found ")
    path.write_bytes("<S>\n</S>\n<UNK>\nÜber\n".encode())
    assert text_fault(path) is None


@pytest.mark.parametrize("content", [b"", b"<html>", b"PK\3\4"])
def test_other_content_is_no_archive(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "archive.zip"
    path.write_bytes(content)
    assert str(archive_fault(path)).startswith("expected a zip file, found ")
