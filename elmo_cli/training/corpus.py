"""Text files to batches: streamed, shuffled per window, and resumable anywhere.

The progress in a text is a file and an offset, so that a run resumes without reading the text
before it. Compressed files are decompressed up to the offset. Other formats, such as CoNLL-U, are
parsed from the beginning of the file.

A direction reads a boundary and the tokens, and predicts the tokens and the other boundary. For
T tokens there are T + 1 predictions:

    forward     reads <S> a b c       predicts a b c </S>
    backward    reads </S> c b a      predicts c b a <S>

A row of a batch is one piece of a sentence; in a block, it is the successive pieces of a stream. A
stream therefore never reads the boundary that it predicts, as in bilm-tf's training. Where models
are used, bilm-tf, AllenNLP and `sentence_encoder` read it. Each batch comes with the progress
after it.
"""

import glob
import os
import random
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.missing_files import missing_file
from elmo_cli.inference.batching import group_by_length
from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN, Vocabulary
from elmo_cli.options.text import DEFAULT_SETTINGS, TextSettings
from elmo_cli.records.input_format import InputFormat
from elmo_cli.records.open_records import Records, open_records
from elmo_cli.records.text_input import open_input
from elmo_cli.text.line_reader import LineReader
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer
from elmo_cli.training.training_options import TrainingOptions

_Item = TypeVar("_Item")

_WINDOW_TOKENS = 200_000  # minimum per window, enough for batches of similar lengths
_WINDOW_BATCHES = 50  # minimum number of batches per window


class TextProgress(NamedTuple):
    """Progress in the text."""

    epoch: int = 0  # complete passes over the text
    file: int = 0  # complete files of this pass, in the order of this pass
    # Decompressed bytes of the current file before the current window. It is 0 in other formats
    # than text, whose records are skipped by their number.
    offset: int = 0
    # lines or other records of the current file before the current window
    n_records: int = 0
    n_windows: int = 0  # complete windows
    n_used: int = 0  # used batches of the current window; with streams, used sentences
    streams: tuple[
        tuple[Sentence, int], ...
    ] = ()  # sentence of each, and its predictions done


TextWindow = tuple[list[Sentence], TextProgress]
"""The part of the text that is in memory at once, and the progress after it."""


class TextEntry(NamedTuple):
    """A line of a text, or a record of another format."""

    text: str
    sentences: list[Sentence]  # sentences with tokens
    offset: int  # offset after the line; 0 in other formats than text
    n_records: int  # number of this record in its file, from 1


