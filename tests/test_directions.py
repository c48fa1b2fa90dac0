import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from elmo_cli.directions import BACKWARD, FORWARD, run_both


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
def test_both_run_at_the_same_time_each_on_half_of_the_threads() -> None:
    meeting = threading.Barrier(2, timeout=30)  # passed only by two at once

    def run(direction: int, check: Callable[[], None]) -> tuple[int, int]:
        meeting.wait()
        check()
        return direction, torch.get_num_threads()

    assert run_both(run) == ((FORWARD, 2), (BACKWARD, 2))
    assert torch.get_num_threads() == 4


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("fails", [FORWARD, BACKWARD])
def test_a_failure_of_one_ends_the_other_and_is_raised(fails: int) -> None:
    ended = threading.Event()

    def run(direction: int, check: Callable[[], None]) -> None:
        if direction == fails:
            raise MemoryError("no more")
        if fails == FORWARD:  # the other is waited for first
            deadline = time.monotonic() + 30
            try:
                while time.monotonic() < deadline:
                    check()
                    time.sleep(0.001)
            finally:
                ended.set()

    with pytest.raises(MemoryError, match="no more"):
        run_both(run)
    assert fails == BACKWARD or ended.is_set()
    assert torch.get_num_threads() == 4


def test_with_one_thread_they_run_one_after_the_other() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        where = run_both(lambda direction, check: (direction, threading.get_ident()))
    finally:
        torch.set_num_threads(before)
    assert where == ((FORWARD, threading.get_ident()), (BACKWARD, threading.get_ident()))
