"""A web server on this machine that answers as badly as a test wants."""

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np

Answer = Callable[["_Handler", bytes], None]
"""Function that answers one request for a file."""


class _Handler(BaseHTTPRequestHandler):
    site: "Site"

    def do_GET(self) -> None:
        self.site.requests.append((self.path, dict(self.headers)))
        path = (
            self.path if self.path in self.site.files else self.path.partition("?")[0]
        )
        answers = self.site.answers.get(path, [])
        answer = answers.pop(0) if answers else whole
        if path not in self.site.files:
            answer = status(404)
        answer(self, self.site.files.get(path, b""))

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *arguments: Any) -> None:
        pass

    def send(self, code: int, body: bytes, **headers: object) -> None:
        self.send_response(code)
        for name, value in {"Content_Length": len(body), **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    def handle_error(self, *arguments: Any) -> None:
        pass  # clients may hang up


class Site:
    """A web server on this machine with chosen answers for some requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.answers: dict[str, list[Answer]] = {}
        """The answers to the first requests for a file; the later ones are right."""
        self.requests: list[tuple[str, dict[str, str]]] = []
        handler = type("Handler", (_Handler,), {"site": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,)).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def put(self, path: str, content: bytes, *answers: Answer) -> str:
        self.files[path] = content
        self.answers[path] = list(answers)
        return self.url + path


def whole(handler: _Handler, content: bytes) -> None:
    handler.send(200, content)


def breaks_off(n_bytes: int) -> Answer:
    def answer(handler: _Handler, content: bytes) -> None:
        handler.send(200, content[:n_bytes], Content_Length=len(content))

    return answer


def status(code: int) -> Answer:
    return lambda handler, _content: handler.send(code, b"<html>no</html>")


def redirects(url: str) -> Answer:
    return lambda handler, _content: handler.send(302, b"", Location=url)


COMMIT = "c0ffee" * 6 + "c0ff"


def put_model_on_hub(site: Site, repository: str, files: dict[str, bytes]) -> None:
    """Answer as the Hugging Face hub does for a model of one commit, `main`."""

    def with_headers(handler: _Handler, content: bytes) -> None:
        etag = hashlib.sha256(content).hexdigest()
        handler.send(200, content, ETag=f'"{etag}"', X_Repo_Commit=COMMIT)

    api = f"/api/models/{repository}"
    siblings = [{"rfilename": name} for name in files]
    info = json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode()
    tree = [
        {"type": "file", "path": name, "size": len(content), "oid": "0" * 40}
        for name, content in files.items()
    ]
    for revision in ("main", COMMIT):
        site.put(f"{api}/revision/{revision}", info)
        site.put(f"{api}/tree/{revision}", json.dumps(tree).encode())
    for name, content in files.items():
        site.put(f"/{repository}/resolve/{COMMIT}/{name}", content, *[with_headers] * 9)


def not_on_hub(code: str) -> Answer:
    return lambda handler, _content: handler.send(404, b"", X_Error_Code=code)


OPTIONS = b'{"lstm": {"dim": 8, "projection_dim": 4, "n_layers": 2}}'


_FILE = io.BytesIO()
with h5py.File(_FILE, "w") as file:
    file.create_dataset("char_embed", data=np.ones((261, 4), np.float32))
WEIGHTS = _FILE.getvalue()
"""The content of a file of weights."""


def weights_file(path: Path) -> Path:
    path.write_bytes(WEIGHTS)
    return path


_Target = TypeVar("_Target", Path, io.BytesIO)


def zip_with(
    target: _Target, members: Mapping[Any, bytes], packing: int = zipfile.ZIP_DEFLATED
) -> _Target:
    with zipfile.ZipFile(target, "w", packing) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return target


def folder_with(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"{}")
    return folder
