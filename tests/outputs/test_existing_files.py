"""Files that exist before a run: outputs, inputs, files of other programs."""

import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import h5py
import pytest

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.cli.command_list import COMMANDS, find_command
from elmo_cli.errors.exceptions import InputError, OutputError, StoppedError
from elmo_cli.inference.device import CPU
from elmo_cli.inference.precision import find_arithmetic
from elmo_cli.outputs.writer import ActivationsWriter
from tests.support import runs
from tests.support.commands import TINY, elmo
from tests.support.failing_disk import State, state_of
from tests.support.golden import GOLDEN
from tests.support.layouts import layouts
from tests.support.processors import other_arithmetic
from tests.support.runs import assert_same_file, stop_after

embed = partial(runs.embed, checkpoint_tokens=1)

LINES = "The cat sat\n\na bank\nthe river bank\na bank\n"
TEXT = Path("input.txt")
OUT = Path("out")


pytestmark = pytest.mark.usefixtures("text_file")


@pytest.fixture
def text_file(folder: Path) -> None:
    """Write a text that tests change into the empty current folder."""
    TEXT.write_text(LINES)


@layouts
@pytest.mark.parametrize("state", ["zero", "carry"])
def test_the_same_command_again_does_nothing(layout: str, state: str) -> None:
    first = embed(TEXT, OUT, state, layout=layout)
    assert first.n_records == 5
    assert first.n_tokens == 10
    assert first.was_complete is False
    before = OUT.read_bytes()
    again = embed(TEXT, OUT, state, layout=layout)
    assert again.n_records == 0
    assert again.was_complete is True
    assert OUT.read_bytes() == before
    assert sorted(os.listdir()) == ["input.txt", "out"]


def test_an_output_with_other_dashes_is_refused() -> None:
    embed(TEXT, OUT, tokenizer="moses")
    with h5py.File(OUT, "r+") as file:
        assert file.attrs["normalization"] == "moses-2"
        file.attrs["normalization"] = "moses"  # which wrote each dash as a hyphen
    message = (
        r"with other options: normalization \(it has moses, this run has moses-2\)"
    )
    with pytest.raises(OutputError, match=message):
        embed(TEXT, OUT, tokenizer="moses")


