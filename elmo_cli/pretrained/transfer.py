"""One URL to a partial file: a request, and the next one that goes on where it broke off.

Bytes go to `<file>.partial`. `<file>.partial.json` remembers whose they are, so that
those of two hosts, or of two versions of a file, are never joined.
"""

import http.client
import json
import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path
from typing import IO, Any, Final

from elmo_cli import __version__
from elmo_cli.atomic import rename_synced

OnProgress = Callable[[str, int, int | None], object]
"""Told the name of the file, the bytes that are there, and how many there will be, if known."""
Check = Callable[[Path], str | None]
"""Says what is wrong with a file, or None."""

ALLOW_HTTP: Final = "ELMO_ALLOW_HTTP"

# One of the hosts refuses urllib's own name with status 406.
_USER_AGENT: Final = f"Mozilla/5.0 (compatible; elmo-cli/{__version__})"
_TIMEOUT_SECONDS: Final = 30.0
_PIECE_BYTES: Final = 1 << 18
_PASSING_STATUS: Final = {408, 425, 429, 500, 502, 503, 504}


class FaultError(Exception):
    """A reason to give a URL up."""


class PassingFaultError(FaultError):
    """A reason to try the same URL again."""


class _RangeFaultError(PassingFaultError):
    """The server's file ends before the bytes that are there."""


@dataclass(frozen=True)
class _Origin:
    """Where the bytes of a partial file are from."""

    url: str
    version: str | None
    """The server's ETag or time of change."""
    total: int | None

    def is_sound(self) -> bool:
        """Whether its fields are what they should be: it was read from a file."""
        texts = isinstance(self.url, str) and isinstance(self.version, (str, type(None)))
        return (
            texts
            and (self.version or "").isprintable()
            and isinstance(self.total, (int, type(None)))
        )


