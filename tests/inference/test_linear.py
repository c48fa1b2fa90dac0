"""Linear layers in C, in float32 and bfloat16."""

import ctypes
import mmap
import sys
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmo_cli.compiled import kernels, linear
from elmo_cli.compiled.linear import CompiledLinear, make_linear, product_kernel
from tests.support.cell_formulas import PROCESSORS, processor
from tests.support.strategies import random_tensor


class Product(NamedTuple):
    """Rows for a linear layer, its weight, and its bias."""

    inputs: Tensor
    weight: Tensor
    bias: Tensor | None


class Kernel(NamedTuple):
    """Type of the weights, processor, and whether it has AMX."""

    dtype: torch.dtype
    processor: str
    with_tiles: bool


KERNELS = [Kernel(torch.float32, name, with_tiles=False) for name in PROCESSORS]
if product_kernel(torch.bfloat16):
    KERNELS.append(Kernel(torch.bfloat16, "AVX512", with_tiles=False))
if kernels.has_tiles():
    KERNELS.append(Kernel(torch.bfloat16, "AVX512", with_tiles=True))


@st.composite
def products(
    draw: st.DrawFn,
    n_rows: st.SearchStrategy[int],
    n_inputs: st.SearchStrategy[int],
) -> Product:
    """Draw layers and inputs of random values, with a bias or without."""
    n = draw(n_inputs)
    seed = draw(st.integers(0, 99))
    n_outputs = draw(st.integers(1, 150))
    has_bias = draw(st.booleans())
    return Product(
        inputs=random_tensor(draw(n_rows), n, seed=seed + 2),
        weight=random_tensor(n_outputs, n, seed=seed),
        bias=random_tensor(n_outputs, seed=seed + 1) if has_bias else None,
    )


@pytest.mark.parametrize("kernel", KERNELS)
@given(
    product=products(
        st.integers(0, 20) | st.integers(250, 600),
        st.integers(1, 40) | st.integers(500, 2200),
    )
)
def test_a_layer_in_c_equals_float64_and_keeps_its_weights(
    kernel: Kernel, product: Product
) -> None:
    weight = product.weight.to(kernel.dtype)
    inputs = product.inputs.to(kernel.dtype)
    inputs = inputs.repeat(1, 2)[:, : weight.shape[1]]  # They have a stride.
    bias = None if product.bias is None else product.bias.to(kernel.dtype)
    middle = len(inputs) // 2
    rows = slice(middle, middle + 4)
    with processor(kernel.processor), pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "has_tiles", lambda: kernel.with_tiles)
        multiply = CompiledLinear(weight, bias)
        as_in_files = CompiledLinear(weight.t().contiguous().t(), bias)
        output = multiply(inputs)
        alone = multiply(inputs[rows])
        unpacked, unpacked_bias = multiply.unpack()

    assert type(make_linear(weight)) is CompiledLinear
    assert torch.equal(unpacked, weight)
    assert torch.equal(as_in_files.weight, multiply.weight)
    if bias is None:
        assert unpacked_bias is None
    else:
        assert unpacked_bias is not None
        assert torch.equal(unpacked_bias, bias)
    assert output.dtype == kernel.dtype
    added = torch.zeros(1) if bias is None else bias
    expected = inputs.double() @ weight.double().t() + added
    sizes = inputs.double().abs() @ weight.double().abs().t()
    sizes += added.abs()
    epsilon = torch.finfo(kernel.dtype).eps
    rounding = expected.abs() * epsilon / 2
    errors = (output - expected).abs()
    assert (errors <= 1e-6 * sizes + rounding).all()
    # A row has the same bits among other rows and alone.
    assert torch.equal(alone, output[rows])


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory as Linux does")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [1, 8, 20, 40])
@pytest.mark.parametrize("n_threads", [1, 5, 40])
def test_only_the_rows_are_read(kernel: Kernel, n: int, n_threads: int) -> None:
    """Multiply rows after a page that cannot be read: reading it would be a crash."""
    weight = random_tensor(20, 32, seed=1).to(kernel.dtype)
    rows = random_tensor(n, 32).to(kernel.dtype)
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, page + rows.nbytes)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    inputs = whole[page:].view(kernel.dtype).view(n, 32)
    inputs.copy_(rows)
    protect = ctypes.CDLL(None).mprotect
    start = ctypes.c_void_p(whole.data_ptr())
    with processor(kernel.processor), pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "has_tiles", lambda: kernel.with_tiles)
        multiply = CompiledLinear(weight)
        expected = multiply(rows)
        assert protect(start, ctypes.c_size_t(page), 0) == 0
        torch.set_num_threads(n_threads)
        try:
            assert torch.equal(multiply(inputs), expected)
        finally:
            torch.set_num_threads(1)
            protect(start, ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE)
