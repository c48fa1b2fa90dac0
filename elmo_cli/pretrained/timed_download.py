"""HTTP responses that must arrive in time, with their headers and chunk lines.

The timeout of a socket begins again with each byte, so a server could send one byte per
second without end.
"""

import http.client
import io
import socket
import time
import urllib.request
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    _Handler = urllib.request.AbstractHTTPHandler
else:
    _Handler = object

TIMEOUT_SECONDS: Final = 30.0
"""Time without a byte after which a download fails, and time for all headers."""
_MIN_BYTES: Final = 30_000
"""Bytes that must arrive in each `TIMEOUT_SECONDS`, after the headers."""
_MAX_BYTES_BETWEEN: Final = 1 << 23
"""Maximum size of the headers, and of what comes with one piece of the body: lines
around chunks, and trailers, which have no limit of their own."""


class TooSlowError(Exception):
    """Error of a server that keeps a download waiting."""


class _TimedReader(io.RawIOBase):
    """Bytes of a socket, which raise a `TooSlowError` if they come too slowly."""

    def __init__(self, received: io.RawIOBase) -> None:
        self._received = received
        self._has_headers = False
        self._n_bytes = 0
        self._n_bytes_between = 0
        # The time before the first byte is limited by the socket.
        self._due: float | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        """Read bytes as soon as some are there."""
        n_bytes = self._received.readinto(buffer)
        if not n_bytes:  # the end
            return n_bytes
        self._n_bytes += n_bytes
        self._n_bytes_between += n_bytes
        if self._n_bytes_between > _MAX_BYTES_BETWEEN:
            raise HTTPException("the server sends lines after the file without end")
        now = time.monotonic()
        if self._due is None:
            self._due = now + TIMEOUT_SECONDS
        if now > self._due:
            if not self._has_headers or self._n_bytes < _MIN_BYTES:
                raise TooSlowError("the server sends less than 1 kB per second")
            self._begin_interval()
        return n_bytes

    def begin_body(self) -> None:
        """Begin to measure the speed. All headers have been read."""
        self._has_headers = True
        self.begin_piece()
        self._begin_interval()

    def begin_piece(self) -> None:
        """Begin to count the bytes that come with a piece of the body."""
        self._n_bytes_between = 0

    def close(self) -> None:
        """Close the socket."""
        self._received.close()
        super().close()

    def _begin_interval(self) -> None:
        self._n_bytes = 0
        self._due = time.monotonic() + TIMEOUT_SECONDS


class _TimedResponse(HTTPResponse):
    """Response whose bytes are read by a `_TimedReader`."""

    def __init__(self, sock: socket.socket, *arguments: Any, **settings: Any) -> None:
        super().__init__(sock, *arguments, **settings)
        self._reader = _TimedReader(self.fp.detach())
        self.fp = io.BufferedReader(self._reader)

    def begin(self) -> None:
        """Read the headers."""
        super().begin()
        self._reader.begin_body()

    def read1(self, n: int = -1, /) -> bytes:
        """Read a piece of the body, at most `n` bytes."""
        self._reader.begin_piece()
        return super().read1(n)


class _TimedHandler(_Handler):
    """Handler of urllib whose connections have timed responses."""

    def do_open(self, http_class: Any, req: Any, **settings: Any) -> HTTPResponse:
        """Send a request, and return the response when its headers are there."""

        def connection(*arguments: Any, **options: Any) -> http.client.HTTPConnection:
            made: http.client.HTTPConnection = http_class(*arguments, **options)
            made.response_class = _TimedResponse
            return made

        return super().do_open(connection, req, **settings)


class _TimedHttp(_TimedHandler, urllib.request.HTTPHandler):
    """Handler of http."""


class _TimedHttps(_TimedHandler, urllib.request.HTTPSHandler):
    """Handler of https."""


TIMED_HANDLERS: Final = (_TimedHttp, _TimedHttps)
"""Handlers for `urllib.request.build_opener`."""
