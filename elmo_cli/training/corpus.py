"""Files of text to batches: streamed, shuffled a window at a time, entered anywhere.

A place in the text is a file and an offset, so that a run resumes without reading what came
before; compressed files alone are decompressed up to the place.

A direction reads a boundary and the tokens, and predicts the tokens and the other
boundary, so for T tokens there are T + 1 steps:

    forward     reads <S> a b c       predicts a b c </S>
    backward    reads </S> c b a      predicts c b a <S>

A row of a batch is one piece of a sentence, or in a block the pieces that follow one
another in a stream. So a stream never reads the boundary that it predicts, as in bilm-tf's
training; where models are used, bilm-tf, AllenNLP and `sentence_encoder` read it.
Every batch comes with the place where the text goes on after it.
"""

import glob
import os
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.inference.batching import batches_by_length
from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN, Vocabulary
from elmo_cli.text.lines import LineReader, check_input, open_text
from elmo_cli.text.records import Sentence
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer
from elmo_cli.training.options import TrainingOptions

_Item = TypeVar("_Item")


# Files to windows of sentences.


Stream = tuple[Sentence, int]
"""The sentence that is being read, and its steps that are done."""


class Position(NamedTuple):
    """Where the text goes on."""

    epoch: int = 0
    """Passes over the text that are complete."""
    file: int = 0
    """Files of this pass that are complete, in its own order."""
    offset: int = 0
    """Bytes of the file before the window that is being read, decompressed."""
    line: int = 0
    """Lines of the file before it."""
    n_windows: int = 0
    """Windows before it."""
    done: int = 0
    """Batches, or with streams sentences, of the window that are used."""
    streams: tuple[Stream, ...] = ()


Window = tuple[list[Sentence], Position]
"""As much of the text as is in memory at once, and where the next window starts."""


@dataclass(frozen=True)
class TrainingText:
    """The files to train on, without the lines that are held out of them."""

    paths: tuple[Path, ...]
    validation_share: float = 0.0
    seed: int = 0
    tokenizer: Tokenizer = WHITESPACE

    def windows(self, start: Position, max_tokens: int) -> Iterator[Window]:
        """The text from the start of a window on, over and over; a pass closes its last window."""
        place, n_windows = start, start.n_windows
        while True:
            window: list[Sentence] = []
            n_tokens = 0
            for sentences, end in self._rest_of_pass(place):
                if n_tokens >= max_tokens:  # not before: the last window closes the pass
                    n_windows += 1
                    yield window, place._replace(n_windows=n_windows)
                    window, n_tokens = [], 0
                window += sentences
                n_tokens += sum(map(len, sentences))
                place = end
            place = Position(place.epoch + 1)
            if window:
                n_windows += 1
                yield window, place._replace(n_windows=n_windows)
            elif place.epoch > start.epoch + 1:
                raise InputError(f"{', '.join(map(str, self.paths))}: no sentence to train on")

    def _rest_of_pass(self, start: Position) -> Iterator[tuple[list[Sentence], Position]]:
        """The sentences of each line from a place on, and the place after it.

        Each pass goes through the files in an order of its own.
        """
        order = list(self.paths)
        random.Random(f"{self.seed} files {start.epoch}").shuffle(order)
        for number in range(start.file, len(order)):
            place = start if number == start.file else Position(start.epoch, number)
            for line, offset, n_lines in lines_from(order[number], place.offset, place.line):
                sentences = [] if self.is_validation(line) else self.sentences(line)
                if sentences:
                    yield sentences, Position(start.epoch, number, offset, n_lines)

    def sentences(self, line: str) -> list[Sentence]:
        """The sentences of a line, none of them empty."""
        return [sentence for sentence in self.tokenizer.tokenize_sentences(line) if sentence]

    def is_validation(self, line: str) -> bool:
        """Whether a line is held out: by its content, so that all its copies are."""
        return zlib.crc32(line.encode()) < self.validation_share * 2**32

    def identity(self) -> list[list[str | int]]:
        """What tells this text from another."""
        files: list[list[str | int]] = [[str(path), path.stat().st_size] for path in self.paths]
        return files + [[name, value] for name, value in self.tokenizer.to_attributes().items()]


def lines_from(path: Path, offset: int = 0, number: int = 0) -> Iterator[tuple[str, int, int]]:
    """The lines of a file from an offset on, each with the offset and number after it."""
    with open_text(path) as file:
        reader = LineReader(path, file, first=number + 1)
        reader.seek(offset)
        while line := reader.next_line():
            offset, number = offset + len(line), number + 1
            yield reader.decode(line), offset, number


def find_files(patterns: Sequence[str | Path]) -> tuple[Path, ...]:
    """The files of names and patterns (`*`, `?`, `[...]`, `**`), each once."""
    found: dict[Path, None] = {}
    for pattern in map(str, patterns):
        paths = [pattern]
        if not os.path.exists(pattern):
            paths = sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
        if not paths:
            raise InputError(f"{pattern}: expected a text file or a pattern of some, found none")
        for path in paths:
            check_input(path)
            found[Path(path)] = None
    return tuple(found)


