"""The command line as a whole: help, options, the environment and the process."""

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import click
import pytest
from click.testing import CliRunner, Result

import elmo_cli
import elmo_cli.cli.main
from elmo_cli.__main__ import SPIN_COUNT, run
from elmo_cli.cli.command import Command, option_group
from elmo_cli.cli.command_list import COMMANDS, find_command
from elmo_cli.cli.load_model import load_resolved_engine
from elmo_cli.cli.option_conditions import Option
from elmo_cli.cli.shared_options import command_option
from elmo_cli.cli.stopping import stop_on_signal
from elmo_cli.errors.wording import first_line
from elmo_cli.model.bilm import BiLm
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.find_model import resolve_model
from elmo_cli.pretrained.load_bilm import load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from tests.support.commands import TINY, assert_misused, elmo

# Help


def test_version_is_the_packages_version() -> None:
    for name in ("-V", "--version"):
        result = elmo(name)
        assert result.exit_code == 0
        assert result.output == f"elmo {elmo_cli.__version__}\n"


def test_help_names_every_command() -> None:
    result = elmo("--help")
    assert result.stderr == ""
    assert result.exit_code == 0
    _, groups = result.stdout.split("Vectors:\n")
    groups, _ = groups.split("Options:\n")
    lines = [line for line in groups.splitlines() if line.startswith("  ")]
    assert [line.split()[0] for line in lines] == COMMANDS
    assert "..." not in groups


def test_help_has_three_spellings() -> None:
    assert elmo("-h").stdout == elmo("--help").stdout
    assert elmo("help").stdout == elmo("--help").stdout
    assert elmo("help", "convert").stdout == elmo("convert", "--help").stdout


def test_help_ends_with_the_address_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.cli.main.INSTALLED", tmp_path)
    last_line = elmo("--help").stdout.splitlines()[-1]
    assert "Documentation: `elmo help COMMAND`, and" in last_line
    metadata = tmp_path / "elmo_cli-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(
        "Name: elmo-cli\n"
        "Project-URL: Paper, https://paper.org\n"
        "Project-URL: Documentation, https://documentation.org\n"
        "Project-URL: Repository, https://repository.org\n"
        "\n"
        "Text",
        encoding="utf-8",
    )
    assert elmo("--help").stdout.endswith("Documentation: https://documentation.org\n")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from elmo_cli.cli.main import main\n"
        "for command in ([], ['embed'], ['cosine']):\n"
        "    main([*command, '--help'], standalone_mode=False)\n"
        "print({'torch', 'h5py', 'numpy', 'sacremoses', 'tqdm'} & {*sys.modules})"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], timeout=60)
    assert printed.splitlines()[-1] == b"set()"


@click.command(cls=Command)
@click.argument("text")
@option_group("Input", command_option("--format"), command_option("--old", hidden=True))
@click.option("-q", "--quiet", is_flag=True)
@option_group(
    "Model",
    lambda each: command_option("--first")(command_option("--second")(each)),
    command_option("--third"),
)
def command(**options: str) -> None:
    """Do something."""
    click.echo(sorted(options))


def test_options_are_under_their_heading_and_reach_the_command() -> None:
    blocks = CliRunner().invoke(command, ["--help"]).output.split("\n\n")
    shown = []
    for block in blocks[2:]:
        shown.append([line.split()[0].strip(",") for line in block.splitlines()])
    assert shown == [
        ["Input:", "--format"],
        ["Model:", "--first", "--second", "--third"],
        ["Other", "-q", "--help"],
    ]
    result = CliRunner().invoke(command, ["a", "--old", "b", "--third", "c"])
    reached = "['first', 'format', 'old', 'quiet', 'second', 'text', 'third']\n"
    assert result.output == reached


# Options of all commands, and from the environment


@pytest.mark.parametrize("command_name", COMMANDS)
def test_conditions_name_options_of_the_command(command_name: str) -> None:
    parameters = find_command(command_name).params
    known = {name for parameter in parameters for name in parameter.opts}
    known |= {str(parameter.metavar) for parameter in parameters}  # INPUT
    for parameter in parameters:
        if not isinstance(parameter, Option):
            continue
        for condition in (*parameter.requires, *parameter.excludes):
            # A condition is an option, or an option and its value.
            named = condition if isinstance(condition, str) else condition[0]
            assert named in known


