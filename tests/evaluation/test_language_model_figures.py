"""Figures of language models: n-gram models to compare with, and initial states."""

import kneser_ney
import numpy as np
import pytest
import start_states

VOCABULARY = {"<S>", "</S>", "<UNK>", "the", "cat", "<s>"}


def test_unknown_words_are_one_word_to_kenlm() -> None:
    sentences = [["the", "cat", "sat"], ["<s>", "the"], [], ["the", "cat", "ate"]] * 2
    lines = ["the cat @unknown@", "@unknown@ the", "the cat @unknown@"]
    assert list(kneser_ney.mapped_lines(sentences, VOCABULARY)) == lines * 2
    # Sentences that differ in unknown words are distinct.
    assert list(kneser_ney.mapped_lines(sentences, VOCABULARY, distinct=True)) == lines


def test_the_perplexity_counts_the_end_of_sentences() -> None:
    lines = ["a=b @unknown@", "c"]
    answers = [
        "a=b=5 2 -1\t@unknown@=3 1 -4\t</s>=2 2 -1\tTotal: -6 OOV: 0",
        "c=6 2 -2\t</s>=2 2 -2\tTotal: -4 OOV: 0",
    ]
    assert kneser_ney.perplexities(lines, answers) == {
        "perplexity": pytest.approx(10 ** (10 / 5)),
        "known_words_perplexity": pytest.approx(10 ** (6 / 4)),
        "predictions": 5,
        "unknown": pytest.approx(1 / 3),
    }
    with pytest.raises(ValueError, match="expected 'a'"):
        kneser_ney.perplexities(["a"], ["b=5 2 -1\t</s>=2 2 -1\tTotal: -2 OOV: 0"])


def test_a_uniform_model_has_the_perplexity_of_its_size() -> None:
    assert start_states.in_order(2, 3) == [0, 3, 1, 4, 2, 5]  # A batch holds a line per stretch.
    n_predictions = np.array([3, 5, 2, 7])
    log_p = -np.log([[10.0], [20.0]]) * n_predictions
    estimate = start_states.perplexities(log_p, n_predictions, 2)
    assert estimate.values == pytest.approx([10, 20])
    assert estimate.errors == pytest.approx([0, 0], abs=1e-9)
