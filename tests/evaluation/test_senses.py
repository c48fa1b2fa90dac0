"""The bundled model tells senses apart: the figure that its card reports."""

import numpy as np
import pytest
import senses

from elmo_cli import ElmoEmbedder


def test_pairs_of_one_sense_rank_above_pairs_of_two_with_the_bundled_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    scores = senses.rank_by_sense(
        ElmoEmbedder(model="mini"), senses.read_sentences("typical"), balanced=False
    )
    assert len(scores) == 12
    layers = np.array(list(scores.values()))  # (words, L + 1)
    # The token layer cannot tell: the same token has the same vector everywhere.
    assert layers[:, 0] == pytest.approx(0.5)
    # Chance is 0.5; a ranking at random of these pairs stays under 0.6 (see below).
    assert layers[:, 1:].mean(axis=0).min() > 0.65


def test_random_vectors_rank_at_chance() -> None:
    random = np.random.default_rng(0)

    class RandomEmbedder:
        def embed_sentences(self, sentences: object) -> list[np.ndarray]:
            return [random.normal(size=(3, 60, 16)) for _ in list(sentences)]  # type: ignore[call-overload]

    scores = senses.rank_by_sense(
        RandomEmbedder(),  # type: ignore[arg-type]
        senses.read_sentences("typical"),
        balanced=False,
    )
    assert np.mean(list(scores.values()), axis=0) == pytest.approx(0.5, abs=0.1)


def test_the_nearest_sentence_has_the_right_sense_more_often_than_by_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    words = senses.read_sentences("typical")
    scores = senses.find_nearest(ElmoEmbedder(model="mini"), words, balanced=False)
    layers = np.array(list(scores.values()))  # (words, L + 1)
    chance = [(len(rows) / 2 - 1) / (len(rows) - 1) for rows in words.values()]
    assert layers[:, 0] == pytest.approx(chance)
    assert layers[:, 1:].mean(axis=0).min() > np.mean(chance) + 0.15
