"""What a language model gains or loses by where sentences start.

    python evaluation/start_states.py MODEL HELDOUT [--stretch 100]

HELDOUT is text whose lines follow one another, in stretches of as many lines as given.
The model, with its softmax, scores it four times:

zero: every sentence starts from the zero state.
warm: from the state after a fixed text.
carry: as `--state carry` does, from where the sentence 64 lines before ended.
carry, in order: from where the sentence just before ended; the first of a stretch from zero.

The perplexity of both directions is given with its standard error, and how much it is above
that of zero with the standard error of this, by drawing stretches again.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from bootstrap import Estimate, draw_weights
from numpy.typing import NDArray

from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.settings import InitialState
from elmo_cli.text.records import Sentence
from elmo_cli.text.tokenizers import read_sentences

BATCH_SIZE = 64
STARTS = ("zero", "warm", "carry", "carry, in order")

Floats = NDArray[np.float64]


def main() -> None:
    """Print the perplexity of each start."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("heldout", type=Path)
    parser.add_argument("--stretch", type=int, default=100, help="lines that follow one another")
    asked = parser.parse_args()
    sentences = [sentence for sentence in read_sentences(asked.heldout) if sentence]
    n_stretches = len(sentences) // asked.stretch
    if n_stretches < 2:
        raise SystemExit(
            f"{asked.heldout}: expected two stretches of {asked.stretch} lines or more"
        )
    sentences = sentences[: n_stretches * asked.stretch]
    log_p = np.stack([score(asked.model, start, sentences, asked.stretch) for start in STARTS])
    n_predictions = np.array([len(sentence) + 1 for sentence in sentences])
    estimate = perplexities(log_p, n_predictions, n_stretches)
    print(f"{n_stretches} stretches, {n_predictions.sum()} predictions in each direction")
    for k, start in enumerate(STARTS):
        ratio = 100 * (estimate.draws[:, k] / estimate.draws[:, 0] - 1)
        above = 100 * (estimate.values[k] / estimate.values[0] - 1)
        print(
            f"{start}\t{estimate.values[k]:.2f} ± {estimate.errors[k]:.2f}"
            f"\t{above:+.2f} % ± {ratio.std(ddof=1):.2f}"
        )


def score(model: str, start: str, sentences: Sequence[Sentence], stretch: int) -> Floats:
    """The log probability of each sentence, the mean of both directions: shape (N,)."""
    state = cast(InitialState, start.partition(",")[0])
    order, batch_size = list(range(len(sentences))), BATCH_SIZE
    if start == "carry, in order":
        batch_size = len(sentences) // stretch
        order = in_order(batch_size, stretch)
    scores = LanguageModel(model=model, state=state).score(
        [sentences[number] for number in order], batch_size
    )
    log_p = np.empty(len(sentences))
    for number, found in zip(order, scores, strict=True):
        log_p[number] = (found.forward.sum() + found.backward.sum()) / 2
    return log_p


def in_order(n_stretches: int, stretch: int) -> list[int]:
    """The order of lines in which the k-th batch has the k-th line of each stretch."""
    return [s * stretch + line for line in range(stretch) for s in range(n_stretches)]


def perplexities(log_p: Floats, n_predictions: NDArray[np.int64], n_stretches: int) -> Estimate:
    """Perplexities of K starts.

    Args:
        log_p: of each sentence, shape (K, N).
        n_predictions: of each sentence, shape (N,).
        n_stretches: that divide N.
    """
    sums = log_p.reshape(len(log_p), n_stretches, -1).sum(axis=2).T  # (S, K)
    counts = n_predictions.reshape(n_stretches, -1).sum(axis=1)
    weights = draw_weights(n_stretches)
    draws = np.exp(-(weights @ sums) / (weights @ counts)[:, None])
    return Estimate(np.exp(-sums.sum(axis=0) / counts.sum()), draws)


if __name__ == "__main__":
    main()
