"""The softmax: values, in C and without, its file, and where it is used."""

import math
import pickle
from pathlib import Path
from typing import Any, get_args

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor

from elmo_cli.compiled import kernels
from elmo_cli.compiled.integer_linear import round_to_integers
from elmo_cli.compiled.kernels import has_tiles
from elmo_cli.compiled.linear import CompiledLinear, Linear
from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.inference.precision import softmax_type
from elmo_cli.language_model import softmax as full_softmax
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.softmax import FullSoftmax
from elmo_cli.language_model.softmax_file import check_softmax, read_rows, write_softmax
from elmo_cli.language_model.softmax_kernels import (
    LogitLayer,
    log_probabilities,
    softmax_kernel,
)
from elmo_cli.language_model.surprisal import measure_surprisal
from elmo_cli.options.model import Precision
from tests.support import reference
from tests.support.cell_formulas import PROCESSORS, WAYS, processor
from tests.support.processors import (
    needs_int16,
    processors_with,
    without_integers,
)
from tests.support.strategies import random_tensor, seeds
from tests.support.whole_numbers import round_rows, round_weights

CPU = torch.device("cpu")
N_WORDS = 23
DIM = 4
RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=(7, 3)).astype(np.float32)
BIAS = RANDOM.normal(size=7).astype(np.float32)
W = "softmax/W"
B = "softmax/b"


class Case:
    """A softmax of random values, and predictions."""

    def __init__(
        self, n: int, n_words: int, dim: int, seed: int, scale: float = 1.0
    ) -> None:
        self.weight = scale * random_tensor(n_words, dim, seed=seed) / dim**0.5
        self.bias = scale * random_tensor(n_words, seed=seed + 1)
        self.contexts = random_tensor(n, dim, seed=seed + 2)
        targets = np.random.default_rng(seed).integers(n_words, size=n)
        self.targets = torch.from_numpy(targets)

    def write(self, path: Path) -> None:
        write_softmax(path, self.weight.numpy(), self.bias.numpy())

    def compute(
        self, dtype: torch.dtype, rows: slice = slice(None), n_words: int = 8192
    ) -> Tensor:
        """Compute log probabilities and entropies of rows, `n_words` at a time."""
        layers = []
        for first in range(0, len(self.bias), n_words):
            part = slice(first, first + n_words)
            multiply = make_layer(self.weight[part], dtype)
            layers.append(LogitLayer(first, multiply, self.bias[part]))
        contexts = self.contexts[rows]
        return log_probabilities(
            layers,
            contexts,
            targets=self.targets[rows],
            rows=torch.arange(len(contexts)),
            dtype=dtype,
            with_entropy=True,
        )

    def expected(self, dtype: torch.dtype) -> Tensor:
        """Compute them in float64, after the same rounding of the factors."""
        contexts = self.contexts.double()
        weight = self.weight.double()
        if dtype == torch.bfloat16:
            contexts = (self.contexts * BITS).to(dtype).double() / BITS
            weight = self.weight.to(dtype).double()
        if dtype == torch.int16:
            whole, row_scales = round_rows((self.contexts * BITS).numpy(), 2047)
            contexts = torch.from_numpy(whole * row_scales.astype(float)) / BITS
            whole, scales = round_weights(self.weight.numpy(), 2047)
            weight = torch.from_numpy(whole * scales.astype(float)[:, None])
        log_p = (contexts @ weight.t() + self.bias).log_softmax(dim=1)
        rows = torch.arange(len(contexts))
        of_targets = log_p[rows, self.targets]
        entropies = -(log_p.exp() * log_p).sum(dim=1)
        return torch.stack([of_targets, entropies])


def make_layer(weight: Tensor, dtype: torch.dtype) -> Linear:
    if dtype == torch.int16:
        return round_to_integers(weight, None, dtype)
    return CompiledLinear(weight.to(dtype))


