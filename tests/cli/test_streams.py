"""Standard streams as a shell gives them: full, closed, not blocking, encoded."""

import errno
import io
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmo_cli import open_activations
from elmo_cli.cli.main import error_line
from elmo_cli.cli.queries import read_queries
from elmo_cli.errors.exceptions import InputError
from elmo_cli.text.sources import Source
from tests.support.commands import TINY, python, start_elmo

CANNOT_WRITE = "standard output or a temporary file: cannot write it"


pytestmark = pytest.mark.usefixtures("bank_file")


@pytest.fixture
def bank_file(folder: Path) -> None:
    """Write a text into the current folder."""
    Path("text").write_text("a bank\n")


def run_shell(command: str, *, is_fresh: bool = False) -> tuple[int, str]:
    """Run a line of the shell with a fresh or forked Python: status and prints."""
    elmo = " ".join([*([sys.executable] if is_fresh else python()), "-m elmo_cli"])
    line = ["bash", "-c", command.replace("elmo", elmo, 1)]
    process = subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=120
    )
    return process.returncode, process.stdout + process.stderr


@pytest.mark.parametrize(
    "command", ["embed - out.hdf5", "perplexity -", "cosine bank -"]
)
def test_a_closed_standard_input_is_reported(command: str) -> None:
    status, printed = run_shell(f"elmo {command} --model mini <&-")
    message = "Error: standard input is closed. Name a file, or pipe a text into it.\n"
    assert status == 1
    assert printed.splitlines(keepends=True)[-1] == message
    assert "Traceback" not in printed
    assert os.listdir() == ["text"]


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        (">&-", "standard output: cannot write it: it is closed"),
        (
            "> /dev/full",
            f"{CANNOT_WRITE}: No space left on device. Free some space.",
        ),
    ],
)
@pytest.mark.parametrize(
    "command", ["--help", "models", "embed text - --format jsonl -q"]
)
def test_a_standard_output_that_takes_nothing_is_an_error(
    command: str, redirection: str, message: str
) -> None:
    is_fresh = not command.startswith("embed")
    result = run_shell(f"elmo {command} {redirection}", is_fresh=is_fresh)
    assert result == (1, f"Error: {message}\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_a_full_disk_cuts_off_is_an_error(unbuffered: str) -> None:
    line = f"ulimit -f 4; PYTHONUNBUFFERED={unbuffered} elmo models --json > out"
    error = f"Error: {CANNOT_WRITE}: File too large\n"
    assert run_shell(line, is_fresh=True) == (1, error)
    assert Path("out").stat().st_size == 4096


def test_a_terminal_shows_control_characters_and_a_pipe_has_them() -> None:
    Path("m\x1b[31m").symlink_to(TINY)
    line = (
        "elmo cosine a $'a \\x1b[32m' 'a b' --tokenizer whitespace "
        "--model $'./m\\x1b[31m' -v"
    )
    _, piped = run_shell(line)
    assert "[a] \x1b[32m\n" in piped
    assert "Model: ./m\x1b[31m\n" in piped
    reading, writing = pty.openpty()
    command = [
        "bash",
        "-c",
        line.replace("elmo", " ".join([*python(), "-m elmo_cli"]), 1),
    ]
    with subprocess.Popen(command, stdout=writing, stderr=writing):
        os.close(writing)
        shown = os.read(reading, 100)
        while b"layer 0" not in shown:
            shown += os.read(reading, 100)
    os.close(reading)
    assert b"Model: ./m\\x1b[31m\r\n" in shown
    assert b"[a] \\x1b[32m\r\n" in shown


@pytest.mark.parametrize("encoding", ["latin1", "cp1252", "ascii", "utf-16"])
def test_a_standard_output_is_utf8_in_every_locale(encoding: str) -> None:
    Path("text").write_text("a € 東京 bank\n", encoding="utf-8")
    commands = {
        "latin1": ("surprisal text --json", "surprisal text -v --by word"),
        "cp1252": ("embed text - --format jsonl --layers top",),
        "ascii": (
            "surprisal text --format csv",
            "predict '€ 東京' --each --top 1 --json",
        ),
        "utf-16": ("cosine bank 'a € 東京 bank' 'x bank'",),
    }
    for command in commands[encoding]:
        line = f"LC_ALL=C PYTHONIOENCODING={encoding} elmo {command} 2> errors"
        status, printed = run_shell(line, is_fresh=encoding == "utf-16")
        assert status == 0
        assert "€" in printed
        assert "東" in printed


def test_a_value_that_utf8_cannot_hold_is_refused_when_it_is_read() -> None:
    Path("in.jsonl").write_text(r'{"text": "a", "x": "\ud800"}')
    status, printed = run_shell("elmo surprisal in.jsonl --keep-columns x")
    assert status == 1
    assert printed.splitlines()[-1] == (
        r"Error: in.jsonl, line 1: field 'x': expected Unicode, found '\ud800'"
    )


def test_an_error_of_no_file_is_a_bug() -> None:
    assert error_line(OSError(errno.EBADF, "Bad file descriptor")) is None


def test_a_run_needs_neither_standard_output_nor_standard_error() -> None:
    assert run_shell("elmo embed text out.hdf5 >&- 2>&- <&-") == (0, "")
    with open_activations("out.hdf5") as activations:
        assert [values.shape for values in activations] == [(3, 2, 1024)]


def test_a_run_continues_where_its_messages_cannot_be_written() -> None:
    assert run_shell("elmo embed text out.hdf5 2> /dev/full") == (0, "")
    assert Path("out.hdf5").exists()


@pytest.mark.parametrize(
    ("command", "n_lines"),
    [
        ("predict - --top 2", 2),
        ("predict - --each --top 2", 4),
        ("perplexity - --per-sentence --json", 1),
        ("surprisal - --json", 2),
        ("cosine cat - --tokenizer whitespace", 1),
    ],
)
def test_each_text_is_answered_before_the_next_arrives(
    command: str, n_lines: int, model_folder: Path
) -> None:
    line = b"cat\tcat\n" if "cosine" in command else b"the cat\n"
    with start_elmo(
        *command.split(),
        "--model",
        model_folder,
        "-q",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write(line)
            process.stdin.flush()
            for _ in range(n_lines):
                assert process.stdout.readline()
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_the_lines_before_an_error_are_answered_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def parse(line: str) -> str:
        if line == "d\n":
            raise InputError("no more")
        return line.strip()

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\nc\nd\n")))
    monkeypatch.setattr("elmo_cli.cli.chunks.MAX_CHUNK", 2)
    chunks: Iterator[list[str]] = read_queries(Source("-"), parse)
    assert [next(chunks), next(chunks)] == [["a", "b"], ["c"]]
    with pytest.raises(InputError, match="standard input, line 4: no more"):
        next(chunks)
