"""Scores, perplexity, pairs, predictions and samples against the slow reference."""

import shutil
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli import (
    ElmoEmbedder,
    LanguageModel,
    find_substitutes,
    iter_substitutes,
    predict_words,
    sample_sentences,
)
from elmo_cli.errors.exceptions import InputError, WeightsError
from elmo_cli.language_model import softmax
from elmo_cli.language_model.gaps import GAP, mark_gaps
from elmo_cli.language_model.language_model import SentenceScore
from elmo_cli.language_model.next_words import Prediction
from elmo_cli.language_model.pairs import PairTable, ScoredPair, pair_columns
from elmo_cli.language_model.perplexity import measure_perplexity
from elmo_cli.language_model.scored_records import ScoredRecord
from elmo_cli.options.model import InitialState
from elmo_cli.options.text import ALL_COLUMNS, TextSettings
from elmo_cli.pretrained.convert import convert_weights
from elmo_cli.pretrained.describe import describe_model
from elmo_cli.records.record import Record
from elmo_cli.text.tokenizers import WHITESPACE
from elmo_cli.types import ReadingDirection
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
        assert_allclose(log_p_of(one), log_p_of(other), atol=1e-5)


def log_p_of(score: SentenceScore) -> list[NDArray[np.float64]]:
    """Return the log probabilities of a score in both directions."""
    assert score.backward is not None
    return [score.forward, score.backward]


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
        known = [token in WORDS and token != "<UNK>" for token in sentence]
        assert score.tokens == sentence
        assert score.known.tolist() == known
        expected: Any = [[], []]
        if sentence:
            expected, _ = reference.model_scores(folder, sentence, WORDS)
        assert_allclose(log_p_of(score), expected, atol=2e-5)


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
    description = describe_model(str(folder))
    assert description["files"]["softmax"]["path"] == str(folder / name)
    ElmoEmbedder(model=folder).save_pretrained(tmp_path / "saved")
    expected = model.score(SENTENCES)
    for language_model in (
        LanguageModel(model=folder),
        LanguageModel(options_file=folder / "options.json", weight_file=folder / name),
        LanguageModel(model=tmp_path / "saved"),
    ):
        assert_same(language_model.score(SENTENCES), expected)


