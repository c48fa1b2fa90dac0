"""Precisions: what they mean, and what they need."""

import os
import re
import subprocess
import sys

import pytest
import torch
from conftest import needs_int8

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import InputError
from elmo_cli.inference.precision import ComputeTypes, compute_types

CPU = torch.device("cpu")


NO_VNNI = (
    "^(--)?precision int8 requires a processor and a torch with AVX-512 VNNI, "
    r"not AVX2 and torch .*\. Use float32\.$"
)


def test_int8_names_the_processor_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False, raising=False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    with pytest.raises(InputError, match=NO_VNNI):
        ElmoEmbedder("missing.json", "missing.hdf5", precision="int8")


@needs_int8
def test_int8_is_refused_where_its_sums_are_cut_off() -> None:
    """Imitate oneDNN limited to AVX2, which has no sums of 32 bits."""
    program = "from elmo_cli import ElmoEmbedder; ElmoEmbedder(precision='int8')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
        capture_output=True,
        text=True,
    )
    last = done.stderr.splitlines()[-1].removeprefix("elmo_cli.errors.InputError: ")
    assert re.match(NO_VNNI, last), done.stderr


@needs_int8
def test_without_bfloat16_the_other_products_of_int8_are_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    types = compute_types("int8", CPU)
    assert types == ComputeTypes(CPU, torch.float32, torch.float32, torch.int8)
