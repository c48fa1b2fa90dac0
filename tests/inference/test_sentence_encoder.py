"""Encoders of sentences with fixed and carried states, and in forked processes."""

from copy import deepcopy

import numpy as np
import torch
from commands import run_python
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from states import carried_layers
from strategies import RandomModel, batches, models, sentences

from elmo_cli.inference.encoder import WARM_TEXT, CarriedStateEncoder, FixedStateEncoder
from elmo_cli.inference.precision import compute_types
from elmo_cli.model.bilm import BiLm
from elmo_cli.pretrained.find import load_bilm

TYPES = compute_types("float32", torch.device("cpu"))
TOLERANCE = 1e-5
Batches = list[list[list[str]]]


def assert_equals_readable(
    encoder: FixedStateEncoder | CarriedStateEncoder, bilm: BiLm, before: Batches, many: Batches
) -> None:
    """Assert the layers of the readable biLM, with states carried through both lists."""
    # Some random models let a rounding grow from token to token.
    rounded = carried_layers(bilm, before + many)
    expected = carried_layers(bilm.double(), before + many)
    for one, other in zip(expected, rounded, strict=True):
        assume(np.allclose(one, other, atol=TOLERANCE / 3, rtol=0))
    for batch, layers in zip(many, expected[len(before) :], strict=True):
        if any(batch):
            inner = [layers[:, i, 1 : len(tokens) + 1] for i, tokens in enumerate(batch)]
            activations = encoder.run(batch, range(len(batch)))
            assert_allclose(activations, torch.cat(inner, dim=1), atol=TOLERANCE, rtol=TOLERANCE)


@settings(max_examples=8)
@given(model=models(), sentence=sentences(min_size=1, max_size=3))
def test_a_warm_start_is_the_state_after_the_warm_text(
    model: RandomModel, sentence: list[str]
) -> None:
    bilm = load_bilm(model.files)
    encoder = FixedStateEncoder(deepcopy(bilm), TYPES, cached_tokens=3, warm=True)
    warm_text = [[line.split()] for line in WARM_TEXT.splitlines()]
    assert_equals_readable(encoder, bilm, warm_text, [[sentence]])


@given(model=models(), many=st.lists(batches(), min_size=1, max_size=4))
def test_carried_states_equal_the_readable_bilm(model: RandomModel, many: Batches) -> None:
    bilm = load_bilm(model.files)
    assert_equals_readable(CarriedStateEncoder(deepcopy(bilm), TYPES), bilm, [], many)


IN_FORK = """
import os, warnings
import pytest, torch
from elmo_cli import Elmo, ElmoEmbedder, batch_to_ids
from elmo_cli.inference import precision
warnings.simplefilter("ignore")
torch.set_num_threads(2)
embedders = [ElmoEmbedder(precision=name) for name in ("float32", "bfloat16")]
elmo, ids = Elmo(), batch_to_ids([["the", "cat", "sat"]] * 40)
sentences = [["the", "cat", "sat"], ["a", "dog", str(1.5)]] * 20
expected = [embedder.embed_batch(sentences) for embedder in embedders]
elmo(ids)
with precision._products_lock:  # as a thread that the child will not have
    child = os.fork()
if not child:
    for embedder, activations in zip(embedders, expected):
        for vectors, values in zip(embedder.embed_batch(sentences), activations):
            assert abs(vectors - values).max() < 0.1
    elmo(ids)
    again = ElmoEmbedder().embed_sentence(["a"])  # loading does not hang either
    os._exit(torch.get_num_threads() != 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert torch.get_num_threads() == 2
"""


def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    process = run_python("-c", IN_FORK)
    assert process.stdout == "0\n", process.stderr
