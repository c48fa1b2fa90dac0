"""Texts by their numbers, in unnamed files of TMPDIR, however many there are."""

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from elmo_cli.errors import OutputError

_PLACE: Final = struct.Struct("<qq")
"""Of a text in its file: the end, which is never 0 for the ones that are there, and the length."""


class NumberedTexts:
    """Texts by numbers from 0, in any order. The files end with the process."""

    def __init__(self) -> None:
        with disk_named():
            self._texts = tempfile.TemporaryFile()  # noqa: SIM115 (`close` does)
            self._places = tempfile.TemporaryFile()  # noqa: SIM115
        self._texts.write(b"\0")
        self._n_bytes = 1
        self._length = 0

    def __len__(self) -> int:
        """One more than the highest number."""
        return self._length

    def put(self, number: int, text: str) -> None:
        """Note a text, in the place of one of this number.

        Raises:
            OutputError: the disk is full.
        """
        content = text.encode("utf-8", "surrogatepass")
        with disk_named():
            self._texts.write(content)
            self._n_bytes += len(content)
            place = _PLACE.pack(self._n_bytes, len(content))
            os.pwrite(self._places.fileno(), place, number * _PLACE.size)
        self._length = max(self._length, number + 1)

    def append(self, text: str) -> None:
        """Note a text under the next number."""
        self.put(self._length, text)

    def get(self, number: int) -> str | None:
        """The text of a number; None where there is none."""
        with disk_named():
            self._texts.flush()
            place = os.pread(self._places.fileno(), _PLACE.size, number * _PLACE.size)
            end, length = _PLACE.unpack(place) if place else (0, 0)
            content = os.pread(self._texts.fileno(), length, end - length) if end else None
        return None if content is None else content.decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str | None]:
        return map(self.get, range(self._length))

    def close(self) -> None:
        """Let go of the files."""
        self._texts.close()
        self._places.close()


@contextmanager
def disk_named(advice: str = "") -> Iterator[None]:
    """Name the disk that is full."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{tempfile.gettempdir()}: cannot write temporary files there: {error.strerror}; "
            f"set TMPDIR to a folder with room{advice}"
        ) from None
