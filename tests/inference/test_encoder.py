"""Encoders of tokens and of sentences: their values, bits, copies and cache."""

import pickle
import re
import zlib
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor

from elmo_cli import ElmoEmbedder
from elmo_cli.compiled import kernels
from elmo_cli.compiled.linear import product_kernel
from elmo_cli.errors.exceptions import InputError
from elmo_cli.inference import encoder as encoders
from elmo_cli.inference.fast_token_encoder import prepare_token_encoder
from elmo_cli.inference.precision import compute_types
from elmo_cli.inference.token_cache import MAX_CACHED_CHARACTERS, TokenCache
from elmo_cli.model.architecture import CharacterArchitecture
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.token_encoder import CharacterEncoder
from elmo_cli.options.model import InitialState
from elmo_cli.pretrained.load_bilm import load_bilm
from tests.support.cell_formulas import PROCESSORS, WAYS, processor
from tests.support.commands import PROGRAMS, run_python
from tests.support.processors import (
    needs_int8,
    processors_with,
    without_instructions,
    without_integers,
)
from tests.support.states import carried_layers
from tests.support.strategies import (
    RandomModel,
    make_model,
    models,
    random_tensor,
    sentences,
    small_architecture,
)

TYPES = compute_types("float32", torch.device("cpu"))
TOLERANCE = 1e-5
Batches = list[list[list[str]]]


def token_encoder(activation: str, seed: int = 0) -> CharacterEncoder:
    torch.manual_seed(seed)
    architecture = CharacterArchitecture(
        5,
        filters=((1, 3), (2, 5), (4, 9)),
        n_highway=2,
        activation=activation,
    )
    return CharacterEncoder(architecture, projection_dim=7).requires_grad_(False)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("capability", PROCESSORS)
@given(
    words=st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=9),
    seed=st.integers(0, 9),
)
def test_token_vectors_equal_the_readable_encoder_one_by_one(
    capability: str, activation: str, words: list[str], seed: int
) -> None:
    readable = token_encoder(activation, seed)
    ids = readable.token_ids(words)
    with processor(capability), torch.inference_mode():
        fast = prepare_token_encoder(deepcopy(readable), TYPES)
        vectors = fast(ids)
        alone = torch.cat([fast(row[None]) for row in ids])
    assert_allclose(vectors, readable(ids), atol=1e-6)
    assert torch.equal(vectors, alone)


@pytest.mark.skipif(
    not PROCESSORS, reason="needs a C compiler when installed, on Linux"
)
def test_a_tanh_keeps_the_digits_of_small_values() -> None:
    signs = random_tensor(4, 100).sign()
    values = torch.logspace(-30, 2, 400).reshape(4, 100) * signs
    expected = np.tanh(values.double().numpy())
    fast = prepare_token_encoder(token_encoder("tanh"), TYPES)
    tanh = fast.get_submodule("activation")
    assert_allclose(tanh(values.clone()), expected, rtol=5e-7)


def vectors_of(tokens: Sequence[str]) -> Tensor:
    """Return a vector per token that no other token has."""
    rows = []
    for token in tokens:
        checksum = zlib.crc32(token.encode())
        rows.append((len(token), checksum % 100_003))
    return torch.tensor(rows, dtype=torch.float32)


@given(
    capacity=st.integers(1, 6),
    requests=st.lists(
        st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True),
        min_size=1,
    ),
)
def test_a_cache_gives_every_token_its_vector(
    capacity: int, requests: list[list[str]]
) -> None:
    encode = Mock(side_effect=vectors_of)
    cache = TokenCache(encode, capacity)
    cached: list[str] = []  # from the least recently to the most recently used
    for tokens in requests:
        encode.reset_mock()
        assert torch.equal(cache.vectors(tokens), vectors_of(tokens))
        encoded = []
        for call in encode.call_args_list:
            encoded += call.args[0]
        if len(tokens) > capacity:
            assert sorted(encoded) == sorted(tokens)
            continue
        hits = [token for token in tokens if token in cached]
        misses = [token for token in tokens if token not in cached]
        assert sorted(encoded) == sorted(misses)
        others = [token for token in cached if token not in hits]
        cached = (others + hits + misses)[-capacity:]


def test_cache_does_not_keep_very_long_tokens() -> None:
    encode = Mock(side_effect=vectors_of)
    cache = TokenCache(encode, capacity=4)
    tokens = ["a", "b" * (MAX_CACHED_CHARACTERS + 1)]
    assert torch.equal(cache.vectors(tokens), vectors_of(tokens))
    n_calls = encode.call_count
    assert torch.equal(cache.vectors(tokens), vectors_of(tokens))
    assert encode.call_count == 2 * n_calls


class Interruptible(Tensor):
    """Rows of which only the first is written when Ctrl-C comes."""

    interrupts = False

    def __setitem__(self, rows: Any, values: Any) -> None:
        n_written = 1 if self.interrupts else len(rows)
        super().__setitem__(rows[:n_written], values[:n_written])
        if self.interrupts:
            raise KeyboardInterrupt


