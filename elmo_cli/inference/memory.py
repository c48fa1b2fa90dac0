"""Errors that mean too little memory."""

from typing import Final, TypeVar

import torch

from elmo_cli.errors.exceptions import ComputationError

_Result = TypeVar("_Result")

_MESSAGES: Final = (
    "can't allocate memory",
    "std::bad_alloc",
    "out of memory",
    "STATUS_ALLOC_FAILED",
    "can't start new thread",
)
"""Parts of the messages of torch's allocator for the CPU, of oneDNN, of cuBLAS, and of
Python, whose threads need memory too."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether torch or Python ran out of memory."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    # torch raises a plain RuntimeError on the CPU.
    return isinstance(error, RuntimeError) and any(
        part in str(error) for part in _MESSAGES
    )


def result_or_raise(result: _Result | ComputationError) -> _Result:
    """Return a result, or raise the error in its place."""
    if isinstance(result, ComputationError):
        raise result
    return result
