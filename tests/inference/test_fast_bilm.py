from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from strategies import (
    architectures,
    make_model,
    random_tensor,
    seeds,
    small_architecture,
    word_architectures,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_cli.inference import input_gates
from elmo_cli.inference.fast_bilm import FastBiLm
from elmo_cli.inference.input_gates import _groups, _groups_by_tokens
from elmo_cli.inference.linear import (
    PACKED_WEIGHTS,
    PRODUCT_ROWS,
    CompiledProduct,
    OneDnnProduct,
    Product,
    ScaledRows,
    product,
    product_kernel,
)
from elmo_cli.inference.precision import compute_types
from elmo_cli.model.bilm import BiLm, BiLmState, map_state, select_state
from elmo_cli.model.lstm import pack
from elmo_cli.pretrained.loading import load_bilm

CPU = torch.device("cpu")
ALICE = Path(__file__).parents[2] / "examples" / "alice.txt"
TOLERANCE = 1e-5
ALL = dict.fromkeys(PACKED_WEIGHTS, 0)

sentences_of_tokens = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=7), min_size=1, max_size=6
)

packs = pytest.mark.skipif(
    type(product(torch.ones(2048, 1024))) is Product, reason="needs oneDNN on x86"
)


COMPILED_TYPES = [t for t in (torch.float32, torch.bfloat16) if product_kernel(t)]
"""Where there is GCC when the package is installed: the first with AVX-512, both with its BF16."""