def test_every_option_has_an_environment_variable_of_its_own() -> None:
    names: list[str] = []
    for command_name in COMMANDS:
        for each in find_command(command_name).params:
            if isinstance(each, Option):
                names.append(str(each.envvar))
    assert len(set(names)) == len(names)
    assert "ELMO_EMBED_FORMAT" in names
    assert "ELMO_WORD_VECTORS_MODEL" in names
    assert "ELMO_TRAIN_DEVICE" in names
    # These have a meaning of their own.
    for name in ("ELMO_MODEL", "ELMO_CACHE", "ELMO_ALLOW_HTTP", "ELMO_VERSION"):
        assert name not in names


def cosine(*options: str) -> Result:
    """Return the result of `elmo cosine` for the word a in two sentences."""
    return elmo("cosine", "a", "a b", "b a", "--model", TINY, *options)


def test_an_option_can_be_set_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer_1 = cosine("-q", "--layers", "1").stdout
    layer_2 = cosine("-q", "--layers", "2").stdout
    assert layer_1 != layer_2
    monkeypatch.setenv("ELMO_COSINE_LAYERS", "1")
    assert cosine("-q").stdout == layer_1
    assert cosine("-q", "--layers", "2").stdout == layer_2


# Messages


def test_an_error_names_the_variable_of_a_wrong_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELMO_COSINE_WORD2", "b")
    message = (
        "--pairs: cannot be combined with --word2 (ELMO_COSINE_WORD2). Remove one of "
        "them."
    )
    assert_misused(elmo("cosine", "--pairs", "p.csv"), message)
    monkeypatch.setenv("ELMO_COSINE_PRECISION", "foo")
    option = "--precision (ELMO_COSINE_PRECISION)"
    message = (
        f"{option}: expected float32, tf32, bfloat16, float16 or int8, found 'foo'"
    )
    assert_misused(cosine("-q"), message)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("layers", "9", "expected all, top, average, word_emb, lstm1, lstm2 or "),
        ("device", "gpu", "expected auto, cpu, cuda, cuda:N or mps, found 'gpu'"),
        ("tokenizer", "mose", "expected auto, whitespace, moses, "),
        ("state", "cold", "expected zero or warm, found 'cold'"),
    ],
)
def test_an_error_of_the_library_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, problem: str
) -> None:
    variable = f"ELMO_COSINE_{name.upper()}"
    monkeypatch.setenv(variable, value)
    result = cosine("-q")
    assert result.exit_code == 2
    assert f"Error: --{name} ({variable}): {problem}" in result.stderr


def test_a_remedy_names_the_variable_that_must_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELMO_EMBED_LAYOUT", "packed")
    result = elmo("embed", "-", "out.parquet", "--model", TINY, stdin="a b\n")
    assert result.exit_code == 2
    assert "Remove --layout (ELMO_EMBED_LAYOUT), or write" in result.stderr


def test_the_variable_of_a_flag_is_1_or_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_EMBED_OVERWRITE", "maybe")
    problem = "expected 1 or 0, found 'maybe'"
    message = f"--overwrite (ELMO_EMBED_OVERWRITE): {problem}"
    assert_misused(embed_to_lines(), message)


def test_an_option_in_place_of_a_command_is_an_error() -> None:
    message = "COMMAND is missing. `elmo --help` lists the commands."
    assert_misused(elmo("-q"), message)


def embed_to_lines(*options: str) -> Result:
    """Return the result of `elmo embed` of a line to JSON lines."""
    return elmo(
        "embed",
        "-",
        "-",
        "--format",
        "jsonl",
        "--model",
        TINY,
        *options,
        stdin="a b\n",
    )


def test_a_flag_of_the_environment_gives_way_to_one_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELMO_EMBED_ALL", "0")
    assert embed_to_lines("--top").exit_code == 0


def test_an_error_names_the_variable_of_an_option_that_requires_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELMO_EMBED_GAMMA", "2")
    message = (
        "--gamma (ELMO_EMBED_GAMMA): requires --mix. Add it, or remove --gamma "
        "(ELMO_EMBED_GAMMA)."
    )
    assert_misused(embed_to_lines("--top"), message)


def test_quiet_and_verbose_may_stand_before_the_command(folder: Path) -> None:
    (folder / "text").write_text("a\n")

    def errors(*, before: list[str], after: list[str]) -> str:
        command = ["embed", "text", "-", "-f", "jsonl", "--model", str(TINY)]
        return elmo(*before, *command, *after).stderr

    assert errors(before=[], after=[])
    assert errors(before=["-q"], after=[]) == ""
    assert errors(before=["-v", "-q"], after=[])
    assert errors(before=["-v"], after=["-qq"]) == ""


