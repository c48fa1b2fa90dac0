"""Scores of sentences, perplexity, and minimal pairs, compared with the slow reference."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import WORDS, architectures, batches, make_language_model, seeds, word_architectures

from elmo_cli import ElmoEmbedder, LanguageModel
from elmo_cli.errors import InputError, WeightsError
from elmo_cli.language_model.pairs import Pair, PairTable, pair_columns
from elmo_cli.language_model.scoring import ScoredRecord, SentenceScore, measure_perplexity
from elmo_cli.pretrained.find import describe_model
from elmo_cli.pretrained.manage import convert_weights
from elmo_cli.settings import TextSettings
from elmo_cli.text.records import ALL_COLUMNS, Record
from elmo_cli.text.tokenizers import WHITESPACE

SENTENCES = [["the", "cat", "sat"], [], ["a"], ["the", "dog", "<UNK>", "sat", "東京"], ["cat"] * 9]


def assert_same(actual: Sequence[SentenceScore], expected: Sequence[SentenceScore]) -> None:
    assert [score.tokens for score in actual] == [score.tokens for score in expected]
    for one, other in zip(actual, expected, strict=True):
        assert_allclose(one.forward, other.forward, atol=1e-5)
        assert_allclose(one.backward, other.backward, atol=1e-5)


def expected_scores(
    model_folder: Path, sentences: Sequence[Sequence[str]], *, carry: bool = False
) -> list[tuple[list[float], list[float]]]:
    """Return the scores of the slow reference, for carried state with one sentence per batch."""
    state = None
    scores: list[tuple[list[float], list[float]]] = []
    for sentence in sentences:
        values: tuple[list[float], list[float]] = ([], [])
        if sentence:
            values, ended = reference.model_scores(model_folder, sentence, WORDS, state)
            state = ended if carry else None
        scores.append(values)
    return scores


@given(st.one_of(architectures(), word_architectures()), seeds, batches())
def test_scores_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    content: dict[str, Any],
    seed: int,
    sentences: list[list[str]],
) -> None:
    model_folder = tmp_path_factory.mktemp("model")
    make_language_model(content, seed, model_folder)
    expected = expected_scores(model_folder, sentences)
    for score, sentence, values in zip(
        LanguageModel(model=model_folder).score(sentences), sentences, expected, strict=True
    ):
        assert score.tokens == sentence
        assert score.known.tolist() == [t in WORDS and t != "<UNK>" for t in sentence]
        assert_allclose(score.forward, values[0], atol=2e-5)
        assert_allclose(score.backward, values[1], atol=2e-5)


@pytest.mark.parametrize("name", ["weights.hdf5", "weights.safetensors"])
def test_one_file_may_hold_weights_and_softmax(
    model_folder: Path, tmp_path: Path, name: str
) -> None:
    expected = list(LanguageModel(model=model_folder).score(SENTENCES))
    arrays = reference.read_arrays(model_folder / "weights.hdf5")
    arrays |= reference.read_arrays(model_folder / "softmax.hdf5")
    with h5py.File(tmp_path / "both.hdf5", "w") as both:
        for tensor, values in arrays.items():
            both[tensor] = values
    model = tmp_path / "model"
    shutil.copytree(model_folder, model, ignore=lambda *_: ["weights.hdf5", "softmax.hdf5"])
    convert_weights(tmp_path / "both.hdf5", model / name)
    assert describe_model(str(model))["files"]["softmax"]["path"] == str(model / name)
    ElmoEmbedder(model=model).save_pretrained(tmp_path / "saved")
    for language_model in (
        LanguageModel(model=model),
        LanguageModel(model / "options.json", model / name),
        LanguageModel(model=tmp_path / "saved"),
    ):
        assert_same(list(language_model.score(SENTENCES)), expected)


def test_carried_state_equals_the_reference(model_folder: Path) -> None:
    model = LanguageModel(model=model_folder, state="carry")
    expected = expected_scores(model_folder, SENTENCES, carry=True)
    for score, values in zip(model.score(SENTENCES, batch_size=1), expected, strict=True):
        assert_allclose(score.forward, values[0], atol=1e-5)
        assert_allclose(score.backward, values[1], atol=1e-5)
    again = list(model.score(SENTENCES[:1], batch_size=1))  # goes on from there
    assert not np.allclose(again[0].forward, expected[0][0], atol=1e-3)


def test_warm_start_differs_from_zero_and_repeats(model_folder: Path) -> None:
    zero, warm = (LanguageModel(model=model_folder, state=state) for state in ("zero", "warm"))
    first, second = warm.score([SENTENCES[0], SENTENCES[0]])
    assert_allclose(first.forward, second.forward, atol=1e-6)
    assert not np.allclose(first.forward, next(zero.score(SENTENCES)).forward, atol=1e-3)


@given(st.permutations(range(len(SENTENCES))), st.integers(1, 30))
def test_neither_order_nor_batches_matter(
    model_folder: Path, order: list[int], batch_tokens: int
) -> None:
    expected = list(LanguageModel(model=model_folder).score(SENTENCES))
    model = LanguageModel(model=model_folder, batch_tokens=batch_tokens)
    actual = list(model.score(SENTENCES[index] for index in order))
    assert_same(actual, [expected[index] for index in order])


def test_sentences_are_read_a_window_at_a_time(model_folder: Path) -> None:
    read = 0

    def stream() -> Any:
        nonlocal read
        for _ in range(100):
            read += 1
            yield ["the", "cat"]

    next(LanguageModel(model=model_folder, batch_tokens=4).score(stream()))
    assert read < 20


def test_a_text_without_tokens_has_no_perplexity(model_folder: Path) -> None:
    with pytest.raises(InputError, match=r"^the text has no tokens"):
        measure_perplexity(LanguageModel(model=model_folder), [[], []])


def test_a_vocabulary_that_does_not_fit_is_reported(model_folder: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("\n".join([*WORDS, "more"]))
    with pytest.raises(WeightsError, match=r"does not fit a vocabulary of 9 words"):
        LanguageModel(model=model_folder, vocabulary_file=words)


def measure(model_folder: Path, good: str, bad: str) -> ScoredRecord[Pair]:
    record = Record(good, good.split(), "p1", columns={"bad": bad, "kind": "x"})
    table = PairTable(("good", "bad"), TextSettings(keep_columns=ALL_COLUMNS))
    model = LanguageModel(model=model_folder)
    [scored] = table.measure(model, [record], WHITESPACE, direction="both")
    return scored


def expected_bits(model_folder: Path, tokens: list[str]) -> list[float]:
    """Return the reference's surprisals of a sentence with its boundary, forward and backward."""
    scores, _ = reference.model_scores(model_folder, tokens, WORDS)
    return [-sum(values) / np.log(2) for values in scores]


