"""Several processes that train one model, as `torchrun` starts them.

Each has its share of every batch; gradients are averaged over all.

Nothing may keep the group of processes beyond its end. Its threads let go of tensors some time
after they were summed, for which they need Python: where it ends meanwhile they abort the process.
Torch's `DistributedDataParallel` keeps the group, so it must go first: see `Run.close`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed

from elmo_cli.inference.device import Device, choose_device


@dataclass(frozen=True)
class Processes:
    """This process among all."""

    device: torch.device
    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this one writes what is written once."""
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """The value of each process; it waits for all."""
        values: list[Any] = [value]
        if self.count > 1:
            values = [None] * self.count
            distributed.all_gather_object(values, value)
        return values


@contextmanager
def all_processes(name: Device) -> Iterator[Processes]:
    """This process with its device: alone, or as `torchrun` says, which gives each its GPU."""
    device = choose_device(name)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(device)
        return
    # Before there is a group: its default arguments would keep it.
    import torch.distributed.nn

    on_gpu = device.type == "cuda"
    if on_gpu:
        device = choose_device(int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Processes(device, distributed.get_rank(), count)
    finally:
        distributed.destroy_process_group()
