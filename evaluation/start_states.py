"""Perplexity of a language model from each initial state.

    python evaluation/start_states.py MODEL HELDOUT [--stretch 100]

HELDOUT is text in stretches of successive lines. The model, with its softmax, scores it
four times, and every sentence starts from

zero: the zero state.
warm: the state after a fixed text.
carry: the last state of the sentence 64 lines before, as with `--state carry`. carry,
in order: the last state of the sentence before; zero at the beginning of a stretch.

The output is the perplexity of both directions with its standard error, and its
distance from the perplexity of zero with the standard error of the distance, by drawing
stretches again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

# The checkout comes last, so that an installed elmo_cli is the one that is measured.
sys.path.append(str(Path(__file__).parents[1]))

from elmo_cli import LanguageModel
from evaluation.bootstrap import Estimate, draw_totals
from evaluation.token_style import read_sentences

BATCH_SIZE = 64
STARTS = ("zero", "warm", "carry", "carry, in order")

Floats = NDArray[np.float64]


def main() -> None:
    """Print the perplexity from each initial state."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("heldout", type=Path)
    parser.add_argument(
        "--stretch", type=int, default=100, help="successive lines per stretch"
    )
    options = parser.parse_args()
    sentences = [sentence for sentence in read_sentences(options.heldout) if sentence]
    n_stretches = len(sentences) // options.stretch
    if n_stretches < 2:
        raise SystemExit(
            f"{options.heldout}: expected two stretches of {options.stretch} lines or "
            "more"
        )
    sentences = sentences[: n_stretches * options.stretch]
    log_p = np.stack(
        [score(options.model, start, sentences, options.stretch) for start in STARTS]
    )
    n_predictions = np.array([len(sentence) + 1 for sentence in sentences])
    estimate = perplexities(log_p, n_predictions, n_stretches)
    print(
        f"{n_stretches} stretches, {n_predictions.sum()} predictions in each direction"
    )
    for k, start in enumerate(STARTS):
        ratio = 100 * (estimate.draws[:, k] / estimate.draws[:, 0] - 1)
        above = 100 * (estimate.values[k] / estimate.values[0] - 1)
        print(
            f"{start}\t{estimate.values[k]:.2f} ± {estimate.errors[k]:.2f}"
            f"\t{above:+.2f} % ± {ratio.std(ddof=1):.2f}"
        )


def score(
    model: str, start: str, sentences: Sequence[list[str]], stretch: int
) -> Floats:
    """Return each sentence's log probability, mean of both directions, (N,)."""
    state = cast(Literal["zero", "warm", "carry"], start.partition(",")[0])
    order = list(range(len(sentences)))
    batch_size = BATCH_SIZE
    if start == "carry, in order":
        batch_size = len(sentences) // stretch
        order = in_order(batch_size, stretch)
    scores = LanguageModel(model=model, state=state).score(
        [sentences[number] for number in order], batch_size=batch_size
    )
    log_p = np.empty(len(sentences))
    for number, sentence_score in zip(order, scores, strict=True):
        backward = sentence_score.backward
        if backward is None:
            raise SystemExit(f"{model}: the model only reads forward")
        log_p[number] = (sentence_score.forward.sum() + backward.sum()) / 2
    return log_p


def in_order(n_stretches: int, stretch: int) -> list[int]:
    """Return the order of lines in which batch k has line k of each stretch."""
    return [s * stretch + line for line in range(stretch) for s in range(n_stretches)]


def perplexities(
    log_p: Floats, n_predictions: NDArray[np.int64], n_stretches: int
) -> Estimate:
    """Estimate the perplexities from K initial states.

    Args:
        log_p: The log probability of each sentence, shape (K, N).
        n_predictions: The predictions in each sentence, shape (N,).
        n_stretches: Number of stretches, a divisor of N.
    """
    sums = log_p.reshape(len(log_p), n_stretches, -1).sum(axis=2).T  # (S, K)
    counts = n_predictions.reshape(n_stretches, -1).sum(axis=1)
    totals = draw_totals(np.hstack([sums, counts[:, None]]))
    draws = np.exp(-totals[:, :-1] / totals[:, -1:])
    return Estimate(np.exp(-sums.sum(axis=0) / counts.sum()), draws)


if __name__ == "__main__":
    main()
