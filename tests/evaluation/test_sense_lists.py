"""The lists of senses: random vectors do not tell senses apart."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import sense_lists


class Planted:
    """Model that computes the layers of a sentence by a function."""

    def __init__(self, layers: Callable[[list[str]], Any]) -> None:
        self.layers = layers

    def embed_sentences(self, sentences: Iterable[list[str]], /) -> Iterator[Any]:
        return map(self.layers, sentences)


def test_random_vectors_are_at_chance() -> None:
    random = np.random.default_rng(0)
    noise = Planted(lambda sentence: random.normal(size=(3, len(sentence), 16)))
    for row in sense_lists.evaluate(noise).rows.values():
        assert [cell.value for cell in row if cell][:5] == pytest.approx([50] * 5, abs=10)


def test_sentences_of_one_structure_are_not_compared() -> None:
    lengths = Planted(lambda sentence: np.eye(4)[[[len(sentence)] * len(sentence)]])
    rows = [("one", ["x"]), ("one", ["x", "y"]), ("two", ["x"]), ("two", ["x", "y"])]
    # The nearest sentences have one structure and different senses.
    shares = [sense_lists.rank_pairs(lengths, "x", rows, balanced=b) for b in (False, True)]
    assert shares[0] == pytest.approx([0.25] * 3)
    assert shares[1] == pytest.approx([0.5] * 3)
