"""Options for the workers of a distributed run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """Resources of the workers of a distributed run, and how many of them a part may end."""

    # Address of a cluster. None starts one on this machine for the run.
    address: str | None = None
    workers: int | None = None
    """Maximum number of workers. None is as many as the cluster has resources for."""
    cpus_per_worker: float = 1
    gpus_per_worker: float = 0
    attempts: int = 5
