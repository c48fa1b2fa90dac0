"""Runs that are cut short from outside, as processes of their own."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import TINY, elmo, start_elmo

from elmo_cli import open_activations

COMMAND = ("embed", "-", "out.hdf5", "--batch-tokens", "2", "--checkpoint-seconds", "0")
LINES = b"The cat sat on the mat\n" * 40


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def n_lines_computed(stderr: str) -> int:
    """How many lines a run says that it has embedded."""
    return int(stderr.splitlines()[-1].split(": ")[1].split(" sentence")[0])


def n_lines_kept(log: Path) -> int:
    """How many lines the last checkpoint has, by its log."""
    state = json.loads(log.read_bytes().split(b"\n")[1])["state"] if log.exists() else None
    return state["n_records"] if state else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_stops_at_once_and_the_last_checkpoint_is_whole(number: int) -> None:
    long_line = b"word " * 30_000 + b"\n"
    process = start_elmo(*COMMAND, "--model", TINY, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(LINES + long_line)
    process.stdin.close()
    for _ in range(3000):  # until it is at the long line
        if n_lines_kept(Path("out.hdf5.partial.log")) == 40:
            break
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(number)
    assert process.stderr is not None
    # A second signal before the first has been seen, or close to it, would be the same one.
    assert any(b"once more stops at once" in line for line in process.stderr)
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(timeout=300) == 128 + number
    process.stderr.close()
    assert not Path("out.hdf5").exists()
    result = elmo(*COMMAND, "--model", TINY, stdin=LINES + b"one more\n")
    assert result.exit_code == 0
    assert n_lines_computed(result.stderr) == 1
    with open_activations("out.hdf5") as found:
        assert len(found) == 41


def test_a_run_goes_on_when_a_full_disk_has_room_again() -> None:
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); "
        "from elmo_cli.cli import main; main()"
    )
    command = [sys.executable, "-c", limited, *COMMAND, "--model", str(TINY)]
    full = subprocess.run(command, input=LINES, capture_output=True, check=False, timeout=300)
    assert full.returncode == 1
    assert full.stderr.splitlines()[1:] == [
        b"Error: out.hdf5: cannot write the output: File too large; raise the limit on the size of "
        b"files (ulimit -f) and run the command again"
    ]
    assert not Path("out.hdf5").exists()
    result = elmo(*COMMAND, "--model", TINY, stdin=LINES)
    assert result.exit_code == 0
    assert 0 < n_lines_computed(result.stderr) < 40
    assert elmo("embed", "-", "whole.hdf5", "--model", TINY, stdin=LINES).exit_code == 0
    with open_activations("out.hdf5") as found, open_activations("whole.hdf5") as whole:
        assert len(found) == len(whole) == 40
        assert all(abs(a - b).max() < 1e-6 for a, b in zip(found, whole, strict=True))
