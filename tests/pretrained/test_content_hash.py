"""Hashes of what a model computes with, and their records in the cache folder."""

import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import GOLDEN
from website import folder_with

from elmo_cli.pretrained import cache as content_hash
from elmo_cli.pretrained.cache import cache_folder, content_sha256, recorded_sha256
from elmo_cli.pretrained.files import sha256
from elmo_cli.pretrained.find import find_model

HOUR_NS = 3600 * 10**9


def test_the_hash_of_a_model_changes_with_each_of_its_files(
    tmp_path: Path,
) -> None:
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


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file whose hash is recorded: an old one that is large enough."""
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(content_hash, "_MIN_BYTES", 10)
    monkeypatch.setattr(content_hash, "_SETTLED_NS", -HOUR_NS)
    path = tmp_path / "weights.hdf5"
    path.write_bytes(b"some weights")
    return path


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the list of files that are read to be hashed, in the course of a test."""
    paths: list[Path] = []

    def record(path: Path) -> str:
        paths.append(path)
        return sha256(path)

    monkeypatch.setattr(content_hash, "sha256", record)
    return paths


def test_a_file_is_hashed_once(weights: Path, hashed: list[Path]) -> None:
    expected = sha256(weights)
    assert recorded_sha256(weights) == recorded_sha256(weights) == expected
    assert hashed == [weights]


def test_a_link_has_the_record_of_its_file(weights: Path, hashed: list[Path]) -> None:
    link = weights.with_name("link.hdf5")
    link.symlink_to(weights)
    assert recorded_sha256(weights) == recorded_sha256(link)
    assert hashed == [weights]


def test_a_changed_file_of_equal_size_and_time_is_hashed_again(weights: Path) -> None:
    before, status = recorded_sha256(weights), weights.stat()
    weights.write_bytes(b"more weights")
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert recorded_sha256(weights) == sha256(weights) != before


def test_a_file_that_replaced_another_is_hashed_again(weights: Path) -> None:
    before = recorded_sha256(weights)
    other = weights.with_name("other")
    other.write_bytes(b"more weights")
    other.replace(weights)
    assert recorded_sha256(weights) == sha256(weights) != before


@pytest.mark.parametrize(("constant", "value"), [("_SETTLED_NS", HOUR_NS), ("_MIN_BYTES", 1000)])
def test_new_and_small_files_have_no_record(
    constant: str, value: int, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_hash, constant, value)
    recorded_sha256(weights)
    assert not cache_folder().exists()


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"null", b"{}", b'{"stat": 1}'])
def test_a_damaged_record_is_written_again(
    content: bytes, weights: Path, hashed: list[Path]
) -> None:
    expected = recorded_sha256(weights)
    (record,) = (cache_folder() / "hashes").iterdir()
    record.write_bytes(content)
    assert recorded_sha256(weights) == recorded_sha256(weights) == expected
    assert hashed == 2 * [weights]
    assert json.loads(record.read_text())["sha256"] == expected


def test_without_a_cache_folder_files_are_hashed_each_time(
    weights: Path, hashed: list[Path]
) -> None:
    cache_folder().write_text("not a folder")
    assert recorded_sha256(weights) == recorded_sha256(weights) == sha256(weights)
    assert hashed == 2 * [weights]
