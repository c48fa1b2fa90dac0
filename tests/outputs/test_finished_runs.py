"""Commands that are repeated after a run has finished, also with other inputs."""

import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import runs
from commands import TINY
from conftest import GOLDEN
from layouts import layouts
from runs import assert_same_file, stop_after

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import InputError, OutputError, StoppedError

embed = partial(runs.embed, checkpoint_tokens=1)

LINES = "The cat sat\n\na bank\nthe river bank\na bank\n"
TEXT, OUT = Path("input.txt"), Path("out")


@pytest.fixture(autouse=True)
def text(folder: Path) -> None:
    """Write a text that tests change into the empty current folder."""
    TEXT.write_text(LINES)


@layouts
@pytest.mark.parametrize("state", ["zero", "carry"])
def test_the_same_command_again_does_nothing(layout: str, state: str) -> None:
    first = embed(TEXT, OUT, state, layout=layout)
    assert (first.n_sentences, first.n_tokens, first.was_complete) == (5, 10, False)
    before = OUT.read_bytes()
    again = embed(TEXT, OUT, state, layout=layout)
    assert (again.n_sentences, again.was_complete) == (0, True)
    assert OUT.read_bytes() == before
    assert sorted(os.listdir()) == ["input.txt", "out"]


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        (LINES, {"output_format": "top"}, "with other options: --layers (all, not top)"),
        ("x" + LINES, {}, "out was written for a different input: its first 5 lines"),
        (LINES[:9], {}, "out was written for a different input"),
        (LINES + "more\n", {}, "contains only the first 5 lines of this input. Use --overwrite"),
    ],
)
def test_an_output_that_differs_is_refused_by_name(
    changed: str, options: dict[str, Any], message: str
) -> None:
    embed(TEXT, OUT)
    before = OUT.read_bytes()
    TEXT.write_text(changed)
    with pytest.raises((InputError, OutputError), match=re.escape(message)):
        embed(TEXT, OUT, **options)
    assert OUT.read_bytes() == before
    assert sorted(os.listdir()) == ["input.txt", "out"]
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
    assert resumed.resumed_from == 5 - resumed.n_sentences > 0
    embed_in_part(overwrite=True)
    TEXT.write_text("x" + LINES)
    assert embed(TEXT, OUT, overwrite=True).n_sentences == 5  # Another input starts over.
    embed(TEXT, "whole")
    assert_same_file(OUT, "whole")
    embed_in_part(overwrite=True)
    # Other settings start over.
    assert embed(TEXT, OUT, overwrite=True, output_format="top").n_sentences == 5


def test_a_stream_of_another_input_starts_over() -> None:
    embed_in_part()
    TEXT.write_text("x" + LINES)
    with open(TEXT) as stream, pytest.raises(InputError, match="different input"):
        embed(stream, OUT, overwrite=True)  # type: ignore[arg-type]
    with open(TEXT) as stream:
        assert embed(stream, OUT, overwrite=True).n_sentences == 5  # type: ignore[arg-type]


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


def test_a_run_killed_before_renaming_its_file_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    def embed_until_renaming(**options: Any) -> None:
        with monkeypatch.context() as patch:
            kill = Mock(side_effect=KeyboardInterrupt)
            patch.setattr("elmo_cli.outputs.resumable_file.replace_file", kill)
            with pytest.raises(KeyboardInterrupt):
                embed(TEXT, OUT, **options)

    embed_until_renaming()
    TEXT.write_text(LINES + "more\n")
    with pytest.raises(OutputError, match="out already exists, but contains only"):
        embed(TEXT, OUT)
    TEXT.write_text(LINES)
    assert embed(TEXT, OUT).was_complete
    embed_until_renaming(overwrite=True)
    TEXT.write_text(LINES + "more\n")
    assert embed(TEXT, OUT, overwrite=True).n_sentences == 6
