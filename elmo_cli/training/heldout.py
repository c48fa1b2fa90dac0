"""Held-out text to the perplexity of both directions, by the full softmax.

`elmo perplexity` measures the same with `scoring.LanguageModel`, which is made of files
and lays its weights out for speed; here the model is measured as it is trained, without a
second copy of it on the device, and with its carried state cut into blocks as in
training. From the zero state, both give the same.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch

from elmo_cli.errors import InputError
from elmo_cli.inference.batching import batches_by_length, windows
from elmo_cli.language_model.perplexity import perplexity_of_sums
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.text.lines import read_sentences
from elmo_cli.training.corpus import Piece, Row, fill_block, make_batch, new_streams
from elmo_cli.training.loss import Objective
from elmo_cli.training.options import TrainingOptions

N_STREAMS = 32
"""Streams of held-out text with carried state: few, since each starts from zero."""
BATCH_STEPS = 2048


class HeldoutPerplexity(TypedDict):
    """The perplexity of a text; `<UNK>` counts as a word."""

    forward: float
    backward: float
    average: float
    """exp of the mean of both directions' losses."""
    tokens: int
    unknown: float
    """The share of the tokens that are not in the vocabulary."""


def check_heldout(path: str | Path) -> None:
    """Make sure that the perplexity of a text can be measured, before there is a model.

    Raises:
        InputError: it cannot be read, or has no sentence.
    """
    if not sum(map(bool, read_sentences(path))):  # all of it is read
        raise _without_sentences(path)


def _without_sentences(path: str | Path) -> InputError:
    return InputError(f"{path}: no sentence to measure perplexity on")


@torch.no_grad()
def heldout_perplexity(
    objective: Objective,
    vocabulary: Vocabulary,
    path: Path,
    options: TrainingOptions,
    max_tokens: int | None = None,
) -> HeldoutPerplexity:
    """The perplexity of a text, its sentences started as in training, none left out.

    Args:
        objective: in evaluation for the time of the call.
        vocabulary: of the softmax.
        path: a file of text.
        options: `state` says how sentences start.
        max_tokens: the first batches with so many tokens are enough.

    Raises:
        InputError: there is no sentence in it.
    """
    objective.eval()
    totals, n_predictions, n_tokens, n_unknown = [0.0, 0.0], 0, 0, 0
    state = None
    for rows in _blocks(path, options) if options.state == "carry" else _batches(path):
        losses = objective(make_batch(rows, vocabulary), state)
        state = losses.state if options.state == "carry" else None
        totals = [totals[0] + losses.forward.item(), totals[1] + losses.backward.item()]
        for sentence, start, stop in (piece for row in rows for piece in row):
            n_predictions += stop - start
            read = sentence[max(start - 1, 0) : stop - 1]
            n_tokens += len(read)
            n_unknown += sum(token not in vocabulary for token in read)
        if max_tokens is not None and n_tokens >= max_tokens:
            break
    objective.train()
    if n_predictions == 0:
        raise _without_sentences(path)
    found = perplexity_of_sums(-np.array(totals), n_predictions)
    return HeldoutPerplexity(
        forward=found.forward,
        backward=found.backward,
        average=found.average,
        tokens=n_tokens,
        unknown=n_unknown / max(n_tokens, 1),
    )


def _batches(path: Path) -> Iterator[list[Row]]:
    sentences = (sentence for sentence in read_sentences(path) if sentence)
    for window in windows(sentences, 20_000, 20_000):
        for batch in batches_by_length([len(sentence) + 1 for sentence in window], BATCH_STEPS):
            yield [[Piece(window[i], 0, len(window[i]) + 1)] for i in batch]


def _blocks(path: Path, options: TrainingOptions) -> Iterator[list[Row]]:
    sentences = (sentence for sentence in read_sentences(path) if sentence)
    streams = new_streams(N_STREAMS)
    while any(rows := fill_block(streams, lambda: next(sentences, None), options.unroll)):
        yield rows