@pytest.fixture(params=["AVX2", "AVX512"])
def capability(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the processor is said to have."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: request.param)
    return str(request.param)


@pytest.fixture
def pack_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small weights are packed too."""
    monkeypatch.setattr("elmo_cli.inference.linear.PACKED_WEIGHTS", ALL)


# Products


@packs
@given(
    n_rows=st.integers(1, 5 * PRODUCT_ROWS),
    n_inputs=st.integers(1, 40),
    n_outputs=st.integers(1, 40),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_packed_product_is_the_plain_one(
    n_rows: int, n_inputs: int, n_outputs: int, with_bias: bool, seed: int
) -> None:
    weight = random_tensor(n_outputs, n_inputs, seed=seed)
    bias = random_tensor(n_outputs, seed=seed + 1) if with_bias else None
    inputs = random_tensor(n_rows, n_inputs)
    expected = inputs @ weight.t() + (0 if bias is None else bias)
    for candidate in (Product(weight, bias), OneDnnProduct(weight, bias)):
        assert_allclose(candidate(inputs), expected, atol=TOLERANCE, rtol=TOLERANCE)
        first = candidate.unscaled(inputs[:PRODUCT_ROWS])
        added = first.added_to(expected[:PRODUCT_ROWS])
        assert_allclose(added, 2 * expected[:PRODUCT_ROWS], atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("dtype", COMPILED_TYPES)
@given(
    n_rows=st.one_of(st.integers(0, 20), st.integers(250, 600)),
    n_pairs=st.one_of(st.integers(1, 20), st.integers(250, 1100)),
    n_blocks=st.integers(1, 3),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_product_in_c_is_that_of_float64(
    dtype: torch.dtype, n_rows: int, n_pairs: int, n_blocks: int, with_bias: bool, seed: int
) -> None:
    n_outputs = 64 * n_blocks
    weight = random_tensor(n_outputs, 2 * n_pairs, seed=seed).to(dtype)
    bias = random_tensor(n_outputs, seed=seed + 1).to(dtype) if with_bias else torch.zeros(1)
    inputs = random_tensor(n_rows, 2 * n_pairs, seed=seed + 2).to(dtype)
    multiply = CompiledProduct(weight, bias if with_bias else None)
    found = multiply(inputs)
    assert found.dtype == dtype
    expected = inputs.double() @ weight.double().t() + bias
    sizes = inputs.double().abs() @ weight.double().abs().t() + bias.abs()
    rounding = expected.abs() * torch.finfo(dtype).eps / 2
    assert ((found - expected).abs() <= 1e-6 * sizes + rounding).all()
    # A row is the same, to the bit, among others and alone, wherever it is written.
    room = torch.full((n_rows, n_outputs), torch.nan, dtype=dtype)
    some = slice(n_rows // 2, n_rows // 2 + 4)
    assert multiply.in_room(room, inputs[some]).data_ptr() == room.data_ptr()
    assert torch.equal(room[: len(found[some])], found[some])
    assert room[4:].isnan().all()
    assert torch.equal(multiply.in_room(room[:0], inputs), found)


@packs
def test_a_packed_product_takes_rows_that_lie_apart_in_memory() -> None:
    weight = random_tensor(64, 4)
    inputs = random_tensor(5, 8)[:, 2:6]
    expected = Product(weight)(inputs)
    for way in (OneDnnProduct, *[CompiledProduct for _ in COMPILED_TYPES]):
        assert_allclose(way(weight)(inputs), expected, atol=TOLERANCE)


@packs
def test_onednn_meets_few_numbers_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps a compiled product for each of them."""
    seen = set()

    def record(inputs: Tensor, *rest: Any) -> Any:
        seen.add(len(inputs))
        return multiply(inputs, *rest)

    multiply = torch.ops.mkldnn._linear_pointwise
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", record)
    packed = OneDnnProduct(random_tensor(6, 4))
    for n_rows in range(1, 3 * PRODUCT_ROWS):
        packed(random_tensor(n_rows, 4))
    assert seen == {*range(1, 9), *range(16, 129, 8), *range(144, 257, 16)}


@packs
def test_weights_are_packed_where_that_is_faster(
    capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if capability == "AVX2":
        wide, others = [(2048, 512)], [(512, 4096), (1024, 1024), (1024, 512)]
    else:
        wide, others = [(1024, 512), (256, 512)], [(256, 256)]
    monkeypatch.setattr("elmo_cli.inference.linear.product_kernel", lambda dtype: None)
    for shape in wide:
        assert type(product(torch.ones(shape))) is OneDnnProduct
    for shape in others:
        assert type(product(torch.ones(shape))) is Product


@pytest.mark.parametrize("dtype", COMPILED_TYPES)
def test_the_product_in_c_is_taken_where_it_is_faster(dtype: torch.dtype) -> None:
    for shape in [(128, 128), (1024, 16), (64, 4096)]:
        assert type(product(torch.ones(shape, dtype=dtype))) is CompiledProduct
    for shape in [(64, 64), (1000, 512), (128, 1023)]:  # too few values, or not in whole blocks
        assert type(product(torch.ones(shape, dtype=dtype))) is not CompiledProduct


@packs
@pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bfloat16 here"
)
@pytest.mark.usefixtures("pack_all")
def test_bfloat16_is_packed_with_avx_512(capability: str) -> None:
    weight, bias = random_tensor(24, 16).bfloat16(), random_tensor(24, seed=1).bfloat16()
    expected = OneDnnProduct if capability == "AVX512" else Product
    assert type(product(weight, bias)) is expected
    inputs = random_tensor(11, 16).bfloat16()
    exact = inputs.double() @ weight.double().t() + bias.double()
    found = product(weight, bias)(inputs)
    assert found.dtype == torch.bfloat16
    assert_allclose(found.double(), exact, atol=2**-5, rtol=2**-8)


@packs
def test_bfloat16_is_not_packed_where_onednn_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    monkeypatch.setattr("elmo_cli.inference.linear.product_kernel", lambda dtype: None)
    assert type(product(torch.ones(2048, 1024, dtype=torch.bfloat16))) is Product
    assert type(product(torch.ones(2048, 1024))) is OneDnnProduct


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_weights_of_another_precision_are_not_packed(capability: str, dtype: torch.dtype) -> None:
    assert type(product(torch.ones(2048, 1024, dtype=dtype))) is Product


@given(st.lists(st.integers(1, 2 * PRODUCT_ROWS), max_size=20))
def test_steps_share_a_product_up_to_its_rows(sizes: list[int]) -> None:
    groups = list(_groups(sizes, PRODUCT_ROWS))
    assert [size for group in groups for size in group] == sizes
    assert all(sum(group) <= PRODUCT_ROWS or len(group) == 1 for group in groups)
    # None is smaller than it need be.
    for group, following in pairwise(groups):
        assert sum(group) + following[0] > PRODUCT_ROWS


@given(
    tokens=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=12), min_size=1, max_size=20),
    max_tokens=st.integers(1, 12),
)
def test_steps_share_a_table_up_to_its_tokens(tokens: list[list[int]], max_tokens: int) -> None:
    sizes = [len(step) for step in tokens]
    groups = list(_groups_by_tokens(np.concatenate(tokens), sizes, max_tokens))
    assert [size for group in groups for size in group] == sizes
    steps = iter(tokens)
    distinct = [[set(next(steps)) for _ in group] for group in groups]
    assert all(len(set.union(*sets)) <= max_tokens or len(sets) == 1 for sets in distinct)
    # None is smaller than it need be.
    for sets, following in pairwise(distinct):
        assert len(set.union(*sets, following[0])) > max_tokens