texts = st.lists(st.sampled_from(["the", "cat", "sat", "dog", "東京"]), min_size=1, max_size=5)


@given(texts, texts)
def test_pairs_are_measured_as_by_the_reference(
    model_folder: Path, good: list[str], bad: list[str]
) -> None:
    scored = measure(model_folder, " ".join(good), " ".join(bad))
    assert scored.names == ("p1",)
    pair = scored.result
    expected = expected_bits(model_folder, good), expected_bits(model_folder, bad)
    assert_allclose([pair.good, pair.bad], expected, atol=2e-4)
    assert (pair.n_unknown_good, pair.n_unknown_bad) == (good.count("dog"), bad.count("dog"))
    if good == bad:
        assert pair.correct == [0.5] * 3
    else:
        sums = [[*values, sum(values)] for values in expected]
        assert pair.correct == [float(one < other) for one, other in zip(*sums, strict=True)]
    assert len(pair_columns("both")) == len(pair.row)


def test_all_columns_are_kept_but_the_sentences_of_a_pair(model_folder: Path) -> None:
    assert measure(model_folder, "the", "cat").record.columns == {"kind": "x"}


@pytest.mark.parametrize(("good", "bad", "kind"), [("", "the", "good"), ("the", "", "bad")])
def test_an_empty_sentence_is_an_error(model_folder: Path, good: str, bad: str, kind: str) -> None:
    with pytest.raises(InputError, match=rf"^pair p1: the {kind} sentence is empty$"):
        measure(model_folder, good, bad)
