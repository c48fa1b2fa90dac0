"""Scores, perplexity, minimal pairs, predictions and samples, compared with the slow reference."""

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from elmo_cli import (
    ElmoEmbedder,
    LanguageModel,
    predict_words,
    sample_sentences,
    substitute_words,
)
from elmo_cli.errors.exceptions import InputError, WeightsError
from elmo_cli.language_model import softmax
from elmo_cli.language_model.gaps import GAP
from elmo_cli.language_model.language_model import SentenceScore
from elmo_cli.language_model.next_words import Prediction
from elmo_cli.language_model.pairs import Pair, PairTable, pair_columns
from elmo_cli.language_model.perplexity import measure_perplexity
from elmo_cli.language_model.scored_records import ScoredRecord
from elmo_cli.options.text import ALL_COLUMNS, TextSettings
from elmo_cli.pretrained.convert import convert_weights
from elmo_cli.pretrained.describe import describe_model
from elmo_cli.records.record import Record
from elmo_cli.text.tokenizers import WHITESPACE
from tests.support import reference
from tests.support.strategies import (
    WORDS,
    architectures,
    batches,
    make_language_model,
    seeds,
    word_architectures,
)

SENTENCES = [
    ["the", "cat", "sat"],
    [],
    ["a"],
    ["the", "dog", "<UNK>", "sat", "東京"],
    ["cat"] * 9,
]

tokens = st.lists(st.sampled_from(["the", "cat", "dog", "naïve", "<UNK>"]), max_size=4)


@pytest.fixture(scope="module")
def model(model_folder: Path) -> LanguageModel:
    return LanguageModel(model=model_folder)


def assert_same(
    actual: Sequence[SentenceScore], expected: Sequence[SentenceScore]
) -> None:
    assert [score.tokens for score in actual] == [score.tokens for score in expected]
    for one, other in zip(actual, expected, strict=True):
        assert_allclose(one[2:], other[2:], atol=1e-5)


@given(st.one_of(architectures(), word_architectures()), seeds, batches())
def test_scores_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    content: dict[str, Any],
    seed: int,
    sentences: list[list[str]],
) -> None:
    folder = tmp_path_factory.mktemp("model")
    make_language_model(content, seed, folder)
    scores = LanguageModel(model=folder).score(sentences)
    for score, sentence in zip(scores, sentences, strict=True):
        assert score.tokens == sentence
        assert score.known.tolist() == [t in WORDS and t != "<UNK>" for t in sentence]
        expected: Any = [[], []]
        if sentence:
            expected, _ = reference.model_scores(folder, sentence, WORDS)
        assert_allclose([score.forward, score.backward], expected, atol=2e-5)


@pytest.mark.parametrize("name", ["weights.hdf5", "weights.safetensors"])
def test_one_file_may_hold_weights_and_softmax(
    model_folder: Path, model: LanguageModel, tmp_path: Path, name: str
) -> None:
    arrays = reference.read_arrays(model_folder / "weights.hdf5")
    arrays |= reference.read_arrays(model_folder / "softmax.hdf5")
    with h5py.File(tmp_path / "both.hdf5", "w") as both:
        for tensor, values in arrays.items():
            both[tensor] = values
    folder = tmp_path / "model"
    shutil.copytree(
        model_folder, folder, ignore=lambda *_: ["weights.hdf5", "softmax.hdf5"]
    )
    convert_weights(tmp_path / "both.hdf5", folder / name)
    assert describe_model(str(folder))["files"]["softmax"]["path"] == str(folder / name)
    ElmoEmbedder(model=folder).save_pretrained(tmp_path / "saved")
    for language_model in (
        LanguageModel(model=folder),
        LanguageModel(folder / "options.json", folder / name),
        LanguageModel(model=tmp_path / "saved"),
    ):
        assert_same(list(language_model.score(SENTENCES)), list(model.score(SENTENCES)))


def test_carried_state_equals_the_reference(model_folder: Path) -> None:
    model = LanguageModel(model=model_folder, state="carry")
    state = None
    scores = list(model.score(SENTENCES, batch_size=1))
    for score, sentence in zip(scores, SENTENCES, strict=True):
        if sentence:
            expected, state = reference.model_scores(
                model_folder, sentence, WORDS, state
            )
            assert_allclose([score.forward, score.backward], expected, atol=1e-5)
    again = next(model.score(SENTENCES, batch_size=1))  # goes on from there
    assert not np.allclose(again.forward, scores[0].forward, atol=1e-3)


