"""Options for the workers of a distributed run."""

from dataclasses import dataclass

from elmo_cli.options.fields import option


@dataclass(frozen=True)
class ResourceSettings:
    """Resources of the workers of a distributed run, and how many of them may die."""

    address: str | None = option(
        None,
        "Address of a Ray cluster, or auto.",
        default_text="RAY_ADDRESS, else this machine",
        value="HOST:PORT",
    )
    workers: int | None = option(
        None,
        "Maximum number of workers.",
        default_text="as many as the cluster can run",
    )
    cpus_per_worker: float = option(1, "CPUs and threads per worker.", value="C")
    gpus_per_worker: float = option(
        0, "GPUs per worker; 0.5 runs two workers on each GPU.", value="G"
    )
    attempts: int = option(5, "Abandon a part after N worker crashes.")
