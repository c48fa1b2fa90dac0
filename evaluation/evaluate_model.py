"""What the layers of a model know: every probe, as one Markdown table.

    python evaluation/evaluate_model.py --model mini --brown package --wordnet /usr/share/wordnet

See `part_of_speech`, `word_senses` and `senses` for what is measured and where the data
is had; a part whose data is not named is left out. After each ± is a standard error, by
drawing sentences (part of speech) or words (senses) again.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import part_of_speech
import senses
import word_senses
from bootstrap import Estimate, mean_of_groups
from wordnet_examples import read_examples

from elmo_cli import ElmoEmbedder

Row = tuple[str, Estimate, str]
"""What was measured, its figure a layer, and what it is to be held against."""


def main() -> None:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--brown", type=Path, help="folder of the tagged Brown corpus")
    parser.add_argument("--wordnet", type=Path, help="folder of WordNet's files")
    parser.add_argument("--state", default="zero", help="where sentences start")
    asked = parser.parse_args()
    embedder = ElmoEmbedder(model=asked.model, state=asked.state)
    top = embedder.options.n_layers - 1
    print("|", *(f"| layer {k}" for k in range(top + 1)), f"| {top} above 1 | to compare |")
    print("|---" + "|--:" * (top + 2) + "|---|")
    for name, estimate, baseline in measure(embedder, asked.brown, asked.wordnet):
        figures = [_shown(*figure) for figure in zip(estimate.values, estimate.errors, strict=True)]
        difference, error = estimate.difference(top, 1)
        cells = [name, *figures[: top + 1], f"{difference:+.3f} ± {error:.3f}", baseline]
        print("|", " | ".join(cells), "|", flush=True)


def measure(embedder: ElmoEmbedder, brown: Path | None, wordnet: Path | None) -> Iterator[Row]:
    """The rows of the table."""
    yield from measure_lists(embedder)
    if wordnet:
        yield from measure_wordnet(embedder, wordnet)
    if brown:
        train, test = part_of_speech.split(part_of_speech.read_brown(brown))
        probed, usual = part_of_speech.probe_layers(embedder, train, test)
        yield "part of speech, Brown corpus", probed, f"each word's usual tag: {usual:.3f}"


def measure_lists(embedder: ElmoEmbedder) -> Iterator[Row]:
    """The lists of sentences that come with the tests."""
    for name, balanced in senses.LISTS.items():
        for figure, rank in (
            ("pairs of senses", senses.rank_by_sense),
            ("nearest sentence", senses.find_nearest),
        ):
            scores = rank(embedder, senses.read_sentences(name), balanced=balanced)
            estimate = mean_of_groups(np.array(list(scores.values())), np.arange(len(scores)))
            yield f"{figure}, {name}", estimate, "layer 0 is chance"


def measure_wordnet(embedder: ElmoEmbedder, wordnet: Path) -> Iterator[Row]:
    """The examples of WordNet."""
    words = word_senses.choose_words(list(read_examples(wordnet).values()))
    vectors = word_senses.embed(embedder, words)
    baselines = (
        f"at random {word_senses.random_guess(words):.3f}; "
        f"WordNet's first sense {word_senses.first_sense_guess(words):.3f}"
    )
    yield "nearest sense, WordNet", word_senses.nearest_sense(words, vectors), baselines
    yield "pairs of senses, WordNet", word_senses.rank_pairs(words, vectors), "chance 0.5"


def _shown(value: float, error: float) -> str:
    return f"{value:.3f} ± {error:.3f}"


if __name__ == "__main__":
    main()
