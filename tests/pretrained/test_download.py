"""Downloads from a server on this machine, good and bad."""

import io
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Terminal
from website import (
    Answer,
    Site,
    _Handler,
    breaks_off,
    redirects,
    status,
    weights_file,
    whole,
)

from elmo_cli.errors import ModelError
from elmo_cli.model.model_options import read_options
from elmo_cli.model.weights import open_tensors
from elmo_cli.pretrained.cache import download_file

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


def test_a_file_appears_under_its_name_when_it_is_checked(site: Site, destination: Path) -> None:
    def check(path: Path) -> None:
        assert path.read_bytes() == CONTENT
        assert not destination.exists()

    url = site.put("/file", CONTENT, lambda it, body: it.send(200, body, Content_Length=None))
    download_file([url], destination, check)
    assert destination.read_bytes() == CONTENT
    assert list(destination.parent.iterdir()) == [destination]
    # One of the hosts refuses urllib's own name.
    assert "elmo-cli" in site.requests[0][1]["User-Agent"]
    assert "urllib" not in site.requests[0][1]["User-Agent"]


def test_progress_is_shown_on_terminals_with_other_messages(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = site.put("/file", CONTENT)
    for stream, level, shows in (
        (Terminal(), logging.INFO, True),
        (Terminal(), logging.WARNING, False),
        (io.StringIO(), logging.INFO, False),
    ):
        caplog.set_level(level, "elmo_cli")
        monkeypatch.setattr(sys, "stderr", stream)
        download_file([url], destination, no_check)
        assert ("weights.hdf5: 100%" in stream.getvalue()) == bool(stream.getvalue()) == shows


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (status(403), "HTTP Error 403: Forbidden"),
        (breaks_off(1000), "the connection ended after 1,000 of"),
        (lambda handler, _: handler.send(200, b"<html>Sorry</html>"), "signature not found"),
    ],
)
def test_the_next_mirror_is_tried(
    site: Site, destination: Path, tmp_path: Path, answer: Answer, fault: str
) -> None:
    weights = weights_file(tmp_path / "weights").read_bytes()
    bad, good = site.put("/bad", weights, answer, answer), site.put("/good", weights)
    download_file([bad, good], destination, open_weights)
    assert destination.read_bytes() == weights
    assert [path for path, _ in site.requests] == ["/bad", "/good"]
    destination.unlink()
    with pytest.raises(ModelError, match=fault):
        download_file([bad], destination, open_weights)
    assert_nothing_left(destination)


def test_the_error_names_every_url_and_the_path(site: Site, destination: Path) -> None:
    first, second = site.put("/1", b"", status(403)), site.put("/2", b"<p>")
    with pytest.raises(ModelError) as caught:
        download_file([first, second], destination, read_options)
    assert str(caught.value) == (
        f"cannot download weights.hdf5, tried {first} (HTTP Error 403: Forbidden), {second} "
        "(expected JSON, found an error: Expecting value: line 1 column 1 (char 0)). "
        f"If you can get it elsewhere, save it as {destination}."
    )


def test_redirects_are_followed_on_the_web_only(site: Site, destination: Path) -> None:
    target = site.put("/target", CONTENT)
    download_file([site.put("/file", b"", redirects(target))], destination, no_check)
    assert destination.read_bytes() == CONTENT
    url = site.put("/file", b"", redirects("file:///etc/passwd"))
    with pytest.raises(ModelError, match=r"^cannot download other, tried http://127"):
        download_file([url], destination.with_name("other"), no_check)


def test_http_must_be_allowed(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELMO_ALLOW_HTTP")
    with pytest.raises(ModelError, match=r"expected an https URL; set ELMO_ALLOW_HTTP=1"):
        download_file([site.put("/file", CONTENT)], destination, no_check)
    assert site.requests == []


@pytest.mark.parametrize("url", ["https://", "https://host:x/", "https://[::1]:9/"])
def test_an_invalid_url_is_a_one_line_error(destination: Path, url: str) -> None:
    with pytest.raises(ModelError, match=r"^cannot download weights.hdf5, tried [^<>\n]*$"):
        download_file([url], destination, no_check)


def test_a_full_disk_is_a_one_line_error(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, mode: str) -> Any:
        return open("/dev/full", "wb", buffering=0)

    url = site.put("/file", CONTENT)
    monkeypatch.setattr("elmo_cli.pretrained.cache.open", full, raising=False)
    with pytest.raises(
        ModelError, match=rf"^{destination}: cannot be written: No space left .*ELMO_CACHE"
    ):
        download_file([url], destination, no_check)


def test_a_bug_is_not_reported_as_a_bad_mirror(site: Site, destination: Path) -> None:
    def fails(path: Path) -> None:
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        download_file([site.put("/file", CONTENT)], destination, fails)
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
    while "Waiting for another process" not in (tmp_path / "log").read_text():
        assert any(process.poll() is None for process in processes)
        time.sleep(0.05)
    go_on.set()
    assert [process.wait() for process in processes] == [0, 0], (tmp_path / "log").read_text()
    assert len(site.requests) == 1
