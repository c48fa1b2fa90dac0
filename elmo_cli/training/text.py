"""Files of text to windows of sentences: streamed, and entered anywhere.

A place in the text is a file and an offset, so that a run goes on without reading what
came before; compressed files alone are decompressed up to the place.
"""

import glob
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.text.lines import Sentence, decode_line, decompressed, next_line, open_text, tokens


class Place(NamedTuple):
    """A place between two lines of the text."""

    epoch: int = 0
    """Passes over the text that are complete."""
    file: int = 0
    """Files of this pass that are complete, in its own order."""
    offset: int = 0
    """Bytes of the file before it, decompressed."""
    line: int = 0
    """Lines of the file before it."""


class Window(NamedTuple):
    """As much of the text as is in memory at once."""

    sentences: list[Sentence]
    """None of them empty."""
    end: Place
    """Where the next window starts."""


@dataclass(frozen=True)
class TrainingText:
    """The files to train on, without the lines that are held out of them."""

    paths: tuple[Path, ...]
    heldout_share: float = 0.0
    seed: int = 0

    def windows(self, start: Place, max_tokens: int) -> Iterator[Window]:
        """The text from a place on, over and over; a pass closes its last window.

        Each pass goes through the files in an order of its own.

        Raises:
            InputError: a file cannot be read, or holds no sentence to train on.
        """
        place = start
        while True:
            window: list[Sentence] = []
            n_tokens = 0
            for sentence, end in self._rest_of_pass(place):
                if n_tokens >= max_tokens:  # not before: the last window closes the pass
                    yield Window(window, place)
                    window, n_tokens = [], 0
                window.append(sentence)
                n_tokens += len(sentence)
                place = end
            place = Place(place.epoch + 1)
            if window:
                yield Window(window, place)
            elif place.epoch > start.epoch + 1:
                raise InputError(f"{', '.join(map(str, self.paths))}: no sentence to train on")

    def _rest_of_pass(self, start: Place) -> Iterator[tuple[Sentence, Place]]:
        order = list(self.paths)
        random.Random(f"{self.seed} files {start.epoch}").shuffle(order)
        for number in range(start.file, len(order)):
            place = start if number == start.file else Place(start.epoch, number)
            for line, offset, n_lines in _lines_from(order[number], place.offset, place.line):
                sentence = tokens(line)
                if sentence and not self.is_held_out(line):
                    yield sentence, Place(start.epoch, number, offset, n_lines)

    def is_held_out(self, line: str) -> bool:
        """Whether a line is held out: by its content, so that all its copies are."""
        return zlib.crc32(line.encode()) < self.heldout_share * 2**32

    def identity(self) -> list[list[str | int]]:
        """What tells this text from another: the names and sizes of the files."""
        return [[str(path), path.stat().st_size] for path in self.paths]


def _lines_from(path: Path, offset: int, number: int) -> Iterator[tuple[str, int, int]]:
    """The lines of a file from an offset on, each with the offset and number after it."""
    with open_text(path) as file:
        stream = decompressed(path, file)
        stream.seek(offset)
        while line := next_line(path, stream, number + 1):
            offset, number = offset + len(line), number + 1
            yield decode_line(path, line, number), offset, number


def find_files(patterns: Sequence[str | Path]) -> tuple[Path, ...]:
    """The files of names and patterns (`*`, `?`, `[...]`, `**`), each once.

    Raises:
        InputError: one of them is no file, or fits none.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        paths = [Path(pattern)]
        if not paths[0].exists():
            paths = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]
            paths = [path for path in paths if path.is_file()]
        if not paths:
            raise InputError(f"{pattern}: expected a text file or a pattern of some, found none")
        for path in paths:
            with open_text(path):
                found[path] = None
    return tuple(found)


class Count(NamedTuple):
    """What a first pass over the text finds."""

    n_sentences: int
    n_tokens: int
    words: Counter[str]


def count_text(text: TrainingText, hold_out: Callable[[str], object]) -> Count:
    """Count the sentences, tokens and words to train on.

    Args:
        text: read once.
        hold_out: told of each line that is held out.

    Raises:
        InputError: a file cannot be read, or there is nothing to train on.
    """
    words: Counter[str] = Counter()
    n_sentences = 0
    for path in text.paths:
        for line, _, _ in _lines_from(path, 0, 0):
            if not line:
                continue
            if text.is_held_out(line):
                hold_out(line)
                continue
            words.update(tokens(line))
            n_sentences += 1
    if n_sentences == 0:
        raise InputError(f"{', '.join(map(str, text.paths))}: no sentence to train on")
    return Count(n_sentences, words.total(), words)
