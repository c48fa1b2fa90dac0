import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import click
import pytest
from commands import TINY, assert_misused, elmo

import elmo_cli
from elmo_cli.cli import COMMANDS, find_command
from elmo_cli.cli.command import Option
from elmo_cli.cli.messages import stop_on_signal
from elmo_cli.errors import first_line


def test_version_is_the_packages_version() -> None:
    for option in ("-V", "--version"):
        result = elmo(option)
        assert (result.exit_code, result.output) == (0, f"elmo {elmo_cli.__version__}\n")


def test_help_names_every_command() -> None:
    result = elmo("--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == elmo("-h").stdout == elmo("help").stdout
    assert elmo("help", "convert").stdout == elmo("convert", "--help").stdout
    _, groups = result.stdout.split("Vectors:\n")
    groups, _ = groups.split("  Examples:\n")
    assert [line.split()[0] for line in groups.splitlines() if line.startswith("  ")] == COMMANDS
    assert "..." not in groups


def test_help_ends_with_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.cli.INSTALLED", tmp_path)
    assert "Documentation: `elmo help COMMAND`, and" in elmo("--help").stdout.splitlines()[-1]
    metadata = tmp_path / "elmo_cli-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    names = ("Paper", "Documentation", "Repository")
    urls = "".join(f"Project-URL: {name}, https://{name.lower()}.org\n" for name in names)
    metadata.write_text(f"Name: elmo-cli\n{urls}\nText", encoding="utf-8")
    assert elmo("--help").stdout.endswith("Documentation: https://documentation.org\n")


def test_messages_may_be_fewer_or_more_before_the_command(tmp_path: Path) -> None:
    pair = ("cosine", "a", "a", "a", "--model", TINY)
    assert elmo(*pair).stderr
    assert elmo("-q", *pair).stderr == ""
    assert elmo("-v", "-q", *pair).stderr
    assert elmo("-v", *pair, "-qq").stderr == ""
    more = elmo("-v", *pair).stderr
    assert re.match(r"elmo [\d.]+\S*, Python [\d.]+\S*, torch [\d.]+\S*(, ELMO_\w+)*\n", more)
    assert re.search(r"\nTime: \d+\.\d s\n$", more)
    missing = ("embed", tmp_path / "nothing", tmp_path / "out", "--model", TINY)
    assert elmo(*missing, "-v").stderr.splitlines()[-1].startswith("Error: ")
    assert isinstance(elmo("-v", *missing, "-v").exception, elmo_cli.ElmoError)


# Options from the environment


def test_every_option_has_an_environment_variable_of_its_own() -> None:
    options = [option for name in COMMANDS for option in find_command(name).params]
    names = [n for each in options if isinstance(each, Option) for n in each.envvar or ()]
    assert len(set(names)) == len(names)
    assert {"ELMO_EMBED_FORMAT", "ELMO_WORD_VECTORS_MODEL", "ELMO_TRAIN_DEVICE"} <= set(names)
    assert not {"ELMO_MODEL", "ELMO_CACHE", "ELMO_ALLOW_HTTP", "ELMO_VERSION"} & set(names)


def test_an_option_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = ("cosine", "a", "a b", "b a", "--model", TINY, "-q")
    expected = elmo(*pair, "--layer", "1").stdout
    other = elmo(*pair, "--layer", "2").stdout
    monkeypatch.setenv("ELMO_COSINE_LAYER", "1")
    assert elmo(*pair).stdout == expected != other
    assert elmo(*pair, "--layer", "2").stdout == other
    monkeypatch.setenv("ELMO_COSINE_WORD2", "b")
    message = "choose one of --pairs and --word2 (ELMO_COSINE_WORD2)"
    assert_misused(elmo("cosine", "--pairs", "p.csv"), message)
    monkeypatch.setenv("ELMO_COSINE_PRECISION", "foo")
    message = "Invalid value for '--precision (ELMO_COSINE_PRECISION)': 'foo' is not one of "
    assert message in elmo(*pair).stderr

    # A variable without effect is no error.
    monkeypatch.setenv("ELMO_EMBED_GAMMA", "2")
    monkeypatch.setenv("ELMO_EMBED_ALL", "0")
    command = ("embed", "-", "-", "--format", "jsonl", "--model", TINY, "--top")
    assert elmo(*command, stdin="a b\n").exit_code == 0


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from elmo_cli.cli import main\n"
        "for command in ([], ['embed'], ['cosine']):\n"
        "    main([*command, '--help'], standalone_mode=False)\n"
        "print({'torch', 'h5py', 'numpy', 'sacremoses', 'tqdm'} & {*sys.modules})"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], timeout=60)
    assert printed.splitlines()[-1] == b"set()"


def test_two_signals_close_together_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send signals as `timeout -s INT` does, to a process and to its group."""
    ended: list[int] = []
    times = iter([5.0, 5.19, 5.21])
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr("elmo_cli.cli.messages.time", clock)
    monkeypatch.setattr("elmo_cli.cli.messages.os._exit", ended.append)
    with click.Context(click.Command("elmo")).scope(), stop_on_signal() as should_stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert (should_stop(), ended) == (True, [])
        os.kill(os.getpid(), signal.SIGINT)
        assert ended == [130]


INTERRUPTED_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.{handler})

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "elmo_cli.cli.messages":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["elmo", "--version"]
from elmo_cli.__main__ import run
run()
"""


@pytest.mark.parametrize(
    ("handler", "status"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)]
)
def test_ctrl_c_ends_the_start_without_a_word(handler: str, status: int) -> None:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT.format(handler=handler)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (process.returncode, process.stderr) == (status, b"")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("info LONG", "LONG: no such model. Choose "),
        ("embed text out --model LONG", "LONG: no such model. Choose "),
        ("embed text out --model ~nobody-here/m", "~nobody-here/m: no such model"),
        ("train LONG --preset mini --output m", "LONG: "),
    ],
)
def test_a_name_that_no_file_can_have_is_one_line(command: str, message: str, folder: Path) -> None:
    Path("text").write_text("a bank\n")
    result = elmo(*command.replace("LONG", "x" * 300).split())
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.replace("x" * 300, "LONG").startswith(f"Error: {message}")
    assert result.stderr.count("\n") == 1


MEMORY = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.\nmore"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError(MEMORY)])
def test_a_command_that_memory_does_not_suffice_for_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.engine.load_engine", Mock(side_effect=error))
    result = elmo("cosine", "bank", "a bank", "the bank")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(f"\nError: out of memory: {first_line(error)}\n")