@pytest.mark.parametrize(("state", "n_contexts"), [("zero", 12), ("carry", 16)])
def test_equal_beginnings_are_one_context_of_the_softmax(
    model_folder: Path,
    state: InitialState,
    n_contexts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Count contexts: forward, "the cat" is shared, and backward, only the end is.

    A state that is carried over may differ from sentence to sentence.
    """
    model = LanguageModel(model=model_folder, state=state)
    compute = model.softmax.of_targets
    seen = []

    def of_targets(contexts: Tensor, **arguments: Any) -> Tensor:
        seen.append(len(contexts))
        return compute(contexts, **arguments)

    monkeypatch.setattr(model.softmax, "of_targets", of_targets)
    both = model.score([["the", "cat", "sat"], ["the", "cat", "dog"]])
    assert seen == [n_contexts]
    monkeypatch.undo()
    alone = [LanguageModel(model=model_folder).score([score.tokens]) for score in both]
    for score, [other] in zip(both, alone, strict=True):
        assert score.backward is not None
        assert other.backward is not None
        assert_allclose(score.forward, other.forward, rtol=1e-6)
        assert_allclose(score.backward, other.backward, rtol=1e-6)


def test_carried_state_equals_the_reference(model_folder: Path) -> None:
    model = LanguageModel(model=model_folder, state="carry")
    state = None
    scores = model.score(SENTENCES, batch_size=1)
    for score, sentence in zip(scores, SENTENCES, strict=True):
        if sentence:
            expected, state = reference.model_scores(
                model_folder, sentence, WORDS, state
            )
            assert_allclose(log_p_of(score), expected, atol=1e-5)
    [again, *_] = model.score(SENTENCES, batch_size=1)  # goes on from there
    assert not np.allclose(again.forward, scores[0].forward, atol=1e-3)


def test_warm_start_differs_from_zero_and_repeats(
    model_folder: Path, model: LanguageModel
) -> None:
    warm = LanguageModel(model=model_folder, state="warm")
    sentence = SENTENCES[0]
    first, second = warm.score([sentence, sentence])
    [from_zero] = model.score([sentence])
    assert_allclose(first.forward, second.forward, atol=1e-6)
    assert not np.allclose(first.forward, from_zero.forward, atol=1e-3)


@given(st.permutations(range(len(SENTENCES))), st.integers(1, 30))
def test_neither_order_nor_batches_matter(
    model_folder: Path, model: LanguageModel, order: list[int], batch_tokens: int
) -> None:
    expected = model.score(SENTENCES)
    other = LanguageModel(model=model_folder, batch_tokens=batch_tokens)
    actual = other.score(SENTENCES[index] for index in order)
    assert_same(actual, [expected[index] for index in order])


def test_sentences_are_read_a_window_at_a_time(model_folder: Path) -> None:
    stream = iter([["the", "cat"]] * 100)
    next(LanguageModel(model=model_folder, batch_tokens=4).iter_scores(stream))
    assert len(list(stream)) > 80


def test_a_text_without_tokens_has_no_perplexity(model: LanguageModel) -> None:
    with pytest.raises(InputError, match=r"^texts: no tokens"):
        measure_perplexity(model, [[], []])


def test_a_vocabulary_that_does_not_fit_is_reported(
    model_folder: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("\n".join([*WORDS, "more"]))
    with pytest.raises(WeightsError, match=r"does not fit a vocabulary of 9 words"):
        LanguageModel(model=model_folder, vocabulary_file=words)


def measure(model: LanguageModel, good: str, bad: str) -> ScoredRecord[ScoredPair]:
    record = Record(good, good.split(), "p1", columns={"bad": bad, "kind": "x"})
    settings = TextSettings(keep_columns=ALL_COLUMNS)
    table = PairTable(("good", "bad"), settings)
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
    of_good = reference_bits(model_folder, good)
    of_bad = reference_bits(model_folder, bad)
    assert_allclose(pair.good, of_good, atol=2e-4)
    assert_allclose(pair.bad, of_bad, atol=2e-4)
    assert pair.n_unknown_good == good.count("dog")
    assert pair.n_unknown_bad == bad.count("dog")
    if good == bad:
        assert pair.correct == [0.5, 0.5, 0.5]
    else:
        assert pair.correct == [
            of_good[0] < of_bad[0],
            of_good[1] < of_bad[1],
            sum(of_good) < sum(of_bad),
        ]
    assert len(pair_columns("both")) == len(pair.row)


def reference_bits(folder: Path, sentence: list[str]) -> Any:
    """Return the reference's bits of a sentence, forward and backward."""
    scores, _ = reference.model_scores(folder, sentence, WORDS)
    return -scores.sum(axis=1) / np.log(2)


def test_all_columns_are_kept_but_the_sentences_of_a_pair(model: LanguageModel) -> None:
    assert measure(model, "the", "cat").record.columns == {"kind": "x"}


@pytest.mark.parametrize(
    ("good", "bad", "kind"), [("", "the", "good"), ("the", "", "bad")]
)
def test_an_empty_sentence_is_an_error(
    model: LanguageModel, good: str, bad: str, kind: str
) -> None:
    with pytest.raises(InputError, match=rf"^pair p1: '{kind}' has no sentence$"):
        measure(model, good, bad)


def log_p(folder: Path, text: list[str], *, backward: bool) -> Any:
    """Return the reference's log probabilities of words after or before a text."""
    (forward_values, backward_values), _ = reference.model_predictions(
        folder, text, WORDS
    )
    return backward_values[0] if backward else forward_values[-1]


def probabilities(prediction: Prediction) -> NDArray[np.float64]:
    """Return the probability of every word by number, 0 for missing words."""
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
    [before] = predict_words(
        model, [text], top=100, direction="backward", with_unknown=True
    )
    assert after.place == "after"
    assert before.place == "before"
    assert after.tokens == text
    for backward, prediction in ((False, after), (True, before)):
        expected = np.exp(log_p(folder, text, backward=backward))
        assert_allclose(probabilities(prediction), expected, atol=1e-5)


@given(tokens, tokens)
def test_a_gap_is_filled_from_both_sides(
    model_folder: Path, model: LanguageModel, left: list[str], right: list[str]
) -> None:
    [prediction] = predict_words(model, [[*left, GAP, *right]], top=100)
    ranks = np.arange(len(WORDS))
    prior = np.log((ranks + 2) / (ranks + 1))
    after_left = np.exp(log_p(model_folder, left, backward=False))
    before_right = np.exp(log_p(model_folder, right, backward=True))
    product = after_left * before_right / prior
    product[:3] = 0  # <S>, </S> and <UNK>
    expected = product / product.sum()
    assert prediction.place == "gap"
    assert prediction.unknown is None
    assert_allclose(probabilities(prediction), expected, atol=1e-5)


@given(batches())
def test_each_token_is_replaced_as_a_gap_is_filled(
    model: LanguageModel, sentences: list[list[str]]
) -> None:
    for sentence in sentences:
        assume(GAP not in mark_gaps(sentence))  # Hypothesis may draw a gap.
    results = find_substitutes(model, sentences, top=4)
    for sentence, (tokens, all_candidates) in zip(sentences, results, strict=True):
        assert tokens == sentence
        assert len(all_candidates) == len(sentence)
        for position, candidates in enumerate(all_candidates):
            with_gap = sentence.copy()
            with_gap[position] = GAP
            [filled] = predict_words(model, [with_gap], top=4)
            assert len(candidates) == 4
            actual = [probability for _, probability in candidates]
            expected = [probability for _, probability in filled.candidates]
            assert_allclose(actual, expected, atol=1e-5)


def test_texts_do_not_depend_on_one_another(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        ["the"],
        ["cat", GAP, "sat"],
        [],
        [GAP],
        ["the", "dog"],
    ]
    together = predict_words(model, texts, top=8)
    monkeypatch.setattr(softmax, "_MAX_LOGITS", 1)
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
    assert more.unknown is not None
    assert probabilities(more).sum() + more.unknown == pytest.approx(1)
    [everything] = predict_words(model, [["the"]], top=100, with_unknown=True)
    assert probabilities(everything)[2] == pytest.approx(more.unknown)


@pytest.mark.parametrize(
    ("direction", "temperature"),
    [
        ("forward", 1.0),
        ("backward", 3.0),
        ("forward", 0.5),
    ],
)
def test_samples_are_as_frequent_as_probable(
    model_folder: Path,
    model: LanguageModel,
    direction: ReadingDirection,
    temperature: float,
) -> None:
    text = ["the", "cat"]
    n = 3000
    samples = sample_sentences(
        model, text, n, direction=direction, temperature=temperature, max_words=1
    )
    backward = direction == "backward"
    if backward:
        drawn = [sample[0] if len(sample) > 2 else "<S>" for sample in samples]
        impossible = ["</S>", "<UNK>"]
    else:
        drawn = [sample[-1] if len(sample) > 2 else "</S>" for sample in samples]
        impossible = ["<S>", "<UNK>"]
    counts = Counter(drawn)
    frequencies = np.array([counts[word] for word in WORDS])

    weights = np.exp(log_p(model_folder, text, backward=backward) / temperature)
    for word in impossible:
        weights[WORDS.index(word)] = 0
        assert counts[word] == 0
    expected = n * weights / weights.sum()
    is_likely = expected > 5
    squares = (frequencies - expected) ** 2
    chi_square = (squares[is_likely] / expected[is_likely]).sum()
    # 0.999 quantile of chi-square with at most 5 degrees of freedom.
    assert chi_square < 20.5


def test_samples_are_repeatable_and_depend_on_their_own_number(
    model: LanguageModel,
) -> None:
    five = sample_sentences(model, ["the"], 5, max_words=6)
    assert sample_sentences(model, ["the"], 3, max_words=6) == five[:3]
    assert sample_sentences(model, ["the"], 5, max_words=6, seed=1) != five


def test_samples_continue_the_text_up_to_a_number_of_words(
    model: LanguageModel,
) -> None:
    for sample in sample_sentences(model, ["the"], 5, max_words=6):
        assert sample[0] == "the"
        assert len(sample) <= 7
    for sample in sample_sentences(
        model, ["the"], 5, direction="backward", max_words=6
    ):
        assert sample[-1] == "the"


def test_a_low_temperature_takes_the_most_probable_words(model: LanguageModel) -> None:
    sample, other = sample_sentences(model, ["cat"], 2, temperature=1e-4, max_words=4)
    assert sample == other
    assert sample_sentences(model, ["cat"], temperature=1e-310, max_words=4) == [sample]
    for index in range(1, len(sample)):
        [prediction] = predict_words(model, [sample[:index]], top=8)
        words = [word for word, _ in prediction.candidates]
        possible = [word for word in words if word not in ("<S>", "<UNK>")]
        assert sample[index] == possible[0]


def test_numbers_out_of_range_are_an_error(model: LanguageModel) -> None:
    with pytest.raises(InputError, match=r"^top: expected 1 or more, found 0$"):
        predict_words(model, [["a"]], top=0)
    with pytest.raises(
        InputError, match=r"^temperature: expected a .* above 0, found 0$"
    ):
        sample_sentences(model, ["a"], temperature=0)


def test_a_numpy_array_of_tokens_is_a_text(model: LanguageModel) -> None:
    for text in (["the", "cat"], ["the", GAP, "sat"]):
        array: Any = np.array(text)
        assert predict_words(model, [array]) == predict_words(model, [text])


def test_one_string_is_one_text_with_one_result(model: LanguageModel) -> None:
    text = "the cat sat"
    assert_same([model.score(text)], model.score([text]))
    assert [predict_words(model, text)] == predict_words(model, [text])
    assert [find_substitutes(model, text)] == find_substitutes(model, [text])
    assert measure_perplexity(model, text) == measure_perplexity(model, [text])


def test_lists_are_checked_before_anything_is_computed(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: Any = [["the"], 3]
    monkeypatch.setattr(LanguageModel, "compute_batches", None)
    for call in (model.score, partial(find_substitutes, model)):
        with pytest.raises(
            InputError, match=r"^texts\[1\]: expected a string or a list"
        ):
            call(texts)


def test_a_stream_is_checked_when_it_is_given(model: LanguageModel) -> None:
    stream: Any = "the cat"
    for call in (model.iter_scores, partial(iter_substitutes, model)):
        with pytest.raises(InputError, match=r"^texts: expected a list, found the str"):
            call(stream)
        with pytest.raises(
            InputError, match=r"^batch_size: expected 1 or more, found 0"
        ):
            model.iter_scores([], batch_size=0)