def as_computed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this processor take itself for another kind, which computes other bits."""
    other = other_arithmetic()
    monkeypatch.setattr(
        "elmo_cli.engine.find_arithmetic", lambda precision, device: other
    )


@pytest.mark.parametrize("is_complete", [False, True])
def test_an_output_of_another_arithmetic_is_refused(
    is_complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arithmetic = find_arithmetic("bfloat16", CPU)
    with pytest.MonkeyPatch.context() as elsewhere:
        as_computed_elsewhere(elsewhere)
        if is_complete:
            embed(TEXT, OUT, precision="bfloat16")
        else:
            embed_in_part(precision="bfloat16")
    found = (
        f"with other options: precision (it has {other_arithmetic()}, this run has "
        f"{arithmetic}). Use overwrite=True"
    )
    before = state_of(Path())
    with pytest.raises(OutputError, match=re.escape(found)):
        embed(TEXT, OUT, precision="bfloat16")
    assert state_of(Path()) == before
    as_computed_elsewhere(monkeypatch)
    embed(TEXT, OUT, precision="bfloat16")
    with open_activations(OUT) as activations:
        assert activations.attributes["precision"] == other_arithmetic()
        assert activations[0].shape == (3, 3, 32)


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        (
            LINES,
            {"output_format": "top"},
            "with other options: layers (it has all, this run has top)",
        ),
        ("x" + LINES, {}, "out: made from another input, whose first 5 lines differ"),
        (LINES[:9], {}, "out: made from another input"),
        (
            LINES + "more\n",
            {},
            "contains only the first 5 lines of this input. Use overwrite=True",
        ),
    ],
)
def test_an_output_that_differs_is_refused_by_name(
    changed: str, options: dict[str, Any], message: str
) -> None:
    embed(TEXT, OUT)
    TEXT.write_text(changed)
    before = state_of(Path())
    with pytest.raises((InputError, OutputError), match=re.escape(message)):
        embed(TEXT, OUT, **options)
    assert state_of(Path()) == before
    embed(TEXT, OUT, overwrite=True, **options)
    embed(TEXT, "whole", **options)
    assert_same_file(OUT, "whole")


def embed_in_part(**options: Any) -> None:
    with pytest.raises(StoppedError):
        embed(TEXT, OUT, should_stop=stop_after(1), **options)


def test_an_overwriting_run_is_resumed_too_if_it_fits() -> None:
    OUT.write_bytes(b"old")
    embed_in_part(overwrite=True)
    assert OUT.read_bytes() == b"old"
    resumed = embed(TEXT, OUT, overwrite=True)
    assert resumed.resumed_from == 5 - resumed.n_records > 0
    embed_in_part(overwrite=True)
    TEXT.write_text("x" + LINES)
    # Another input starts over.
    assert embed(TEXT, OUT, overwrite=True).n_records == 5
    embed(TEXT, "whole")
    assert_same_file(OUT, "whole")
    embed_in_part(overwrite=True)
    # Other settings start over.
    assert embed(TEXT, OUT, overwrite=True, output_format="top").n_records == 5


def test_a_stream_of_another_input_starts_over() -> None:
    embed_in_part()
    TEXT.write_text("x" + LINES)
    with (
        open(TEXT) as stream,
        pytest.raises(InputError, match="made from another input"),
    ):
        embed(stream, OUT, overwrite=True)  # type: ignore[arg-type]
    with open(TEXT) as stream:
        assert embed(stream, OUT, overwrite=True).n_records == 5  # type: ignore[arg-type]


def test_a_complete_output_in_a_folder_that_is_not_writable_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embed(TEXT, OUT)
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr("elmo_cli.files.locks.lock", Mock(side_effect=PermissionError))
    assert embed(TEXT, OUT).was_complete
    with pytest.raises(OutputError, match=r"out: the folder \. is not writable$"):
        embed(TEXT, OUT, overwrite=True)
    with pytest.raises(OutputError, match=r"new: the folder \. is not writable$"):
        embed(TEXT, Path("new"))


def test_a_symbolic_link_is_followed() -> None:
    Path("folder").mkdir()
    OUT.symlink_to("folder/vectors.hdf5")
    embed(TEXT, OUT)
    assert OUT.is_symlink()
    assert Path("folder/vectors.hdf5").is_file()
    assert embed(TEXT, OUT).was_complete


def test_a_model_is_known_by_its_content() -> None:
    """Compare a model with a renamed copy, and with other content under its name."""
    for name in ("one", "other"):
        shutil.copytree(TINY, name)
    ElmoEmbedder(model="one").embed_file(TEXT, OUT)
    assert ElmoEmbedder(model="other").embed_file(TEXT, OUT).was_complete
    shutil.copytree(GOLDEN / "tanh-clip", "one", dirs_exist_ok=True)
    with pytest.raises(OutputError, match="other options: weights of the model"):
        ElmoEmbedder(model="one").embed_file(TEXT, OUT)


def test_a_run_killed_before_renaming_its_file_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def embed_until_renaming(**options: Any) -> None:
        with monkeypatch.context() as patch:
            kill = Mock(side_effect=KeyboardInterrupt)
            patch.setattr("elmo_cli.files.resumable.resumable_file.give_name", kill)
            with pytest.raises(KeyboardInterrupt):
                embed(TEXT, OUT, **options)

    embed_until_renaming()
    TEXT.write_text(LINES + "more\n")
    with pytest.raises(
        OutputError, match=r"out\.partial: already exists, but contains only"
    ):
        embed(TEXT, OUT)
    TEXT.write_text(LINES)
    assert embed(TEXT, OUT).was_complete
    # Logs of earlier versions stored nothing else of a complete file.
    OUT.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(ActivationsWriter, "_saved_at", lambda *_: {})
        embed_until_renaming()
    assert embed(TEXT, OUT).was_complete
    embed_until_renaming(overwrite=True)
    TEXT.write_text(LINES + "more\n")
    assert embed(TEXT, OUT, overwrite=True).n_records == 6


@pytest.fixture
def inputs(text_file: None) -> State:
    """Write a model, a text, words and a picture, and return all contents."""
    shutil.copytree(TINY, "m")
    for name in ("t.txt", "w.txt", "p.svg"):
        Path(name).write_text("bank\n")
    Path("link.txt").symlink_to("w.txt")
    os.link("w.txt", "twin.txt")
    return state_of(Path())


@pytest.mark.parametrize(
    "command",
    [
        "embed t.txt {t.txt} --format jsonl --model m",
        "embed w.txt {link.txt} --format jsonl --model m",
        "embed t.txt {m/weights.hdf5} --model m",
        "embed t.txt {m/options.json} --format npz --model m",
        "embed t.txt {w.txt} --vocabulary-file w.txt --format npz",
        "occurrences t.txt {w.txt} --words w.txt --format parquet --model m",
        "occurrences t.txt {m/weights.hdf5} --words w.txt --model m",
        "word-vectors --words w.txt {twin.txt} --model m",
        "word-vectors --words w.txt {m/weights.hdf5} --model m",
        "word-vectors t.txt {t.txt} --model m",
        "convert m/weights.hdf5 {m/weights.hdf5}",
        "surprisal p.svg --plot {p.svg} --model m",
        "surprisal t.txt --frequencies p.svg --plot {p.svg} --model m",
        "plot bank p.svg {p.svg}",
        "change p.svg t.txt --plot {p.svg}",
    ],
)
def test_no_command_writes_over_a_file_that_it_reads(
    command: str, inputs: State
) -> None:
    output = command[command.index("{") + 1 : command.index("}")]
    result = elmo(*command.replace(f"{{{output}}}", output).split(), "--overwrite")
    last = f"Error: {output}: the output is also an input. Choose another output."
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == last
    assert state_of(Path()) == inputs


@pytest.mark.parametrize(
    ("start", "path"),
    [("--options-file m/options.json", "m/options.json"), ("--init-from m", "m")],
)
def test_training_does_not_write_over_the_model_it_starts_from(
    start: str, path: str, inputs: State
) -> None:
    result = elmo("train", "t.txt", *start.split(), "--output", "m")
    assert result.exit_code == 1
    assert result.stderr.count(f"Error: {path}: ") == 1
    assert state_of(Path()) == inputs


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize(
    "command",
    [
        "word-vectors --model m --words w.txt out.tsv",
        "convert m/weights.hdf5 out.hdf5",
        "surprisal t.txt --plot out.svg",
    ],
)
def test_a_partial_file_of_another_program_is_kept(command: str) -> None:
    other = Path(f"{command.split()[-1]}.partial")
    other.write_text("a download")
    assert elmo(*command.split()).exit_code == 0
    assert other.read_text() == "a download"
    assert not list(Path().glob("*.elmo-partial"))


def test_every_command_that_overwrites_calls_its_output_so() -> None:
    for name in COMMANDS:
        parameters = find_command(name).params
        if any("--overwrite" in parameter.opts for parameter in parameters):
            metavars = [
                each.metavar or ""
                for each in parameters
                if isinstance(each.type, click.Path)
            ]
            assert any(metavar.endswith("OUTPUT") for metavar in metavars), name
