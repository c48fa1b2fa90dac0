import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import WORDS, batches, make_language_model, seeds, small_architecture

from elmo_cli import LanguageModel, measure_surprisal

SENTENCES = [["the", "cat", "sat"], [], ["the", "dog", "<UNK>", "sat", "東京"], ["cat"] * 9]


def expected_bits(
    model_folder: Path, sentence: list[str], *, backward: bool
) -> np.ndarray[Any, Any]:
    """Return the reference's surprisals and entropies of a sentence's tokens, shape (2, T)."""
    options = json.loads((model_folder / "options.json").read_text())
    arrays = reference.read_arrays(model_folder / "weights.hdf5")
    softmax = reference.read_arrays(model_folder / "softmax.hdf5")
    layers, _ = reference.bilm(sentence, options, arrays, WORDS)
    contexts = np.split(layers[-1], 2, axis=1)[backward]
    contexts = contexts[2:] if backward else contexts[:-2]
    rows = []
    for token, context in zip(sentence, contexts, strict=True):
        log_p = reference.log_probabilities(context, softmax["softmax/W"], softmax["softmax/b"])
        word = WORDS.index(token if token in WORDS else "<UNK>")
        rows.append([-log_p[word], -(np.exp(log_p) * log_p).sum()])
    bits: np.ndarray[Any, Any] = np.array(rows).T / np.log(2)
    return bits


@given(seeds, batches(), st.booleans())
def test_surprisals_and_entropies_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory, seed: int, sentences: list[list[str]], backward: bool
) -> None:
    model_folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), seed, model_folder)
    surprisals = measure_surprisal(
        LanguageModel(model=model_folder), sentences, backward=backward, with_entropy=True
    )
    for values, sentence in zip(surprisals, sentences, strict=True):
        assert values.tokens == sentence
        assert values.known.tolist() == [t in WORDS and t != "<UNK>" for t in sentence]
        assert values.entropy is not None
        bits = np.array([values.surprisal, values.entropy])
        expected = (
            expected_bits(model_folder, sentence, backward=backward) if sentence else bits[:, :0]
        )
        assert_allclose(bits, expected, atol=5e-5)


@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
def test_they_are_the_log_probabilities_that_make_a_perplexity(
    model_folder: Path, state: Any
) -> None:
    scores = list(LanguageModel(model=model_folder, state=state).score(SENTENCES, batch_size=2))
    for backward in (False, True):
        model = LanguageModel(model=model_folder, state=state)
        surprisals = list(measure_surprisal(model, SENTENCES, batch_size=2, backward=backward))
        assert [values.entropy for values in surprisals] == [None] * 4
        for values, score in zip(surprisals, scores, strict=True):
            log_p = score.backward[1:] if backward else score.forward[:-1]
            assert_allclose(values.surprisal, -log_p / np.log(2), atol=1e-5)
