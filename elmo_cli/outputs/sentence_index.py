"""Sentences and the names of their datasets as one JSON object, however many there are.

A dict takes them up to some MB. When it is full, they go to unnamed files in TMPDIR,
by the hash of the sentence, so that equal sentences come together again and the
last one wins. The files end with the process; one that goes on reads the input once more.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Final, TextIO

from elmo_cli.outputs.numbered_texts import disk_named

MEMORY_BYTES: Final = 1 << 22
"""About what the dict takes before it is emptied."""
_ENTRY_BYTES: Final = 150
"""About what an entry of it takes beside its text."""
_N_FILES: Final = 64
_ADVICE: Final = ", or give --forget-sentences"

_BLOCK_CHARACTERS: Final = 1 << 20
_PAIR: Final = re.compile(
    r'\s*(?P<before>[{,])\s*(?P<sentence>"[^"\\]*(?:\\.[^"\\]*)*")\s*:'
    r'\s*"?(?P<number>[0-9]{1,18})"?\s*(?=[,}])',
    re.DOTALL,
)
"""A sentence and the number that names its dataset."""


class SentenceIndex:
    """Sentences, each with the key or the number of its last record."""

    def __init__(self) -> None:
        self._places: dict[str, str | int] = {}
        self._n_bytes = 0
        self._files: list[IO[bytes]] = []

    def add(self, sentence: str, place: str | int) -> None:
        """Note a sentence, in the place of an equal one.

        Raises:
            OutputError: the disk is full.
        """
        if sentence not in self._places:
            self._n_bytes += len(sentence) + _ENTRY_BYTES
        self._places[sentence] = place
        if self._n_bytes >= MEMORY_BYTES:
            with disk_named(_ADVICE):
                self._empty()

    def write_json(self, name: Callable[[str | int], str]) -> IO[bytes]:
        """The JSON object, in an unnamed file, at its end.

        Args:
            name: the name of a dataset, from its key or number.

        Raises:
            OutputError: the disk is full.
        """
        file = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
        separator = b"{"
        with disk_named(_ADVICE):
            for places in self._parts():
                for sentence, place in places.items():
                    entry = f"{json.dumps(sentence)}: {json.dumps(name(place))}"
                    file.write(separator + entry.encode())
                    separator = b", "
            file.write(b"{}" if separator == b"{" else b"}")
            file.flush()
        return file

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            file.close()

    def _empty(self) -> None:
        if not self._files:
            self._files = [
                tempfile.TemporaryFile()  # noqa: SIM115 (`close` does)
                for _ in range(_N_FILES)
            ]
        for sentence, place in self._places.items():
            line = json.dumps([sentence, place]) + "\n"
            self._files[hash(sentence) % _N_FILES].write(line.encode())
        self._places, self._n_bytes = {}, 0

    def _parts(self) -> Iterator[dict[str, str | int]]:
        """All that was noted, a part in memory at a time; equal sentences are in one."""
        if not self._files:
            yield self._places
            return
        self._empty()
        for file in self._files:
            file.seek(0)
            yield dict(json.loads(line) for line in file)


def read_pairs(file: TextIO) -> Iterator[tuple[str, int]]:
    """The sentences and their numbers of a `sentence_to_index`, a part in memory at a time.

    Args:
        file: the JSON object.

    Raises:
        ValueError: it is none, or has other values than numbers.
    """
    text, at, before = "", 0, "{"
    while True:
        pair = _PAIR.match(text, at)
        if pair is not None and pair["before"] == before:
            yield json.loads(pair["sentence"]), int(pair["number"])
            at, before = pair.end(), ","
        elif more := file.read(max(_BLOCK_CHARACTERS, len(text) - at)):
            text, at = text[at:] + more, 0
        elif "".join(text[at:].split()) == ("{}" if before == "{" else "}"):
            return
        else:
            raise ValueError("expected a JSON object of numbers, found something else")
