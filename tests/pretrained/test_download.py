"""Downloads from a server on this machine, good and bad."""

import http.client
import io
import logging
import re
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.model.options_json import read_architecture
from elmo_cli.model.tensor_files import open_tensors
from elmo_cli.pretrained.download import download_file, is_allowed
from elmo_cli.pretrained.published import _download_archive
from elmo_cli.pretrained.registry import MODELS
from elmo_cli.pretrained.url_files import download_if_url
from tests.support.commands import Forked, Terminal
from tests.support.website import (
    WEIGHTS,
    Answer,
    Site,
    _Handler,
    breaks_off,
    redirects,
    status,
    whole,
)

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


def test_a_file_appears_under_its_name_when_it_is_checked(
    site: Site, destination: Path
) -> None:
    def check(path: Path) -> None:
        assert path.read_bytes() == CONTENT
        assert not destination.exists()

    url = site.put(
        "/file", CONTENT, lambda it, body: it.send(200, body, Content_Length=None)
    )
    download_file([url], destination, check)
    assert destination.read_bytes() == CONTENT
    assert list(destination.parent.iterdir()) == [destination]
    # One of the hosts refuses urllib's own name.
    assert "elmo-cli" in site.requests[0][1]["User-Agent"]
    assert "urllib" not in site.requests[0][1]["User-Agent"]