@pytest.mark.parametrize("capability", WAYS)
@pytest.mark.parametrize("n_at_once", [2, 1024])
@given(
    seed=seeds,
    n_rows=st.integers(1, 30),
    held_bytes=st.sampled_from([0, 10**9]),
    scale=st.sampled_from([0.1, 1, 40]),
)
def test_a_softmax_equals_the_reference_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    n_at_once: int,
    capability: str,
    seed: int,
    n_rows: int,
    held_bytes: int,
    scale: float,
) -> None:
    path = tmp_path_factory.mktemp("softmax") / "softmax.hdf5"
    case = Case(9, N_WORDS, DIM, seed, scale)
    case.write(path)
    with pytest.MonkeyPatch.context() as patch, processor(capability):
        patch.setattr(full_softmax, "WORDS_PER_READ", n_rows)
        patch.setattr(full_softmax, "_MAX_HELD_BYTES", held_bytes)
        patch.setattr(full_softmax, "PREDICTIONS_PER_PIECE", n_at_once)
        patch.setattr(full_softmax, "_MAX_LOGITS", n_at_once * N_WORDS)
        softmax = FullSoftmax(path, N_WORDS, DIM, CPU)
        log_p = torch.stack(list(softmax.of_words(case.contexts))).numpy()
        scores = softmax.of_targets(case.contexts, case.targets, with_entropy=True)

    weight = case.weight.double().numpy()
    bias = case.bias.double().numpy()
    rows = []
    for context in case.contexts.double().numpy():
        rows.append(reference.log_probabilities(context, weight, bias))
    expected = np.array(rows)
    of_targets = expected[range(9), case.targets]
    entropies = -(np.exp(expected) * expected).sum(axis=1)
    tolerance = 1e-5 * max(1, scale)
    assert_allclose(log_p, expected, atol=tolerance)
    assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-12)
    assert_allclose(scores, [of_targets, entropies], atol=tolerance)


def test_only_a_large_softmax_is_read_again_per_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(9, N_WORDS, DIM, 1)
    path = tmp_path / "softmax.hdf5"
    case.write(path)
    n_bytes = 4 * N_WORDS * DIM
    monkeypatch.setattr(full_softmax, "_MAX_HELD_BYTES", n_bytes)
    held = FullSoftmax(path, N_WORDS, DIM, CPU)
    monkeypatch.setattr(full_softmax, "_MAX_HELD_BYTES", n_bytes - 1)
    read = FullSoftmax(path, N_WORDS, DIM, CPU)
    before = next(held.of_words(case.contexts))
    case.weight *= -1
    case.write(path)
    assert torch.equal(next(held.of_words(case.contexts)), before)
    assert not torch.equal(next(read.of_words(case.contexts)), before)


