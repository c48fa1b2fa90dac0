"""The two directions of a biLM at once, each on half of the processor's threads.

They share nothing but what they read. Beside each other, neither waits at every
operation for the slower core, and what runs on a single core runs on both.
"""

from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Event
from typing import TypeVar

import torch

_Result = TypeVar("_Result")

FORWARD, BACKWARD = 0, 1


def run_both(run: Callable[[int, Callable[[], None]], _Result]) -> tuple[_Result, _Result]:
    """What a function gives for both directions, computed at the same time.

    With a single thread (`torch.set_num_threads`), one after the other.

    Args:
        run: is given the direction, and a function to be called now and then, which ends
            the run when the other direction has failed or Ctrl-C was pressed.
    """
    n_threads = torch.get_num_threads()
    if n_threads == 1:
        return run(FORWARD, lambda: None), run(BACKWARD, lambda: None)
    failed = Event()

    def check() -> None:
        if failed.is_set():
            raise CancelledError

    try:
        share = (n_threads // 2,)
        with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=share) as pool:
            try:
                ahead, behind = (pool.submit(run, way, check) for way in (FORWARD, BACKWARD))
                return ahead.result(), behind.result()
            except BaseException:
                failed.set()
                raise
    finally:
        # Theirs alone is changed, but it is also what other new threads would start with.
        torch.set_num_threads(n_threads)
