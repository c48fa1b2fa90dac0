"""Messages of commands that fail: to the letter, and their remedies work."""

import ast
import gzip
import shlex
import shutil
import subprocess
from pathlib import Path

import h5py
import pytest
from commands import elmo
from strategies import make_language_model, small_architecture
from transcripts import Transcript, each_transcript, write_inputs

FOLDER = Path(__file__).parent
OPTIONS = "--options-file model/options.json --output new --steps 1"


def cases() -> list[str]:
    """Return the cases: commands, each with a part of what it prints.

    `!` begins a case: a command whose message has a remedy. `$` is a remedy of it. The last one of
    a case succeeds.
    """
    text = (FOLDER / "remedies.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("# ")]
    return "\n".join(lines).removeprefix("! ").split("\n! ")


def run(command: str) -> tuple[int, str]:
    """Run a command, after programs of a shell if it has some; return its status and output."""
    programs, _, arguments = f" {command}".rpartition(" elmo ")
    content = None
    if programs.strip():
        shell = shutil.which("bash") or pytest.skip("needs bash")
        done = subprocess.run([shell, "-c", programs.rstrip(" |;")], capture_output=True)
        if done.returncode == 127:
            pytest.skip(done.stderr.decode())
        content = done.stdout
    result = elmo(*shlex.split(arguments.replace("$OPTIONS", OPTIONS)), stdin=content)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all inputs, models and outputs of commands."""
    folder = tmp_path_factory.mktemp("remedies")
    inputs: dict[str, str | bytes] = {}
    lines = (FOLDER / "inputs.txt").read_text(encoding="utf-8").splitlines()
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    for line in lines:
        if line.startswith("= "):
            _, name, content = line.split(" ", 2)
            literal, _, number = content.partition(" * ")
            inputs[name] = ast.literal_eval(literal) * int(number or 1)
    (folder / "model").mkdir()
    make_language_model(small_architecture(), 1, folder / "model")
    shutil.copytree(
        folder / "model", folder / "plain", ignore=lambda *_: ["softmax.hdf5", "vocab.txt"]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs(inputs)
        patch.setenv("ELMO_MODEL", "model")
        for command in commands:
            assert elmo(*command.split()).exit_code == 0
    shutil.copy(folder / "model/softmax.hdf5", folder)
    shutil.copy(folder / "model/vocab.txt", folder / "vocabulary")
    (folder / "weights.hdf5.gz").write_bytes(
        gzip.compress((folder / "model/weights.hdf5").read_bytes())
    )
    for name in ("copy.h5", "bare.h5", "gone.h5"):
        shutil.copy(folder / "v.h5", folder / name)
    with h5py.File(folder / "bare.h5", "r+") as bare, h5py.File(folder / "gone.h5", "r+") as gone:
        gone.attrs["model"] = "gone/model"
        for name in list(bare.attrs):
            del bare.attrs[name]
    return folder


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.partition("\n")[0][5:60])
def test_the_remedy_of_a_message_works(
    case: str, prepared: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    monkeypatch.setenv("ELMO_MODEL", "model")
    lines = [line.removeprefix("$ ") for line in case.split("\n")]
    for command, expected in zip(lines[::2], lines[1::2], strict=True):
        status, output = run(command)
        assert expected in output, f"{command}\n{output}"
    assert status == 0, output


@each_transcript(__file__)
def test_an_error_has_this_text(
    transcript: Transcript, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--split-sentences" in transcript.command:
        pytest.importorskip("sentencex")
    monkeypatch.chdir(prepared)
    monkeypatch.setenv("ELMO_MODEL", "model")
    transcript.check()