@dataclass(frozen=True)
class TrainingText:
    """The files to train on, without the validation lines in them."""

    paths: tuple[Path, ...]
    settings: TextSettings = DEFAULT_SETTINGS
    tokenizer: Tokenizer = WHITESPACE
    validation_share: float = 0.0
    seed: int = 0

    def windows(self, start: TextProgress, max_tokens: int) -> Iterator[TextWindow]:
        """Yield windows without end, from the start of a window on. A pass ends with a window."""
        progress, n_windows = start, start.n_windows
        while True:
            window: list[Sentence] = []
            window_tokens = 0
            for sentences, after in self._rest_of_pass(progress):
                # Only a further sentence ends a window: the last window completes the pass.
                if window_tokens >= max_tokens:
                    n_windows += 1
                    yield window, progress._replace(n_windows=n_windows)
                    window, window_tokens = [], 0
                window += sentences
                window_tokens += sum(map(len, sentences))
                progress = after
            progress = TextProgress(progress.epoch + 1)
            if window:
                n_windows += 1
                yield window, progress._replace(n_windows=n_windows)
            elif progress.epoch > start.epoch + 1:
                raise InputError(f"{self.names}: no sentence to train on.")

    def _rest_of_pass(
        self, start: TextProgress
    ) -> Iterator[tuple[list[Sentence], TextProgress]]:
        """Yield the sentences of each record of the pass, whose order of files is its own."""
        order = list(self.paths)
        random.Random(f"{self.seed} files {start.epoch}").shuffle(order)
        for number in range(start.file, len(order)):
            begin = start if number == start.file else TextProgress(start.epoch, number)
            for entry in self.read_file(order[number], begin.offset, begin.n_records):
                if entry.sentences and not self.is_validation(entry.text):
                    after = TextProgress(
                        start.epoch, number, entry.offset, entry.n_records
                    )
                    yield entry.sentences, after

    @property
    def names(self) -> str:
        """Names of the files, for messages."""
        return ", ".join(map(str, self.paths))

    @cached_property
    def _formats(self) -> dict[Path, InputFormat]:
        return {
            path: open_input(path, self.settings, self.tokenizer).format
            for path in self.paths
        }

    @property
    def is_plain(self) -> bool:
        """True if all files are text."""
        return all(each.is_plain for each in self._formats.values())

    @property
    def validation_name(self) -> str:
        """Name of the file with the validation lines: text as it is, or tokens as JSON lines."""
        return "validation.txt" if self.is_plain else "validation.jsonl"

    def check_column(self) -> None:
        """Raise an `InputError` if a named column has no effect in any file."""
        formats = list(self._formats.values())
        if not any(each.has_columns for each in formats):
            formats[0].check_settings(self.settings)

    def sentences(self, path: str | Path) -> Iterator[Sentence]:
        """Yield the sentences of a file, such as one of validation, that have tokens."""
        with self._open_records(path, self.tokenizer) as (records, *_):
            yield from (
                tokens for record in records for tokens in record.split() if tokens
            )

    def validation_sentences(self, path: str | Path) -> Iterator[Sentence]:
        """Yield the sentences of a file that is read as this text, or of the share of this text."""
        is_own_file = self.validation_share > 0
        text = TrainingText((), tokenizer=self.tokenizer) if is_own_file else self
        return text.sentences(path)

    def _open_records(
        self, path: str | Path, tokenizer: Tokenizer
    ) -> AbstractContextManager[Records]:
        text = open_input(path, self.settings, tokenizer)
        if not text.format.has_columns:
            settings = replace(
                self.settings, text_column=None, delimiter=None, quotes=None
            )
            text = replace(text, settings=settings)
        return open_records(text, reads_ids=False)

    def read_file(
        self, path: Path, offset: int = 0, n_records: int = 0
    ) -> Iterator[TextEntry]:
        """Return the lines of a text from an offset, or other records after the first ones."""
        if not self._formats[path].is_plain:
            return self._read_records(path, n_records)
        return self._read_lines(path, offset, n_records)

    def _read_records(self, path: Path, n_records: int) -> Iterator[TextEntry]:
        """Yield the records of a file after the first `n_records`."""
        number = 0

        def tokenize(text: str) -> Sentence:
            # The tokens of skipped records are not needed.
            return self.tokenizer.tokenize(text) if number >= n_records else []

        tokenizer = replace(self.tokenizer, tokenize=tokenize)
        with self._open_records(path, tokenizer) as (records, *_):
            for record in records:
                number += 1
                if number > n_records:
                    yield TextEntry(
                        record.text, list(filter(None, record.split())), 0, number
                    )

    def _read_lines(
        self, path: Path, offset: int, n_records: int
    ) -> Iterator[TextEntry]:
        """Yield the lines of a text from an offset on, before which there are `n_records`."""
        with Source(path) as source:
            reader = LineReader(source.name, source.open(), first=n_records + 1)
            reader.seek(offset)
            while line := reader.next_line():
                offset += len(line)
                text = reader.decode(line)
                sentences = list(filter(None, self.tokenizer.tokenize_sentences(text)))
                yield TextEntry(text, sentences, offset, reader.number)

    def is_validation(self, text: str) -> bool:
        """Return whether a record is validation text. Equal texts have equal answers."""
        return zlib.crc32(text.encode()) < self.validation_share * 2**32


def find_text_files(patterns: Sequence[str | Path]) -> tuple[Path, ...]:
    """Find the files of names and patterns (`*`, `?`, `[...]`, `**`), each file once."""
    files: dict[Path, None] = {}
    for pattern in map(str, patterns):
        paths = [pattern]
        if not os.path.exists(pattern):
            paths = sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
        if not paths:
            raise missing_file(
                pattern, InputError, remedy="Name a file or a pattern of files."
            )
        for path in paths:
            Source(path).check()
            files[Path(path)] = None
    return tuple(files)


# Windows to batches.


class Piece(NamedTuple):
    """Successive predictions of a sentence with T tokens, which has T + 1 predictions."""

    sentence: Sentence
    start: int
    stop: int


Row = list[Piece]


class Batch(NamedTuple):
    """The rows of a batch as numbers: B rows of up to U predictions."""

    tokens: list[str]  # the distinct tokens
    words: NDArray[np.int64]  # vocabulary index of each distinct token
    steps: NDArray[np.int64]
    """Indices into `tokens`, 0 after the end of a row, shape (4, B, U): tokens that forward reads,
    that forward predicts, that backward reads, that backward predicts."""
    lengths: NDArray[np.int64]  # predictions per row and direction, shape (B,)


