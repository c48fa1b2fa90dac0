"""Processors with and without certain instructions."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from elmo_cli.compiled.kernels import processor_has
from elmo_cli.inference.int8 import has_int8

needs_bfloat16 = pytest.mark.skipif(
    not processor_has("avx512_bf16"),
    reason="needs a processor with instructions for bfloat16",
)
needs_int8 = pytest.mark.skipif(
    not has_int8(), reason="needs a processor with AVX-512 VNNI"
)


@contextmanager
def without_instructions(*names: str) -> Iterator[None]:
    """Take the processor for one without instructions such as "avx512_bf16"."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(torch.cpu, f"_is_{name}_supported", lambda: False)
        yield