def test_an_interrupted_cache_returns_the_right_vectors() -> None:
    def encode(tokens: Sequence[str]) -> Tensor:
        return vectors_of(tokens).as_subclass(Interruptible)

    cache = TokenCache(encode, capacity=4)
    cache.vectors(["a", "b", "c", "d"])
    with (
        patch.object(Interruptible, "interrupts", True),
        pytest.raises(KeyboardInterrupt),
    ):
        cache.vectors(["e", "f"])
    for tokens in (["c", "d", "g", "h"], ["a", "b", "e", "c"], ["d", "f"]):
        assert torch.equal(cache.vectors(tokens), vectors_of(tokens))


def assert_equals_readable(
    encoder: encoders.SentenceEncoder, bilm: BiLm, before: Batches, many: Batches
) -> None:
    """Assert the readable biLM's layers, with states carried through both lists."""
    # Some random models let a rounding grow from token to token.
    rounded = carried_layers(bilm, before + many)
    expected = carried_layers(bilm.double(), before + many)
    for one, other in zip(expected, rounded, strict=True):
        assume(np.allclose(one, other, atol=TOLERANCE / 3, rtol=0))
    for batch, layers in zip(many, expected[len(before) :], strict=True):
        if not any(batch):
            continue
        inner = []
        for row, tokens in enumerate(batch):
            end = len(tokens) + 1
            inner.append(layers[:, row, 1:end])
        activations = encoder.run(batch, range(len(batch)))
        assert_allclose(
            activations, torch.cat(inner, dim=1), atol=TOLERANCE, rtol=TOLERANCE
        )


@settings(max_examples=8)
@given(model=models(), sentence=sentences(min_size=1, max_size=3))
def test_a_warm_start_is_the_state_after_its_text(
    model: RandomModel, sentence: list[str]
) -> None:
    bilm = load_bilm(model.files)
    encoder = encoders.FixedStateEncoder(
        deepcopy(bilm), TYPES, cached_tokens=3, warm=True
    )
    warm_text = [[line.split()] for line in encoders.WARM_TEXT.splitlines()]
    assert_equals_readable(encoder, bilm, warm_text, [[sentence]])


@given(
    model=models(),
    many=st.lists(
        st.lists(sentences(), min_size=1, max_size=4), min_size=1, max_size=4
    ),
)
def test_carried_states_equal_the_readable_bilm(
    model: RandomModel, many: Batches
) -> None:
    bilm = load_bilm(model.files)
    encoder = encoders.CarriedStateEncoder(deepcopy(bilm), TYPES)
    assert_equals_readable(encoder, bilm, [], many)


RUNS = [(capability, "float32") for capability in PROCESSORS]
"""Kinds of processor, and the precisions that have kernels there."""
if PROCESSORS and product_kernel(torch.bfloat16):
    RUNS.append((PROCESSORS[-1], "bfloat16"))
RUNS += [(name, "bfloat16 (int16)") for name in processors_with(torch.int16)]
RUNS += [(name, "int8") for name in processors_with(torch.int8)]


@pytest.mark.parametrize(("capability", "arithmetic"), RUNS)
@settings(max_examples=10)
@given(
    model=models(),
    text=st.lists(sentences(max_size=9), min_size=1, max_size=8),
    order=st.randoms(use_true_random=False),
    batch_tokens=st.integers(1, 12),
    n_threads=st.integers(1, 5),
    state=st.sampled_from(["zero", "warm"]),
)
def test_bits_depend_on_the_sentence_alone(
    capability: str,
    arithmetic: str,
    model: RandomModel,
    text: list[list[str]],
    order: Random,
    batch_tokens: int,
    n_threads: int,
    state: InitialState,
) -> None:
    shuffled = order.sample(range(len(text)), len(text))
    precision: Any = arithmetic.split()[0]
    hidden = ["avx512_bf16"] if arithmetic.endswith("(int16)") else []
    with processor(capability), without_instructions(*hidden):
        embedder = ElmoEmbedder(model=model.files, precision=precision, state=state)
        expected = embedder.embed_batch(text)
        other = ElmoEmbedder(
            model=model.files,
            precision=precision,
            state=state,
            batch_tokens=batch_tokens,
        )
        torch.set_num_threads(n_threads)
        try:
            among_others = other.embed_batch([text[i] for i in shuffled])
        finally:
            torch.set_num_threads(1)
        alone = other.embed_sentence(text[shuffled[0]])
    for i, activations in zip(shuffled, among_others, strict=True):
        assert_array_equal(activations, expected[i])
    assert_array_equal(alone, expected[shuffled[0]])


SENTENCES = [["the", "cat", "sat"], ["the", "dog"], ["naïve", "cat", "the", "cat"]]
PRECISIONS = ["float32", "bfloat16", "float16", pytest.param("int8", marks=needs_int8)]


