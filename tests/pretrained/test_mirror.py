"""Mirrors, and models that were downloaded by other means."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from commands import assert_fails, elmo
from conftest import GOLDEN
from website import OPTIONS, Site, folder_with, weights_file, zip_with

from elmo_cli.errors import ModelError
from elmo_cli.pretrained import registry
from elmo_cli.pretrained.cache import mirror_address
from elmo_cli.pretrained.find import find_model
from elmo_cli.pretrained.manage import convert_weights, import_model
from elmo_cli.pretrained.registry import MODELS, PublishedModel

TINY = GOLDEN / "relu"
GONE = "https://127.0.0.1:1/gone"

pytestmark = pytest.mark.usefixtures("cache")


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> PublishedModel:
    """Publish a model named `tiny` at addresses that all fail."""
    model = PublishedModel(
        name="tiny",
        weights_sha256=sum_of(TINY / "weights.hdf5"),
        urls={"options": [f"{GONE}/options.json"], "weights": [f"{GONE}/weights.hdf5"]},
    )
    monkeypatch.setattr(registry, "MODELS", (*MODELS, model))
    return model


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """Create a mirror with `tiny`, as a copy of a cache folder."""
    folder = tmp_path / "mirror" / "tiny"
    folder.mkdir(parents=True)
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(TINY / name, folder)
    return folder.parent


# Mirrors.


def test_mirror_is_tried_before_published_addresses(
    published: PublishedModel, mirror: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in (str(mirror), mirror.as_uri(), f"{mirror.as_uri()}/"):
        monkeypatch.setenv("ELMO_MIRROR", address)
        assert find_model("tiny").weights == cache / "tiny" / "weights.hdf5"
        assert {path.name for path in (cache / "tiny").iterdir()} == {
            *("options.json", "weights.hdf5")
        }
        shutil.rmtree(cache / "tiny")


def test_mirror_on_the_web_gives_the_softmax_on_demand(
    published: PublishedModel, mirror: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights_file(mirror / "tiny" / "softmax.hdf5")
    (mirror / "tiny" / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    for path in (mirror / "tiny").iterdir():
        site.put(f"/models/tiny/{path.name}", path.read_bytes())
    monkeypatch.setenv("ELMO_MIRROR", f"{site.url}/models/")
    assert find_model("tiny").softmax is None
    assert find_model("tiny", with_softmax=True).softmax is not None


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"changed", ""), (None, "weights.hdf5: wrong content: the SHA-256 must be")],
)
def test_a_damaged_mirror_is_reported_and_leaves_no_file(
    content: bytes | None,
    problem: str,
    published: PublishedModel,
    mirror: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = weights_file(mirror / "tiny" / "weights.hdf5")
    path.write_bytes(path.read_bytes() if content is None else content)
    monkeypatch.setenv("ELMO_MIRROR", str(mirror))
    message = r"cannot download weights.hdf5.*ELMO_MIRROR.*--from FOLDER"
    with pytest.raises(ModelError, match=message):
        find_model("tiny")
    assert "Warning: ELMO_MIRROR: cannot download weights.hdf5" in caplog.text
    assert problem in caplog.text
    assert not (cache / "tiny" / "weights.hdf5").exists()


@pytest.mark.parametrize("name", ["weights.safetensors", "encoder.pkl", "model.hdf5"])
def test_known_weights_are_not_replaced_in_another_format(
    published: PublishedModel, mirror: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("safetensors")
    convert_weights(TINY / "weights.hdf5", mirror / "tiny" / "weights.safetensors")
    monkeypatch.setenv("ELMO_MIRROR", str(mirror))
    files = replace(published, files=("options.json", name))
    monkeypatch.setattr(registry, "MODELS", (*MODELS, files))
    (mirror / "tiny" / "weights.safetensors").rename(mirror / "tiny" / name)
    with pytest.raises(ModelError, match=r"cannot download weights\.hdf5"):
        find_model("tiny")
    source = mirror / "tiny" / name
    result = elmo("download", "tiny", "--from", TINY / "options.json", "--from", source)
    assert result.exit_code == 1
    assert "the SHA-256 must be" in result.stderr or "no token_embedder" in result.stderr
    assert not [path for path in (cache / "tiny").iterdir() if path.name != "options.json"]


def test_a_mirror_has_all_files_of_many_langs(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = GOLDEN / "many-langs" / "both"
    names = ("config.json", "char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl")
    folder = folder_with(tmp_path / "mirror" / "many-langs-la", *names)
    for name in names[1:]:
        shutil.copy(source / name, folder)
    # The package has the architecture of the published models.
    config = {"config_path": "configs/cnn_50_100_512_4096_sample.json"}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("ELMO_MIRROR", str(tmp_path / "mirror"))
    assert find_model("many-langs-la").weights == cache / "many-langs-la" / "encoder.pkl"
    assert {path.name for path in (cache / "many-langs-la").iterdir()} == set(names)


def test_mirror_address_is_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELMO_MIRROR", raising=False)
    assert mirror_address() is None
    for text, url in (
        ("https://example.org/elmo/", "https://example.org/elmo"),
        ("file:///srv/elmo", "file:///srv/elmo"),
        (str(tmp_path), tmp_path.as_uri()),
    ):
        monkeypatch.setenv("ELMO_MIRROR", text)
        assert mirror_address() == url


# Import.


def test_download_from_a_folder_a_zip_and_files(
    published: PublishedModel, cache: Path, tmp_path: Path
) -> None:
    files = {name: (TINY / name).read_bytes() for name in ("options.json", "weights.hdf5")}
    elsewhere = tmp_path / "elmo_2x16_weights.hdf5"
    shutil.copy(TINY / "weights.hdf5", elsewhere)
    for sources in (
        [TINY],
        [zip_with(tmp_path / "tiny.zip", files)],
        [elsewhere, TINY / "options.json"],
    ):
        arguments = [argument for source in sources for argument in ("--from", source)]
        result = elmo("download", "tiny", *arguments)
        assert (result.exit_code, result.stdout) == (0, f"{cache / 'tiny'}\n")
        assert find_model("tiny").weights.read_bytes() == files["weights.hdf5"]
        shutil.rmtree(cache / "tiny")


def test_download_from_refuses_other_and_incomplete_models(
    published: PublishedModel, cache: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "options.json").write_bytes(OPTIONS)
    weights_file(other / "weights.hdf5")
    for source, message in (
        (other, "the SHA-256 must be"),
        (
            TINY / "options.json",
            "expected weights.hdf5 too, found none. Give it with another --from.",
        ),
        (
            TINY / "weights.hdf5",
            "expected options.json too, found none. Give it with another --from.",
        ),
        (TINY / "sentences.json", "unknown kind of file"),
        (tmp_path / "missing", "no such file or folder"),
    ):
        result = elmo("download", "tiny", "--from", source)
        assert result.exit_code == 1
        assert message in result.stderr
        assert find_files(cache) == []
    assert_fails(
        elmo("download", "mini", "--from", TINY),
        "mini: the model is bundled with elmo-cli. Import is unnecessary.",
    )
    assert "Did you mean 'original'?" in elmo("download", "orignal", "--from", TINY).stderr


def test_download_from_takes_a_model_of_many_langs(cache: Path) -> None:
    source = GOLDEN / "many-langs" / "both"
    assert import_model("many-langs-la", [source]) == cache / "many-langs-la"
    assert find_model("many-langs-la").weights.name == "encoder.pkl"


def find_files(folder: Path) -> list[str]:
    """Return the names of all visible files below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.name for path in files if not path.name.startswith("."))
