"""TAB in a shell, and what shells are told to complete."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from commands import elmo

from elmo_cli.cli import COMMANDS, main


def completed(line: str) -> list[str]:
    """What the shell is told for TAB at the end of a line, each as `type,value`."""
    environment = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_ELMO_COMPLETE": "bash_complete",
    }
    return CliRunner(env=environment).invoke(main, prog_name="elmo").stdout.splitlines()


def typed_in_bash(line: str, folder: Path, expected: str) -> str:
    """What a terminal shows after a line, with its TABs, is typed in bash."""
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "elmo"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m elmo_cli "$@"\n')
    command.chmod(0o755)
    (folder / "rc").write_text("PS1='$ '; eval \"$(elmo completion bash)\"; echo ready\n")
    reading, writing = pty.openpty()
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TERM": "dumb"}
    shell = ["bash", "--noprofile", "--rcfile", str(folder / "rc"), "-i"]
    with subprocess.Popen(
        shell, stdin=writing, stdout=writing, stderr=writing, cwd=folder, env=environment
    ) as bash:
        os.close(writing)
        read_until("ready", reading)
        os.write(reading, line.encode())
        shown = read_until(expected, reading)
        bash.kill()
    os.close(reading)
    return shown


def read_until(expected: str, descriptor: int) -> str:
    shown, end = "", time.monotonic() + 20
    while expected not in shown and time.monotonic() < end:
        if select.select([descriptor], [], [], 1)[0]:
            shown += os.read(descriptor, 1000).decode()
    return shown


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("elmo perpl\t", "elmo perplexity "),
        ("elmo embed sen\t", "elmo embed sentences.txt "),
        ("elmo embed sentences.txt out --model pub\t", "--model pubmed "),
        ("elmo info fol\t", "elmo info folder/"),
        ("elmo embed a b --precision bf\t", "--precision bfloat16 "),
    ],
)
def test_tab_completes_in_bash(line: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "sentences.txt").touch()
    (tmp_path / "folder").mkdir()
    assert expected in typed_in_bash(line, tmp_path, expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("elmo co", ["cosine", "convert", "completion"]),
        ("elmo embed in.txt out --lay", ["--layers", "--layout"]),
        ("elmo embed in.txt out --layers ", ["all", "average", "sum", "top", "word_emb"]),
        ("elmo embed in.txt out --format ", ["hdf5", "jsonl", "parquet"]),
        ("elmo embed in.txt out --device c", ["cpu", "cuda"]),
        ("elmo embed in.txt out --model ori", ["original", "original-5.5b"]),
        ("elmo download sm", ["small"]),
        ("elmo train text --init-from mi", ["mini"]),
        ("elmo completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_values_are_completed(line: str, expected: list[str]) -> None:
    assert set(expected) <= {item.removeprefix("plain,") for item in completed(line)}


@pytest.mark.parametrize(
    "line",
    [
        *("elmo embed ", "elmo embed in.txt ", "elmo embed in.txt out.hdf5 --weight-file "),
        *("elmo perplexity ", "elmo surprisal ", "elmo merge out.hdf5 a ", "elmo convert "),
        *("elmo word-vectors ", "elmo train ", "elmo distribute in ", "elmo info ./"),
        *("elmo neighbours bank 'a' ", "elmo embed in.txt out --model ./"),
    ],
)
def test_files_are_completed_by_the_shell(line: str) -> None:
    assert [item for item in completed(line) if item.startswith("file,")]


def test_a_text_is_no_file() -> None:
    assert completed("elmo predict ") == [""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(shell: str) -> None:
    result = elmo("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_ELMO_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_misused() -> None:
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in elmo("completion", "csh").stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_completes_its_options(command: str) -> None:
    assert "plain,--help" in completed(f"elmo {command} --")
