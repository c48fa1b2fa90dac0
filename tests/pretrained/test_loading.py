"""Names, files, URLs and mirrors of models, and models from other downloads."""

import hashlib
import io
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained import registry
from elmo_cli.pretrained.cache import cache_folder
from elmo_cli.pretrained.checksums import sha256
from elmo_cli.pretrained.convert import convert_weights
from elmo_cli.pretrained.describe import describe_model
from elmo_cli.pretrained.find_model import find_files_by_name, find_files_by_settings
from elmo_cli.pretrained.import_files import import_model
from elmo_cli.pretrained.registry import MODELS, PublishedModel
from elmo_cli.pretrained.roles import FILE_NAMES
from tests.support.commands import TINY, elmo
from tests.support.golden import GOLDEN
from tests.support.website import (
    OPTIONS,
    WEIGHTS,
    Site,
    breaks_off,
    folder_with,
    status,
    zip_with,
)

MANY_LANGS = GOLDEN / "many-langs" / "both"
VOCABULARY = b"<S>\n</S>\n<UNK>\n"

pytestmark = pytest.mark.usefixtures("cache")


def publish(model: PublishedModel, monkeypatch: pytest.MonkeyPatch) -> PublishedModel:
    monkeypatch.setattr(registry, "MODELS", (*MODELS, model))
    return model


@pytest.fixture
def published(site: Site, monkeypatch: pytest.MonkeyPatch) -> PublishedModel:
    """Publish a model `tiny` on the test's server, with two mirrors of each file."""
    files = {
        "options": OPTIONS,
        "weights": WEIGHTS,
        "softmax": WEIGHTS,
        "vocabulary": VOCABULARY,
    }
    urls = {
        role: [f"{site.url}/gone/{role}", site.put(f"/{FILE_NAMES[role]}", content)]
        for role, content in files.items()
    }
    checksum = hashlib.sha256(WEIGHTS).hexdigest()
    model = PublishedModel(
        "tiny", language_code="en", weights_sha256=checksum, urls=urls
    )
    return publish(model, monkeypatch)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> PublishedModel:
    """Publish a model named `tiny` at addresses that all fail."""
    urls = {role: [f"https://127.0.0.1:1/{role}"] for role in ("options", "weights")}
    checksum = sha256(TINY / "weights.hdf5")
    return publish(
        PublishedModel("tiny", weights_sha256=checksum, urls=urls), monkeypatch
    )


