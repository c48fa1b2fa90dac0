from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import ElmoEmbedder
from elmo_cli.embedder import Array
from elmo_cli.errors.exceptions import InputError
from elmo_cli.inference import selection as functions
from elmo_cli.inference.selection import pool_tokens, selected_arrays
from elmo_cli.options.selection import POOLINGS, Selection
from tests.support.golden import GOLDEN
from tests.support.strategies import seeds

TOLERANCE = 1e-5
MIX = [0.2, -0.3, 0.5]
GAMMA = 1.2
WEIGHTS = GAMMA * np.exp(MIX) / np.exp(MIX).sum()
POOL_ONE: dict[str, Callable[[Array], Array]] = {
    "mean": lambda values: values.mean(axis=-2),
    "max": lambda values: values.max(axis=-2),
    "first": lambda values: values[..., 0, :],
    "last": lambda values: values[..., -1, :],
}
"""Poolings of one sentence, (..., T, W), in plain numpy."""


SELECTIONS: list[tuple[dict[str, Any], Callable[[Array], Array]]] = [
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
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8), seed=seeds)
def test_every_sentence_is_pooled_by_itself(
    pooling: str, shape: tuple[int, ...], lengths: list[int], seed: int
) -> None:
    values = (
        np.random.default_rng(seed)
        .normal(size=(*shape, sum(lengths), 3))
        .astype(np.float32)
    )
    pooled = pool_tokens(torch.from_numpy(values), lengths, pooling)
    parts = np.split(values, np.cumsum(lengths)[:-1], axis=-2)
    expected = np.stack([POOL_ONE[pooling](part) for part in parts], axis=-2)
    assert pooled.shape == (*shape, len(lengths), 3)
    assert_allclose(pooled, expected, atol=1e-6)
    # No sum depends on the sentences before or after, not even in its last bit.
    alone = [
        pool_tokens(torch.from_numpy(part), [part.shape[-2]], pooling) for part in parts
    ]
    assert torch.equal(pooled, torch.cat(alone, dim=-2))


@pytest.mark.parametrize("pooling", [None, *POOLINGS])
@pytest.mark.parametrize(("choice", "expected"), SELECTIONS)
def test_a_selection_equals_a_choice_from_all_layers(
    tiny: ElmoEmbedder,
    choice: dict[str, Any],
    expected: Callable[[Array], Array],
    pooling: str | None,
) -> None:
    vectors = list(tiny.embed_sentences([*SENTENCES, []], **choice, pooling=pooling))
    for sentence, values in zip(SENTENCES, vectors[:-1], strict=True):
        selected = expected(tiny.embed_sentence(sentence))
        pooled = POOL_ONE[pooling](selected) if pooling else selected
        assert values.dtype == np.float32
        assert values.shape == pooled.shape
        assert_allclose(values, pooled, atol=TOLERANCE)
    # A sentence without tokens has no rows, or is pooled to zeros.
    assert_array_equal(
        vectors[-1], np.zeros_like(values if pooling else values[..., :0, :])
    )


def test_pooled_sentences_are_arrays_of_their_own(tiny: ElmoEmbedder) -> None:
    one, other = tiny.embed_sentences(
        [["bank"], ["bank"]], layers="top", pooling="mean"
    )
    expected = other.copy()
    one[:] = 0
    assert_array_equal(other, expected)
    assert other.base is None


def test_half_precision_is_pooled_in_float32() -> None:
    embedder = ElmoEmbedder(model=GOLDEN / "relu", precision="bfloat16")
    (mean,) = embedder.embed_sentences([SENTENCES[-1]], pooling="mean")
    assert_allclose(
        mean, embedder.embed_sentence(SENTENCES[-1]).mean(axis=1), atol=1e-6
    )


@pytest.mark.parametrize(
    ("selection", "attributes"),
    [
        (Selection(), {"layers": "all"}),
        (Selection("0, 2", pooling="max"), {"layers": "0,2", "pooling": "max"}),
        (Selection(normalize=True), {"layers": "all", "normalize": "True"}),
        (
            Selection(mix=(0, 1, 2.5)),
            {"layers": "mix", "mix": "0.0,1.0,2.5", "gamma": "1.0"},
        ),
    ],
)
def test_a_selection_is_written_to_attributes_and_read(
    selection: Selection, attributes: dict[str, str]
) -> None:
    checked = selection.for_model(3)
    assert checked.to_attributes() == attributes
    assert Selection.from_attributes(attributes) == checked


def test_an_invalid_selection_is_refused_at_once(tiny: ElmoEmbedder) -> None:
    with pytest.raises(
        InputError, match=r"^layers has no effect with mix, which is of all"
    ):
        tiny.embed_sentences([], layers="top", mix=MIX)


@pytest.mark.parametrize("pooling", [None, *POOLINGS])
@pytest.mark.parametrize("layers", ["all", "top", "average", "0,2"])
def test_chunks_of_a_batch_have_the_values_of_the_whole(
    layers: str, pooling: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [5, 1, 3, 3, 7]
    arguments = (
        Selection(layers, pooling=pooling, normalize=True),
        torch.randn(3, 19, 16),
        lengths,
    )
    whole, _ = selected_arrays(*arguments, "float32")
    for chunk_tokens in (1, 4, 1000):
        monkeypatch.setattr(functions, "CHOSEN_TOKENS", chunk_tokens)
        for dtype in (np.float32, np.float16):
            arrays, are_finite = selected_arrays(*arguments, dtype.__name__)
            assert are_finite
            for array, values in zip(arrays, whole, strict=True):
                assert_array_equal(array, values.astype(dtype), strict=True)


@pytest.mark.parametrize(("value", "dtype"), [(3e38, "float32"), (65_000.0, "float16")])
def test_values_are_finite_even_if_their_sum_is_not(value: float, dtype: str) -> None:
    selection = Selection("all")
    lengths = [400, 400]
    layers = torch.full((3, 800, 4), value)
    assert selected_arrays(selection, layers, lengths, dtype)[1]
    for wrong in (np.nan, np.inf, -np.inf):
        changed = layers.clone()
        changed[1, 100, 2] = wrong
        assert not selected_arrays(selection, changed, lengths, dtype)[1]


def test_carried_state_is_pooled_like_any_other() -> None:
    batch = [["The", "cat"], [], ["bank", ".", "."]] * 2
    plain, pooled = (
        ElmoEmbedder(model=GOLDEN / "relu", state="carry") for _ in range(2)
    )
    means = pooled.embed_sentences(batch, 3, pooling="mean")
    for values, layers in zip(means, plain.embed_sentences(batch, 3), strict=True):
        expected = layers.mean(axis=1) if layers.shape[1] else np.zeros((3, 32))
        assert_allclose(values, expected, atol=TOLERANCE)
