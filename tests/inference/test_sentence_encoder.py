import os
import subprocess
import sys
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import (
    WORDS,
    architectures,
    batches,
    make_model,
    seeds,
    sentences,
    small_architecture,
    word_architectures,
)
from torch import Tensor

from elmo_cli.inference.precision import compute_types
from elmo_cli.inference.sentence_encoder import (
    WARM_TEXT,
    CarriedStates,
    FixedStart,
    SentenceEncoder,
    with_boundaries,
)
from elmo_cli.model.bilm import BiLm, BiLmState, LayerState, select_state
from elmo_cli.model.lstm import LstmState
from elmo_cli.pretrained.loading import load_bilm

Sentences = Sequence[Sequence[str]]
Array = np.ndarray[Any, np.dtype[np.float32]]

CPU = torch.device("cpu")
TOLERANCE = 1e-5

any_architecture = st.one_of(architectures(), word_architectures())


def sentence_encoder(bilm: BiLm) -> SentenceEncoder:
    return SentenceEncoder(deepcopy(bilm), compute_types("float32", CPU))


def run(states: FixedStart | CarriedStates, batch: Sentences) -> dict[int, Array]:
    """The layers of the sentences of a batch that have tokens, by slot."""
    slots = [slot for slot, sentence in enumerate(batch) if sentence]
    if not slots:
        return {}
    layers = states.run([list(batch[slot]) for slot in slots], slots)
    parts = torch.split(layers, [len(batch[slot]) for slot in slots], dim=1)
    return {slot: part.numpy() for slot, part in zip(slots, parts, strict=True)}


def padded_ids(bilm: BiLm, batch: Sentences) -> Tensor:
    longest = max(map(len, batch), default=0)
    ids = torch.zeros(
        len(batch), longest, bilm.token_encoder.token_ids(["a"]).shape[1], dtype=torch.int64
    )
    for row, sentence in zip(ids, batch, strict=True):
        if sentence:
            row[: len(sentence)] = bilm.token_encoder.token_ids(sentence)
    return ids


def join(ended: BiLmState, old: BiLmState) -> BiLmState:
    """The state of all slots after a batch that had only the first of them."""
    return [
        LayerState(
            *(
                LstmState(*(torch.cat([a, b[len(a) :]]) for a, b in zip(new, kept, strict=True)))
                for new, kept in zip(new_layer, old_layer, strict=True)
            )
        )
        for new_layer, old_layer in zip(ended, old, strict=True)
    ]


# Fixed starts