def test_warm_start_differs_from_zero_and_repeats(
    model_folder: Path, model: LanguageModel
) -> None:
    warm = LanguageModel(model=model_folder, state="warm")
    first, second = warm.score([SENTENCES[0], SENTENCES[0]])
    assert_allclose(first.forward, second.forward, atol=1e-6)
    assert not np.allclose(
        first.forward, next(model.score(SENTENCES)).forward, atol=1e-3
    )


@given(st.permutations(range(len(SENTENCES))), st.integers(1, 30))
def test_neither_order_nor_batches_matter(
    model_folder: Path, model: LanguageModel, order: list[int], batch_tokens: int
) -> None:
    expected = list(model.score(SENTENCES))
    other = LanguageModel(model=model_folder, batch_tokens=batch_tokens)
    actual = list(other.score(SENTENCES[index] for index in order))
    assert_same(actual, [expected[index] for index in order])


def test_sentences_are_read_a_window_at_a_time(model_folder: Path) -> None:
    stream = iter([["the", "cat"]] * 100)
    next(LanguageModel(model=model_folder, batch_tokens=4).score(stream))
    assert len(list(stream)) > 80


def test_a_text_without_tokens_has_no_perplexity(model: LanguageModel) -> None:
    with pytest.raises(InputError, match=r"^the text has no tokens"):
        measure_perplexity(model, [[], []])


def test_a_vocabulary_that_does_not_fit_is_reported(
    model_folder: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("\n".join([*WORDS, "more"]))
    with pytest.raises(WeightsError, match=r"does not fit a vocabulary of 9 words"):
        LanguageModel(model=model_folder, vocabulary_file=words)


def measure(model: LanguageModel, good: str, bad: str) -> ScoredRecord[Pair]:
    record = Record(good, good.split(), "p1", columns={"bad": bad, "kind": "x"})
    table = PairTable(("good", "bad"), TextSettings(keep_columns=ALL_COLUMNS))
    [scored] = table.measure(model, [record], WHITESPACE, direction="both")
    return scored


texts = st.lists(
    st.sampled_from(["the", "cat", "sat", "dog", "東京"]), min_size=1, max_size=5
)


@given(texts, texts)
def test_pairs_are_measured_as_by_the_reference(
    model_folder: Path, model: LanguageModel, good: list[str], bad: list[str]
) -> None:
    scored = measure(model, " ".join(good), " ".join(bad))
    assert scored.names == ("p1",)
    pair = scored.result
    scores = [
        reference.model_scores(model_folder, tokens, WORDS)[0] for tokens in (good, bad)
    ]
    expected = [-values.sum(axis=1) / np.log(2) for values in scores]
    assert_allclose([pair.good, pair.bad], expected, atol=2e-4)
    assert (pair.n_unknown_good, pair.n_unknown_bad) == (
        good.count("dog"),
        bad.count("dog"),
    )
    if good == bad:
        assert pair.correct == [0.5] * 3
    else:
        sums = [[*values, sum(values)] for values in expected]
        assert pair.correct == [
            float(one < other) for one, other in zip(*sums, strict=True)
        ]
    assert len(pair_columns("both")) == len(pair.row)


def test_all_columns_are_kept_but_the_sentences_of_a_pair(model: LanguageModel) -> None:
    assert measure(model, "the", "cat").record.columns == {"kind": "x"}


@pytest.mark.parametrize(
    ("good", "bad", "kind"), [("", "the", "good"), ("the", "", "bad")]
)
def test_an_empty_sentence_is_an_error(
    model: LanguageModel, good: str, bad: str, kind: str
) -> None:
    with pytest.raises(InputError, match=rf"^pair p1: the {kind} sentence is empty$"):
        measure(model, good, bad)


def log_p(folder: Path, text: list[str], *, backward: bool) -> Any:
    """Return the reference's log probabilities of all words after a text, or before it."""
    values, _ = reference.model_predictions(folder, text, WORDS)
    return values[1, 0] if backward else values[0, -1]


def probabilities(prediction: Prediction) -> NDArray[np.float64]:
    """Return the probability of every word by its number, 0 for words that are missing."""
    by_word = dict(prediction.candidates)
    return np.array([by_word.get(word, 0.0) for word in WORDS])


@given(architectures(), seeds, tokens)
def test_the_words_after_and_before_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    content: dict[str, Any],
    seed: int,
    text: list[str],
) -> None:
    folder = tmp_path_factory.mktemp("model")
    make_language_model(content, seed, folder)
    model = LanguageModel(model=folder)
    [after] = predict_words(model, [text], top=100, with_unknown=True)
    [before] = predict_words(model, [text], top=100, backward=True, with_unknown=True)
    assert (after.place, before.place, after.tokens) == ("after", "before", text)
    for backward, prediction in enumerate((after, before)):
        expected = np.exp(log_p(folder, text, backward=bool(backward)))
        assert_allclose(probabilities(prediction), expected, atol=1e-5)


