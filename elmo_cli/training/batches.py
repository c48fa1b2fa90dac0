"""Windows of sentences to batches, shuffled per window, and batches to numbers.

A direction reads a boundary and the tokens, and predicts the tokens and the other
boundary. For T tokens there are T + 1 predictions:

    forward     reads <S> a b c       predicts a b c </S>
    backward    reads </S> c b a      predicts c b a <S>

A row of a batch is one piece of a sentence; in a block, it is the successive pieces of
a stream. A stream therefore never reads the boundary that it predicts, as in bilm-tf's
training. Where models are used, bilm-tf, AllenNLP and `elmo embed` read it. Each batch
comes with the progress after it.
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo_cli.inference.batching import group_by_length
from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN, Vocabulary
from elmo_cli.training.training_settings import TrainingSettings
from elmo_cli.training.training_text import TextProgress, TrainingText
from elmo_cli.types import Sentence

_Item = TypeVar("_Item")

_WINDOW_TOKENS = 200_000
"""Minimum number of tokens per window, enough for batches of similar lengths."""
_WINDOW_BATCHES = 50
"""Minimum number of batches per window."""


class Piece(NamedTuple):
    """Successive predictions of a sentence; T tokens have T + 1 of them in all."""

    sentence: Sentence
    start: int
    stop: int


Row = list[Piece]


class DirectionTokens(NamedTuple):
    """The tokens of one direction: B rows of up to U predictions.

    They are indices into `Batch.tokens`, and 0 after the end of a row.
    """

    read: NDArray[np.int64]
    """Token that the direction reads at each step, shape (B, U)."""
    predicted: NDArray[np.int64]
    """Token that it predicts at each step, shape (B, U)."""


class Batch(NamedTuple):
    """The rows of a batch as numbers."""

    tokens: list[str]
    """The distinct tokens."""
    words: NDArray[np.int64]
    """Vocabulary index of each distinct token."""
    forward: DirectionTokens
    backward: DirectionTokens
    lengths: NDArray[np.int64]
    """Predictions per row and direction, shape (B,)."""


def read_batches(
    training_text: TrainingText, settings: TrainingSettings, start: TextProgress
) -> Iterator[tuple[list[Row], TextProgress]]:
    """Yield the batches of a run without end, each with the progress after it."""
    largest = max(settings.batch_tokens, settings.batch_size)
    window_tokens = max(_WINDOW_TOKENS, _WINDOW_BATCHES * largest)
    windows = training_text.windows(start, window_tokens)
    if settings.state == "carry":
        sentences = _shuffle(windows, settings.seed, start)
        return split_into_blocks(sentences, settings, start)
    batches = (
        (_split_into_batches(window, settings), after) for window, after in windows
    )
    return _shuffle(batches, settings.seed, start)


def _shuffle(
    windows: Iterator[tuple[list[_Item], TextProgress]],
    seed: int,
    progress: TextProgress,
) -> Iterator[tuple[_Item, TextProgress]]:
    """Yield the items of each window in random order, with the progress after each."""
    for items, after_window in windows:
        random.Random(f"{seed} window {progress.n_windows}").shuffle(items)
        # A resumed run has used the first items of its first window before.
        n_used = progress.n_used
        for number, item in enumerate(items[n_used:], start=n_used + 1):
            is_last = number == len(items)
            yield item, after_window if is_last else progress._replace(n_used=number)
        progress = after_window


def _split_into_batches(
    sentences: Sequence[Sentence], settings: TrainingSettings
) -> list[list[Row]]:
    """Split a window into batches of sentences of similar lengths.

    Long sentences are split into pieces before.
    """
    pieces = []
    for sentence in sentences:
        n_predictions = len(sentence) + 1
        for start in range(0, n_predictions, settings.max_length):
            stop = min(start + settings.max_length, n_predictions)
            pieces.append(Piece(sentence, start, stop))
    lengths = [piece.stop - piece.start for piece in pieces]
    batches = group_by_length(lengths, settings.batch_tokens)
    return [[[pieces[index]] for index in batch] for batch in batches]


def split_into_blocks(
    sentences: Iterator[tuple[Sentence, TextProgress]],
    settings: TrainingSettings,
    start: TextProgress,
) -> Iterator[tuple[list[Row], TextProgress]]:
    """Yield blocks of all streams, each of which takes the next sentence at need.

    A block has a row of `unroll` predictions per stream.
    """
    # Each stream has its current sentence, and how many of its predictions are done. At
    # the start this is an empty sentence, whose only prediction is done.
    streams = list(start.streams) or [([], 1)] * settings.batch_size
    progress = start
    while True:
        rows: list[Row] = []
        for index, (sentence, n_done) in enumerate(streams):
            row: Row = []
            n_free = settings.unroll  # predictions that the row still has room for
            while n_free > 0:
                if n_done > len(sentence):
                    sentence, progress = next(sentences)
                    n_done = 0
                stop = min(n_done + n_free, len(sentence) + 1)
                row.append(Piece(sentence, start=n_done, stop=stop))
                n_free -= stop - n_done
                n_done = stop
            streams[index] = (sentence, n_done)
            rows.append(row)
        yield rows, progress._replace(streams=tuple(streams))


def make_batch(rows: Sequence[Row], vocabulary: Vocabulary) -> Batch:
    """Turn the tokens of rows into numbers."""
    index = {START_TOKEN: 0, END_TOKEN: 1}
    lengths = np.array([count_predictions([row]) for row in rows], np.int64)
    shape = (len(rows), int(lengths.max(initial=0)))
    forward = DirectionTokens(
        read=np.zeros(shape, np.int64), predicted=np.zeros(shape, np.int64)
    )
    backward = DirectionTokens(
        read=np.zeros(shape, np.int64), predicted=np.zeros(shape, np.int64)
    )
    for number, row in enumerate(rows):
        begin = 0
        for sentence, start, stop in row:
            end = begin + stop - start
            bounded = _number_tokens([START_TOKEN, *sentence, END_TOKEN], index)
            reverse = bounded[::-1]
            forward.read[number, begin:end] = bounded[start:stop]
            forward.predicted[number, begin:end] = bounded[start + 1 : stop + 1]
            backward.read[number, begin:end] = reverse[start:stop]
            backward.predicted[number, begin:end] = reverse[start + 1 : stop + 1]
            begin = end
    tokens = list(index)
    return Batch(
        tokens=tokens,
        words=vocabulary.indices(tokens),
        forward=forward,
        backward=backward,
        lengths=lengths,
    )


def _number_tokens(tokens: Sequence[str], index: dict[str, int]) -> NDArray[np.int64]:
    """Return the number of each token. A token that is new in `index` is added."""
    numbers = [index.setdefault(token, len(index)) for token in tokens]
    return np.array(numbers, np.int64)


def count_predictions(rows: Sequence[Row]) -> int:
    """Count the predictions of all rows per direction."""
    return sum(piece.stop - piece.start for row in rows for piece in row)


def count_tokens(rows: Sequence[Row]) -> int:
    """Count the tokens that a direction reads, without the boundaries."""
    n_boundaries = 0
    for row in rows:
        for piece in row:
            if piece.start == 0:
                n_boundaries += 1
    return count_predictions(rows) - n_boundaries
