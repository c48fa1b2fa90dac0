"""Devices: by their name, and what to do when the memory of one does not suffice."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import torch

from elmo_cli.errors import ComputationError, DeviceError, first_line

Device: TypeAlias = str | int | torch.device
"""The name of a device, or the number of a GPU; -1 is the CPU. See `choose_device`."""
_Result = TypeVar("_Result")
_Compute = Callable[[Sequence[int]], Sequence[_Result]]
_ALIASES = {"-1": "cpu", "cuda": "cuda:0", "mps:0": "mps"}


def choose_device(device: Device) -> torch.device:
    """The device of a name.

    Args:
        device: `cpu`, `cuda:N`, `cuda` (the first GPU), `mps`, or `auto`: a GPU if there is one,
            else the CPU. Or a number: -1 is the CPU, N is `cuda:N`.

    Raises:
        DeviceError: there is no such device.
    """
    name = f"cuda:{device}" if str(device).isdecimal() else str(device)
    here = _devices()
    found = here[0] if name == "auto" else _ALIASES.get(name, name)
    if found not in here:
        raise DeviceError(
            f"device {name!r}: expected auto or a device of this machine, found only "
            f"{', '.join(here)}"
        )
    return torch.device(found)


def _devices() -> list[str]:
    """The names of all devices here, the CPU last."""
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return [*(f"cuda:{number}" for number in range(n_gpus)), *mps, "cpu"]


def retry_in_halves(
    compute: _Compute[_Result],
    batch: Sequence[int],
    compute_on_cpu: _Compute[_Result] | None = None,
) -> Iterator[tuple[int, _Result | ComputationError]]:
    """Out of memory: retry the batch in halves, then on the CPU.

    Args:
        compute: gives a result for each index; has no side effects when it fails.
        batch: indices, at least one.
        compute_on_cpu: the same on the CPU, for an index that is too large even alone.

    Yields:
        Each index with its result, or with an error if it is too large even alone.
    """
    results = _try(compute, batch)
    if isinstance(results, ComputationError) and len(batch) == 1 and compute_on_cpu:
        results = _try(compute_on_cpu, batch)
    if not isinstance(results, ComputationError):
        yield from zip(batch, results, strict=True)
    elif len(batch) == 1:
        yield batch[0], results
    else:
        half = len(batch) // 2
        yield from retry_in_halves(compute, batch[:half], compute_on_cpu)
        yield from retry_in_halves(compute, batch[half:], compute_on_cpu)


def _try(compute: _Compute[_Result], batch: Sequence[int]) -> Sequence[_Result] | ComputationError:
    try:
        return compute(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)
    # Made outside of the handler: a traceback would keep the memory of the failed batch.
    return ComputationError(f"out of memory: {reason}")


def result_or_raise(result: _Result | ComputationError) -> _Result:
    """The result, or raise the error in its place."""
    if isinstance(result, ComputationError):
        raise result
    return result


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch or Python ran out of memory."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    # The CPU's allocator and oneDNN raise a plain RuntimeError.
    text = str(error)
    return isinstance(error, RuntimeError) and any(
        sign in text for sign in ("can't allocate memory", "std::bad_alloc", "out of memory")
    )
