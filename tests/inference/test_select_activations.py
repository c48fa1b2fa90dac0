"""Selections of layers, mixes and poolings against plain numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import ElmoEmbedder
from elmo_cli.arrays import FloatArray
from elmo_cli.errors.exceptions import InputError
from elmo_cli.inference import select_activations as functions
from elmo_cli.inference.select_activations import pool_tokens, selected_arrays
from elmo_cli.options.selection import POOLINGS, Pooling, SelectionSettings
from tests.support.golden import GOLDEN
from tests.support.strategies import seeds

TOLERANCE = 1e-5
MIX = [0.2, -0.3, 0.5]
GAMMA = 1.2
WEIGHTS = GAMMA * np.exp(MIX) / np.exp(MIX).sum()
POOL_ONE: dict[str, Callable[[FloatArray], FloatArray]] = {
    "mean": lambda values: values.mean(axis=-2),
    "max": lambda values: values.max(axis=-2),
    "first": lambda values: values[..., 0, :],
    "last": lambda values: values[..., -1, :],
}
"""Poolings of one sentence, (..., T, W), in plain numpy."""


SELECTIONS: list[tuple[dict[str, Any], Callable[[FloatArray], FloatArray]]] = [
    ({}, lambda layers: layers),
    ({"layers": "top"}, lambda layers: layers[-1]),
    ({"layers": "average"}, lambda layers: layers.mean(axis=0)),
    ({"layers": "sum"}, lambda layers: layers.sum(axis=0)),
    ({"layers": "word_emb"}, lambda layers: layers[0, :, :16]),
    ({"layers": "lstm1"}, lambda layers: layers[1]),
    ({"layers": "1"}, lambda layers: layers[1]),
    ({"layers": "2, 0,2"}, lambda layers: layers[[2, 0, 2]]),
    (
        {"mix": MIX, "gamma": GAMMA},
        lambda layers: np.einsum("l,ltw->tw", WEIGHTS, layers),
    ),
]
SENTENCES = [
    ["The", "cat", "sat"],
    ["bank"],
    ["a", "."],
    ["bank"],
    ["The", "bank", "sat", "."] * 5,
]


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("pooling", POOLINGS)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    seed=seeds,
)
def test_every_sentence_is_pooled_by_itself(
    pooling: str, shape: tuple[int, ...], lengths: list[int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(size=(*shape, sum(lengths), 3)).astype(np.float32)
    pooled = pool_tokens(torch.from_numpy(values), lengths, pooling)
    assert pooled.shape == (*shape, len(lengths), 3)
    start = 0
    for index, length in enumerate(lengths):
        sentence = values[..., start : start + length, :]
        start += length
        expected = POOL_ONE[pooling](sentence)
        assert_allclose(pooled[..., index, :], expected, atol=1e-6)
        # No sum depends on the sentences before or after, not even in its last bit.
        alone = pool_tokens(torch.from_numpy(sentence), [length], pooling)
        assert torch.equal(pooled[..., index, :], alone[..., 0, :])


@pytest.mark.parametrize("pooling", [None, *POOLINGS])
@pytest.mark.parametrize(("choice", "expected"), SELECTIONS)
def test_a_selection_equals_a_choice_from_all_layers(
    tiny: ElmoEmbedder,
    choice: dict[str, Any],
    expected: Callable[[FloatArray], FloatArray],
    pooling: Pooling | None,
) -> None:
    sentences = [*SENTENCES, []]
    *vectors, without_tokens = tiny.embed_sentences(
        sentences, **choice, pooling=pooling
    )
    for sentence, values in zip(SENTENCES, vectors, strict=True):
        selected = expected(tiny.embed_sentence(sentence))
        pooled = POOL_ONE[pooling](selected) if pooling else selected
        assert values.dtype == np.float32
        assert values.shape == pooled.shape
        assert_allclose(values, pooled, atol=TOLERANCE)
    if pooling:
        assert_array_equal(without_tokens, np.zeros_like(values))
    else:  # no rows
        assert_array_equal(without_tokens, values[..., :0, :])


def test_pooled_sentences_are_arrays_of_their_own(tiny: ElmoEmbedder) -> None:
    sentences = [["bank"], ["bank"]]
    one, other = tiny.embed_sentences(sentences, layers="top", pooling="mean")
    expected = other.copy()
    one[:] = 0
    assert_array_equal(other, expected)
    assert other.base is None


def test_half_precision_is_pooled_in_float32() -> None:
    embedder = ElmoEmbedder(model=GOLDEN / "relu", precision="bfloat16")
    sentence = SENTENCES[-1]
    (mean,) = embedder.embed_sentences([sentence], pooling="mean")
    expected = embedder.embed_sentence(sentence).mean(axis=1)
    assert_allclose(mean, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("selection", "attributes"),
    [
        (SelectionSettings(), {"layers": "all"}),
        (SelectionSettings("0, 2", pooling="max"), {"layers": "0,2", "pooling": "max"}),
        (SelectionSettings(normalize=True), {"layers": "all", "normalize": "True"}),
        (
            SelectionSettings(mix=(0, 1, 2.5)),
            {"layers": "mix", "mix": "0.0,1.0,2.5", "gamma": "1.0"},
        ),
    ],
)
def test_a_selection_is_written_to_attributes_and_read(
    selection: SelectionSettings, attributes: dict[str, str]
) -> None:
    checked = selection.for_model(3)
    assert checked.to_attributes() == attributes
    assert SelectionSettings.from_attributes(attributes).for_model(3) == checked


@pytest.mark.parametrize(
    ("layers", "numbers"),
    [("0, 2", (0, 2)), ("-1", (2,)), ("lstm2", (2,)), ("2,0", (2, 0)), ("top", None)],
)
def test_a_selection_for_a_model_has_the_numbers_of_its_layers(
    layers: str, numbers: tuple[int, ...] | None
) -> None:
    assert SelectionSettings(layers).for_model(3).numbers == numbers


def test_an_invalid_selection_is_an_error_before_the_first_sentence(
    tiny: ElmoEmbedder,
) -> None:
    with pytest.raises(
        InputError, match=r"^layers: has no effect with mix, which is of all"
    ):
        tiny.embed_sentences([], layers="top", mix=MIX)


@pytest.mark.parametrize("pooling", [None, *POOLINGS])
@pytest.mark.parametrize("layers", ["all", "top", "average", "0,2"])
def test_chunks_of_a_batch_have_the_values_of_the_whole(
    layers: str, pooling: Pooling | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    selection = SelectionSettings(layers, pooling=pooling, normalize=True).for_model(3)
    lengths = [5, 1, 3, 3, 7]
    batch = torch.randn(3, sum(lengths), 16)
    whole, _ = selected_arrays(selection, batch, lengths, "float32")
    for chunk_tokens in (1, 4, 1000):
        monkeypatch.setattr(functions, "CHOSEN_TOKENS", chunk_tokens)
        for dtype in ("float32", "float16"):
            arrays, are_finite = selected_arrays(selection, batch, lengths, dtype)
            assert are_finite
            for array, values in zip(arrays, whole, strict=True):
                assert_array_equal(array, values.astype(dtype), strict=True)


@pytest.mark.parametrize(("value", "dtype"), [(3e38, "float32"), (65_000.0, "float16")])
def test_values_are_finite_even_if_their_sum_is_not(value: float, dtype: str) -> None:
    selection = SelectionSettings("all").for_model(3)
    lengths = [400, 400]
    layers = torch.full((3, 800, 4), value)
    _, are_finite = selected_arrays(selection, layers, lengths, dtype)
    assert are_finite
    for wrong in (np.nan, np.inf, -np.inf):
        changed = layers.clone()
        changed[1, 100, 2] = wrong
        _, are_finite = selected_arrays(selection, changed, lengths, dtype)
        assert not are_finite


def test_carried_state_is_pooled_like_any_other() -> None:
    batch = [["The", "cat"], [], ["bank", ".", "."]] * 2
    model = GOLDEN / "relu"
    activations = ElmoEmbedder(model=model, state="carry").embed_sentences(batch, 3)
    pooling = ElmoEmbedder(model=model, state="carry")
    means = pooling.embed_sentences(batch, 3, pooling="mean")
    for mean, layers in zip(means, activations, strict=True):
        has_tokens = layers.shape[1] > 0
        expected = layers.mean(axis=1) if has_tokens else np.zeros((3, 32))
        assert_allclose(mean, expected, atol=TOLERANCE)
