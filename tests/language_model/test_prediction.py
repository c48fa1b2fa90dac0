import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import reference
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from strategies import WORDS, batches, make_language_model, seeds, small_architecture

from elmo_cli import LanguageModel, predict_words, sample_sentences, substitute_words
from elmo_cli.errors import InputError
from elmo_cli.language_model import softmax
from elmo_cli.language_model.prediction import GAP, Prediction

SPECIAL = [0, 1, 2]
"""<S>, </S> and <UNK> in WORDS."""

tokens = st.lists(st.sampled_from(["the", "cat", "dog", "naïve", "<UNK>"]), max_size=4)


def log_p(model_folder: Path, text: list[str], row: int, *, backward: bool) -> NDArray[np.float64]:
    """Return the reference's log probabilities of all words at a row of a bounded text."""
    options = json.loads((model_folder / "options.json").read_text())
    softmax = reference.read_arrays(model_folder / "softmax.hdf5")
    arrays = reference.read_arrays(model_folder / "weights.hdf5")
    vectors = [reference.token_vector(token, options, arrays) for token in text]
    direction = reference.BACKWARD if backward else reference.FORWARD
    state = reference.zero_state(options)
    layers, _ = reference.run_direction(vectors, direction, state, options, arrays)
    return reference.log_probabilities(layers[-1][row], softmax["softmax/W"], softmax["softmax/b"])


def probabilities(prediction: Prediction) -> NDArray[np.float64]:
    """Return the probability of every word by its number, 0 for words that are missing."""
    by_number = np.zeros(len(WORDS))
    for word, probability in prediction.candidates:
        by_number[WORDS.index(word)] = probability
    return by_number


@pytest.fixture(scope="module")
def model(model_folder: Path) -> LanguageModel:
    return LanguageModel(model=model_folder)


@given(tokens, seeds)
def test_the_words_after_and_before_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory, text: list[str], seed: int
) -> None:
    model_folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), seed, model_folder)
    model = LanguageModel(model=model_folder)
    [after] = predict_words(model, [text], top=100, with_unknown=True)
    [before] = predict_words(model, [text], top=100, backward=True, with_unknown=True)
    assert (after.place, before.place, after.tokens) == ("after", "before", text)
    expected = np.exp(log_p(model_folder, ["<S>", *text], -1, backward=False))
    assert_allclose(probabilities(after), expected, atol=1e-5)
    expected = np.exp(log_p(model_folder, [*text, "</S>"], 0, backward=True))
    assert_allclose(probabilities(before), expected, atol=1e-5)


@given(tokens, tokens)
def test_a_gap_is_filled_from_both_sides(
    model_folder: Path, model: LanguageModel, left: list[str], right: list[str]
) -> None:
    [prediction] = predict_words(model, [[*left, GAP, *right]], top=100)
    ahead = log_p(model_folder, ["<S>", *left], -1, backward=False)
    behind = log_p(model_folder, [*right, "</S>"], 0, backward=True)
    prior = np.array([np.log((rank + 2) / (rank + 1)) for rank in range(len(WORDS))])
    product = np.exp(ahead + behind) / prior
    product[SPECIAL] = 0
    assert (prediction.place, prediction.unknown) == ("gap", 0)
    assert_allclose(probabilities(prediction), product / product.sum(), atol=1e-5)


@given(batches())
def test_each_token_is_replaced_as_a_gap_is_filled(
    model: LanguageModel, sentences: list[list[str]]
) -> None:
    assume(not any(GAP in sentence for sentence in sentences))  # Hypothesis may draw the gap.
    all_substitutes = list(substitute_words(model, sentences, top=4))
    assert [substitutes.tokens for substitutes in all_substitutes] == sentences
    for sentence, (_, candidates) in zip(sentences, all_substitutes, strict=True):
        gaps = [[*sentence[:i], GAP, *sentence[i + 1 :]] for i in range(len(sentence))]
        expected = predict_words(model, gaps, top=4)
        for words, gap in zip(candidates, expected, strict=True):
            assert len(words) == 4
            assert_allclose([p for _, p in words], [p for _, p in gap.candidates], atol=1e-5)


