"""The processes of a run: one alone, or several that train one model together.

`torchrun` starts several processes. Each one takes its share of every batch, and gradients are
averaged over all processes.

Nothing may keep the group of processes beyond its end. The threads of the group release tensors
some time after they were summed, and need Python for it. If Python ends in the meantime, they
abort the process. Torch's `DistributedDataParallel` keeps the group, so that it must be released
first: see `Run.close`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import distributed

from elmo_cli.inference.device import Device, choose_device

_T = TypeVar("_T")


@dataclass(frozen=True)
class Processes:
    """This process among all processes of a run."""

    device: torch.device
    rank: int = 0
    """Number of this process, from 0."""
    count: int = 1
    """Number of processes."""

    @property
    def is_first(self) -> bool:
        """True in the process that writes the files of the run."""
        return self.rank == 0

    @property
    def own_rows(self) -> slice:
        """Rows of a batch that this process computes."""
        return slice(self.rank, None, self.count)

    def gather(self, value: _T) -> list[_T]:
        """Return the value of each process. Wait for all processes."""
        if self.count == 1:
            return [value]
        values = [value] * self.count
        distributed.all_gather_object(values, value)
        return values


@contextmanager
def join_processes(device: Device) -> Iterator[Processes]:
    """Join the group of processes that `torchrun` started, if any, and leave it at the end.

    With a GPU, each process of a group gets a GPU of its own.
    """
    own_device = choose_device(device)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(own_device)
        return
    # This import must come before there is a group, because its default arguments would keep it.
    import torch.distributed.nn

    on_gpu = own_device.type == "cuda"
    if on_gpu:
        own_device = choose_device(int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(own_device)
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Processes(own_device, distributed.get_rank(), count)
    finally:
        distributed.destroy_process_group()
