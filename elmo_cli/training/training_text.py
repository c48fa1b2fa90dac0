"""The text of a run: files to windows of sentences, resumable anywhere.

The progress in a text is a file and an offset, so that a run resumes without reading
the text before it. Compressed files are decompressed up to the offset. Other formats,
such as CoNLL-U, are parsed from the beginning of the file.
"""

import random
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.model.json_objects import is_whole
from elmo_cli.options.text import DEFAULT_TEXT_SETTINGS, TextSettings
from elmo_cli.records.input_format import InputFormat
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import Records, open_records
from elmo_cli.records.warnings.expected import UNKNOWN
from elmo_cli.text.line_reader import LineReader
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer
from elmo_cli.training.training_folder import VALIDATION_TEXT, VALIDATION_TOKENS
from elmo_cli.types import Sentence

_MAX_OFFSET = 1 << 62
"""Limit for the numbers of a progress: an offset in a file has 64 bits."""


class TextProgress(NamedTuple):
    """Progress in the text."""

    epoch: int = 0
    """Complete passes over the text."""
    file: int = 0
    """Complete files of this pass, in the order of this pass."""
    offset: int = 0
    """Decompressed bytes of the current file before the current window. It is 0 in
    other formats than text, whose records are skipped by their number."""
    n_records: int = 0
    """Lines or other records of the current file before the current window."""
    n_windows: int = 0
    """Complete windows."""
    n_used: int = 0
    """Used batches of the current window; with streams, used sentences."""
    streams: tuple[tuple[Sentence, int], ...] = ()
    """Sentence of each stream, and how many of its predictions are done."""

    @classmethod
    def read(cls, fields: Sequence[Any]) -> "TextProgress":
        """Return the progress in a checkpoint. Raise a `ValueError` if it is none."""
        *numbers, streams = fields
        are_numbers = all(is_whole(number, 0, _MAX_OFFSET) for number in numbers)
        if len(fields) != len(cls._fields) or not are_numbers:
            raise ValueError("wrong fields of progress")
        if not isinstance(streams, tuple) or not all(map(_is_stream, streams)):
            raise ValueError("wrong streams of progress")
        return cls(*fields)


def _is_stream(value: object) -> bool:
    """Return whether a value is a sentence and how many of its predictions are done."""
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    sentence, n_done = value
    if not isinstance(sentence, list) or type(n_done) is not int or n_done < 0:
        return False
    return all(isinstance(token, str) for token in sentence)


TextWindow = tuple[list[Sentence], TextProgress]
"""The part of the text that is in memory at once, and the progress after it."""


class TrainingRecord(NamedTuple):
    """A line of a text, or a record of another format."""

    text: str
    sentences: list[Sentence]
    """Sentences that have tokens."""
    offset: int
    """Offset after the line; 0 in other formats than text."""
    n_records: int
    """Number of this record in its file, from 1."""


