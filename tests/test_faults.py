"""Runs that are cut short from outside, as processes of their own."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from elmo_cli import open_activations
from tests.support.commands import (
    PROGRAMS,
    TINY,
    Forked,
    elmo,
    python,
    run_python,
    start_elmo,
)
from tests.support.distributed_runs import wait_until
from tests.support.runs import assert_same_file

COMMAND = ("embed", "-", "out.hdf5", "--model", str(TINY))
LINES = b"The cat sat on the mat\n" * 40

pytestmark = pytest.mark.usefixtures("frequent_checkpoints")


@pytest.fixture
def frequent_checkpoints(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make checkpoints as often in this process, in an empty folder."""
    monkeypatch.setattr(
        "elmo_cli.runs.embed_file.checkpoint_tokens", lambda architecture: 6
    )


def start_often(*arguments: str | Path) -> Forked:
    """Start `elmo` with a checkpoint after each of `LINES`, its input in a pipe."""
    return Forked(
        PROGRAMS / "frequent_checkpoints.py",
        *arguments,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def n_lines_computed(stderr: str) -> int:
    """Return the number of lines that a run reports as embedded by itself."""
    report = stderr.splitlines()[-1].split(": ")[1]
    n_lines = int(report.split(" sentence")[0])
    earlier = re.search(r"(\d+) of them in an earlier run", report)
    if earlier is None:
        return n_lines
    return n_lines - int(earlier[1])


def n_lines_kept() -> int:
    """Return the number of lines in the last checkpoint, by its log."""
    log = Path("out.hdf5.partial.log")
    if not log.exists():
        return 0
    _, checkpoint, *_ = log.read_bytes().split(b"\n")
    state = json.loads(checkpoint)["state"]
    return state["n_records"] if state else 0


def assert_goes_on_after_line_40(last_line: bytes) -> None:
    """Assert that the same command embeds one line more, into a new output."""
    assert not Path("out.hdf5").exists()
    result = elmo(*COMMAND, stdin=LINES + last_line)
    assert result.exit_code == 0
    assert n_lines_computed(result.stderr) == 1
    with open_activations("out.hdf5") as activations:
        assert len(activations) == 41


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_stops_at_once_at_a_valid_checkpoint(number: int) -> None:
    with start_often(*COMMAND) as process:
        process.stdin.write(LINES + b"word " * 1_000_000 + b"\n")
        process.stdin.close()
        wait_until(lambda: n_lines_kept() == 40, process)
        time.sleep(1)
        process.send_signal(number)
        # A second signal before the first has been seen, or close to it, would be the
        # same one.
        assert any(b"to stop immediately" in line for line in process.stderr)
        time.sleep(0.5)
        process.send_signal(number)
        assert process.wait(timeout=300) == 128 + number
    assert_goes_on_after_line_40(b"one more\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("source", ["-", "pipe"])
def test_a_signal_ends_a_waiting_run_at_its_last_checkpoint(
    number: int, source: str
) -> None:
    os.mkfifo("pipe")
    process = start_often("embed", source, *COMMAND[2:])
    with process, open("pipe", "wb") if source == "pipe" else process.stdin as writing:
        writing.write(LINES + b"half a")
        writing.flush()
        wait_until(lambda: n_lines_kept() == 40, process)
        process.send_signal(number)
        assert process.wait(timeout=60) == 128 + number
    assert_goes_on_after_line_40(b"half a line\n")


def test_a_signal_that_is_ignored_stays_so() -> None:
    ignoring = f"trap '' INT; exec {' '.join(python())} -m elmo_cli {' '.join(COMMAND)}"
    process: Any = subprocess.Popen(["bash", "-c", ignoring], stdin=subprocess.PIPE)
    with process:
        process.stdin.write(LINES)
        process.stdin.flush()
        wait_until(Path("out.hdf5.partial").exists, process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.stdin.write(LINES)
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    assert Path("out.hdf5").exists()


def test_a_line_is_answered_before_the_next_one_is_read() -> None:
    command = f"embed - - --format jsonl --pooling mean -q --model {TINY}".split()
    with start_elmo(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for sentence in ("The cat", "sat"):
            process.stdin.write(f"{sentence}\n".encode())
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert answer["sentence"] == sentence
        rest, _ = process.communicate(timeout=60)
        assert rest == b""


def test_a_run_goes_on_when_a_full_disk_has_room_again() -> None:
    full = run_python(
        PROGRAMS / "frequent_checkpoints.py",
        *COMMAND,
        input=LINES.decode(),
        env={**os.environ, "MAX_FILE_BYTES": "60000"},
    )
    assert full.returncode == 1
    assert full.stderr.splitlines() == [
        "Error: out.hdf5: cannot write the output: File too large. Raise the limit on "
        "the size of files (ulimit -f) and run the command again."
    ]
    assert not Path("out.hdf5").exists()
    result = elmo(*COMMAND, stdin=LINES)
    assert result.exit_code == 0
    assert 0 < n_lines_computed(result.stderr) < 40
    assert elmo("embed", "-", "whole.hdf5", "--model", TINY, stdin=LINES).exit_code == 0
    assert_same_file("out.hdf5", "whole.hdf5")
