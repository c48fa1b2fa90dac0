import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from website import OPTIONS, Site, breaks_off, folder_with, status, weights_file, zip_with

from elmo_cli.errors import ModelError
from elmo_cli.pretrained import cache as downloads
from elmo_cli.pretrained import registry
from elmo_cli.pretrained.cache import cache_folder
from elmo_cli.pretrained.find import choose_model, describe_model, find_model
from elmo_cli.pretrained.registry import MODELS, PublishedModel

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def weights(tmp_path: Path) -> bytes:
    return weights_file(tmp_path / "made.hdf5").read_bytes()


@pytest.fixture
def published(site: Site, weights: bytes, monkeypatch: pytest.MonkeyPatch) -> PublishedModel:
    """Publish a model named `tiny` on the test's server, with two mirrors of each file."""
    model = PublishedModel(
        name="tiny",
        language_code="en",
        weights_sha256=hashlib.sha256(weights).hexdigest(),
        urls={
            "options": [site.url + "/gone/options.json", site.put("/options.json", OPTIONS)],
            "weights": [site.url + "/gone/weights.hdf5", site.put("/weights.hdf5", weights)],
            "softmax": [site.put("/softmax.hdf5", weights)],
            "vocabulary": [site.put("/vocab.txt", b"<S>\n</S>\n<UNK>\n")],
        },
    )
    publish(model, monkeypatch)
    return model


def publish(model: PublishedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MODELS", (*MODELS, model))


# Names.


def test_the_default_is_the_bundled_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with(tmp_path / "mini", "options.json", "weights.hdf5", "vocab.txt")
    monkeypatch.setattr(downloads, "BUNDLED_FOLDER", folder)
    for name in (None, "mini", "MINI"):
        files = find_model(name)
        assert (files.name, files.weights.parent) == ("mini", folder)
    assert not cache_folder().exists()


def test_the_environment_names_another_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(tmp_path / "mine", "options.json", "weights.hdf5")
    monkeypatch.setenv("ELMO_MODEL", str(folder))
    assert find_model().weights == folder / "weights.hdf5"
    assert find_model().name == str(folder)
    monkeypatch.setenv("ELMO_MODEL", "nope")
    for find in (find_model, describe_model):
        with pytest.raises(ModelError, match=r"^ELMO_MODEL: nope: no such model\. .* mini, "):
            find()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("orignal", r"orignal: no such model\. Did you mean 'original'\?.* mini, small.*"),
        (
            "nlpl-209",
            r"nlpl-209: no such model\. Did you mean 'nlpl-209-english'\?.* mini, small.*",
        ),
        ("", "the name of the model is empty. Give a name, a folder or a zip file."),
        ("xyzzy", r"xyzzy: no such model\. Choose one of mini, small, .*folder\."),
        *(
            (name, rf"{name}: no such model folder or zip file(\. If it is in the hub, use hf:.*)?")
            for name in ("./small", "models/small", "~/small", "209.zip", "w.hdf5", Path("small"))
        ),
    ],
)
def test_an_unknown_name_is_refused(name: str | Path, message: str) -> None:
    with pytest.raises(ModelError, match=rf"^{message}$"):
        find_model(name)


def test_a_folder_with_the_name_of_a_model_logs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_model("mini").name == "mini"
    assert caplog.messages == []
    Path("mini").mkdir()
    find_model("mini")
    message = "Warning: mini is the published model. The folder is ./mini."
    assert caplog.messages == [message]


# Downloads.


def test_a_published_model_is_downloaded_once(published: PublishedModel, site: Site) -> None:
    assert describe_model("tiny")["state"] == "available"
    files = find_model("Tiny")
    assert files.name == "tiny"
    assert files.options.read_bytes() == OPTIONS
    assert files.vocabulary is None
    assert describe_model("tiny")["state"] == "downloaded"
    site.requests.clear()
    assert find_model("tiny") == files
    assert site.requests == []


def test_the_softmax_comes_on_demand(published: PublishedModel, site: Site) -> None:
    find_model("tiny")
    files = find_model("tiny", with_softmax=True)
    assert files.softmax is not None
    assert files.vocabulary is not None
    assert find_model("tiny") == files