class Transfer:
    """A file on its way."""

    def __init__(
        self, destination: Path, expected_bytes: int | None, check: Check, on_progress: OnProgress
    ) -> None:
        self.destination = destination
        self._partial = destination.with_name(f"{destination.name}.partial")
        self._record = destination.with_name(f"{destination.name}.partial.json")
        self._expected_bytes = expected_bytes
        self._check = check
        self._on_progress = on_progress

    @property
    def n_bytes(self) -> int:
        """The bytes that are there."""
        return self._partial.stat().st_size if self._partial.exists() else 0

    @property
    def url(self) -> str | None:
        """Where they are from."""
        origin = self._origin()
        return None if origin is None else origin.url

    def run(self, url: str, opener: urllib.request.OpenerDirector) -> None:
        """Ask a URL for what is missing; move the file into place when it is whole.

        Raises:
            FaultError: the URL does not give the file.
            PassingFaultError: it may, the next time.
            OSError: the file cannot be written.
        """
        origin = self._origin()
        if origin is None or origin.url != url:
            origin = None
        if origin is None or self.n_bytes != origin.total:
            try:
                response = _open(opener, self._request(url, origin))
            except _RangeFaultError:
                self._discard()
                raise
            with response:
                self._receive(response, self._begin(url, origin, response))
        self._finish()

    def _request(self, url: str, origin: _Origin | None) -> urllib.request.Request:
        headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
        if origin is not None and self.n_bytes:
            headers["Range"] = f"bytes={self.n_bytes}-"
            if origin.version:
                headers["If-Range"] = origin.version
        return urllib.request.Request(url, headers=headers)

    def _begin(
        self, url: str, origin: _Origin | None, response: http.client.HTTPResponse
    ) -> int | None:
        """Keep the bytes that are there or start over, as the answer says; the size to come."""
        start, total = _extent(response)
        if self._expected_bytes not in (None, total) and total is not None:
            raise FaultError(f"expected {self._expected_bytes:,} bytes, the server has {total:,}")
        if start == 0:
            self._discard()
        elif origin is None or start != self.n_bytes or origin.total not in (None, total):
            self._discard()
            raise PassingFaultError("the server sent another part than was asked for")
        # A weak ETag does not promise the same bytes.
        tag = response.headers.get("ETag", "W/")
        version = response.headers.get("Last-Modified") if tag.startswith("W/") else tag
        record = asdict(_Origin(url, version, total))
        self._record.write_text(json.dumps(record) + "\n", encoding="utf-8")
        return total

    def _receive(self, response: http.client.HTTPResponse, total: int | None) -> None:
        n_bytes = self.n_bytes
        limit = total if self._expected_bytes is None else self._expected_bytes
        with open(self._partial, "ab") as file:
            while piece := _read(response):
                file.write(piece)
                n_bytes += len(piece)
                if limit is not None and n_bytes > limit:
                    break
                self._on_progress(self.destination.name, n_bytes, limit)
        if total is not None and n_bytes < total:
            raise PassingFaultError(f"broke off after {n_bytes:,} of {total:,} bytes")

    def _finish(self) -> None:
        if self._expected_bytes in (None, self.n_bytes):
            fault = self._check(self._partial)
        else:
            fault = f"expected {self._expected_bytes:,} bytes, found {self.n_bytes:,} or more"
        if fault is not None:
            self._discard()
            raise FaultError(fault)
        rename_synced(self._partial, self.destination)
        self._record.unlink(missing_ok=True)

    def _discard(self) -> None:
        self._partial.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)

    def _origin(self) -> _Origin | None:
        try:
            origin = _Origin(**json.loads(self._record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        return origin if origin.is_sound() else None


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """The first byte of an answer, and the size of the whole file."""
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
    if response.status != 206 or match is None:
        raise FaultError(f"status {response.status}, expected 200, or 206 with a Content-Range")
    return int(match[1]), int(match[2])


def _open(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request
) -> http.client.HTTPResponse:
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        kind = PassingFaultError if error.code in _PASSING_STATUS else FaultError
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            kind = _RangeFaultError
        raise kind(f"status {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise _connection_fault(error.reason) from None
    except (http.client.InvalidURL, ValueError) as error:
        raise FaultError(f"not a URL: {error}") from None
    except (http.client.HTTPException, OSError) as error:
        raise _connection_fault(error) from None
    return response


def _connection_fault(reason: object) -> FaultError:
    # No host, a silent host or a bad certificate do not get better in a few seconds.
    final = isinstance(reason, (socket.gaierror, TimeoutError, ssl.SSLCertVerificationError))
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return FaultError(text) if final else PassingFaultError(text)


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(_PIECE_BYTES)
    except (http.client.HTTPException, OSError) as error:
        raise PassingFaultError(f"broke off: {error or type(error).__name__}") from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but not from https to http."""

    def __init__(self, schemes: tuple[str, ...]) -> None:
        self._schemes = schemes

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> urllib.request.Request | None:
        try:
            _check_scheme(newurl, self._schemes)
        except FaultError:
            fp.close()
            raise
        arguments: Any = (req, fp, code, msg, headers, newurl)
        return super().redirect_request(*arguments)


def opener_for(url: str) -> urllib.request.OpenerDirector:
    """What opens a URL, with the proxies of the environment.

    Args:
        url: an https URL, or an http one where ELMO_ALLOW_HTTP is 1.

    Raises:
        FaultError: the URL may not be opened.
    """
    plain = os.environ.get(ALLOW_HTTP) == "1"
    schemes = ("https://", "http://") if plain else ("https://",)
    _check_scheme(url, schemes)
    return urllib.request.build_opener(_Redirects(schemes))


def _check_scheme(url: str, schemes: tuple[str, ...]) -> None:
    if url.lower().startswith(schemes):
        return
    if url.lower().startswith("http://"):
        raise FaultError(f"not encrypted; {ALLOW_HTTP}=1 allows http")
    raise FaultError(f"expected an https URL, found {url.partition(':')[0]}:")
