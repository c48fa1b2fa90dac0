"""Time spent in some functions of a program."""

import time
from typing import Any


class Stopwatch:
    """Adds up the seconds in the functions that it watches, not counting one inside another."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._runs = False

    def watch(self, owner: Any, name: str) -> None:
        """Count the calls of a function or method from now on."""
        original = getattr(owner, name)

        def warn_about_tokenizer(*args: Any, **kwargs: Any) -> Any:
            if self._runs:
                return original(*args, **kwargs)
            self._runs, started = True, time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - started
                self._runs = False

        setattr(owner, name, warn_about_tokenizer)