def test_progress_is_shown_on_terminals_with_other_messages(
    site: Site,
    destination: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
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
        assert (
            ("weights.hdf5: 100%" in stream.getvalue())
            == bool(stream.getvalue())
            == shows
        )


def test_the_error_names_the_last_host_and_the_log_the_others(
    site: Site, destination: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "elmo_cli")
    first = site.put("/1", b"", status(403))
    second = site.put("/2", b"<p>")
    reason = "not valid JSON, line 1, column 1"
    advice = r"If you can get the file elsewhere, give its path in place of the URL\."
    message = rf"^cannot download {second}: {reason}\. {advice}$"
    with pytest.raises(ModelError, match=message):
        download_file([first, second], destination, read_architecture)
    assert (
        f"cannot download {first}: HTTP Error 403: Forbidden. Trying another address."
        in caplog.messages
    )


def test_http_must_be_allowed(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELMO_ALLOW_HTTP")
    with pytest.raises(
        ModelError, match=r"http.*: not an https URL. Set ELMO_ALLOW_HTTP=1"
    ):
        download_file([site.put("/file", CONTENT)], destination, no_check)
    assert site.requests == []


def test_http_is_not_tried_after_https_unless_allowed(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http_url = site.put("/file", CONTENT)
    unreachable = "https://127.0.0.1:9/file"
    monkeypatch.delenv("ELMO_ALLOW_HTTP")
    message = (
        f"mine: cannot download {unreachable}: Connection refused. Check the network."
    )
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        download_file(
            [unreachable, http_url],
            destination,
            no_check,
            model="mine",
            advice="Check the network.",
        )
    assert site.requests == []
    monkeypatch.setenv("ELMO_ALLOW_HTTP", "1")
    download_file([unreachable, http_url], destination, no_check)
    assert destination.read_bytes() == CONTENT


@pytest.fixture
def https_without_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server answer for https too, by a connection without encryption."""
    monkeypatch.setattr(
        "urllib.request.HTTPSHandler.https_open",
        lambda self, request: self.do_open(http.client.HTTPConnection, request),
        raising=False,
    )


@pytest.mark.usefixtures("https_without_encryption")
def test_http_is_named_if_the_https_server_answers_with_an_error(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = site.put("/gone", b"", status(404)).replace("http:", "https:")
    monkeypatch.delenv("ELMO_ALLOW_HTTP")
    with pytest.raises(
        ModelError, match=r"404: Not Found\. To try http too, set ELMO_ALLOW_HTTP=1\. "
    ):
        download_file([gone, site.put("/file", CONTENT)], destination, no_check)


@pytest.mark.usefixtures("https_without_encryption")
def test_each_step_of_a_redirect_is_checked(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    https = site.url.replace("http:", "https:")
    site.put("/target", CONTENT)
    site.put("/good", b"", redirects(f"{https}/target"))
    monkeypatch.delenv("ELMO_ALLOW_HTTP")
    download_file([f"{https}/good"], destination, no_check)
    destination.unlink()
    for allowed, step in (
        ("0", f"{site.url}/http"),
        ("no", f"{site.url}/http"),
        ("1", f"ftp://{urlsplit(https).netloc}/ftp"),
        ("1", "file:///etc/hostname"),
        ("1", "data:,text"),
    ):
        monkeypatch.setenv("ELMO_ALLOW_HTTP", allowed)
        site.put("/first", b"", redirects(step))
        site.put("/http", b"", redirects(f"{https}/target"))
        site.requests.clear()
        with pytest.raises(ModelError, match=r"^cannot download https:"):
            download_file([f"{https}/first"], destination, no_check)
        assert [path for path, _ in site.requests] == ["/first"]
        assert not list(destination.parent.iterdir())


@pytest.mark.parametrize("allowed", ["1", "true", "Yes", "on"])
def test_http_is_allowed_by_each_value_of_a_flag(
    allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_ALLOW_HTTP", allowed)
    assert is_allowed("http://localhost/file")


def repeats(content: bytes, seconds: float = 0.0) -> Answer:
    def answer(handler: _Handler, _: bytes) -> None:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            while True:
                handler.wfile.write(content)
                time.sleep(seconds)

    return answer


def drips(beginning: bytes, drop: bytes = b"a", seconds: float = 0.05) -> Answer:
    """Answer without an end: a beginning, and the same bytes again and again."""

    def answer(handler: _Handler, _: bytes) -> None:
        with suppress(OSError):
            handler.wfile.write(beginning)
            while True:
                handler.wfile.write(drop)
                time.sleep(seconds)

    return answer


TOO_SLOW = "the server sends less than 1 kB per second"
NO_END = "the server sends lines after the file without end"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def sends(content: bytes, length: object) -> Answer:
    return lambda handler, _: handler.send(200, content, Content_Length=length)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (status(403), "HTTP Error 403: Forbidden"),
        (breaks_off(1000), "the connection ended after 1,000 of"),
        (sends(b"<html>Sorry</html>", 18), "expected weights in HDF5"),
        (repeats(CONTENT), "it is larger than 10 MB, the limit for this file"),
        (sends(b"", 10**21), "it is larger than 10 MB, the limit for this file"),
        (repeats(b".", 0.05), TOO_SLOW),
        (drips(b""), TOO_SLOW),
        (drips(OK + b"X: "), TOO_SLOW),
        (drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.001), TOO_SLOW),
        (drips(CHUNKED), TOO_SLOW),
        (drips(CHUNKED + b"1\r\na\r\n5;"), TOO_SLOW),
        (drips(CHUNKED + b"0\r\n"), TOO_SLOW),
        (drips(CHUNKED + b"0\r\n", b"X: a\r\n" * 10_000, 0.0), NO_END),
        (lambda *_: time.sleep(1), "(The read operation )?timed out"),
        (sends(b"\x89HDF", "9x"), "not a valid weights file|expected weights in HDF5"),
    ],
)
def test_a_bad_answer_is_reported_and_the_next_mirror_tried(
    site: Site,
    destination: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Answer,
    problem: str,
) -> None:
    monkeypatch.setattr("elmo_cli.pretrained.timed_download.TIMEOUT_SECONDS", 0.3)
    bad = site.put("/bad", WEIGHTS, answer, answer)
    good = site.put("/good", WEIGHTS)
    with pytest.raises(ModelError, match=rf"^cannot download {bad}: ({problem})"):
        download_file([bad], destination, open_weights, max_bytes=10_000_000)
    assert not list(destination.parent.iterdir())
    site.requests.clear()
    download_file([bad, good], destination, open_weights, max_bytes=10_000_000)
    assert destination.read_bytes() == WEIGHTS
    assert [path for path, _ in site.requests] == ["/bad", "/good"]


def test_limits_depend_on_the_kind_of_file(site: Site, cache: Path) -> None:
    for role, limit in (
        ("options", "1.0 MB"),
        ("vocabulary", "268 MB"),
        ("weights", "4.3 GB"),
    ):
        url = site.put(
            f"/{role}", b"", lambda it, body: it.send(200, body, Content_Length=10**10)
        )
        with pytest.raises(ModelError, match=f"it is larger than {limit}"):
            download_if_url(url, role)
    assert not cache.exists()


@pytest.mark.parametrize("url", ["https://", "https://host:x/", "https://[::1]:9/"])
def test_an_invalid_url_is_a_one_line_error(destination: Path, url: str) -> None:
    with pytest.raises(ModelError, match=r"^cannot download https:[^<>\n]*$"):
        download_file([url], destination, no_check)


def test_a_full_disk_is_a_one_line_error(site: Site, destination: Path) -> None:
    url = site.put("/file", CONTENT)
    message = "cannot be written: No space left .*ELMO_CACHE"
    with (
        open("/dev/full", "wb", buffering=0) as full,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("elmo_cli.pretrained.download.disk.create", lambda _: full)
        with pytest.raises(ModelError, match=rf"^{destination}: {message}"):
            download_file([url], destination, no_check)


def test_a_bug_is_not_reported_as_a_bad_mirror(site: Site, destination: Path) -> None:
    with pytest.raises(TypeError, match="a bug"):
        download_file(
            [site.put("/", CONTENT)], destination, Mock(side_effect=TypeError("a bug"))
        )
    assert not list(destination.parent.iterdir())


def test_two_processes_download_once(site: Site, tmp_path: Path) -> None:
    go_on = threading.Event()

    def waits(handler: _Handler, content: bytes) -> None:
        go_on.wait()
        whole(handler, content)

    url = site.put("/vocab.txt", b"<S>\n</S>\n<UNK>\n", waits)
    program = (
        "import logging, os, sys; os.environ['ELMO_CACHE'] = sys.argv[2]; "
        "from elmo_cli.pretrained.url_files import download_if_url; "
        "logging.basicConfig(level=logging.INFO); "
        "download_if_url(sys.argv[1], 'vocabulary')"
    )
    command = ["-c", program, url, str(tmp_path / "cache")]
    with open(tmp_path / "log", "w") as log:
        processes = [Forked(*command, stderr=log) for _ in range(2)]
    while "Waiting for another process" not in (tmp_path / "log").read_text():
        assert any(process.poll() is None for process in processes)
        time.sleep(0.05)
    go_on.set()
    assert [process.wait() for process in processes] == [0, 0], (
        tmp_path / "log"
    ).read_text()
    assert len(site.requests) == 1


def test_single_files_at_http_are_only_tried_after_an_archive_if_http_is_allowed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [model] = [each for each in MODELS if each.name == "seqvec"]
    download = Mock(side_effect=ModelError("no network"))
    monkeypatch.setattr("elmo_cli.pretrained.published.download_file", download)
    with pytest.raises(ModelError, match="no network"):
        _download_archive(model, tmp_path)
    monkeypatch.setenv("ELMO_ALLOW_HTTP", "1")
    _download_archive(model, tmp_path)
