"""Processors with and without certain instructions."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from elmo_cli.compiled import linear
from elmo_cli.compiled.kernels import processor_has
from elmo_cli.compiled.linear import product_kernel
from elmo_cli.inference.precision import AS_INT16, ROUNDED, find_arithmetic
from tests.support.cell_formulas import PROCESSORS, processor

needs_bfloat16 = pytest.mark.skipif(
    not processor_has("avx512_bf16"),
    reason="needs a processor with instructions for bfloat16",
)
needs_int16 = pytest.mark.skipif(
    product_kernel(torch.int16) is None,
    reason="needs VNNI or AVX2, and a C compiler when installed, on Linux",
)
needs_int8 = pytest.mark.skipif(
    product_kernel(torch.int8) is None,
    reason="needs a processor with VNNI, and a C compiler when installed, on Linux",
)


def processors_with(dtype: torch.dtype) -> list[str]:
    """Return the kinds of `PROCESSORS` that have a product in C for a data type."""
    kinds = []
    for kind in PROCESSORS:
        with processor(kind):
            if product_kernel(dtype) is not None:
                kinds.append(kind)
    return kinds


def other_arithmetic() -> str:
    """Return an arithmetic of bfloat16 that another kind of processor has."""
    here = find_arithmetic("bfloat16", torch.device("cpu"))
    return ROUNDED if here == AS_INT16 else AS_INT16


@contextmanager
def without_integers() -> Iterator[None]:
    """Take the processor for one that multiplies whole numbers in no kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "multiplies_integers", lambda dtype: False)
        yield


@contextmanager
def without_instructions(*names: str) -> Iterator[None]:
    """Take the processor for one without instructions such as "avx512_bf16"."""
    read_capabilities = getattr(torch.cpu, "get_capabilities", dict)
    capabilities: dict[str, bool] = read_capabilities()
    left = {name: has for name, has in capabilities.items() if name not in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cpu, "get_capabilities", lambda: left, raising=False)
        for name in names:
            patch.setattr(
                torch.cpu, f"_is_{name}_supported", lambda: False, raising=False
            )
        yield