@dataclass(frozen=True)
class TrainingText:
    """The files to train on, without the validation lines in them."""

    paths: tuple[Path, ...]
    settings: TextSettings = DEFAULT_TEXT_SETTINGS
    tokenizer: Tokenizer = WHITESPACE
    validation_share: float = 0.0
    seed: int = 0

    @property
    def names(self) -> str:
        """Names of the files, for messages."""
        return ", ".join(str(path) for path in self.paths)

    @property
    def is_plain(self) -> bool:
        """True if all files are text."""
        return all(each.is_plain for each in self._formats.values())

    @property
    def validation_name(self) -> str:
        """Name of the file with the validation lines.

        It has text as it is, or tokens as JSON lines.
        """
        return VALIDATION_TEXT if self.is_plain else VALIDATION_TOKENS

    def check_column(self) -> None:
        """Raise an `InputError` if a named column has no effect in any file."""
        formats = list(self._formats.values())
        if not any(each.has_columns for each in formats):
            formats[0].check_settings(self.settings)

    def windows(self, start: TextProgress, max_tokens: int) -> Iterator[TextWindow]:
        """Yield windows without end, from the start of a window on.

        A window ends with the record with which it has `max_tokens`, or with its pass.
        """
        n_windows = start.n_windows
        for epoch in count(start.epoch):
            progress = start if epoch == start.epoch else TextProgress(epoch=epoch)
            window: list[Sentence] = []
            n_tokens = 0
            for sentences, after_record in self._rest_of_pass(progress):
                # A full window waits for one more record. If none comes, the progress
                # after the window is the beginning of the next pass.
                if n_tokens >= max_tokens:
                    n_windows += 1
                    yield window, progress._replace(n_windows=n_windows)
                    window = []
                    n_tokens = 0
                window += sentences
                n_tokens += sum(len(sentence) for sentence in sentences)
                progress = after_record
            if window:
                n_windows += 1
                yield window, TextProgress(epoch=epoch + 1, n_windows=n_windows)
            elif epoch > start.epoch:
                # Only the rest of the first pass may be empty.
                raise InputError(f"{self.names}: no sentence to train on")

    def _rest_of_pass(
        self, start: TextProgress
    ) -> Iterator[tuple[list[Sentence], TextProgress]]:
        """Yield the sentences of each record of the pass, and the progress after it.

        Each pass has an order of the files of its own.
        """
        order = list(self.paths)
        random.Random(f"{self.seed} files {start.epoch}").shuffle(order)
        offset = start.offset
        n_records = start.n_records
        for index in range(start.file, len(order)):
            for record in self.read_file(
                order[index], offset=offset, n_records=n_records
            ):
                if record.sentences and not self.is_validation(record.text):
                    after = TextProgress(
                        epoch=start.epoch,
                        file=index,
                        offset=record.offset,
                        n_records=record.n_records,
                    )
                    yield record.sentences, after
            offset = 0
            n_records = 0

    def is_validation(self, text: str) -> bool:
        """Return whether a record is validation text, by its hash.

        So equal texts are never on both sides.
        """
        return zlib.crc32(text.encode()) < self.validation_share * 2**32

    def validation_sentences(self, path: str | Path) -> Iterator[Sentence]:
        """Yield the sentences of a validation file.

        It is read as this text, unless it was written for the share of this text.
        """
        if self.validation_share > 0:
            return TrainingText((), tokenizer=self.tokenizer).sentences(path)
        return self.sentences(path)

    def sentences(self, path: str | Path) -> Iterator[Sentence]:
        """Yield the sentences of a file that have tokens."""
        with self._open_records(path, self.tokenizer) as (records, *_):
            for record in records:
                for tokens in record.split():
                    if tokens:
                        yield tokens

    def read_file(
        self, path: Path, offset: int = 0, n_records: int = 0
    ) -> Iterator[TrainingRecord]:
        """Yield the lines of a text after an offset, or records after the first ones.

        `n_records` lines or records come before them.
        """
        if not self._formats[path].is_plain:
            return self._read_records(path, n_records)
        return self._read_lines(path, offset, n_records)

    def _read_lines(
        self, path: Path, offset: int, n_records: int
    ) -> Iterator[TrainingRecord]:
        """Yield the lines of a text from an offset on, before which are `n_records`."""
        with Source(path) as source:
            reader = LineReader(source.name, source.open(), first=n_records + 1)
            reader.seek(offset)
            while line := reader.next_line():
                offset += len(line)
                text = reader.decode(line).text
                sentences = self.tokenizer.tokenize_sentences(text)
                yield TrainingRecord(
                    text=text,
                    sentences=[tokens for tokens in sentences if tokens],
                    offset=offset,
                    n_records=reader.number,
                )

    def _read_records(self, path: Path, n_records: int) -> Iterator[TrainingRecord]:
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
                    yield TrainingRecord(
                        text=record.text,
                        sentences=[tokens for tokens in record.split() if tokens],
                        offset=0,
                        n_records=number,
                    )

    def _open_records(
        self, path: str | Path, tokenizer: Tokenizer
    ) -> AbstractContextManager[Records]:
        text_input = open_input(path, self.settings, tokenizer)
        if not text_input.format.has_columns:
            # Other files of the text have columns.
            settings = replace(
                self.settings, text_column=None, delimiter=None, quotes=None
            )
            text_input = replace(text_input, settings=settings)
        # Of several files, one may be empty. If all are, that is an error.
        expected = UNKNOWN._replace(
            may_be_empty=len(self.paths) > 1, may_lack_rows=False
        )
        return open_records(text_input, expected, reads_ids=False)

    @cached_property
    def _formats(self) -> dict[Path, InputFormat]:
        return {
            path: open_input(path, self.settings, self.tokenizer).format
            for path in self.paths
        }