def read_batches(
    text: TrainingText, options: TrainingOptions, start: TextProgress
) -> Iterator[tuple[list[Row], TextProgress]]:
    """Yield the batches of a run without end, each with the progress after it."""
    largest = max(options.batch_tokens, options.batch_size)
    windows = text.windows(start, max(_WINDOW_TOKENS, _WINDOW_BATCHES * largest))
    if options.state == "carry":
        return split_into_blocks(_shuffle(windows, options.seed, start), options, start)
    batches = (
        (_split_into_batches(window, options), after) for window, after in windows
    )
    return _shuffle(batches, options.seed, start)


def _shuffle(
    windows: Iterator[tuple[list[_Item], TextProgress]],
    seed: int,
    progress: TextProgress,
) -> Iterator[tuple[_Item, TextProgress]]:
    """Yield the items of each window in random order, each with the progress after it."""
    for items, after in windows:
        random.Random(f"{seed} window {progress.n_windows}").shuffle(items)
        for number in range(progress.n_used + 1, len(items)):
            yield items[number - 1], progress._replace(n_used=number)
        yield items[-1], after
        progress = after


def _split_into_batches(
    sentences: Sequence[Sentence], options: TrainingOptions
) -> list[list[Row]]:
    """Split a window into batches of sentences of similar lengths. Split long sentences first."""
    most = options.max_length
    pieces = [
        Piece(sentence, start, min(start + most, len(sentence) + 1))
        for sentence in sentences
        for start in range(0, len(sentence) + 1, most)
    ]
    batches = group_by_length(
        [each.stop - each.start for each in pieces], options.batch_tokens
    )
    return [[[pieces[index]] for index in batch] for batch in batches]


def split_into_blocks(
    text: Iterator[tuple[Sentence, TextProgress]],
    options: TrainingOptions,
    start: TextProgress,
) -> Iterator[tuple[list[Row], TextProgress]]:
    """Yield blocks of all streams. A stream takes the next sentence when it needs one."""
    streams = list(start.streams) or [([], 1)] * options.batch_size
    progress = start
    while True:
        rows: list[Row] = []
        for number, (sentence, n_done) in enumerate(streams):
            row, n_free = [], options.unroll
            while n_free:
                if n_done > len(sentence):
                    (sentence, progress), n_done = next(text), 0
                stop = min(n_done + n_free, len(sentence) + 1)
                row.append(Piece(sentence, n_done, stop))
                n_done, n_free = stop, n_free - (stop - n_done)
            streams[number] = (sentence, n_done)
            rows.append(row)
        yield rows, progress._replace(streams=tuple(streams))


def make_batch(rows: Sequence[Row], vocabulary: Vocabulary) -> Batch:
    """Turn the tokens of rows into numbers."""
    index = {START_TOKEN: 0, END_TOKEN: 1}
    lengths = np.array(
        [sum(stop - start for _, start, stop in row) for row in rows], np.int64
    )
    steps = np.zeros((4, len(rows), int(lengths.max(initial=0))), np.int64)
    for number, row in enumerate(rows):
        begin = 0
        for sentence, start, stop in row:
            n_tokens, end = len(sentence), begin + stop - start
            bounded = np.empty(n_tokens + 2, np.int64)
            bounded[0], bounded[-1] = 0, 1
            bounded[1:-1] = [index.setdefault(token, len(index)) for token in sentence]
            reverse = bounded[::-1]
            steps[0, number, begin:end] = bounded[start:stop]
            steps[1, number, begin:end] = bounded[start + 1 : stop + 1]
            steps[2, number, begin:end] = reverse[start:stop]
            steps[3, number, begin:end] = reverse[start + 1 : stop + 1]
            begin = end
    tokens = list(index)
    return Batch(tokens, vocabulary.indices(tokens), steps, lengths)


def count_predictions(rows: Sequence[Row]) -> int:
    """Count the predictions of all rows per direction."""
    return sum(stop - start for row in rows for _, start, stop in row)


def count_tokens(rows: Sequence[Row]) -> int:
    """Count the tokens that a direction reads, without the boundaries."""
    return count_predictions(rows) - sum(
        start == 0 for row in rows for _, start, _ in row
    )
