"""A batch that memory does not suffice for: by halves, and in the end elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from elmo_cli.errors import ComputationError, first_line

_Result = TypeVar("_Result")
_Compute = Callable[[Sequence[int]], Sequence[_Result]]


def by_halves(
    compute: _Compute[_Result],
    batch: Sequence[int],
    compute_elsewhere: _Compute[_Result] | None = None,
) -> Iterator[tuple[int, _Result | ComputationError]]:
    """Compute a batch at once, or each half of it where memory does not suffice.

    Args:
        compute: gives a result for each of the indices it is given, and leaves nothing
            behind where it fails.
        batch: indices, at least one.
        compute_elsewhere: the same where there is more memory, for what is too large even
            alone.

    Yields:
        Each index with its result; or with an error, where memory does not suffice for
        this one alone.
    """
    results = _try(compute, batch)
    if isinstance(results, ComputationError) and len(batch) == 1 and compute_elsewhere:
        results = _try(compute_elsewhere, batch)
    if not isinstance(results, ComputationError):
        yield from zip(batch, results, strict=True)
    elif len(batch) == 1:
        yield batch[0], results
    else:
        half = len(batch) // 2
        yield from by_halves(compute, batch[:half], compute_elsewhere)
        yield from by_halves(compute, batch[half:], compute_elsewhere)


def _try(compute: _Compute[_Result], batch: Sequence[int]) -> Sequence[_Result] | ComputationError:
    try:
        return compute(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        reason = first_line(error)
    # Not raised, and made outside of the handler: a traceback holds on to what has to go.
    return ComputationError(f"out of memory: {reason}")


def checked(result: _Result | ComputationError) -> _Result:
    """A result as it is; an error in its place is raised."""
    if isinstance(result, ComputationError):
        raise result
    return result


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch or Python says that memory does not suffice."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    # The CPU's allocator and oneDNN raise a plain RuntimeError.
    text = str(error)
    return isinstance(error, RuntimeError) and any(
        sign in text for sign in ("can't allocate memory", "std::bad_alloc", "out of memory")
    )
