import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from website import (
    Answer,
    Site,
    _Handler,
    breaks_off,
    claims,
    newer,
    other_part,
    redirects,
    status,
    weights_file,
    whole,
    without_length,
    without_ranges,
)

from elmo_cli.errors import ModelError
from elmo_cli.pretrained.download import download
from elmo_cli.pretrained.integrity import hdf5_fault, json_fault

CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("ELMO_ALLOW_HTTP", "1")
    monkeypatch.setattr("elmo_cli.pretrained.download._PAUSE_SECONDS", 0.0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Site()
    yield server
    server.close()


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "weights.hdf5"


def only_file_is(destination: Path) -> bool:
    lock = f".{destination.name}.lock"
    return {path.name for path in destination.parent.iterdir()} == {destination.name, lock}


def test_gets_a_file_and_tells_of_it(site: Site, destination: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    url = site.put("/file", CONTENT)
    download([url], destination, len(CONTENT), on_progress=lambda *now: seen.append(now))
    assert destination.read_bytes() == CONTENT
    assert seen[-1] == ("weights.hdf5", len(CONTENT), len(CONTENT))
    assert [n_bytes for _, n_bytes, _ in seen] == sorted(n_bytes for _, n_bytes, _ in seen)
    assert only_file_is(destination)


def test_names_itself(site: Site, destination: Path) -> None:
    download([site.put("/file", CONTENT)], destination)
    assert "elmo-cli" in site.requests[0][1]["User-Agent"]
    assert "urllib" not in site.requests[0][1]["User-Agent"]


def test_a_file_that_is_there_needs_no_network(destination: Path) -> None:
    destination.parent.mkdir()
    destination.write_bytes(b"mine")
    download(["https://host.invalid/file"], destination)
    assert destination.read_bytes() == b"mine"


def test_goes_on_where_it_broke_off(site: Site, destination: Path) -> None:
    url = site.put("/file", CONTENT, breaks_off(1000), status(503))
    download([url], destination)
    assert destination.read_bytes() == CONTENT
    assert site.ranges() == [None, "bytes=1000-", "bytes=1000-"]
    assert only_file_is(destination)


def test_goes_on_in_the_next_run(site: Site, destination: Path) -> None:
    url = site.put("/file", CONTENT, breaks_off(1000), *[status(503)] * 3)
    with pytest.raises(ModelError, match=r"status 503"):
        download([url], destination)
    assert not destination.exists()
    assert destination.with_name("weights.hdf5.partial").stat().st_size == 1000
    site.requests.clear()
    download([url], destination)
    assert destination.read_bytes() == CONTENT
    assert site.ranges() == ["bytes=1000-"]


def test_the_host_of_the_first_bytes_is_asked_first(site: Site, destination: Path) -> None:
    first, second = site.put("/1", CONTENT, status(404)), site.put("/2", CONTENT)
    site.answers["/2"] = [breaks_off(1000), *[status(503)] * 3]
    with pytest.raises(ModelError):
        download([first, second], destination)
    site.requests.clear()
    download([first, second], destination)
    assert site.requests[0][0] == "/2"
    assert site.ranges() == ["bytes=1000-"]


def test_bytes_of_two_hosts_are_not_joined(site: Site, destination: Path) -> None:
    first = site.put("/1", b"x" * len(CONTENT), breaks_off(1000), status(404))
    download([first, site.put("/2", CONTENT)], destination)
    assert destination.read_bytes() == CONTENT


def test_bytes_of_two_versions_are_not_joined(site: Site, destination: Path) -> None:
    download([site.put("/file", CONTENT, breaks_off(1000), newer)], destination)
    assert destination.read_bytes() == CONTENT
    assert site.requests[1][1]["If-Range"] == '"1"'


@pytest.mark.parametrize("answer", [without_ranges, other_part, status(416), status(206)])
def test_a_server_that_does_not_go_on_starts_over(
    site: Site, destination: Path, answer: Answer
) -> None:
    first, second = site.put("/1", CONTENT, breaks_off(1000), answer), site.put("/2", CONTENT)
    download([first, second], destination)
    assert destination.read_bytes() == CONTENT


def test_a_complete_partial_file_is_not_asked_for(site: Site, destination: Path) -> None:
    url = site.put("/file", CONTENT)
    with pytest.raises(ZeroDivisionError):  # as if killed between the last byte and the check
        download([url], destination, check=lambda _path: str(1 / 0))
    download([url], destination)
    assert destination.read_bytes() == CONTENT
    assert len(site.requests) == 1


def test_a_length_is_not_needed(site: Site, destination: Path) -> None:
    download([site.put("/file", CONTENT, without_length)], destination)
    assert destination.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (status(403), "status 403 Forbidden"),
        (status(404), "status 404 Not Found"),
        (status(406), "status 406 Not Acceptable"),
        (status(204), "status 204, expected 200"),
        (claims(1000), "cut off: expected"),
        (lambda handler, _content: handler.send(200, b"<html>Sorry</html>"), "found a web page"),
        (lambda handler, _content: handler.send(200, b""), "found an empty file"),
        (lambda handler, content: handler.send(200, content[:-1]), "cut off: expected"),
    ],
)
def test_the_next_mirror_is_tried(
    site: Site, destination: Path, tmp_path: Path, answer: Answer, fault: str
) -> None:
    weights = weights_file(tmp_path / "weights").read_bytes()
    bad, good = site.put("/bad", weights, answer, answer), site.put("/good", weights)
    download([bad, good], destination, check=hdf5_fault)
    assert destination.read_bytes() == weights
    assert [path for path, _ in site.requests] == ["/bad", "/good"]
    with pytest.raises(ModelError, match=fault):
        download([bad], destination.with_name("other"), check=hdf5_fault)
    assert not destination.with_name("other.partial").exists()


