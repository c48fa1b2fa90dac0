"""Lack of memory: detection of its errors, and errors that are returned in place of results."""

from typing import TypeVar

import torch

from elmo_cli.errors import ComputationError

_Result = TypeVar("_Result")
_MESSAGES = ("can't allocate memory", "std::bad_alloc", "out of memory")
"""Parts of the messages of torch's allocator for the CPU and of oneDNN."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether torch or Python ran out of memory."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    # torch raises a plain RuntimeError on the CPU.
    message = str(error)
    return isinstance(error, RuntimeError) and any(part in message for part in _MESSAGES)


def result_or_raise(result: _Result | ComputationError) -> _Result:
    """Return a result, or raise the error in its place."""
    if isinstance(result, ComputationError):
        raise result
    return result