# The biLM


def random_state(bilm: BiLm, n_sentences: int, seed: int) -> BiLmState:
    generator = torch.Generator().manual_seed(seed)
    return map_state(
        bilm.initial_state(n_sentences),
        lambda values: 2 * torch.rand(values.shape, generator=generator) - 1,
    )


def padded(sentences: list[list[int]]) -> NDArray[np.int64]:
    """Sentences as rows, -1 where there is no token."""
    tokens = np.full((len(sentences), max(map(len, sentences))), -1)
    for row, sentence in zip(tokens, sentences, strict=True):
        row[: len(sentence)] = sentence
    return tokens


def assert_fast_equals_readable(
    bilm: BiLm, sentences: list[list[int]], state: BiLmState, *, shared: bool = False
) -> None:
    """The fast biLM gives the readable one's layers and states; `state` has a row a sentence."""
    vectors = random_tensor(1 + max(map(max, sentences)), bilm.options.lstm.projection_dim)
    packing = pack([len(sentence) for sentence in sentences])
    tokens = padded(sentences)
    packed = torch.from_numpy(tokens[packing.sentences, packing.positions])
    order = torch.from_numpy(packing.order)
    outputs, ended = bilm.contextualize(vectors[packed], packing, select_state(state, order))
    in_order = torch.from_numpy(np.lexsort((packing.positions, packing.sentences)))
    expected = torch.stack([torch.cat(output, dim=1)[in_order] for output in outputs])
    expected_state = select_state(ended, order.argsort())
    start = select_state(state, torch.tensor([0])) if shared else state
    before = map_state(start, torch.clone)
    found, found_state = FastBiLm(deepcopy(bilm), compute_types("float32", CPU)).contextualize(
        vectors, tokens, start
    )
    assert_allclose(found, expected, atol=TOLERANCE)
    for one, other in zip(tensors(found_state), tensors(expected_state), strict=True):
        assert_allclose(one, other, atol=TOLERANCE)
    for one, other in zip(tensors(start), tensors(before), strict=True):
        assert torch.equal(one, other)


def tensors(state: BiLmState) -> list[Tensor]:
    return [values for layer in state for direction in layer for values in direction]


