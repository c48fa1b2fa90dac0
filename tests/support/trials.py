"""Trials at random moments: their seed, and for how long each test repeats them.

    ELMO_TEST_SEED=7 ELMO_TEST_SECONDS=60 ELMO_TEST_BUDGET=600 pytest -m long

Without a seed each run of the suite takes another one, and prints it in its header.
After the seconds of the budget no long test begins.
"""

import os
import random
import time
from collections.abc import Iterator

# Workers of pytest-xdist inherit it.
SEED = int(
    os.environ.setdefault("ELMO_TEST_SEED", str(time.time_ns() // 1000 % 1_000_000))
)
SECONDS = float(os.environ.get("ELMO_TEST_SECONDS", "10"))
BUDGET = float(os.environ.get("ELMO_TEST_BUDGET", "inf"))
STARTED = time.monotonic()


def trials(name: str, at_least: int = 1) -> Iterator[random.Random]:
    """Yield the source of chance of one trial after another, while there is time."""
    end = time.monotonic() + SECONDS
    number = 0
    while number < at_least or time.monotonic() < end:
        print(f"{name}: trial {number} of seed {SEED}")  # noqa: T201
        yield random.Random(f"{name} {SEED} {number}")
        number += 1
