"""The standard streams as a shell gives them: full, closed, not blocking, of another encoding."""

import errno
import fcntl
import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import start_elmo
from strategies import make_language_model, small_architecture

from elmo_cli import open_activations
from elmo_cli.cli.streams import error_line, escaped, input_chunks
from elmo_cli.errors import InputError

F_SETPIPE_SZ = 1031


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def buffering(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run what starts with and without PYTHONUNBUFFERED."""
    monkeypatch.setenv("PYTHONUNBUFFERED", request.param)


def run_shell(command: str, folder: Path) -> tuple[int, str]:
    """Run a line of the shell: its status, and what it prints."""
    elmo = f"{sys.executable} -m elmo_cli"
    found = subprocess.run(
        ["bash", "-c", command.replace("elmo", elmo, 1)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
    )
    return found.returncode, found.stdout + found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["embed - out.hdf5", "perplexity -", "cosine bank -"])
def test_a_closed_standard_input_is_named(command: str, tmp_path: Path) -> None:
    status, printed = run_shell(f"elmo {command} --model mini <&-", tmp_path)
    message = "Error: standard input is closed; name a file, or pipe a text into it\n"
    assert (status, printed.splitlines(keepends=True)[-1]) == (1, message)
    assert "Traceback" not in printed
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("buffering")
@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">&-", "it is closed"), ("> /dev/full", "No space left on device")],
)
@pytest.mark.parametrize(
    "command",
    [
        *("--help", "models"),
        pytest.param("embed text - --format jsonl -q", marks=pytest.mark.slow),
    ],
)
def test_a_standard_output_that_takes_nothing_is_an_error(
    command: str, redirection: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("a bank\n")
    found = run_shell(f"elmo {command} {redirection}", tmp_path)
    assert found == (1, f"Error: standard output: cannot write it: {reason}\n")


@pytest.mark.usefixtures("buffering")
def test_a_pipe_that_does_not_block_gets_every_byte() -> None:
    command = [sys.executable, "-m", "elmo_cli", "models", "--json"]
    whole = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    fcntl.fcntl(writing, F_SETPIPE_SZ, 4096)
    with subprocess.Popen(command, stdout=writing) as run:
        os.close(writing)
        time.sleep(0.5)  # until the pipe is full
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read() == whole
    assert run.returncode == 0


@pytest.mark.slow
def test_a_standard_output_in_another_encoding_is_an_error(tmp_path: Path) -> None:
    pair = "'a € bank' 'x bank'"
    status, printed = run_shell(f"PYTHONIOENCODING=latin1 elmo cosine bank {pair}", tmp_path)
    assert (status, printed.splitlines()[-1]) == (
        1,
        "Error: standard output: cannot write '\\u20ac' in latin-1; PYTHONIOENCODING=utf-8 has it "
        "take all characters",
    )


def test_a_full_disk_that_is_not_that_of_standard_output_is_not_called_so() -> None:
    message = error_line(OSError(errno.ENOSPC, "No space left on device"))
    assert message is not None
    assert message.startswith("cannot write a file: No space left on device; temporary files are")
    assert error_line(OSError(errno.EBADF, "Bad file descriptor")) is None  # a bug of ours


@pytest.mark.slow
def test_a_run_needs_neither_standard_output_nor_standard_error(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a bank\n")
    assert run_shell("elmo embed text out.hdf5 >&- 2>&- <&-", tmp_path) == (0, "")
    with open_activations(tmp_path / "out.hdf5") as activations:
        assert [values.shape for values in activations] == [(3, 2, 1024)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_run_continues_where_its_messages_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a bank\n")
    assert run_shell("elmo embed text out.hdf5 2> /dev/full", tmp_path) == (0, "")
    assert (tmp_path / "out.hdf5").exists()
    assert run_shell("elmo embed nothing out2.hdf5 2> /dev/full", tmp_path) == (1, "")


def test_control_characters_are_escaped_and_all_others_kept() -> None:
    assert escaped("a\x1b[31mb\x9bc\x7f\r") == r"a\x1b[31mb\x9bc\x7f\x0d"
    assert escaped("Größe\t日本語 👩‍🔬\n") == "Größe\t日本語 👩‍🔬\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "n_lines"),
    [
        (("predict", "-", "--top", "2"), 2),
        (("predict", "-", "--each", "--top", "2"), 2),
        (("perplexity", "-", "--per-token", "--json"), 3),
        (("surprisal", "-", "--json"), 1),
    ],
)
def test_a_text_is_answered_while_the_next_one_is_not_there(
    command: tuple[str, ...], n_lines: int, tmp_path: Path
) -> None:
    make_language_model(small_architecture(), 1, tmp_path)
    arguments = (*command, "--model", str(tmp_path), "-q")
    with start_elmo(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(2):
            process.stdin.write(b"the\n")
            process.stdin.flush()
            assert all(process.stdout.readline() for _ in range(n_lines))
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_terminal_shows_control_characters_and_a_pipe_has_them(tmp_path: Path) -> None:
    pair = "$'a \\x1b[31m bank' 'the bank' --tokenizer whitespace --model mini -q"
    _, piped = run_shell(f"elmo cosine bank {pair}", tmp_path)
    assert piped.startswith("a \x1b[31m [bank]\n")
    reading, writing = pty.openpty()
    command = ["bash", "-c", f"{sys.executable} -m elmo_cli cosine bank {pair}"]
    with subprocess.Popen(command, stdout=writing):
        os.close(writing)
        shown = os.read(reading, 100)
    os.close(reading)
    assert shown.startswith(b"a \\x1b[31m [bank]\r\n")


def test_the_lines_before_an_error_are_answered_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(line: str) -> str:
        if line == "d":
            raise InputError("no more")
        return line

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\nc\nd\n")))
    found = input_chunks(parse, 2)
    assert [next(found), next(found)] == [["a", "b"], ["c"]]
    with pytest.raises(InputError, match="standard input, line 4: no more"):
        next(found)
