import os
import re
import signal
import subprocess
import sys
from email.message import Message
from pathlib import Path

import click
import pytest
from commands import TINY, assert_misused, elmo

import elmo_cli
from elmo_cli.cli import COMMANDS, find_command
from elmo_cli.cli.command import Option
from elmo_cli.cli.messages import stop_on_signal
from elmo_cli.errors import first_line


def run_python(code: str) -> str:
    """Run code in a fresh interpreter: what it prints."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_version_is_the_packages_version() -> None:
    for option in ("-V", "--version"):
        result = elmo(option)
        assert (result.exit_code, result.output) == (0, f"elmo {elmo_cli.__version__}\n")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_every_command(option: str) -> None:
    result = elmo(option)
    assert (result.exit_code, result.stderr) == (0, "")
    _, groups = result.stdout.split("Vectors:\n")
    groups, _ = groups.split("  Examples:\n")
    assert [line.split()[0] for line in groups.splitlines() if line.startswith("  ")] == COMMANDS
    assert "..." not in groups


def test_help_ends_with_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    distribution = Message()
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: distribution)
    assert "Documentation: `elmo help COMMAND`, and" in elmo("--help").stdout.splitlines()[-1]
    for name in ("Paper", "Documentation", "Repository"):
        distribution["Project-URL"] = f"{name}, https://{name.lower()}.org"
    assert elmo("--help").stdout.endswith("Documentation: https://documentation.org\n")


def test_help_is_a_command_too() -> None:
    assert elmo("help").stdout == elmo("--help").stdout
    assert elmo("help", "convert").stdout == elmo("convert", "--help").stdout
    assert "Error: No such command 'embdd'." in elmo("help", "embdd").stderr


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
    options = [
        option
        for name in COMMANDS
        for option in find_command(name).params
        if isinstance(option, Option)
    ]
    names = [name for option in options for name in option.envvar or ()]
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


def test_a_variable_without_effect_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_EMBED_GAMMA", "2")
    monkeypatch.setenv("ELMO_EMBED_ALL", "0")
    output = tmp_path / "out.hdf5"
    result = elmo("embed", "-", output, "--model", TINY, "--top", stdin="a b\n")
    assert result.exit_code == 0


@pytest.mark.parametrize("arguments", [["--help"], ["embed", "--help"], ["cosine", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"from elmo_cli.cli import main; main({arguments}, standalone_mode=False)"
    heavy = "{'torch', 'h5py', 'numpy', 'sacremoses', 'tqdm'}"
    loaded = run_python(f"{code}; import sys; print(sorted({heavy} & set(sys.modules)))")
    assert loaded.splitlines()[-1] == "[]"


def test_two_signals_close_together_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send signals as `timeout -s INT` does, to a process and to its group."""
    ended: list[int] = []
    monkeypatch.setattr("elmo_cli.cli.messages.os._exit", ended.append)
    monkeypatch.setattr("elmo_cli.cli.messages._AS_ONE_SECONDS", 60.0)
    with click.Context(click.Command("elmo")).scope(), stop_on_signal() as should_stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
        assert not ended
        monkeypatch.setattr("elmo_cli.cli.messages._AS_ONE_SECONDS", 0.0)
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


LONG = "x" * 300


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("info", LONG), f"{LONG}: no such model. Choose "),
        (("embed", "text", "out", "--model", LONG), f"{LONG}: no such model. Choose "),
        (("embed", "text", "out", "--model", "~nobody-here/m"), "~nobody-here/m: no such model"),
        (("train", LONG, "--preset", "mini", "--output", "m"), f"{LONG}: "),
    ],
)
def test_a_name_that_no_file_can_have_is_one_line(
    arguments: tuple[str, ...], message: str, folder: Path
) -> None:
    Path("text").write_text("a bank\n")
    result = elmo(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.\nmore"
        ),
    ],
)
def test_a_command_that_memory_does_not_suffice_for_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("elmo_cli.engine.load_engine", fail)
    result = elmo("cosine", "bank", "a bank", "the bank")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(f"\nError: out of memory: {first_line(error)}\n")
