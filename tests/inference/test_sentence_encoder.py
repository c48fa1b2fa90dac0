from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import reference
import torch
from commands import run_python
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from states import carried_layers
from strategies import WORDS, RandomModel, batches, models, sentences

from elmo_cli.inference.encoder import WARM_TEXT, CarriedStateEncoder, FixedStateEncoder
from elmo_cli.inference.precision import compute_types
from elmo_cli.pretrained.find import load_bilm

Sentences = Sequence[Sequence[str]]
Array = np.ndarray[Any, np.dtype[np.float32]]

TYPES = compute_types("float32", torch.device("cpu"))
TOLERANCE = 1e-5


def run(states: FixedStateEncoder | CarriedStateEncoder, batch: Sentences) -> dict[int, Array]:
    """Return the layers of each sentence of a batch by slot, if any sentence has tokens."""
    if not any(batch):
        return {}
    layers = states.run([list(sentence) for sentence in batch], range(len(batch)))
    parts = torch.split(layers, [len(sentence) for sentence in batch], dim=1)
    return {slot: part.numpy() for slot, part in enumerate(parts)}


# Fixed starts


@settings(max_examples=8)
@given(model=models(), sentence=sentences(min_size=1, max_size=3))
def test_a_warm_start_is_the_state_after_the_warm_text(
    model: RandomModel, sentence: list[str]
) -> None:
    files, content = model

    def warm_layers(arrays: reference.Arrays) -> reference.Array:
        state = None
        for line in WARM_TEXT.splitlines():
            _, state = reference.bilm(line.split(), content, arrays, WORDS, state)
        return reference.bilm(sentence, content, arrays, WORDS, state)[0]

    arrays = reference.read_arrays(files.weights)
    expected = warm_layers(arrays)
    # Some random models let a rounding grow from token to token, in float64 too.
    rounded = {name: values * (1 + 1e-7) for name, values in arrays.items()}
    assume(np.allclose(expected, warm_layers(rounded), atol=TOLERANCE / 3, rtol=0))
    activations = run(
        FixedStateEncoder(load_bilm(files), TYPES, cached_tokens=3, warm=True), [sentence]
    )
    assert_allclose(activations[0], expected[:, 1:-1], atol=TOLERANCE, rtol=TOLERANCE)


# Carried states


@given(model=models(), many=st.lists(batches(), min_size=1, max_size=4))
def test_carried_states_equal_the_readable_bilm(
    model: RandomModel, many: list[list[list[str]]]
) -> None:
    bilm = load_bilm(model.files)
    carried = CarriedStateEncoder(deepcopy(bilm), TYPES)
    # Some random models let a rounding grow from token to token.
    rounded = carried_layers(bilm, many)
    expected = carried_layers(bilm.double(), many)
    for one, other in zip(expected, rounded, strict=True):
        assume(np.allclose(one, other, atol=TOLERANCE / 3, rtol=0))
    for batch, layers in zip(many, expected, strict=True):
        for slot, activations in run(carried, batch).items():
            inner = layers[:, slot, 1 : len(batch[slot]) + 1]
            assert_allclose(activations, inner, atol=TOLERANCE, rtol=TOLERANCE)


# Forks

IN_FORK = """
import os
import pytest
import torch
from elmo_cli import ElmoEmbedder
from elmo_cli.inference import precision
torch.set_num_threads(2)
embedders = [ElmoEmbedder(precision=name) for name in ("float32", "bfloat16")]
sentences = [["the", "cat", "sat"], ["a", "dog", str(1.5)]] * 20
expected = [embedder.embed_batch(sentences) for embedder in embedders]
with precision._products_lock:  # as a thread that the child will not have
    child = os.fork()
if not child:
    for embedder, activations in zip(embedders, expected):
        for vectors, values in zip(embedder.embed_batch(sentences), activations):
            assert abs(vectors - values).max() < 0.1
    again = ElmoEmbedder().embed_sentence(["a"])  # loading does not hang either
    os._exit(torch.get_num_threads() != 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert torch.get_num_threads() == 2
"""
ELMO_IN_FORK = """
import os
import pytest
import torch
from elmo_cli import Elmo, batch_to_ids
torch.set_num_threads(2)
elmo, ids = Elmo(), batch_to_ids([["the", "cat", "sat"]] * 40)
elmo(ids)
child = os.fork()
if not child:
    elmo(ids)
    os._exit(torch.get_num_threads() != 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("program", [IN_FORK, ELMO_IN_FORK])
def test_a_forked_process_waits_for_no_thread_of_its_parent(program: str) -> None:
    process = run_python("-c", f"import warnings; warnings.simplefilter('ignore'){program}")
    assert process.stdout == "0\n", process.stderr
