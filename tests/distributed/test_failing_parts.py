"""A distributed run goes on after a call that failed, and after a kill before any call."""

from pathlib import Path

import pytest
from commands import TINY, elmo
from failing_disk import Disk, State, kills, restore, state_of
from numpy.testing import assert_array_equal

from elmo_cli import open_activations

LINES = "".join(f"The cat {i} sat\n\n" for i in range(6))


@pytest.fixture(autouse=True)
def text(folder: Path) -> None:
    """Write a text into the empty current folder."""
    Path("text.txt").write_text(LINES)


def distribute(output: str) -> int:
    """Write parts, and return the exit status."""
    options = ("--engine", "none", "--part-size", "0.002", "--model", TINY)
    result = elmo("distribute", "text.txt", output, *options)
    assert result.exit_code == 0 or result.stderr.splitlines()[-1].startswith("Error: ")
    return result.exit_code


def assert_ends_equal(output: str, whole: State) -> None:
    """Assert that the same command ends a run as one that nothing has disturbed."""
    assert distribute(output) == 0
    assert state_of(Path(output)).keys() == whole.keys()
    with open_activations("whole") as expected, open_activations(output) as activations:
        assert len(expected) == len(activations) == 12
        for one, other in zip(expected, activations, strict=True):
            assert_array_equal(one, other)


def test_a_run_killed_before_any_call_resumes() -> None:
    Path("whole").mkdir()
    with kills(Path("whole")) as states:
        assert distribute("whole") == 0
    assert len(states) > 5
    for number, state in enumerate(states):
        restore(state, Path(str(number)))
        assert_ends_equal(str(number), state_of(Path("whole")))


def test_a_run_resumes_after_any_call_that_failed() -> None:
    counting = Disk()
    with counting.used():
        assert distribute("whole") == 0
    for number in range(1, counting.n_calls + 1):
        with Disk([number]).used():
            distribute(str(number))
        assert_ends_equal(str(number), state_of(Path("whole")))