@given(content=any_architecture, seed=seeds, batch=batches())
def test_sentences_from_the_zero_state_get_the_layers_of_the_readable_bilm(
    content: dict[str, Any],
    seed: int,
    batch: list[list[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    bilm = load_bilm(make_model(content, seed, tmp_path_factory.mktemp("model")))
    expected = bilm(padded_ids(bilm, batch)).layers
    found = run(FixedStart(sentence_encoder(bilm), warm=False), batch)
    for slot, layers in found.items():
        inner = expected[:, slot, 1 : len(batch[slot]) + 1]
        assert_allclose(layers, inner, atol=TOLERANCE, rtol=TOLERANCE)


@settings(max_examples=8)
@given(content=any_architecture, seed=seeds, sentence=sentences(min_size=1, max_size=3))
def test_a_warm_start_is_the_state_after_the_warm_text_in_the_reference(
    content: dict[str, Any],
    seed: int,
    sentence: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def warm_layers(arrays: reference.Arrays) -> reference.Array:
        state = None
        for line in WARM_TEXT.splitlines():
            _, state = reference.bilm(line.split(), content, arrays, WORDS, state)
        return reference.bilm(sentence, content, arrays, WORDS, state)[0]

    files = make_model(content, seed, tmp_path_factory.mktemp("model"))
    arrays = reference.read_arrays(files.weights)
    expected = warm_layers(arrays)
    # Some random models let a rounding grow from token to token, in float64 too.
    rounded = {name: values * (1 + 1e-7) for name, values in arrays.items()}
    assume(np.allclose(expected, warm_layers(rounded), atol=TOLERANCE / 3, rtol=0))
    found = run(FixedStart(sentence_encoder(load_bilm(files)), warm=True), [sentence])
    assert_allclose(found[0], expected[:, 1:-1], atol=TOLERANCE, rtol=TOLERANCE)


def test_a_warm_start_is_always_the_same_and_is_not_zero(tmp_path: Path) -> None:
    bilm = load_bilm(make_model(small_architecture(), 3, tmp_path))
    batch = [["the", "cat"], ["sat"]]
    warm = FixedStart(sentence_encoder(bilm), warm=True)
    first, second = run(warm, batch), run(warm, batch)
    again = run(FixedStart(sentence_encoder(bilm), warm=True), batch)
    zero = run(FixedStart(sentence_encoder(bilm), warm=False), batch)
    for slot in (0, 1):
        assert np.array_equal(first[slot], second[slot])
        assert np.array_equal(first[slot], again[slot])
        assert_allclose(first[slot][0], zero[slot][0], atol=1e-6)  # the token layer has no state
        assert abs(first[slot][1:] - zero[slot][1:]).max() > 1e-3


# Carried states


@given(
    content=any_architecture,
    seed=seeds,
    many=st.lists(batches(), min_size=1, max_size=4),
)
def test_carried_states_are_those_of_the_readable_bilm_passed_by_hand(
    content: dict[str, Any],
    seed: int,
    many: list[list[list[str]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    files = make_model(content, seed, tmp_path_factory.mktemp("model"))
    carried = CarriedStates(sentence_encoder(load_bilm(files)))
    expected = carried_by_hand(load_bilm(files).double(), many)
    # Some random models let a rounding grow from token to token.
    rounded = carried_by_hand(load_bilm(files), many)
    for one, other in zip(expected, rounded, strict=True):
        assume(np.allclose(one, other, atol=TOLERANCE / 3, rtol=0))
    for batch, layers in zip(many, expected, strict=True):
        for slot, found in run(carried, batch).items():
            inner = layers[:, slot, 1 : len(batch[slot]) + 1]
            assert_allclose(found, inner, atol=TOLERANCE, rtol=TOLERANCE)


def carried_by_hand(bilm: BiLm, many: list[list[list[str]]]) -> list[Tensor]:
    """The layers of each batch, (L, B, T + 2, W), each slot from where it ended before."""
    slots = bilm.initial_state(max(map(len, many)))
    layers = []
    for batch in many:
        output = bilm(padded_ids(bilm, batch), select_state(slots, torch.arange(len(batch))))
        slots = join(output.state, slots)
        layers.append(output.layers)
    return layers


def test_a_slot_keeps_its_state_while_batches_do_not_have_it(tmp_path: Path) -> None:
    bilm = load_bilm(make_model(small_architecture(), 3, tmp_path))
    with_pause, without = (CarriedStates(sentence_encoder(bilm)) for _ in range(2))
    for states in (with_pause, without):
        run(states, [["a"], ["b", "c"]])
    run(with_pause, [["x"]])
    run(with_pause, [["y", "z"], []])
    found = run(with_pause, [["d"], ["e"]])[1]
    assert_allclose(found, run(without, [["q"], ["e"]])[1], atol=1e-6)


def test_a_sentence_carried_twice_gets_other_layers(tmp_path: Path) -> None:
    bilm = load_bilm(make_model(small_architecture(), 3, tmp_path))
    carried = CarriedStates(sentence_encoder(bilm))
    first, second = run(carried, [["a", "b"]])[0], run(carried, [["a", "b"]])[0]
    assert np.array_equal(first[0], second[0])
    assert abs(first[1:] - second[1:]).max() > 1e-3


# The encoder


def test_the_state_a_sentence_starts_from_is_left_as_it_is(tmp_path: Path) -> None:
    encoder = sentence_encoder(load_bilm(make_model(small_architecture(), 3, tmp_path)))
    start = encoder.initial_state(2)
    encoder.run([["a"], ["b", "c"]], start)
    for layer in start:
        for direction in layer:
            assert not direction.hidden.any()
            assert not direction.cell.any()


def test_states_stay_with_their_sentence_whatever_its_length(tmp_path: Path) -> None:
    encoder = sentence_encoder(load_bilm(make_model(small_architecture(), 3, tmp_path)))
    batch = [["a"], ["b", "c", "d"], ["e", "f"]]
    _, together = encoder.run(batch, encoder.initial_state(3))
    for row, sentence in enumerate(batch):
        _, alone = encoder.run([sentence], encoder.initial_state(1))
        for layer, layer_alone in zip(together, alone, strict=True):
            for direction, direction_alone in zip(layer, layer_alone, strict=True):
                assert_allclose(direction.hidden[row], direction_alone.hidden[0], atol=1e-6)
                assert_allclose(direction.cell[row], direction_alone.cell[0], atol=1e-6)


def test_boundaries_go_around_a_sentence() -> None:
    assert with_boundaries(["a", "b"], ("<S>", "</S>")) == ["<S>", "a", "b", "</S>"]


LOCK_IN_FORK = """
import os
from elmo_cli.inference import sentence_encoder as sentence_states
with sentence_states._one_at_a_time:  # as a thread that the child will not have
    child = os.fork()
    if not child:
        os._exit(not sentence_states._one_at_a_time.acquire(blocking=False))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
MODEL_IN_FORK = """
import os
import torch
from elmo_cli import ElmoEmbedder
torch.set_num_threads(2)
embedder = ElmoEmbedder(precision="{precision}")
sentences = [["the", "cat", "sat"], ["a", "dog", str(1.5)]] * 20
expected = embedder.embed_batch(sentences)
child = os.fork()
if not child:
    found = embedder.embed_batch(sentences)
    equal = all(abs(a - b).max() < 0.1 for a, b in zip(found, expected))
    again = ElmoEmbedder().embed_sentence(["a"])  # loading does not hang either
    os._exit(not equal or torch.get_num_threads() != 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert torch.get_num_threads() == 2
"""


@pytest.mark.parametrize(
    "program", [LOCK_IN_FORK, *(MODEL_IN_FORK.format(precision=p) for p in ("float32", "bfloat16"))]
)
def test_a_forked_process_waits_for_no_thread_of_its_parent(program: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", program]
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    found = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, env=environment
    )
    assert found.stdout == "0\n"
