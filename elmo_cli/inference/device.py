"""Devices: a GPU by its number, and what to do when its memory does not suffice."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from elmo_cli.errors import ComputationError, DeviceError, first_line

CPU_NUMBER = -1
_Result = TypeVar("_Result")
_Compute = Callable[[Sequence[int]], Sequence[_Result]]


def choose_device(cuda_device: int) -> torch.device:
    """The device for a number: -1 is the CPU, others are GPUs.

    Raises:
        DeviceError: there is no such GPU.
    """
    if cuda_device == CPU_NUMBER:
        return torch.device("cpu")
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if 0 <= cuda_device < n_devices:
        return torch.device("cuda", cuda_device)
    found = "none" if n_devices == 0 else f"only 0 to {n_devices - 1}"
    raise DeviceError(
        f"CUDA device {cuda_device}: expected a GPU of that number, found {found}; "
        "leave --cuda out to run on the CPU"
    )


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