@pytest.mark.parametrize("compiled", [True, False])
@given(
    content=st.one_of(architectures(), word_architectures()),
    seed=seeds,
    sentences=sentences_of_tokens,
    shared=st.booleans(),
)
def test_the_fast_bilm_gives_the_layers_and_states_of_the_readable_one(
    content: dict[str, Any],
    seed: int,
    sentences: list[list[int]],
    shared: bool,
    compiled: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    bilm = load_bilm(make_model(content, seed, tmp_path_factory.mktemp("model")))
    state = random_state(bilm, len(sentences), seed % 1000)
    if shared:
        state = select_state(state, torch.zeros(len(sentences), dtype=torch.int64))
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr("elmo_cli.inference.precision.compiled_next_cells", lambda *types: None)
            patch.setattr("elmo_cli.inference.precision.compiles_steps", lambda weight: False)
        assert_fast_equals_readable(bilm, sentences, state, shared=shared)


def test_nodes_of_one_parent_share_its_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences that part early: a product of a hidden state for each distinct beginning."""
    bilm = load_bilm(make_model(small_architecture(n_layers=1), 1, tmp_path))
    n_rows = []

    def record(product: Product, inputs: Tensor) -> ScaledRows:
        n_rows.append(len(inputs))
        return unscaled(product, inputs)

    unscaled = Product.unscaled
    monkeypatch.setattr(Product, "unscaled", record)
    # Forward 2, 6, 6 and 6 nodes; backward 1, 3, 3 and 6.
    pairs = [(1, 3), (2, 4), (3, 5)]
    sentences = [[first, *pair, 0] for first in (1, 2) for pair in pairs]
    state = select_state(random_state(bilm, 1, 2), torch.zeros(6, dtype=torch.int64))
    assert_fast_equals_readable(bilm, sentences, state, shared=True)
    assert n_rows == [1, 2, 6, 6, 1, 1, 3, 3]


@pytest.mark.parametrize("clip", [None, 0, 0.1])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("projects", [True, False])
def test_the_fast_bilm_knows_clips_residual_connections_and_projections(
    clip: float | None, residual: bool, projects: bool, tmp_path: Path
) -> None:
    content = small_architecture(
        dim=4,
        projection_dim=4,
        n_layers=3,
        cell_clip=clip,
        proj_clip=clip,
        use_skip_connections=residual,
    )
    bilm = load_bilm(make_model(content, 7, tmp_path, projects=projects))
    assert (bilm.layer_pairs()[0][0].projection is not None) == projects
    sentences = [[0, 1, 2, 1, 0], [0, 1], [0, 1, 2, 1, 0], [3, 0, 1, 2, 1, 1, 1, 1, 2]]
    assert_fast_equals_readable(bilm, sentences, random_state(bilm, 4, 3))


def _limit_tables(monkeypatch: pytest.MonkeyPatch, bilm: BiLm, n_tokens: int) -> None:
    """Have tables of the gates of so many tokens, in float32."""
    width = 4 * bilm.options.lstm.dim
    monkeypatch.setattr(input_gates, "TABLE_BYTES", n_tokens * width * 4)
    assert input_gates.table_tokens(width, torch.float32) == n_tokens


@pytest.mark.parametrize("packed_weights", [ALL, PACKED_WEIGHTS])
def test_the_fast_bilm_is_the_readable_one_where_steps_need_several_products(
    packed_weights: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.inference.linear.PACKED_WEIGHTS", packed_weights)
    bilm = load_bilm(make_model(small_architecture(), 1, tmp_path))
    _limit_tables(monkeypatch, bilm, 30)
    # The first step alone is more than one product, and tokens repeat between tables.
    lengths = [1 + i % 12 for i in range(PRODUCT_ROWS)] + [1] * 100
    sentences = [[(i * j) % 50 for j in range(length)] for i, length in enumerate(lengths)]
    assert_fast_equals_readable(bilm, sentences, random_state(bilm, len(lengths), 2))


@pytest.mark.parametrize(
    ("dim", "n_sentences", "of_layers", "n_rows", "n_tables"),
    [
        pytest.param(5, 150, True, 522, 4, id="the layers have enough"),
        pytest.param(19, 150, True, 426, 4, id="they have less"),
        pytest.param(20, 30, False, 2 * PRODUCT_ROWS, 2, id="they have too little"),
    ],
)
def test_the_fast_bilm_is_the_readable_one_where_tables_are_made_in_one_memory(
    dim: int,
    n_sentences: int,
    of_layers: bool,
    n_rows: int,
    n_tables: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of the layers, for tables of more rows than a product has, and a last one of few."""
    bilm = load_bilm(make_model(small_architecture(dim=dim), 1, tmp_path))
    _limit_tables(monkeypatch, bilm, 2 * PRODUCT_ROWS + 10)
    tables: list[tuple[int, bool]] = []
    rooms: set[tuple[int, bool]] = set()

    def record(from_inputs: Product, inputs: Tensor, room: Tensor) -> Tensor:
        table = multiply(from_inputs, inputs, room)
        tables.append((len(inputs), table.data_ptr() == room.data_ptr()))
        rooms.add((len(room), room.untyped_storage().nbytes() > room.nbytes))
        return table

    multiply = input_gates._multiply
    monkeypatch.setattr(input_gates, "_multiply", record)
    generator = np.random.default_rng(1)
    sentences = [generator.integers(0, 900, 12).tolist() for _ in range(n_sentences)]
    assert_fast_equals_readable(bilm, sentences, random_state(bilm, len(sentences), 2))
    assert rooms == {(n_rows, of_layers)}
    assert all(is_room == (n > PRODUCT_ROWS) for n, is_room in tables)
    assert sum(is_room for _, is_room in tables) >= n_tables


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_result(n_threads: int, tmp_path: Path) -> None:
    bilm = load_bilm(make_model(small_architecture(), 1, tmp_path))
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        sentences = [[0, 1, 2], [0, 1, 3, 4], [5]]
        assert_fast_equals_readable(bilm, sentences, random_state(bilm, 3, 2))
        assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)