def test_a_gpu_gives_equal_results(tmp_path: Path, gpu: str) -> None:
    case = Case(9, N_WORDS, DIM, 1)
    path = tmp_path / "softmax.hdf5"
    case.write(path)
    there = FullSoftmax(path, N_WORDS, DIM, torch.device(gpu))
    here = FullSoftmax(path, N_WORDS, DIM, CPU)
    on_gpu = case.contexts.to(gpu)
    words = zip(there.of_words(on_gpu), here.of_words(case.contexts), strict=True)
    for actual, expected in words:
        assert_allclose(actual, expected, atol=1e-5)
    scores = there.of_targets(on_gpu, case.targets, with_entropy=True)
    expected = here.of_targets(case.contexts, case.targets, with_entropy=True)
    assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["softmax.hdf5", "softmax.safetensors"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("n_rows", [1, 3, 100])
def test_what_is_written_is_read_back_however_many_rows_at_once(
    tmp_path: Path, name: str, dtype: str, n_rows: int
) -> None:
    path = tmp_path / name
    write_softmax(path, WEIGHT, BIAS, dtype)
    check_softmax(path, 7, 3)
    if name == "softmax.hdf5":  # The layout equals the published file.
        assert reference.read_arrays(path).keys() == {W, B}
    parts = list(read_rows(path, n_rows))
    assert [first for first, _, _ in parts] == list(range(0, 7, n_rows))
    for first, weight, bias in parts:
        rows = slice(first, first + n_rows)
        assert weight.dtype == torch.float32
        assert bias.dtype == torch.float32
        assert_array_equal(weight, WEIGHT[rows].astype(dtype))
        assert_array_equal(bias, BIAS[rows].astype(dtype))


MISFIT = " does not fit a vocabulary of 7 words and a projection_dim of 3: softmax"
NOT_FINITE = ": values that are not finite (NaN or infinity) in the rows 3 to 5"
SPOILED = np.arange(7) == 4


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"char_embed": WEIGHT},
            ": expected a softmax, found the weights of a biLM",
        ),
        (
            {W: WEIGHT},
            f"{MISFIT}/b: expected (7,), found no tensor",
        ),
        (
            {W: np.ones((8, 4)), B: np.ones(8)},
            f"{MISFIT}/W: expected (7, 3), found (8, 4); "
            f"{B}: expected (7,), found (8,)",
        ),
        ({W: WEIGHT.astype(int), B: BIAS}, ": softmax/W: expected floats, found int64"),
        ({W: WEIGHT, B: np.where(SPOILED, np.nan, BIAS)}, NOT_FINITE),
        ({W: WEIGHT, B: np.where(SPOILED, np.inf, BIAS)}, NOT_FINITE),
    ],
)
def test_a_file_with_a_fault_is_reported(
    tmp_path: Path,
    arrays: dict[str, np.ndarray],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(full_softmax, "WORDS_PER_READ", 3)
    path = tmp_path / "softmax.hdf5"
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    with pytest.raises(WeightsError) as caught:
        FullSoftmax(path, 7, 3, CPU)
    assert str(caught.value) == f"{path}{message}"


KINDS = [(capability, torch.float32) for capability in PROCESSORS]
for _name in processors_with(torch.int16):
    KINDS.append((_name, torch.int16))
if has_tiles():
    KINDS.append(("AVX512", torch.bfloat16))
each_kernel = pytest.mark.parametrize(("capability", "dtype"), KINDS)
needs_tiles = pytest.mark.skipif(not has_tiles(), reason="needs AMX and a C compiler")
BITS = math.log2(math.e)


@each_kernel
@given(
    n=st.integers(0, 40) | st.integers(500, 1100),
    n_words=st.one_of(
        st.integers(1, 150),
        st.integers(2040, 2060),
        st.integers(4000, 6000),
    ),
    dim=st.integers(1, 70) | st.integers(250, 260),
    seed=seeds,
    scale=st.sampled_from([0.1, 1, 30]),
)
def test_log_probabilities_in_c_equal_float64(
    capability: str,
    dtype: torch.dtype,
    n: int,
    n_words: int,
    dim: int,
    seed: int,
    scale: float,
) -> None:
    case = Case(n, n_words, dim, seed, scale)
    with processor(capability):
        scores = case.compute(dtype)
        # A prediction has the same bits alone, and however the words are added.
        rows = slice(n // 2, n // 2 + 3)
        assert torch.equal(case.compute(dtype, rows), scores[:, rows])
        assert torch.equal(case.compute(dtype, n_words=2048), scores)
    assert_allclose(scores, case.expected(dtype), atol=1e-5 * max(1, scale))


@each_kernel
@pytest.mark.parametrize("n", [1, 7, 50, 600])
def test_bits_do_not_depend_on_threads(
    capability: str, dtype: torch.dtype, n: int
) -> None:
    case = Case(n, 5000, 48, 1)
    n_threads = torch.get_num_threads()
    results = []
    with processor(capability):
        try:
            for number in (1, 2, 3, 8):
                torch.set_num_threads(number)
                results.append(case.compute(dtype))
        finally:
            torch.set_num_threads(n_threads)
    assert all(torch.equal(result, results[0]) for result in results)


@each_kernel
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_infinite_context_spoils_only_its_prediction(
    capability: str, dtype: torch.dtype, value: float
) -> None:
    case = Case(40, 3000, 16, 1)
    with processor(capability):
        expected = case.compute(dtype)
        case.contexts[17] = value
        scores = case.compute(dtype)
    others = torch.arange(40) != 17
    assert scores[:, 17].isnan().all()
    assert torch.equal(scores[:, others], expected[:, others])


@each_kernel
def test_very_unequal_logits_keep_their_sum(
    capability: str, dtype: torch.dtype
) -> None:
    """Check logits that rise by 2,000 from word to word: each is the new maximum."""
    case = Case(3, 200, 8, 1)
    case.bias[:] = torch.arange(200) * 2000.0
    with processor(capability):
        scores = case.compute(dtype)
        case.bias[:] = case.bias.flip(0)
        case.weight = case.weight.flip(0)
        case.targets = 199 - case.targets
        flipped = case.compute(dtype)
    assert_allclose(scores, case.expected(dtype), rtol=1e-6, atol=0.1)
    assert_allclose(flipped, scores, rtol=1e-6, atol=0.1)


CASE = Case(20, 5000, 32, 1)


@pytest.mark.parametrize("capability", WAYS)
def test_words_that_share_a_context_have_the_bits_of_words_with_one_each(
    path: Path, capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_softmax, "WORDS_PER_READ", 2048)
    monkeypatch.setattr(full_softmax, "PREDICTIONS_PER_PIECE", 6)
    random = np.random.default_rng(1)
    rows = torch.from_numpy(random.integers(20, size=300))
    targets = torch.from_numpy(random.integers(5000, size=300))
    targets[:50] = 17  # in several contexts, and more than once in some
    with processor(capability):
        softmax = FullSoftmax(path, 5000, 32, CPU)
        shared = softmax.of_targets(CASE.contexts, targets, rows, with_entropy=True)
        single = softmax.of_targets(CASE.contexts[rows], targets, with_entropy=True)
        in_c = softmax_kernel(torch.float32) is not None
    if in_c:
        assert torch.equal(shared, single)
    assert_allclose(shared, single, rtol=1e-6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    CASE.write(tmp_path / "softmax.hdf5")
    return tmp_path / "softmax.hdf5"


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_softmax_that_is_read_per_batch_has_equal_bits(
    path: Path, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(held_bytes: int) -> Tensor:
        monkeypatch.setattr(full_softmax, "_MAX_HELD_BYTES", held_bytes)
        softmax = FullSoftmax(path, 5000, 32, CPU, precision)
        scores = softmax.of_targets(CASE.contexts, CASE.targets, with_entropy=True)
        [log_p] = softmax.of_targets(CASE.contexts, CASE.targets)
        assert_allclose(log_p, scores[0], atol=1e-9)
        words = torch.stack(list(softmax.of_words(CASE.contexts)))
        assert_allclose(words[range(20), CASE.targets], log_p, atol=1e-5)
        return scores

    monkeypatch.setattr(full_softmax, "WORDS_PER_READ", 2048)
    held = compute(held_bytes=2**30)
    read = compute(held_bytes=0)
    assert torch.equal(held, read)


def test_every_precision_without_integers_and_amx_is_float32(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "request_tiles", lambda: False)
    expected = FullSoftmax(path, 5000, 32, CPU).of_targets(CASE.contexts, CASE.targets)
    with without_integers():
        for precision in get_args(Precision):
            softmax = FullSoftmax(path, 5000, 32, CPU, precision)
            scores = softmax.of_targets(CASE.contexts, CASE.targets)
            assert torch.equal(scores, expected)


@needs_int16
def test_the_types_of_the_softmax_with_integers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert softmax_type("int8", CPU) == torch.int16
    assert softmax_type("float32", CPU) == torch.float32
    assert softmax_type("float16", CPU) == torch.float32
    assert softmax_type("bfloat16", torch.device("cuda")) == torch.float32
    monkeypatch.setattr(kernels, "request_tiles", lambda: False)
    assert softmax_type("bfloat16", CPU) == torch.int16


@needs_int16
@pytest.mark.parametrize("held_bytes", [0, 2**30])
def test_a_softmax_in_int16_keeps_its_bits_in_a_pickle(
    path: Path, held_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_softmax, "_MAX_HELD_BYTES", held_bytes)
    softmax = FullSoftmax(path, 5000, 32, CPU, "int8")
    again = pickle.loads(pickle.dumps(softmax))
    scores = softmax.of_targets(CASE.contexts, CASE.targets)
    assert torch.equal(again.of_targets(CASE.contexts, CASE.targets), scores)


@needs_int16
def test_the_softmax_in_int16_adds_little_to_the_error_of_surprisal() -> None:
    text = Path(__file__).parents[2] / "examples" / "alice.txt"
    sentences = [line.split() for line in text.read_text("utf-8").splitlines()[:40]]
    model = LanguageModel()

    def measure() -> Any:
        measured = measure_surprisal(model, sentences)
        return np.array([token.surprisal for text in measured for token in text])

    expected = measure()
    assert model.files.softmax is not None
    n_words = len(model.vocabulary)
    dim = model.engine.architecture.lstm.projection_dim
    model.softmax = FullSoftmax(model.files.softmax, n_words, dim, CPU, "int8")
    errors = np.abs(measure() - expected)  # bits
    assert 1e-5 < errors.mean() < 0.005
    assert errors.max() < 0.05


@needs_tiles
def test_a_softmax_in_bfloat16_is_unpickled_without_amx(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    softmax = FullSoftmax(path, 5000, 32, CPU, "bfloat16")
    content = pickle.dumps(softmax)
    scores = softmax.of_targets(CASE.contexts, CASE.targets)
    path.unlink()
    again = pickle.loads(content)
    assert torch.equal(again.of_targets(CASE.contexts, CASE.targets), scores)
    monkeypatch.setattr(kernels, "request_tiles", lambda: False)
    other = pickle.loads(content)
    assert_allclose(other.of_targets(CASE.contexts, CASE.targets), scores, atol=0.05)
    words = torch.stack(list(other.of_words(CASE.contexts)))
    assert_allclose(words[range(20), CASE.targets], scores[0], atol=0.05)


@needs_tiles
def test_surprisal_in_bfloat16_is_near_float32() -> None:
    text = Path(__file__).parents[2] / "examples" / "alice.txt"
    lines = text.read_text("utf-8").splitlines()[:40]
    sentences = [line.split() for line in lines]

    def measure(precision: Precision) -> Any:
        model = LanguageModel(precision=precision)
        measured = measure_surprisal(model, sentences, entropy=True)
        rows: Any = [
            [token.surprisal, token.entropy] for text in measured for token in text
        ]
        return np.array(rows)

    errors = np.abs(measure("bfloat16") - measure("float32"))
    assert 1e-5 < errors.mean() < 0.03  # Without bfloat16 there would be none.
    assert errors.max() < 0.3
