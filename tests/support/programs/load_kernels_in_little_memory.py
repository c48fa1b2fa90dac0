"""Load the kernels in a process that may not map more memory, and print the outcome."""

import resource
from pathlib import Path

import torch

from elmo_cli.compiled.kernels import has_kernel

torch.zeros(1)
n_pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = n_pages * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    print(has_kernel("step_float32"))
except MemoryError:
    print("out of memory")