def test_the_fast_bilm_takes_the_lstms_out_of_the_readable_one(tmp_path: Path) -> None:
    bilm = load_bilm(make_model(small_architecture(), 1, tmp_path))
    assert len(FastBiLm(bilm, compute_types("float32", CPU)).layers) == 2
    assert len(bilm.forward_layers) == len(bilm.backward_layers) == 0


def test_the_zero_state_has_a_row_a_sentence(tmp_path: Path) -> None:
    bilm = load_bilm(make_model(small_architecture(), 1, tmp_path))
    state = FastBiLm(bilm, compute_types("bfloat16", CPU)).initial_state(4)
    assert len(state) == 2
    for layer in state:
        for direction in layer:
            assert (direction.hidden.shape, direction.cell.shape) == ((4, 3), (4, 5))
            assert not direction.hidden.any()
            assert not direction.cell.any()
            assert direction.hidden.dtype == torch.bfloat16
            assert direction.cell.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_type_of_torch_changes_nothing(dtype: torch.dtype, tmp_path: Path) -> None:
    files = make_model(small_architecture(), 1, tmp_path)
    vectors, tokens = random_tensor(4, 3), padded([[0, 1, 0], [2], [0, 1, 1, 3, 2, 0]])

    def run() -> Tensor:
        fast = FastBiLm(load_bilm(files), compute_types("float32", CPU))
        return fast.contextualize(vectors, tokens, fast.initial_state(1))[0]

    expected = run()
    torch.set_default_dtype(dtype)
    try:
        assert torch.equal(run(), expected)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.cuda
def test_the_fast_bilm_gives_the_same_on_a_gpu(tmp_path: Path) -> None:
    bilm = load_bilm(make_model(small_architecture(), 1, tmp_path))
    vectors, tokens = random_tensor(4, 3), padded([[0, 1, 0], [2], [0, 1, 1, 3, 2, 0]])
    on_cpu = FastBiLm(deepcopy(bilm), compute_types("float32", CPU))
    expected, _ = on_cpu.contextualize(vectors, tokens, on_cpu.initial_state(1))
    fast = FastBiLm(bilm, compute_types("float32", torch.device("cuda", 0)))
    found, _ = fast.contextualize(vectors.cuda(), tokens, fast.initial_state(1))
    assert_allclose(found.cpu(), expected, atol=TOLERANCE)


class OneDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Has every operation but a transfer take tensors of one device, as a GPU does."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        devices = {values.device.type for values in tensors if values.dim()}
        is_transfer = function in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        assert is_transfer or len(devices) <= 1, f"{function} of tensors on {devices}"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("n_starts", [1, 3])
def test_the_fast_bilm_keeps_to_its_device(precision: Any, n_starts: int, tmp_path: Path) -> None:
    """On "meta", which has shapes and no values: what is true there is true of a GPU."""
    bilm = load_bilm(make_model(small_architecture(n_layers=2), 1, tmp_path))
    tokens = np.array([[0, 1, 2, -1], [0, 1, 1, 2], [3, -1, -1, -1]])
    types = compute_types(precision, torch.device("meta"))
    fast = FastBiLm(bilm, types)
    shape = 4, bilm.options.lstm.projection_dim
    vectors = torch.empty(shape, dtype=types.values, device="meta")
    with OneDevice():  # type: ignore[no-untyped-call]
        layers, ended = fast.contextualize(vectors, tokens, fast.initial_state(n_starts))
    assert layers.shape == (3, 8, 2 * shape[1])
    assert {values.device.type for values in (layers, *tensors(ended))} == {"meta"}