# Windows to batches.


class Piece(NamedTuple):
    """Some steps of a sentence, of which there are one more than tokens."""

    sentence: Sentence
    start: int
    stop: int


Row = list[Piece]


class Batch(NamedTuple):
    """The rows of a batch as numbers, U steps of B rows."""

    tokens: list[str]
    """The distinct tokens."""
    words: NDArray[np.int64]
    """The index of each in the vocabulary."""
    steps: NDArray[np.int64]
    """Shape (4, B, U), indices into `tokens`, 0 after the end of a row: what forward reads and
    predicts, what backward reads and predicts."""
    lengths: NDArray[np.int64]
    """Steps of each row, shape (B,)."""


Portion = tuple[list[Row], Position]
"""The rows of a batch, and where the text goes on after it."""


def portions(text: TrainingText, options: TrainingOptions, start: Position) -> Iterator[Portion]:
    """The batches of a run from a position on, without end."""
    # Enough for batches of like length, and for the streams of a block.
    max_tokens = max(200_000, 50 * options.batch_tokens, 50 * options.batch_size)
    windows = text.windows(start, max_tokens)
    if options.state == "carry":
        return blocks(_shuffled(windows, list, options, start), options, start)
    return _shuffled(windows, lambda window: _batches(window, options), options, start)


def _shuffled(
    windows: Iterator[Window],
    split: Callable[[list[Sentence]], list[_Item]],
    options: TrainingOptions,
    start: Position,
) -> Iterator[tuple[_Item, Position]]:
    """What each window is split into, in random order, each with the position after it."""
    position = start
    for sentences, end in windows:
        items = split(sentences)
        random.Random(f"{options.seed} window {position.n_windows}").shuffle(items)
        for number in range(position.done + 1, len(items)):
            yield items[number - 1], position._replace(done=number)
        yield items[-1], end
        position = end


def _batches(sentences: Sequence[Sentence], options: TrainingOptions) -> list[list[Row]]:
    """Batches of sentences of like length, those that are too long cut into pieces."""
    most = options.max_length
    pieces = [
        Piece(sentence, start, min(start + most, len(sentence) + 1))
        for sentence in sentences
        for start in range(0, len(sentence) + 1, most)
    ]
    lengths = [piece.stop - piece.start for piece in pieces]
    batches = batches_by_length(lengths, options.batch_tokens)
    return [[[pieces[index]] for index in batch] for batch in batches]


def blocks(
    sentences: Iterator[tuple[Sentence, Position]], options: TrainingOptions, start: Position
) -> Iterator[Portion]:
    """Blocks of all streams, each stream taking the next sentence when it needs one.

    As bilm-tf deals them out, but forward and backward go through the same sentences.
    """
    streams = list(start.streams) or [([], 1)] * options.batch_size
    after = start
    while True:
        rows: list[Row] = []
        for number, (sentence, done) in enumerate(streams):
            row, room = [], options.unroll
            while room:
                if done > len(sentence):
                    (sentence, after), done = next(sentences), 0
                stop = min(done + room, len(sentence) + 1)
                row.append(Piece(sentence, done, stop))
                done, room = stop, room - (stop - done)
            streams[number] = (sentence, done)
            rows.append(row)
        yield rows, after._replace(streams=tuple(streams))


def make_batch(rows: Sequence[Row], vocabulary: Vocabulary) -> Batch:
    """Number the tokens of rows."""
    index = {START_TOKEN: 0, END_TOKEN: 1}
    lengths = np.array([sum(stop - start for _, start, stop in row) for row in rows], np.int64)
    steps = np.zeros((4, len(rows), int(lengths.max(initial=0))), np.int64)
    for number, row in enumerate(rows):
        at = 0
        for sentence, start, stop in row:
            n_tokens, end = len(sentence), at + stop - start
            bounded = np.empty(n_tokens + 2, np.int64)
            bounded[0], bounded[-1] = 0, 1
            bounded[1:-1] = [index.setdefault(token, len(index)) for token in sentence]
            turned = bounded[::-1]
            steps[0, number, at:end] = bounded[start:stop]
            steps[1, number, at:end] = bounded[start + 1 : stop + 1]
            steps[2, number, at:end] = turned[start:stop]
            steps[3, number, at:end] = turned[start + 1 : stop + 1]
            at = end
    tokens = list(index)
    return Batch(tokens, vocabulary.indices(tokens), steps, lengths)


def n_steps(rows: Sequence[Row]) -> int:
    """Steps of all rows: the predictions of one direction."""
    return sum(stop - start for row in rows for _, start, stop in row)


def n_tokens(rows: Sequence[Row]) -> int:
    """Tokens that a direction reads, boundaries aside."""
    return n_steps(rows) - sum(start == 0 for row in rows for _, start, _ in row)