def small_content(**lstm: Any) -> dict[str, Any]:
    """Return the options of a model whose layers have odd sizes."""
    content = small_architecture(**{"dim": 21, "projection_dim": 7, **lstm})
    content["char_cnn"]["activation"] = "tanh"
    return content


def make_encoder(
    folder: Path, precision: Any, state: InitialState = "zero", **lstm: Any
) -> encoders.SentenceEncoder:
    """Make the encoder of a random small model."""
    bilm = load_bilm(make_model(small_content(**lstm), 1, folder))
    types = compute_types(precision, torch.device("cpu"))
    return encoders.make_encoder(bilm, types, state)


def run(encoder: encoders.SentenceEncoder) -> Tensor:
    with torch.inference_mode():
        return encoder.run(SENTENCES, range(len(SENTENCES))).clone()


@pytest.mark.parametrize("capability", WAYS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("initial_state", ["warm", "carry"])
def test_copies_compute_the_same_bits(
    initial_state: InitialState, precision: str, capability: str, tmp_path: Path
) -> None:
    if precision == "int8" and capability not in processors_with(torch.int8):
        pytest.skip("needs VNNI")
    with processor(capability):
        encoder = make_encoder(tmp_path, precision, initial_state)
        copied = deepcopy(encoder)
        loaded = pickle.loads(pickle.dumps(encoder))
        # A copy of a copy is complete, too.
        again = deepcopy(pickle.loads(pickle.dumps(copied)))
        # Without kernels, the bits of a token's vector depend on the tokens that are
        # encoded with it. The cache of a copy is empty. The original's cache has
        # vectors of the warm text.
        encoder._cache = deepcopy(encoder._cache)
        expected = run(encoder)
        for each in (copied, loaded, again):
            assert torch.equal(run(each), expected)
        if initial_state == "carry":  # A copy has states of its own.
            assert not torch.equal(run(copied), expected)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("source", WAYS)
@pytest.mark.parametrize("target", WAYS)
def test_a_pickle_can_go_to_another_kind_of_processor(
    source: str, target: str, precision: str, tmp_path: Path
) -> None:
    # Whole numbers need kernels on both sides: see the next test.
    with processor(source), without_integers():
        encoder = make_encoder(tmp_path, precision)
        expected = run(encoder)
        content = pickle.dumps(encoder)
    with processor(target):
        layers = run(pickle.loads(content))
    tolerance = 1e-6 if precision == "float32" else 0.05
    assert_allclose(layers.float(), expected.float(), atol=tolerance)
    have_kernels = source in PROCESSORS and target in PROCESSORS
    if precision == "float32" and have_kernels:
        assert torch.equal(layers, expected)


INTEGERS = [("int8", name) for name in processors_with(torch.int8)]
INTEGERS += [("bfloat16", name) for name in processors_with(torch.int16)]


@pytest.mark.parametrize(("precision", "source"), INTEGERS)
@pytest.mark.parametrize("target", WAYS)
def test_a_pickle_of_integers_can_go_to_a_processor_that_has_them(
    source: str, target: str, precision: str, tmp_path: Path
) -> None:
    with processor(source), without_instructions("avx512_bf16"):
        encoder = make_encoder(tmp_path, precision)
        expected = run(encoder)
        content = pickle.dumps(encoder)
    with processor(target):
        if (precision, target) in INTEGERS:
            assert torch.equal(run(pickle.loads(content)), expected)
            return
        message = (
            r"^a model in int8 or bfloat16 \(int16\) requires compiled kernels and a "
        )
        with pytest.raises(InputError, match=message):
            pickle.loads(content)


def test_bfloat16_without_instructions_is_float32_with_rounded_weights(
    tmp_path: Path,
) -> None:
    with without_instructions("avx512_bf16"), without_integers():
        layers = run(make_encoder(tmp_path, "bfloat16"))
    bilm = load_bilm(make_model(small_content(), 1, tmp_path))
    rounded = bilm.state_dict()
    for name, values in rounded.items():
        if re.search(r"(gates|projection|carry|transform)\.weight$", name):
            rounded[name] = values.bfloat16().float()
    bilm.load_state_dict(rounded)
    expected = run(encoders.make_encoder(bilm, TYPES, "zero"))
    assert layers.dtype == torch.float32
    assert torch.equal(layers, expected)


@pytest.mark.skipif(not kernels.has_tiles(), reason="needs AMX and a C compiler")
@pytest.mark.parametrize("has_tiles", [True, False])
def test_a_bfloat16_pickle_needs_no_amx_on_either_side(
    has_tiles: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "request_tiles", lambda: has_tiles)
    encoder = make_encoder(tmp_path, "bfloat16", projection_dim=32)
    expected = run(encoder)
    content = pickle.dumps(encoder)
    monkeypatch.setattr(kernels, "request_tiles", lambda: not has_tiles)
    assert_allclose(run(pickle.loads(content)).float(), expected.float(), atol=0.05)


def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    process = run_python(PROGRAMS / "embed_in_fork.py")
    assert process.stdout == "0\n", process.stderr
