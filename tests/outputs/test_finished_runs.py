"""Commands that are repeated after a run has finished, also with other inputs."""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import runs
from commands import TINY
from conftest import GOLDEN
from runs import assert_same_file, stop_after

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import InputError, OutputError, StoppedError

embed = partial(runs.embed, checkpoint_tokens=1)

LINES = "The cat sat\n\na bank\nthe river bank\na bank\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Write a text that tests change."""
    path = tmp_path / "input.txt"
    path.write_text(LINES)
    return path


def folder_of(text: Path) -> set[str]:
    return {path.name for path in text.parent.iterdir()}


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
@pytest.mark.parametrize("state", ["zero", "carry"])
def test_the_same_command_again_does_nothing(text: Path, layout: str, state: str) -> None:
    output = text.parent / "out"
    first = embed(text, output, state, layout=layout)
    assert (first.n_sentences, first.n_tokens, first.was_complete) == (5, 10, False)
    before = output.read_bytes()
    again = embed(text, output, state, layout=layout)
    assert (again.n_sentences, again.was_complete) == (0, True)
    assert output.read_bytes() == before
    assert folder_of(text) == {"input.txt", "out"}


OTHER = r"out was written for a different input"
SHORTER = r"out already exists, but contains only the first 5 lines of this input\. Use --overwrite"


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        (LINES, {"output_format": "top"}, r"with other options: --layers \(all, not top\)"),
        ("x" + LINES, {}, f"{OTHER}: its first 5 lines"),
        (LINES[:9], {}, OTHER),
        (LINES + "more\n", {}, rf"{SHORTER} to replace it\.$"),
    ],
)
def test_an_output_that_differs_is_refused_by_name(
    text: Path, changed: str, options: dict[str, Any], message: str
) -> None:
    output = text.parent / "out"
    embed(text, output)
    before = output.read_bytes()
    text.write_text(changed)
    with pytest.raises((InputError, OutputError), match=message):
        embed(text, output, **options)
    assert output.read_bytes() == before
    assert folder_of(text) == {"input.txt", "out"}
    embed(text, output, overwrite=True, **options)
    embed(text, text.parent / "whole", **options)
    assert_same_file(output, text.parent / "whole")


def embed_in_part(text: Path, **options: Any) -> None:
    with pytest.raises(StoppedError):
        embed(text, text.parent / "out", should_stop=stop_after(1), **options)


def test_an_overwriting_run_is_resumed_too_if_it_fits(text: Path) -> None:
    output = text.parent / "out"
    output.write_bytes(b"old")
    embed_in_part(text, overwrite=True)
    assert output.read_bytes() == b"old"
    resumed = embed(text, output, overwrite=True)
    assert resumed.resumed_from == 5 - resumed.n_sentences > 0
    embed_in_part(text, overwrite=True)
    text.write_text("x" + LINES)
    assert embed(text, output, overwrite=True).n_sentences == 5  # Another input starts over.
    embed(text, text.parent / "whole")
    assert_same_file(output, text.parent / "whole")
    embed_in_part(text, overwrite=True)
    # Other settings start over.
    assert embed(text, output, overwrite=True, output_format="top").n_sentences == 5


def test_a_stream_of_another_input_starts_over(text: Path) -> None:
    embed_in_part(text)
    text.write_text("x" + LINES)
    with open(text) as stream, pytest.raises(InputError, match="different input"):
        embed(stream, text.parent / "out", overwrite=True)  # type: ignore[arg-type]
    with open(text) as stream:
        assert embed(stream, text.parent / "out", overwrite=True).n_sentences == 5  # type: ignore[arg-type]


def test_a_symbolic_link_is_followed(text: Path) -> None:
    (text.parent / "folder").mkdir()
    output = text.parent / "out"
    output.symlink_to("folder/vectors.hdf5")
    embed(text, output)
    assert output.is_symlink()
    assert (text.parent / "folder" / "vectors.hdf5").is_file()
    assert embed(text, output).was_complete


def test_a_model_is_known_by_its_content(text: Path, tmp_path: Path) -> None:
    """Compare a model with a renamed copy, and with other content under its name."""
    for name in ("one", "other"):
        shutil.copytree(TINY, tmp_path / name)
    ElmoEmbedder(model=tmp_path / "one").embed_file(text, tmp_path / "out")
    again = ElmoEmbedder(model=tmp_path / "other").embed_file(text, tmp_path / "out")
    assert again.was_complete
    shutil.copytree(GOLDEN / "tanh-clip", tmp_path / "one", dirs_exist_ok=True)
    with pytest.raises(OutputError, match="other options: weights of the model"):
        ElmoEmbedder(model=tmp_path / "one").embed_file(text, tmp_path / "out")


def test_a_run_killed_before_renaming_its_file_is_complete(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, replace = text.parent / "out", os.replace

    def kill(source: Path, target: Path) -> None:
        if target == output:
            raise KeyboardInterrupt
        replace(source, target)

    for overwrite in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", kill)
            with pytest.raises(KeyboardInterrupt):
                embed(text, output, overwrite=overwrite)
        text.write_text(LINES + "more\n")
        if overwrite:
            assert embed(text, output, overwrite=True).n_sentences == 6
        else:
            with pytest.raises(OutputError, match="out already exists, but contains only"):
                embed(text, output)
            text.write_text(LINES)
            assert embed(text, output).was_complete
