"""Commands and comparisons for tests of `elmo distribute`."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Any

from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import open_activations
from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.part import PartResult
from elmo_cli.distributed.plan import CorpusSettings, open_plan
from elmo_cli.distributed.workers import run_parts
from elmo_cli.files.shared_folder import Folder
from elmo_cli.options.model import ModelSettings
from tests.support.commands import TINY, elmo

LINES = "".join(f"The cat {i} sat\n\n" for i in range(20))
"""Text of the fixture `corpus_folder`, with every second line empty."""
SMALL_PARTS = ("--engine", "none", "--part-size", "0.002", "--model", TINY)
"""Options of a run in this process: two lines of `LINES` per part or so."""
RUN = ("distribute", "text.txt", "out", *SMALL_PARTS)
ZERO = CorpusSettings(ModelSettings(str(TINY)))
WARM = CorpusSettings(ModelSettings(str(TINY), state="warm"))


def distribute(
    settings: CorpusSettings = ZERO,
    before_part: Callable[[Part], object] = lambda part: None,
    *,
    location: str = "out",
) -> None:
    """Run `elmo distribute` in this process, with something else before each part."""

    def engine(
        parts: Sequence[Part], embed: Callable[..., PartResult]
    ) -> Iterator[PartResult]:
        for part in parts:
            before_part(part)
            yield embed(part)

    there = Folder(location)
    plan = open_plan(there, ("text.txt",), settings, part_mb=0.002)
    run_parts(there, plan, settings, engine)


def parts_there() -> dict[str, int]:
    """Return the time at which each part in `out` was written."""
    return {
        path.name: path.stat().st_mtime_ns
        for path in sorted(Path("out").glob("part-*"))
    }


def wait_until(condition: Callable[[], object], process: "Popen[bytes]") -> None:
    """Wait for something that a process does, while it runs."""
    end = time.monotonic() + 120
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def end_of(process: Any) -> tuple[int, list[str]]:
    """Return the exit status of a process, and its log lines without Ray's own."""
    lines = process.stderr.read().decode().splitlines()
    process.stderr.close()
    return process.wait(timeout=120), [
        line for line in lines if not line.startswith("[20")
    ]


def assert_equal_to_embed(
    *options: str, source: str = "text.txt", location: str = "out"
) -> None:
    """Assert that a folder holds what `elmo embed` gives for a text."""
    result = elmo(
        "embed", source, "plain.hdf5", "--model", TINY, "--overwrite", *options
    )
    assert result.exit_code == 0, result.output
    tolerance = 1e-3 if "float16" in options else 2e-6
    with (
        open_activations(location) as activations,
        open_activations("plain.hdf5") as plain,
    ):
        assert len(activations) == len(plain)
        for index, values in enumerate(activations):
            expected = plain[activations.id(index) or index]
            assert values.dtype == expected.dtype
            assert values.shape == expected.shape
            assert_allclose(values, expected, atol=tolerance)
            assert_array_equal(values, activations[index])
