"""Downloads from a server on this machine, good and bad."""

import hashlib
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from website import (
    Answer,
    Site,
    _Handler,
    breaks_off,
    redirects,
    status,
    weights_file,
    whole,
    without_length,
)

from elmo_cli.errors import ModelError
from elmo_cli.model.options import read_options
from elmo_cli.model.tensor_files import open_tensors
from elmo_cli.pretrained.download import download

CONTENT = bytes(range(256)) * 4000


def no_check(path: Path) -> None:
    """Take every file."""


def open_weights(path: Path) -> None:
    with open_tensors(path):
        pass


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache" / "weights.hdf5"


def assert_nothing_left(destination: Path) -> None:
    assert list(destination.parent.iterdir()) == []


def test_a_file_appears_under_its_name_and_progress_is_reported(
    site: Site, destination: Path
) -> None:
    seen: list[tuple[str, int, int | None]] = []

    def see(name: str, n_bytes: int, total: int | None) -> None:
        assert not destination.exists()
        seen.append((name, n_bytes, total))

    url = site.put("/file", CONTENT)
    download([url], destination, no_check, on_progress=see)
    assert destination.read_bytes() == CONTENT
    assert seen[-1] == ("weights.hdf5", len(CONTENT), len(CONTENT))
    assert list(destination.parent.iterdir()) == [destination]
    # One of the hosts refuses urllib's own name.
    assert "elmo-cli" in site.requests[0][1]["User-Agent"]
    assert "urllib" not in site.requests[0][1]["User-Agent"]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (status(403), "status 403 Forbidden"),
        (status(503), "status 503 Service Unavailable"),
        (breaks_off(1000), "broke off after 1,000 of"),
        (lambda handler, content: handler.send(200, content[:-1]), "cut off"),
        (
            lambda handler, _content: handler.send(200, b"<html>Sorry</html>"),
            r"expected a weights file \(HDF5\), found something else",
        ),
    ],
)
def test_the_next_mirror_is_tried(
    site: Site, destination: Path, tmp_path: Path, answer: Answer, fault: str
) -> None:
    weights = weights_file(tmp_path / "weights").read_bytes()
    bad, good = site.put("/bad", weights, answer, answer), site.put("/good", weights)
    download([bad, good], destination, open_weights)
    assert destination.read_bytes() == weights
    assert [path for path, _ in site.requests] == ["/bad", "/good"]
    destination.unlink()
    with pytest.raises(ModelError, match=fault):
        download([bad], destination, open_weights)
    assert_nothing_left(destination)


def test_a_file_of_another_checksum_is_refused(site: Site, destination: Path) -> None:
    good, bad = hashlib.sha256(CONTENT).hexdigest(), "0" * 64
    url = site.put("/file", CONTENT, without_length)
    with pytest.raises(ModelError, match=rf"expected the sha256 {bad}, found {good}"):
        download([url], destination, no_check, bad)
    assert_nothing_left(destination)
    download([url], destination, no_check, good)
    assert destination.read_bytes() == CONTENT


def test_the_error_names_every_url_and_the_place(site: Site, destination: Path) -> None:
    first, second = site.put("/1", b"", status(403)), site.put("/2", b"<p>", whole)
    with pytest.raises(ModelError) as caught:
        download([first, second, "file:///etc/passwd"], destination, read_options)
    assert str(caught.value) == (
        f"cannot download weights.hdf5, tried {first} (status 403 Forbidden), {second} (expected "
        "JSON, found an error at line 1, column 1 (Expecting value)), "
        "file:///etc/passwd (expected an https URL, found file:); "
        f"if you can get it elsewhere, save it as {destination}"
    )


def test_redirects_are_followed_on_the_web_only(site: Site, destination: Path) -> None:
    target = site.put("/target", CONTENT)
    download([site.put("/file", b"", redirects(target))], destination, no_check)
    assert destination.read_bytes() == CONTENT
    for elsewhere in ("file:///etc/passwd", "ftp://127.0.0.1/file"):
        url = site.put("/file", b"", redirects(elsewhere))
        with pytest.raises(ModelError, match=r"^cannot download other, tried http://127"):
            download([url], destination.with_name("other"), no_check)


def test_http_must_be_allowed(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELMO_ALLOW_HTTP")
    with pytest.raises(ModelError, match=r"not encrypted; ELMO_ALLOW_HTTP=1 allows http"):
        download([site.put("/file", CONTENT)], destination, no_check)
    assert site.requests == []


@pytest.mark.parametrize("url", ["https://", "https://host:x/", "https://a b/", "https://[::1]:9/"])
def test_a_url_that_gives_nothing_is_one_line(destination: Path, url: str) -> None:
    with pytest.raises(ModelError, match=r"^cannot download weights.hdf5, tried .*$"):
        download([url], destination, no_check)


def test_a_full_disk_is_one_line(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, mode: str) -> Any:
        return open("/dev/full", "wb", buffering=0)

    url = site.put("/file", CONTENT)
    monkeypatch.setattr("elmo_cli.pretrained.download.open", full, raising=False)
    with pytest.raises(ModelError, match=rf"^cannot write {destination}: No space left .*room"):
        download([url], destination, no_check)


def test_a_bug_is_no_bad_mirror(site: Site, destination: Path) -> None:
    def fails(path: Path) -> None:
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        download([site.put("/file", CONTENT)], destination, fails)
    assert_nothing_left(destination)


def test_two_processes_download_once(site: Site, tmp_path: Path) -> None:
    go_on = threading.Event()

    def waits(handler: _Handler, content: bytes) -> None:
        go_on.wait()
        whole(handler, content)

    url = site.put("/vocab.txt", b"<S>\n</S>\n<UNK>\n", waits)
    program = (
        "import logging, os, sys; os.environ['ELMO_CACHE'] = sys.argv[2]; "
        "from elmo_cli.pretrained.cache import local_file; "
        "logging.basicConfig(level=logging.INFO); local_file(sys.argv[1], 'vocabulary')"
    )
    command = [sys.executable, "-c", program, url, str(tmp_path / "cache")]
    with open(tmp_path / "log", "w") as log:
        processes = [subprocess.Popen(command, stderr=log) for _ in range(2)]
    while "waiting for another process" not in (tmp_path / "log").read_text():
        assert any(process.poll() is None for process in processes)
        time.sleep(0.05)
    go_on.set()
    assert [process.wait() for process in processes] == [0, 0], (tmp_path / "log").read_text()
    assert len(site.requests) == 1
