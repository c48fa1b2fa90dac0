"""Rows of `elmo predict`: one per predicted word."""

from collections.abc import Iterator, Sequence
from typing import Final

from elmo_cli.language_model.prediction import Candidate, Prediction, Substitutes
from elmo_cli.model.vocabulary import UNKNOWN_TOKEN, Vocabulary

PREDICTION_COLUMNS: Final = ("rank", "word", "probability")
"""Columns of a word that is predicted after a text, before it or in its gap; ranks are from 1."""
SUBSTITUTE_COLUMNS: Final = ("position", "token", "known", *PREDICTION_COLUMNS)
"""Columns of a substitute for the token at a position, from 0."""
SAMPLE_COLUMNS: Final = ("sample_number", "text")
"""Columns of a sampled sentence; numbers are from 1, and spaces separate the tokens."""


def rows_of(prediction: Prediction | Substitutes, vocabulary: Vocabulary) -> Iterator[list[object]]:
    """Yield the rows of predicted words, the most probable word first."""
    if isinstance(prediction, Prediction):
        yield from _candidate_rows(prediction.candidates)
        return
    tokens = zip(prediction.tokens, prediction.candidates, strict=True)
    for position, (token, candidates) in enumerate(tokens):
        known = token in vocabulary and token != UNKNOWN_TOKEN
        for row in _candidate_rows(candidates):
            yield [position, token, known, *row]


def _candidate_rows(candidates: Sequence[Candidate]) -> Iterator[list[object]]:
    for rank, (word, probability) in enumerate(candidates, start=1):
        yield [rank, word, probability]


def sample_rows(samples: Sequence[Sequence[str]]) -> Iterator[list[object]]:
    """Yield the row of each sample."""
    for number, sample in enumerate(samples, start=1):
        yield [number, " ".join(sample)]