def test_an_interrupted_download_leaves_no_file(
    published: PublishedModel, site: Site, cache: Path, weights: bytes
) -> None:
    site.answers["/weights.hdf5"] = [breaks_off(100)]
    with pytest.raises(
        ModelError, match=r"connection ended .* run `elmo download tiny --from FOLDER`\.$"
    ):
        find_model("tiny")
    names = {path.name for path in (cache / "tiny").iterdir()}
    assert names == {"options.json"}
    assert find_model("tiny").weights.read_bytes() == weights


def test_a_file_of_another_checksum_is_refused(
    published: PublishedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(replace(published, name="other", weights_sha256="0" * 64), monkeypatch)
    with pytest.raises(ModelError, match=rf"must be {'0' * 64}, not {published.weights_sha256}"):
        find_model("other")


def test_a_model_is_found_in_a_published_zip(
    site: Site, tmp_path: Path, cache: Path, weights: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"options.json": OPTIONS, "model.hdf5": weights}
    path = zip_with(tmp_path / "1.zip", members, zipfile.ZIP_STORED)
    urls = (
        site.put("/web.zip", b"<html>"),
        site.put("/cut.zip", path.read_bytes()[:-30]),
        site.put("/damaged.zip", path.read_bytes().replace(OPTIONS, bytes(len(OPTIONS)))),
        site.put("/1.zip", path.read_bytes()),
    )
    publish(PublishedModel("zipped", "Latin", urls={"archive": urls}), monkeypatch)
    files = find_model("zipped")
    assert len(site.requests) == 4
    assert files.weights == cache / "zipped" / "model.hdf5"
    assert not (cache / "zipped" / "archive.zip").exists()
    site.requests.clear()
    assert find_model("zipped") == files
    assert site.requests == []


def test_single_files_are_tried_after_the_archive(
    site: Site, published: PublishedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = {"archive": [site.url + "/gone.zip"], **published.urls}
    publish(replace(published, name="both", urls=urls), monkeypatch)
    site.answers["/weights.hdf5"] = [status(404)]
    with pytest.raises(ModelError, match=r"^cannot download weights.hdf5 from .*: HTTP Error 404"):
        find_model("both")
    assert find_model("both").weights.name == "weights.hdf5"


# Files and URLs.


def test_paths_are_returned_unchanged(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", "o.json", "w.hdf5", "vocab.txt")
    files = choose_model(None, str(folder / "o.json"), folder / "w.hdf5")
    assert files.options == folder / "o.json"
    assert files.name == str(folder / "w.hdf5")
    assert files.vocabulary == folder / "vocab.txt"
    assert choose_model(None, "o", "w").vocabulary is None


def test_urls_are_downloaded_once(site: Site, cache: Path, weights: bytes) -> None:
    options_url = site.put("/a/o.json", OPTIONS)
    weights_url = site.put("/b/..%2Fw%20.hdf5?x=/y", weights)
    vocabulary_url = site.put("/v", b"<S>\n</S>\n<UNK>\n")
    files = choose_model(None, options_url, weights_url, vocabulary_url)
    assert files.name == weights_url
    assert files.weights.read_bytes() == weights
    assert files.weights.parent.parent == cache / "urls"
    assert files.options.name == "o.json"
    assert files.vocabulary is not None
    n_requests = len(site.requests)
    assert choose_model(None, options_url, weights_url, vocabulary_url) == files
    assert len(site.requests) == n_requests


def test_known_urls_lead_to_the_model(published: PublishedModel, site: Site, cache: Path) -> None:
    files = choose_model(None, published.urls["options"][0], published.urls["weights"][0])
    assert (files.name, files.weights) == ("tiny", cache / "tiny" / "weights.hdf5")
    assert files.language == "en"
    assert files == find_model("tiny")


# The cache folder.


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"ELMO_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/elmo-cli"),
        ({"ELMO_CACHE": ""}, "/home/me/.cache/elmo-cli"),
        ({"ELMO_CACHE": "~/models"}, "/home/me/models"),
    ],
)
def test_the_cache_folder(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str
) -> None:
    for name in ("ELMO_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)