def test_texts_do_not_depend_on_one_another(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [["the"], ["cat", GAP, "sat"], [], [GAP], ["the", "dog"]]
    together = predict_words(model, texts, top=8)
    monkeypatch.setattr(softmax, "LOGITS", 1)
    for text, prediction in zip(texts, together, strict=True):
        [alone] = predict_words(model, [text], top=8)
        assert alone.tokens == prediction.tokens
        assert_allclose(probabilities(alone), probabilities(prediction), atol=1e-6)
    assert [prediction.tokens for prediction in predict_words(model, texts)] == texts


def test_the_best_come_first_and_as_many_as_asked(model: LanguageModel) -> None:
    [prediction] = predict_words(model, [["the"]], top=3)
    values = [candidate.probability for candidate in prediction.candidates]
    assert values == sorted(values, reverse=True)
    [more] = predict_words(model, [["the"]], top=100)
    assert more.candidates[:3] == prediction.candidates
    assert len(more.candidates) == len(WORDS) - 1
    assert probabilities(more).sum() + more.unknown == pytest.approx(1)
    [everything] = predict_words(model, [["the"]], top=100, with_unknown=True)
    assert probabilities(everything)[2] == pytest.approx(more.unknown)


def test_a_warm_start_predicts_otherwise(model_folder: Path, model: LanguageModel) -> None:
    [zero] = predict_words(model, [["the"]])
    [warm] = predict_words(LanguageModel(model=model_folder, state="warm"), [["the"]])
    assert not np.allclose(probabilities(zero), probabilities(warm), atol=1e-4)


# Samples.


@pytest.mark.parametrize(("backward", "temperature"), [(False, 1.0), (True, 1.0), (False, 0.5)])
def test_samples_are_as_frequent_as_probable(
    model_folder: Path, model: LanguageModel, backward: bool, temperature: float
) -> None:
    text, n = ["the", "cat"], 3000
    samples = sample_sentences(
        model, text, n, backward=backward, temperature=temperature, max_words=1
    )
    bounded = [*text, "</S>"] if backward else ["<S>", *text]
    weights = np.exp(
        log_p(model_folder, bounded, 0 if backward else -1, backward=backward) / temperature
    )
    end, never = (0, 1) if backward else (1, 0)
    weights[[never, 2]] = 0
    expected = n * weights / weights.sum()
    index = 0 if backward else -1
    counts = Counter(s[index] if len(s) > 2 else WORDS[end] for s in samples)
    frequencies = np.array([counts[word] for word in WORDS])
    assert frequencies[weights == 0].sum() == 0
    likely = expected > 5
    chi_square = ((frequencies - expected)[likely] ** 2 / expected[likely]).sum()
    # 0.999 quantile of chi-square with at most 5 degrees of freedom.
    assert chi_square < 20.5


def test_samples_are_repeatable_and_depend_on_their_own_number(model: LanguageModel) -> None:
    five = sample_sentences(model, ["the"], 5, max_words=6)
    assert sample_sentences(model, ["the"], 3, max_words=6) == five[:3]
    assert sample_sentences(model, ["the"], 5, max_words=6, seed=1) != five
    assert all(sample[0] == "the" and len(sample) <= 7 for sample in five)
    behind = sample_sentences(model, ["the"], 5, max_words=6, backward=True)
    assert all(sample[-1] == "the" for sample in behind)


def test_a_low_temperature_takes_the_most_probable_words(model: LanguageModel) -> None:
    sample, other = sample_sentences(model, ["cat"], 2, temperature=1e-4, max_words=4)
    assert sample == other
    assert sample_sentences(model, ["cat"], temperature=1e-310, max_words=4) == [sample]
    for index in range(1, len(sample)):
        [prediction] = predict_words(model, [sample[:index]], top=8)
        words = [word for word, _ in prediction.candidates if word not in ("<S>", "<UNK>")]
        assert sample[index] == words[0]


# What goes wrong.


def test_wrong_texts_and_numbers_are_reported(model_folder: Path, model: LanguageModel) -> None:
    with pytest.raises(InputError, match=r"^___ a ___: 2 gaps \(___\)\. Fill all but one"):
        predict_words(model, [[GAP, "a", GAP]])
    with pytest.raises(InputError, match=r"^top 0: expected 1 or more$"):
        predict_words(model, [["a"]], top=0)
    with pytest.raises(InputError, match=r"^--temperature 0: must be above 0\.$"):
        sample_sentences(model, ["a"], temperature=0)
    with pytest.raises(InputError, match=r"^a text to continue cannot contain a gap"):
        sample_sentences(model, ["a", GAP])
    carrying = LanguageModel(model=model_folder, state="carry")
    with pytest.raises(InputError, match=r"^--state 'carry': predictions start from zero or warm$"):
        predict_words(carrying, [["a"]])


def test_numpy_holds_tokens_too(model_folder: Path) -> None:
    model = LanguageModel(model=model_folder)
    for text in (["the", "cat"], ["the", GAP, "sat"]):
        assert predict_words(model, [np.array(text)]) == predict_words(model, [text])  # type: ignore[list-item]