@pytest.mark.parametrize("then", [claims(2 * len(CONTENT)), whole, status(503)])
def test_a_server_that_claims_too_much_is_given_up(
    site: Site, destination: Path, then: Answer
) -> None:
    url = site.put("/file", CONTENT, *[claims(2 * len(CONTENT)), then] * 50)
    with pytest.raises(
        ModelError, match=r"broke off after 1,024,000 of 2,048,000|status (416|503)"
    ):
        download([url], destination)
    assert len(site.requests) < 10


@pytest.mark.parametrize("answer", [whole, without_length])
def test_another_size_than_expected_is_refused(
    site: Site, destination: Path, answer: Answer
) -> None:
    url = site.put("/file", CONTENT, answer)
    with pytest.raises(ModelError, match=r"expected 1,000 bytes, .* 1,\d\d\d,\d\d\d|or more"):
        download([url], destination, expected_bytes=1000)
    assert not destination.exists()


def test_the_error_names_every_url_and_the_place(site: Site, destination: Path) -> None:
    first, second = site.put("/1", b"", status(403)), site.put("/2", b"<p>", whole)
    with pytest.raises(ModelError) as caught:
        download([first, second, "file:///etc/passwd"], destination, check=json_fault)
    assert str(caught.value) == (
        f"cannot download weights.hdf5, tried {first} (status 403 Forbidden), "
        f"{second} (expected a JSON object, found a web page), "
        "file:///etc/passwd (expected an https URL, found file:); "
        f"if you can get it elsewhere, save it as {destination}"
    )


def test_follows_redirects(site: Site, destination: Path) -> None:
    target = site.put("/target", CONTENT)
    download([site.put("/file", b"", redirects(target))], destination)
    assert destination.read_bytes() == CONTENT


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/file"])
def test_redirects_only_lead_to_the_web(site: Site, destination: Path, target: str) -> None:
    with pytest.raises(ModelError, match=r"tried http://127"):
        download([site.put("/file", b"", redirects(target))], destination)
    assert not destination.exists()


def test_http_must_be_allowed(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELMO_ALLOW_HTTP")
    url = site.put("/file", CONTENT)
    with pytest.raises(ModelError, match=r"not encrypted; ELMO_ALLOW_HTTP=1 allows http"):
        download([url], destination)
    assert site.requests == []
    monkeypatch.setenv("ELMO_ALLOW_HTTP", "1")
    download([url], destination)
    assert destination.exists()


@pytest.mark.parametrize("url", ["https://", "https://host.invalid:x/", "https://a b/", "nothing"])
def test_a_url_that_is_none_is_one_line(site: Site, destination: Path, url: str) -> None:
    with pytest.raises(ModelError, match=r"^cannot download weights.hdf5, tried .*$"):
        download([url], destination)


def test_a_host_that_does_not_answer(site: Site, destination: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ModelError, match=r"Connection refused"):
        download([f"http://127.0.0.1:{port}/file"], destination)


def test_a_full_disk_is_one_line(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, mode: str) -> Any:
        return open("/dev/full", mode, buffering=0)

    url = site.put("/file", CONTENT)
    monkeypatch.setattr("elmo_cli.pretrained.transfer.open", full, raising=False)
    with pytest.raises(ModelError, match=rf"^cannot write {destination}: No space left .*room"):
        download([url], destination)


def test_a_folder_that_cannot_be_made_is_one_line(site: Site, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    with pytest.raises(ModelError, match=r"cannot write .*; ELMO_CACHE names another folder"):
        download([site.put("/file", CONTENT)], tmp_path / "cache" / "file")


def test_proxies_of_the_environment_are_used(
    site: Site, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", site.url)
    monkeypatch.delenv("no_proxy", raising=False)
    site.files["http://host.invalid/file"] = CONTENT
    download(["http://host.invalid/file"], destination)
    assert destination.read_bytes() == CONTENT


def test_two_processes_download_once(site: Site, destination: Path) -> None:
    go_on = threading.Event()

    def waits(handler: _Handler, content: bytes) -> None:
        go_on.wait()
        whole(handler, content)

    url = site.put("/file", CONTENT, waits)
    program = (
        "import logging, sys; from pathlib import Path; "
        "from elmo_cli.pretrained.download import download; "
        "logging.basicConfig(level=logging.INFO); download([sys.argv[1]], Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, url, str(destination)]
    read_end, write_end = os.pipe()
    with open(read_end) as messages:
        processes = [subprocess.Popen(command, stderr=write_end) for _ in range(2)]
        os.close(write_end)
        # One of them says that it waits; which one is chance.
        assert "waiting for another process" in messages.readline()
        go_on.set()
        assert [process.wait() for process in processes] == [0, 0], messages.read()
    assert len(site.requests) == 1
    assert destination.read_bytes() == CONTENT
