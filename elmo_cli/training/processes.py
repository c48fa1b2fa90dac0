"""The processes that train one model together, one for each GPU, started by `torchrun`.

Nothing may keep the group of processes beyond its end: its threads release tensors some
time after they were summed, and abort the process if Python has ended in the meantime.
Torch's `DistributedDataParallel` keeps the group, so that it must be released first:
see `Run.close`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed

from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.inference.device import Device, choose_device

_T = TypeVar("_T")


@dataclass(frozen=True)
class Processes:
    """This process among all processes of a run."""

    device: torch.device
    rank: int = 0
    """Index of this process."""
    count: int = 1

    @property
    def is_first(self) -> bool:
        """True in the process that writes the files of the run."""
        return self.rank == 0

    @property
    def rows_of_process(self) -> slice:
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
    """Join the processes that `torchrun` started, if any.

    Each of them gets a GPU of its own.
    """
    own_device = choose_device(device)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(own_device)
        return
    # This import must come before there is a group: its default arguments would keep
    # it.
    import torch.distributed.nn

    required = {"RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
    missing = required - os.environ.keys()
    if missing:
        raise ElmoError(
            f"WORLD_SIZE is {count}, without {', '.join(sorted(missing))}",
            remedy="Start all processes with torchrun, or unset WORLD_SIZE.",
        )
    # Objects are gathered on the CPU, and wait while the first process measures a text.
    backends = "gloo"
    if own_device.type == "cuda":
        backends = "cpu:gloo,cuda:nccl"
        own_device = choose_device(int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(own_device)
    distributed.init_process_group(backends, timeout=timedelta(days=1))
    try:
        yield Processes(own_device, rank=distributed.get_rank(), count=count)
    finally:
        distributed.destroy_process_group()