def test_verbose_shows_versions_and_the_time() -> None:
    result = elmo("-v", "cosine", "a", "a", "a", "--model", TINY)
    version = r"[\d.]+\S*"
    first_line = rf"elmo {version}, Python {version}, torch {version}(, ELMO_\w+)*\n"
    assert re.match(first_line, result.stderr)
    assert re.search(r"\nTime: \d+\.\d s\n$", result.stderr)


def test_verbose_lists_the_variables_that_a_command_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ELMO_COSINE_LAYERS", "ELMO_EMBED_PRECISION", "ELMO_KERNELS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("ELMO_COSINE_STATE", "")
    monkeypatch.setenv("ELMO_CACHE", "cache")
    first_line = cosine("-v").stderr.splitlines()[0]
    assert first_line.partition(", ELMO_")[2] == "CACHE, ELMO_COSINE_LAYERS"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("ELMO_COSINE_LAYRES", "Did you mean 'ELMO_COSINE_LAYERS'?"),
        ("ELMO_COSIN_LAYERS", "Did you mean 'ELMO_COSINE_LAYERS'?"),
        ("ELMO_EMBED_PRECISON", "Did you mean 'ELMO_EMBED_PRECISION'?"),
        ("ELMO_EMBED_CUDA", "Did you mean 'ELMO_EMBED_DEVICE'?"),
        ("ELMO_NEIGHBORS_TOP", "Did you mean 'ELMO_NEIGHBOURS_TOP'?"),
        ("ELMO_WORDVECTORS_MODEL", "Did you mean 'ELMO_WORD_VECTORS_MODEL'?"),
        ("ELMO_LAYERS", "Did you mean 'ELMO_COSINE_LAYERS'?"),
        ("ELMO_MODLE", "Did you mean 'ELMO_MODEL'?"),
        ("ELMO_CACHE_DIR", "Did you mean 'ELMO_CACHE'?"),
        ("ELMO_EMBED_XYZ", "`elmo embed --help` lists the options."),
    ],
)
def test_a_wrong_variable_is_a_warning(
    name: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cosine().stderr
    monkeypatch.setenv(name, "1")
    assert cosine().stderr == f"Warning: {name}: no such variable. {remedy}\n{expected}"
    assert cosine("-q").stderr == ""


@pytest.mark.parametrize(
    "name", ["ELMO_EMBED_LAYERS", "ELMO_KERNELS", "ELMO_TEST_SEED", "ELMO_MY_TEXTS"]
)
def test_another_variable_is_no_warning(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cosine().stderr
    monkeypatch.setenv(name, "1")
    assert cosine().stderr == expected


@pytest.mark.parametrize(
    "arguments", [["--help"], ["help"], ["completion", "bash"], ["cosine", "--help"]]
)
def test_a_help_does_not_warn_about_variables(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_COSIN_LAYERS", "1")
    assert elmo(*arguments).stderr == ""


def test_very_verbose_shows_the_traceback(folder: Path) -> None:
    once = elmo("embed", "nothing", "out", "--model", TINY, "-v")
    assert once.stderr.splitlines()[-1].startswith("Error: ")
    twice = elmo("-v", "embed", "nothing", "out", "--model", TINY, "-v")
    assert isinstance(twice.exception, elmo_cli.ElmoError)


@pytest.mark.parametrize(
    "command",
    ["info {}", "embed text out --model {}", "train {} --preset mini --output m"],
)
def test_a_name_that_no_file_can_have_is_one_line(command: str, folder: Path) -> None:
    Path("text").write_text("a bank\n")
    result = elmo(*command.format("x" * 300).split())
    assert result.exit_code == 1
    assert result.stdout == ""
    problem = "no such (model. Choose one|file. Name a file)"
    assert re.fullmatch(f"Error: x{{300}}: {problem} .+\n", result.stderr)


MEMORY = (
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.\nmore"
)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError(MEMORY)])
def test_a_command_that_memory_does_not_suffice_for_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.engine.load_engine", Mock(side_effect=error))
    result = elmo("cosine", "bank", "a bank", "the bank")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == f"Error: out of memory: {first_line(error)}\n"


@pytest.mark.usefixtures("folder")
def test_a_model_whose_name_is_not_utf8_is_recorded_with_escapes() -> None:
    name = os.fsdecode(b"m\xe9")
    output = os.fsdecode(b"v\xe9.hdf5")
    shutil.copytree(TINY, name)
    assert elmo("embed", "-", output, "--model", name, stdin="a b").exit_code == 0
    with elmo_cli.open_activations(output) as activations:
        assert activations.attributes["model"] == "m\\xe9"


# Signals


def test_two_signals_close_together_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send signals as `timeout -s INT` does, to a process and to its group."""
    ended: list[int] = []
    clock = Mock(monotonic=Mock(side_effect=[5.0, 5.19, 5.21]))
    monkeypatch.setattr("elmo_cli.cli.stopping.time", clock)
    monkeypatch.setattr("elmo_cli.cli.stopping.os._exit", ended.append)
    with click.Context(click.Command("elmo")).scope(), stop_on_signal() as should_stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert should_stop() is True
        assert ended == []
        os.kill(os.getpid(), signal.SIGINT)
        assert ended == [130]


INTERRUPTED_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.{handler})

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "elmo_cli.cli.stderr":
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
    command = [sys.executable, "-c", INTERRUPTED_IMPORT.format(handler=handler)]
    process = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert process.returncode == status
    assert process.stderr == b""


INTERRUPTED_EXIT = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.{handler})
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["elmo", "--version"]
from elmo_cli.__main__ import run
run()
"""


@pytest.mark.parametrize(
    ("handler", "status"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)]
)
def test_ctrl_c_during_the_exit_prints_nothing(handler: str, status: int) -> None:
    command = [sys.executable, "-c", INTERRUPTED_EXIT.format(handler=handler)]
    process = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert process.returncode == status
    assert process.stderr == b""
    assert process.stdout.startswith(b"elmo")


