"""Context for one thread at a time.

It guards what the threads of a process share: torch's settings, the caches of tokens,
and the cores, which one computation keeps busy.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_lock = RLock()


def _replace_lock() -> None:
    """Replace the lock in a forked process, where no thread would release it."""
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=_replace_lock)


@contextmanager
def one_thread_at_a_time() -> Iterator[None]:
    """Wait until no other thread is in this context. A thread can enter it again."""
    with _lock:
        yield
