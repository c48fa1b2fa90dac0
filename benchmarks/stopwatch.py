"""Time spent in some functions of a program."""

import time
from typing import Any


class Stopwatch:
    """Sum of the seconds in some functions. Calls inside each other count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_running = False

    def time(self, owner: Any, name: str) -> None:
        """Measure the calls of a function or method from now on."""
        original = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._is_running:
                return original(*args, **kwargs)
            self._is_running, started = True, time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - started
                self._is_running = False

        setattr(owner, name, timed)
