"""Commands and comparisons for tests of `elmo distribute`."""

import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

from commands import TINY, elmo
from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import open_activations


def parts_there() -> dict[str, int]:
    """Return the time at which each part in `out` was written."""
    return {path.name: path.stat().st_mtime_ns for path in sorted(Path("out").glob("part-*"))}


def wait_until(condition: Callable[[], object], process: "Popen[bytes]") -> None:
    """Wait for something that a process does, while it runs."""
    end = time.monotonic() + 120
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def end_of(process: "Popen[bytes]") -> tuple[int, list[str]]:
    """Return the exit status, and the log lines without Ray's own."""
    assert process.stderr is not None
    lines = process.stderr.read().decode().splitlines()
    process.stderr.close()
    return process.wait(timeout=120), [line for line in lines if not line.startswith("[20")]


def assert_equal_to_embed(*options: str, source: str = "text.txt") -> None:
    """Assert that `out` holds what `elmo embed` gives for a text."""
    result = elmo("embed", source, "plain.hdf5", "--model", TINY, "--overwrite", *options)
    assert result.exit_code == 0, result.output
    tolerance = 1e-3 if "float16" in options else 2e-6
    with open_activations("out") as found, open_activations("plain.hdf5") as plain:
        assert len(found) == len(plain)
        for number, values in enumerate(found):
            expected = plain[found.key(number) or number]
            assert (values.dtype, values.shape) == (expected.dtype, expected.shape)
            assert_allclose(values, expected, atol=tolerance)
            assert_array_equal(values, found[number])
