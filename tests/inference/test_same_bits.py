"""With kernels, the activations of a sentence are the same bits whatever else is computed."""

from typing import Any

import pytest
import torch
from cell_formulas import PROCESSORS, processor
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from strategies import RandomModel, models, sentences

from elmo_cli import ElmoEmbedder
from elmo_cli.compiled.kernels import find_product
from elmo_cli.inference.precision import has_int8

PRECISIONS = [
    ("float32", True),
    ("bfloat16", find_product(torch.bfloat16) is not None),
    ("int8", has_int8()),
]
RUNS = [
    *((name, "float32") for name in PROCESSORS),
    *((PROCESSORS[-1], name) for name, is_there in PRECISIONS[1:] if is_there and PROCESSORS),
]
"""Kinds of processor, and the precisions that have kernels there."""


@pytest.mark.parametrize(("name", "precision"), RUNS)
@settings(max_examples=10)
@given(
    model=models(),
    text=st.lists(sentences(max_size=9), min_size=1, max_size=8),
    order=st.randoms(use_true_random=False),
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 5)),
    state=st.sampled_from(["zero", "warm"]),
)
def test_bits_depend_on_the_sentence_alone(
    name: str, precision: Any, model: RandomModel, text: Any, order: Any, sizes: Any, state: Any
) -> None:
    batch_tokens, n_threads = sizes

    def embedder(**options: Any) -> ElmoEmbedder:
        return ElmoEmbedder(model=model.files, precision=precision, state=state, **options)

    n_before = torch.get_num_threads()
    with processor(name):
        expected = embedder().embed_batch(text)
        shuffled = order.sample(range(len(text)), len(text))
        other = embedder(batch_tokens=batch_tokens)
        torch.set_num_threads(n_threads)
        try:
            among_others = other.embed_batch([text[i] for i in shuffled])
        finally:
            torch.set_num_threads(n_before)
        alone = other.embed_sentence(text[shuffled[0]])
    for i, activations in zip(shuffled, among_others, strict=True):
        assert_array_equal(activations, expected[i])
    assert_array_equal(alone, expected[shuffled[0]])