@given(tokens, tokens)
def test_a_gap_is_filled_from_both_sides(
    model_folder: Path, model: LanguageModel, left: list[str], right: list[str]
) -> None:
    [prediction] = predict_words(model, [[*left, GAP, *right]], top=100)
    prior = np.array([np.log((rank + 2) / (rank + 1)) for rank in range(len(WORDS))])
    ahead = log_p(model_folder, left, backward=False)
    product = np.exp(ahead + log_p(model_folder, right, backward=True)) / prior
    product[:3] = 0  # <S>, </S> and <UNK>
    assert (prediction.place, prediction.unknown) == ("gap", 0)
    assert_allclose(probabilities(prediction), product / product.sum(), atol=1e-5)


@given(batches())
def test_each_token_is_replaced_as_a_gap_is_filled(
    model: LanguageModel, sentences: list[list[str]]
) -> None:
    # Hypothesis may draw the gap.
    assume(not any(GAP in sentence for sentence in sentences))
    all_substitutes = list(substitute_words(model, sentences, top=4))
    assert [substitutes.tokens for substitutes in all_substitutes] == sentences
    for sentence, (_, candidates) in zip(sentences, all_substitutes, strict=True):
        gaps = [[*sentence[:i], GAP, *sentence[i + 1 :]] for i in range(len(sentence))]
        expected = predict_words(model, gaps, top=4)
        for words, gap in zip(candidates, expected, strict=True):
            assert len(words) == 4
            assert_allclose(
                [p for _, p in words], [p for _, p in gap.candidates], atol=1e-5
            )


def test_texts_do_not_depend_on_one_another(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [["the"], ["cat", GAP, "sat"], [], [GAP], ["the", "dog"]]
    together = predict_words(model, texts, top=8)
    monkeypatch.setattr(softmax, "LOGITS", 1)
    for text, prediction in zip(texts, together, strict=True):
        [alone] = predict_words(model, [text], top=8)
        assert alone.tokens == prediction.tokens == text
        assert_allclose(probabilities(alone), probabilities(prediction), atol=1e-6)


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


@pytest.mark.parametrize(
    ("backward", "temperature"), [(False, 1.0), (True, 3.0), (False, 0.5)]
)
def test_samples_are_as_frequent_as_probable(
    model_folder: Path, model: LanguageModel, backward: bool, temperature: float
) -> None:
    text = ["the", "cat"]
    n = 3000
    samples = sample_sentences(
        model, text, n, backward=backward, temperature=temperature, max_words=1
    )
    index, end, never = (0, 0, 1) if backward else (-1, 1, 0)
    weights = np.exp(log_p(model_folder, text, backward=backward) / temperature)
    weights[[never, 2]] = 0
    expected = n * weights / weights.sum()
    counts = Counter(s[index] if len(s) > 2 else WORDS[end] for s in samples)
    frequencies = np.array([counts[word] for word in WORDS])
    assert frequencies[weights == 0].sum() == 0
    likely = expected > 5
    chi_square = ((frequencies - expected)[likely] ** 2 / expected[likely]).sum()
    # 0.999 quantile of chi-square with at most 5 degrees of freedom.
    assert chi_square < 20.5


def test_samples_are_repeatable_and_depend_on_their_own_number(
    model: LanguageModel,
) -> None:
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
        words = [
            word for word, _ in prediction.candidates if word not in ("<S>", "<UNK>")
        ]
        assert sample[index] == words[0]


def test_wrong_numbers_are_reported(model: LanguageModel) -> None:
    with pytest.raises(InputError, match=r"^top 0: expected 1 or more$"):
        predict_words(model, [["a"]], top=0)
    with pytest.raises(InputError, match=r"^temperature 0: must be above 0\.$"):
        sample_sentences(model, ["a"], temperature=0)


def test_numpy_holds_tokens_too(model: LanguageModel) -> None:
    for text in (["the", "cat"], ["the", GAP, "sat"]):
        assert predict_words(model, [np.array(text)]) == predict_words(model, [text])  # type: ignore[list-item]
