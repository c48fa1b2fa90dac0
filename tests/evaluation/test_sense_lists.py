"""The lists of senses: the bundled model tells senses apart, random vectors do not."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
import sense_lists
from numpy.typing import NDArray

from elmo_cli import ElmoEmbedder


class RandomEmbedder:
    """Three layers of noise."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def embed_sentences(self, sentences: Iterable[list[str]], /) -> Iterator[NDArray[np.float32]]:
        for sentence in sentences:
            yield self.random.normal(size=(3, len(sentence), 16)).astype(np.float32)


def test_the_bundled_model_tells_senses_apart() -> None:
    table = sense_lists.evaluate(ElmoEmbedder(model="mini"))
    typical = [cell.value for cell in table.rows["typical"] if cell]
    # Layer 0 cannot tell: a token has one vector everywhere.
    assert typical[0] == 50
    # Random vectors stay below 60; see the next test.
    assert min(typical[1:5]) > 65


def test_random_vectors_are_at_chance() -> None:
    table = sense_lists.evaluate(RandomEmbedder())
    for row in table.rows.values():
        assert [cell.value for cell in row if cell][:5] == pytest.approx([50] * 5, abs=10)


def test_sentences_of_one_structure_are_not_compared() -> None:
    class Planted:
        def embed_sentences(
            self, sentences: Iterable[list[str]], /
        ) -> Iterator[NDArray[np.float32]]:
            for sentence in sentences:
                yield np.eye(4, dtype=np.float32)[[[len(sentence)] * len(sentence)]]

    rows = [("one", ["x"]), ("one", ["x", "y"]), ("two", ["x"]), ("two", ["x", "y"])]
    # The nearest sentences have one structure and different senses.
    shares = [sense_lists.rank_pairs(Planted(), "x", rows, balanced=b) for b in (False, True)]
    assert shares[0] == pytest.approx([0.25] * 3)
    assert shares[1] == pytest.approx([0.5] * 3)
