"""The same command again after a run has finished, and inputs that have grown since."""

import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from test_resume import GOLDEN, assert_equal, embed, stop_after

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import InputError, OutputError, StoppedError
from elmo_cli.outputs.checkpointed_file import CheckpointedFile

FIRST = "The cat sat\n\na bank\nthe river bank\na bank\n"
MORE = "the cat\n\nbirds sang by the river\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text that can grow."""
    path = tmp_path / "input.txt"
    path.write_text(FIRST)
    return path


def written(text: Path, output: Path, **settings: Any) -> int:
    """Embed, and count the lines that were computed."""
    lines: list[int] = []
    embed(
        text, output, on_progress=lambda _, n: lines.append(n) if n is not None else 0, **settings
    )
    return len(lines)


def folder_of(text: Path) -> set[str]:
    return {path.name for path in text.parent.iterdir()}


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
@pytest.mark.parametrize("state", ["zero", "carry"])
def test_the_same_command_again_does_nothing(text: Path, layout: str, state: str) -> None:
    output = text.parent / "out"
    embed(text, output, state, layout=layout)
    before = output.read_bytes()
    assert written(text, output, state=state, layout=layout) == 0
    assert output.read_bytes() == before
    assert folder_of(text) == {"input.txt", "out"}


def test_an_output_that_differs_is_refused_by_name(text: Path) -> None:
    output = text.parent / "out"
    embed(text, output)
    before = output.read_bytes()
    with pytest.raises(
        OutputError, match=r"exists already and differs in layers \(all there, top here\)"
    ):
        embed(text, output, output_format="top")
    text.write_text("x" + FIRST)
    with pytest.raises(InputError, match=r"is complete, of another input: its first 5 lines"):
        embed(text, output)
    text.write_text(FIRST[:9])  # shorter
    with pytest.raises(InputError, match=r"is complete, of another input"):
        embed(text, output, append=True)
    assert output.read_bytes() == before
    assert folder_of(text) == {"input.txt", "out"}


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_an_input_that_grew_is_added_to_its_output_where_asked(text: Path, layout: str) -> None:
    output = text.parent / "out"
    assert written(text, output, append=True, layout=layout) == 5  # the first time, all
    text.write_text(FIRST + MORE)
    with pytest.raises(OutputError) as caught:
        embed(text, output, layout=layout)
    assert str(caught.value) == (
        f"{output} exists already, of the first 5 lines of this input; --append adds the others, "
        "--overwrite replaces it"
    )
    assert written(text, output, append=True, layout=layout) == 3
    text.write_text(FIRST + MORE * 2)
    assert written(text, output, append=True, layout=layout) == 3
    embed(text, text.parent / "whole", layout=layout)
    if layout == "allennlp":
        assert_equal(output, text.parent / "whole")
    with h5py.File(output) as found, h5py.File(text.parent / "whole") as whole:
        assert set(found) == set(whole)
        assert dict(found.attrs) == dict(whole.attrs)
        if layout == "packed":
            assert all(np.allclose(found[name], whole[name], atol=1e-6) for name in whole)


def test_append_alone_keeps_what_is_there_in_python_too(text: Path) -> None:
    output, embedder = text.parent / "out", ElmoEmbedder(model=GOLDEN)
    embedder.embed_file(text, output)
    text.write_text(FIRST + MORE)
    lines: list[int | None] = []
    embedder.embed_file(text, output, append=True, on_progress=lambda _, n: lines.append(n))
    assert len([n_tokens for n_tokens in lines if n_tokens is not None]) == 3
    with pytest.raises(InputError, match=r"^--append adds to the output"):
        embedder.embed_file(text, output, append=True, overwrite=True)


def test_carried_states_cannot_be_gone_on_with(text: Path) -> None:
    output = text.parent / "out"
    embed(text, output, "carry")
    text.write_text(FIRST + MORE)
    with pytest.raises(OutputError, match=r"is of --state carry and cannot be added to: .* anew$"):
        embed(text, output, "carry", append=True)


def test_the_finished_file_is_whole_until_the_longer_one_takes_its_place(text: Path) -> None:
    output = text.parent / "out"
    embed(text, output)
    before = output.read_bytes()
    text.write_text(FIRST + MORE)
    with pytest.raises(StoppedError):
        embed(text, output, append=True, should_stop=stop_after(1))
    assert output.read_bytes() == before
    with pytest.raises(OutputError, match="an unfinished run beside it; --append goes on"):
        embed(text, output)
    assert written(text, output, append=True) == 2
    embed(text, text.parent / "whole")
    assert_equal(output, text.parent / "whole")
    assert folder_of(text) == {"input.txt", "out", "whole"}


def test_a_kill_at_any_step_of_the_copy_damages_nothing(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = text.parent / "out"
    embed(text, output)
    text.write_text(FIRST + MORE)
    embed(text, text.parent / "whole")
    snapshots: list[Path] = []

    def snapshot_before(name: str) -> None:
        original = getattr(CheckpointedFile, name)

        def step(self: CheckpointedFile, *arguments: Any) -> Any:
            snapshots.append(text.parent / f"{name}{len(snapshots)}")
            snapshots[-1].mkdir()
            for path in text.parent.glob("out*"):
                shutil.copy(path, snapshots[-1])
            return original(self, *arguments)

        monkeypatch.setattr(CheckpointedFile, name, step)

    for name in ("copy_from", "checkpoint", "finish"):
        snapshot_before(name)
    embed(text, output, append=True)
    monkeypatch.undo()
    assert [path.name[:-1] for path in snapshots] == [
        *("copy_from", "checkpoint", "checkpoint", "finish")
    ]
    for path in snapshots:
        embed(text, path / "out", append=True)
        assert_equal(path / "out", text.parent / "whole")
        assert {found.name for found in path.iterdir()} == {"out"}


def test_a_copy_needs_no_help_of_the_file_system(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(18, "Invalid cross-device link")

    output = text.parent / "out"
    embed(text, output)
    text.write_text(FIRST + MORE)
    monkeypatch.setattr("elmo_cli.outputs.checkpointed_file.os.copy_file_range", refuse)
    assert written(text, output, append=True) == 3
    embed(text, text.parent / "whole")
    assert_equal(output, text.parent / "whole")


def test_an_overwriting_run_goes_on_too_if_it_fits(text: Path) -> None:
    output = text.parent / "out"
    output.write_bytes(b"old")
    with pytest.raises(StoppedError):
        embed(text, output, overwrite=True, should_stop=stop_after(2))
    assert output.read_bytes() == b"old"
    assert written(text, output, overwrite=True) == 3
    with pytest.raises(StoppedError):
        embed(text, output, overwrite=True, should_stop=stop_after(2))
    text.write_text("x" + FIRST)
    assert written(text, output, overwrite=True) == 5  # of another input: anew
    embed(text, text.parent / "whole")
    assert_equal(output, text.parent / "whole")
    with pytest.raises(StoppedError):
        embed(text, output, overwrite=True, should_stop=stop_after(2))
    assert written(text, output, overwrite=True, output_format="top") == 5  # other settings


def test_a_stream_is_never_read_twice(text: Path) -> None:
    output = text.parent / "out"
    with pytest.raises(StoppedError):
        embed(text, output, should_stop=stop_after(2))
    embedder = ElmoEmbedder(GOLDEN / "options.json", GOLDEN / "weights.hdf5", batch_tokens=8)
    with open(text) as stream:
        embedder.embed_file(stream, output, overwrite=True)
    embed(text, text.parent / "whole")
    assert_equal(output, text.parent / "whole")