def test_an_interrupt_while_arguments_are_parsed_has_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parse = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(elmo_cli.cli.main.ElmoGroup, "parse_args", parse)
    result = elmo("--version")
    assert result.stderr == "Interrupted.\n"
    assert result.exit_code == 130


# What `elmo` sets for its process before torch is imported


def run_with_collector_restored() -> None:
    """Run the command; the collector is as it was afterwards."""
    try:
        run()
    finally:
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize(
    ("environment", "spin_count"),
    [
        ({}, SPIN_COUNT),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "active"}, None),
    ],
)
def test_idle_threads_wait_only_shortly_by_default(
    environment: dict[str, str], spin_count: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spin_counts: list[str | None] = []

    def main(**settings: Any) -> None:
        spin_counts.append(os.environ.get("GOMP_SPINCOUNT"))

    monkeypatch.setattr("elmo_cli.cli.main.main", main)
    with patch.dict(os.environ):
        os.environ.pop("GOMP_SPINCOUNT", None)
        os.environ.pop("OMP_WAIT_POLICY", None)
        os.environ.update(environment)
        run_with_collector_restored()
    assert spin_counts == [spin_count]


def test_the_collector_starts_once_a_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states: list[bool] = []
    load = load_bilm

    def load_and_look(files: ModelFiles) -> BiLm:
        states.append(gc.isenabled())
        return load(files)

    def main(**settings: Any) -> None:
        load_resolved_engine(resolve_model(ModelSettings("mini")))
        states.append(gc.isenabled())

    monkeypatch.setattr("elmo_cli.engine.load_bilm", load_and_look)
    # It prints the name of the model for a command, and here is none.
    monkeypatch.setattr("elmo_cli.cli.load_model.say_model", Mock())
    monkeypatch.setattr("elmo_cli.cli.main.main", main)
    run_with_collector_restored()
    assert states == [False, True]


def test_the_library_leaves_the_process_as_it_is() -> None:
    code = (
        "import gc, os; before = dict(os.environ); from elmo_cli import ElmoEmbedder; "
        "ElmoEmbedder(); assert dict(os.environ) == before; assert gc.isenabled()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "value", "arguments"),
    [
        ("COSINE_PAIRS", "text", ["cosine", "a", "a b", "c a"]),
        ("PREDICT_EACH", "1", ["predict", "the ___ cat"]),
        ("PREDICT_FILE", "text", ["predict", "the cat"]),
        ("SURPRISAL_PAIR_COLUMNS", "a,b", ["surprisal", "text"]),
        ("EMBED_ALL", "1", ["embed", "text", "o.h5", "--layers", "top"]),
        ("EMBED_LAYERS", "x", ["embed", "text", "o.h5"]),
        ("NEIGHBOURS_QUERIES", "text", ["neighbours", "cat", "a cat", "text"]),
    ],
)
def test_an_error_names_the_variable_of_an_option(
    name: str,
    value: str,
    arguments: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "text").write_text("the cat sat\n")
    monkeypatch.setenv(f"ELMO_{name}", value)
    option = name.partition("_")[2].lower().replace("_", "-")
    result = elmo(*arguments)
    assert result.exit_code in (1, 2)
    assert f"--{option} (ELMO_{name})" in result.stderr
    assert result.stderr.count("\n") == 1
