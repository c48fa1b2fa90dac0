"""Minimal pairs: BLiMP (Warstadt et al., 2020), for a language model with its softmax.

A pair is correct if the acceptable sentence is more probable than the other one, by the
forward direction, the backward direction, or the sum of both log probabilities. A tie
counts as half. The end of each sentence is predicted too. Sentences are tokenized by
the Moses rules.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from elmo_cli import LanguageModel
from elmo_cli.language_model.pairs import PairTable
from elmo_cli.options.text import TextSettings
from elmo_cli.records.record import Record
from elmo_cli.text.tokenizers import make_tokenizer
from evaluation.bootstrap import Floats, mean_of_groups
from evaluation.tables import Cell, Figure, Table, figures

PUBLISHED = {
    "published: 5-gram": 61.2,
    "published: LSTM, 83M tokens": 69.8,
    "published: GPT-2, 10M words": 65.1,
}
"""Accuracy on all pairs: Warstadt et al. (2020); the last one from BabyLM."""
_PHENOMENA = {"s-selection": "argument_structure"}
"""Terms of the files and the phenomena to which the paper counts them."""


class Measured(Protocol):
    """The part of `elmo_cli.language_model.pairs.ScoredPair` that the table needs."""

    @property
    def correct(self) -> list[float]:
        """1, 0.5 (a tie) or 0, forward, backward and both."""

    @property
    def n_unknown_good(self) -> int:
        """Number of unknown words in the acceptable sentence."""

    @property
    def n_unknown_bad(self) -> int:
        """Number of unknown words in the other sentence."""


class Pair(NamedTuple):
    """An acceptable and an unacceptable sentence."""

    good: str
    bad: str
    phenomenon: str


def read_pairs(paths: Iterable[Path], n_pairs: int | None = None) -> Iterator[Pair]:
    """Yield the pairs of BLiMP's sets.

    Args:
        paths: Files of JSON lines, one per set.
        n_pairs: Maximum number of pairs per set, the first ones.
    """
    for path in sorted(paths):
        with open(path, encoding="utf-8") as file:
            for line in islice(file, n_pairs):
                pair = json.loads(line)
                term = pair["linguistics_term"]
                phenomenon = _PHENOMENA.get(term, term).replace("_", " ")
                yield Pair(pair["sentence_good"], pair["sentence_bad"], phenomenon)


def measure(model: LanguageModel, pairs: Iterable[Pair]) -> Iterator[Measured]:
    """Measure pairs in both directions, as `elmo surprisal --pair-columns` does."""
    table = PairTable(("good", "bad"), TextSettings())
    tokenizer = make_tokenizer("moses")
    records = (
        Record(pair.good, tokenizer.tokenize(pair.good), columns=pair._asdict())
        for pair in pairs
    )
    measured = table.measure(model, records, tokenizer, direction="both")
    return (scored.result for scored in measured)


def evaluate(pairs: Sequence[Pair], measured: Iterable[Measured]) -> Table:
    """Return the table of accuracies: a row per phenomenon, a column per direction."""
    results = list(measured)
    correct = np.array([result.correct for result in results])  # (N, 3)
    are_known = np.array(
        [not (each.n_unknown_good or each.n_unknown_bad) for each in results]
    )
    phenomena = np.array([pair.phenomenon for pair in pairs])
    rows: dict[str, Sequence[Cell]] = {"all": _summarize(correct, are_known)}
    for name in np.unique(phenomena).tolist():
        rows[name] = _summarize(
            correct[phenomena == name], are_known[phenomena == name]
        )
    for title, value in PUBLISHED.items():
        rows[title] = [Figure(value), *[None] * (len(_COLUMNS) - 1)]
    note = (
        f"Accuracy on {len(pairs):,} pairs of BLiMP. Intervals draw pairs of the same "
        "sets."
    )
    return Table("Minimal pairs", note, _COLUMNS, rows)


_COLUMNS = [
    "forward",
    "backward",
    "both",
    "pairs with unknown words",
    "both, all words known",
    "both minus forward",
]


def _summarize(correct: Floats, are_known: NDArray[np.bool_]) -> list[Cell]:
    numbers = np.arange(len(correct))
    columns = [correct, ~are_known[:, None], correct[:, [2]] - correct[:, [0]]]
    *accuracies, unknown, difference = figures(
        mean_of_groups(np.hstack(columns), numbers)
    )
    of_known: Figure | None = None
    if are_known.any():
        of_known = figures(
            mean_of_groups(correct[are_known][:, [2]], numbers[are_known])
        )[0]
    return [*accuracies, unknown, of_known, difference]