@pytest.fixture
def mirror(
    tmp_path: Path, offline: PublishedModel, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Create a mirror with `tiny`, as a copy of a cache, and return its folder."""
    folder = folder_with(tmp_path / "mirror" / "tiny")
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(TINY / name, folder)
    monkeypatch.setenv("ELMO_MIRROR", str(folder.parent))
    return folder


def test_the_default_is_the_bundled_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path / "mini", "options.json", "weights.hdf5", "vocab.txt")
    monkeypatch.setattr("elmo_cli.pretrained.cache.BUNDLED_FOLDER", folder)
    for name in (None, "mini", "MINI"):
        files = find_files_by_name(name)
        assert files.name == "mini"
        assert files.weights.parent == folder
    assert not cache_folder().exists()


def test_the_environment_names_another_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path / "mine", "options.json", "weights.hdf5")
    monkeypatch.setenv("ELMO_MODEL", str(folder))
    files = find_files_by_name()
    assert files.name == str(folder)
    assert files.weights == folder / "weights.hdf5"
    monkeypatch.setenv("ELMO_MODEL", "nope")
    for find in (find_files_by_name, describe_model):
        with pytest.raises(
            ModelError, match=r"^ELMO_MODEL: nope: no such model\. Choose one "
        ):
            find()


def test_a_folder_with_the_name_of_a_model_logs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_files_by_name("mini").name == "mini"
    assert caplog.messages == []
    Path("mini").mkdir()
    find_files_by_name("mini")
    assert caplog.messages == [
        "mini means the published model. For the folder, use ./mini."
    ]


def test_a_published_model_is_downloaded_once(
    published: PublishedModel, site: Site
) -> None:
    assert describe_model("tiny")["status"] == "available"
    files = find_files_by_name("Tiny")
    assert files.name == "tiny"
    assert files.options.read_bytes() == OPTIONS
    assert files.vocabulary is None
    assert describe_model("tiny")["status"] == "downloaded"
    site.requests.clear()
    assert find_files_by_name("tiny") == files
    assert site.requests == []


def test_an_interrupted_download_leaves_no_file(
    published: PublishedModel, site: Site, cache: Path
) -> None:
    site.answers["/weights.hdf5"] = [breaks_off(100)]
    message = r"connection ended .* run `elmo download tiny --from FOLDER`\.$"
    with pytest.raises(ModelError, match=message):
        find_files_by_name("tiny")
    assert [path.name for path in (cache / "tiny").iterdir()] == ["options.json"]
    assert find_files_by_name("tiny").weights.read_bytes() == WEIGHTS


def test_a_file_of_another_checksum_is_refused(
    published: PublishedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(replace(published, name="other", weights_sha256="0" * 64), monkeypatch)
    with pytest.raises(
        ModelError, match=rf"must be {'0' * 64}, not {published.weights_sha256}"
    ):
        find_files_by_name("other")


def test_a_model_is_found_in_a_published_zip(
    site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"options.json": OPTIONS, "model.hdf5": WEIGHTS}
    whole = zip_with(io.BytesIO(), members, zipfile.ZIP_STORED).getvalue()
    damaged = whole.replace(OPTIONS, bytes(len(OPTIONS)))
    archives = enumerate([b"<html>", whole[:-30], damaged, whole])
    urls = [site.put(f"/{number}.zip", content) for number, content in archives]
    publish(PublishedModel("zipped", "Latin", urls={"archive": urls}), monkeypatch)
    files = find_files_by_name("zipped")
    assert len(site.requests) == 4
    assert files.weights == cache / "zipped" / "model.hdf5"
    assert not (cache / "zipped" / "archive.zip").exists()
    site.requests.clear()
    assert find_files_by_name("zipped") == files
    assert site.requests == []


def test_single_files_are_tried_after_the_archive(
    site: Site, published: PublishedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = {"archive": [site.url + "/gone.zip"], **published.urls}
    publish(replace(published, name="both", urls=urls), monkeypatch)
    site.answers["/weights.hdf5"] = [status(404)]
    with pytest.raises(
        ModelError, match=r"^both: cannot download .*/weights\.hdf5: HTTP Error 404"
    ):
        find_files_by_name("both")
    assert find_files_by_name("both").weights.name == "weights.hdf5"


def test_paths_are_returned_unchanged(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", "o.json", "w.hdf5", "vocab.txt")
    (folder / "o.json").write_bytes(OPTIONS)
    files = find_files_by_settings(
        ModelSettings(
            options_file=str(folder / "o.json"), weight_file=folder / "w.hdf5"
        )
    )
    assert files.name == str(folder / "w.hdf5")
    assert files.options == folder / "o.json"
    assert files.vocabulary == folder / "vocab.txt"
    settings = ModelSettings(options_file=folder / "o.json", weight_file="w")
    assert find_files_by_settings(settings).vocabulary is None


def test_urls_are_downloaded_once(site: Site, cache: Path) -> None:
    weights = site.put("/b/..%2Fw%20.hdf5?x=/y", WEIGHTS)
    settings = ModelSettings(
        options_file=site.put("/a/o.json", OPTIONS),
        weight_file=weights,
        vocabulary_file=site.put("/v", VOCABULARY),
    )
    files = find_files_by_settings(settings)
    assert files.name == weights
    assert files.options.name == "o.json"
    assert files.weights.read_bytes() == WEIGHTS
    assert files.weights.parent.parent == cache / "urls"
    site.requests.clear()
    assert find_files_by_settings(settings) == files
    assert site.requests == []


def test_known_urls_lead_to_the_model(
    published: PublishedModel, site: Site, cache: Path
) -> None:
    files = find_files_by_settings(
        ModelSettings(
            options_file=published.urls["options"][0],
            weight_file=published.urls["weights"][0],
        )
    )
    assert files.name == "tiny"
    assert files.weights == cache / "tiny" / "weights.hdf5"
    assert files.language == "en"
    assert files == find_files_by_name("tiny")


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for elmo_cache, xdg_cache_home, folder in (
        ("/a", "/b", "/a"),
        ("~/models", "/b", "/home/me/models"),
        ("", "/b", "/b/elmo-cli"),
        ("", "", "/home/me/.cache/elmo-cli"),
    ):
        monkeypatch.setenv("ELMO_CACHE", elmo_cache)
        monkeypatch.setenv("XDG_CACHE_HOME", xdg_cache_home)
        assert cache_folder() == Path(folder)


def test_mirror_is_tried_before_published_addresses(
    mirror: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = mirror.parent.as_uri()
    for address in (str(mirror.parent), uri, f"{uri}/"):
        monkeypatch.setenv("ELMO_MIRROR", address)
        assert find_files_by_name("tiny").weights == cache / "tiny" / "weights.hdf5"
        names = {path.name for path in (cache / "tiny").iterdir()}
        assert names == {"options.json", "weights.hdf5"}
        shutil.rmtree(cache / "tiny")


def test_mirror_is_tried_before_the_published_address_of_a_file(
    published: PublishedModel,
    site: Site,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = folder_with(tmp_path / "mirror" / "tiny")
    (folder / "options.json").write_bytes(OPTIONS)
    (folder / "weights.hdf5").write_bytes(WEIGHTS)
    monkeypatch.setenv("ELMO_MIRROR", str(folder.parent))
    settings = ModelSettings(
        options_file=published.urls["options"][1],
        weight_file=published.urls["weights"][1],
    )
    assert find_files_by_settings(settings).weights == cache / "tiny" / "weights.hdf5"
    assert site.requests == []


def test_mirror_on_the_web_gives_the_softmax_on_demand(
    mirror: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mirror / "softmax.hdf5").write_bytes(WEIGHTS)
    (mirror / "vocab.txt").write_bytes(VOCABULARY)
    for path in mirror.iterdir():
        site.put(f"/models/tiny/{path.name}", path.read_bytes())
    monkeypatch.setenv("ELMO_MIRROR", f"{site.url}/models/")
    assert find_files_by_name("tiny").softmax is None
    assert find_files_by_name("tiny", with_softmax=True).softmax is not None


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"changed", ""), (WEIGHTS, "weights.hdf5: wrong content: the SHA-256 must be")],
    ids=["damaged", "other"],
)
def test_a_damaged_mirror_is_reported_and_leaves_no_file(
    content: bytes,
    problem: str,
    mirror: Path,
    cache: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (mirror / "weights.hdf5").write_bytes(content)
    with pytest.raises(
        ModelError,
        match=r"tiny: cannot download .*/weights: .*ELMO_MIRROR.*--from FOLDER",
    ):
        find_files_by_name("tiny")
    assert "ELMO_MIRROR: cannot download file:" in caplog.text
    assert problem in caplog.text
    assert not (cache / "tiny" / "weights.hdf5").exists()


@pytest.mark.parametrize("name", ["weights.safetensors", "encoder.pkl", "model.hdf5"])
def test_known_weights_are_not_replaced_in_another_format(
    offline: PublishedModel,
    mirror: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    pytest.importorskip("safetensors")
    convert_weights(TINY / "weights.hdf5", mirror / "weights.safetensors")
    source = (mirror / "weights.safetensors").rename(mirror / name)
    publish(replace(offline, files=("options.json", name)), monkeypatch)
    with pytest.raises(ModelError, match=r"cannot download .*/weights: "):
        find_files_by_name("tiny")
    result = elmo("download", "tiny", "--from", TINY / "options.json", "--from", source)
    assert result.exit_code == 1
    assert (
        "the SHA-256 must be" in result.stderr or "no token_embedder" in result.stderr
    )
    assert not [
        path for path in (cache / "tiny").iterdir() if path.name != "options.json"
    ]


def test_a_mirror_has_all_files_of_many_langs(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"char.dic", "word.dic", "token_embedder.pkl", "encoder.pkl"}
    folder = folder_with(tmp_path / "mirror" / "many-langs-la")
    for name in names:
        shutil.copy(MANY_LANGS / name, folder)
    # The package has the architecture of the published models.
    config = {"config_path": "configs/cnn_50_100_512_4096_sample.json"}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("ELMO_MIRROR", str(tmp_path / "mirror"))
    assert (
        find_files_by_name("many-langs-la").weights
        == cache / "many-langs-la" / "encoder.pkl"
    )
    assert {path.name for path in (cache / "many-langs-la").iterdir()} == {
        "config.json",
        *names,
    }


def test_download_from_a_folder_a_zip_and_files(
    offline: PublishedModel, cache: Path, tmp_path: Path
) -> None:
    files = {
        name: (TINY / name).read_bytes() for name in ("options.json", "weights.hdf5")
    }
    zip_file = zip_with(tmp_path / "tiny.zip", files)
    elsewhere = shutil.copy(TINY / "weights.hdf5", tmp_path / "elmo_2x16_weights.hdf5")
    for sources in ([TINY], [zip_file], [elsewhere, TINY / "options.json"]):
        arguments = [argument for source in sources for argument in ("--from", source)]
        result = elmo("download", "tiny", *arguments)
        assert result.exit_code == 0, result.stderr
        assert result.stdout == f"{cache / 'tiny'}\n"
        assert find_files_by_name("tiny").weights.read_bytes() == files["weights.hdf5"]
        shutil.rmtree(cache / "tiny")
    # The new weights are there before the old ones go.
    import_model("tiny", [TINY])
    new = shutil.copy(TINY / "weights.hdf5", tmp_path / "model.hdf5")
    removed = []

    def remove(path: Any, **_: Any) -> None:
        if Path(path).parent == cache / "tiny":
            removed.append(Path(path).name)
            assert (cache / "tiny" / "weights.hdf5").exists()
        Path(path).unlink(missing_ok=True)

    old = (cache / "tiny" / "weights.hdf5").rename(cache / "tiny" / "model.hdf5")
    with patch("elmo_cli.pretrained.import_files.disk.remove", remove):
        import_model("tiny", [new, TINY / "options.json"])
    assert "model.hdf5.elmo-old" in removed
    assert not old.exists()
    assert import_model("many-langs-la", [MANY_LANGS]) == cache / "many-langs-la"
    assert find_files_by_name("many-langs-la").weights.name == "encoder.pkl"
