"""Memory that is freed is used again."""

import os
import platform
import subprocess
import sys

import pytest

FAULTS_OF_PRODUCTS = """
import resource
import torch
from elmo_cli.inference.allocator import keep_freed_memory
if {kept}:
    keep_freed_memory()
for turn in range(20):
    if turn == 10:  # by then the heap has found its size
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    products = [torch.zeros(n_mib << 20, dtype=torch.uint8) for n_mib in (16, 16, 8)]
    del products
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc is what gives it back")
def test_memory_of_products_is_used_again() -> None:
    # By itself glibc sometimes gives back what is freed; so always.
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "131072"}
    faults = {}
    for kept in (False, True):
        program = [sys.executable, "-c", FAULTS_OF_PRODUCTS.format(kept=kept)]
        done = subprocess.run(program, capture_output=True, text=True, check=True, env=environment)
        faults[kept] = int(done.stdout)
    assert faults[True] * 20 < faults[False], faults
