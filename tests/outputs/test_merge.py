"""Shards of an input, and one output of all of them."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import runs
from commands import TINY, assert_fails, assert_misused, elmo
from hypothesis import given
from hypothesis import strategies as st
from layouts import line_record
from runs import assert_equal

from elmo_cli import open_activations
from elmo_cli.errors import InputError, OutputError, StoppedError
from elmo_cli.outputs.writer import merge_shards
from elmo_cli.text.shards import Shard, ShardReader, parse_shard

embed = partial(runs.embed, skip_errors=True, checkpoint_tokens=1)

TEXT = (
    "The cat sat\n\na bank\nthe river bank\na bank\nbirds sang\n\na bank\nwhile the cat sat\nx y\n"
)
FASTA = b">a 1\nMV\n>b 2\nM\n>c 3\n\n>a 4\nM\n>e 5\nKK\xff\n>f 6\nMKV\n>g 7\nM\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with a text and FASTA."""
    monkeypatch.chdir(tmp_path)
    Path("text").write_text(TEXT)
    Path("text.fasta").write_bytes(FASTA)
    return tmp_path


def embed_shards(source: str, total: int, **settings: Any) -> list[str]:
    shards = [f"shard-{number}" for number in range(1, total + 1)]
    for number, shard in enumerate(shards, start=1):
        embed(source, shard, shard=f"{number}/{total}", **settings)
    return shards


@given(n_lines=st.integers(0, 40), total=st.integers(1, 9))
def test_every_record_is_in_one_shard(n_lines: int, total: int) -> None:
    lines = [str(number) for number in range(n_lines)]
    found = []
    for number in range(1, total + 1):
        shard = Shard(number, total)
        records = ShardReader(map(line_record, lines), shard)
        for place, (record, _) in enumerate(records.read()):
            assert record.text == str(shard.number_in_input(place))
            found.append(int(record.text))
        whole = ShardReader(map(line_record, lines))
        list(whole.read())
        assert records.progress == whole.progress  # the hash is of the whole input
    assert sorted(found) == list(range(n_lines))


@pytest.mark.parametrize("text", ["", "3", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "１/３", " 1/3"])
def test_what_is_no_shard_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="expected I/N, I from 1 to N, such as 3/16"):
        parse_shard(text)


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
@pytest.mark.parametrize("source", ["text", "text.fasta"])
@pytest.mark.parametrize("total", [1, 3, 12])
def test_shards_merged_or_read_as_one_are_what_one_run_writes(
    layout: str, source: str, total: int
) -> None:
    shards = embed_shards(source, total, layout=layout)[::-1]
    merge_shards("merged", shards)
    embed(source, "whole", layout=layout)
    assert_equal("merged", "whole")
    with open_activations(*shards) as shared, open_activations("whole") as whole:
        assert len(shared) == len(whole)
        in_order = layout == "packed" or source == "text"
        for number, (record, values) in enumerate(whole.records()):
            place = number if in_order else shared.number_of(record.id or "")
            np.testing.assert_allclose(shared[place], values, atol=1e-6)
            assert shared.key(place) == record.id
            assert (shared.sentence(place) == record.text) or (layout, source) != ("packed", "text")
            name = record.id or record.text
            if name:
                assert not in_order or shared.number_of(name) == whole.number_of(name)
        if in_order:
            for values, expected in zip(shared, whole, strict=True):
                np.testing.assert_allclose(values, expected, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"forget_sentences": True},
        {"dtype": "float16", "output_format": "top"},
        {"pooling": "mean", "compression": "gzip"},
        {"pooling": "max", "layout": "packed", "forget_sentences": True},
    ],
)
def test_shards_of_every_form_are_merged(settings: dict[str, Any]) -> None:
    merge_shards("merged", embed_shards("text", 3, **settings))
    embed("text", "whole", **settings)
    assert_equal("merged", "whole")


def test_datasets_may_be_named_by_their_sentence() -> None:
    Path("text").write_text("a b\n\nc / d\nc\n e\n")
    merge_shards("merged", embed_shards("text", 2, use_sentence_keys=True))
    with h5py.File("merged") as file:
        assert [file[name].shape[1] for name in ("a b", "c / d", "c", "e")] == [2, 3, 1, 1]
        assert file.attrs["input_records"] == "5"


def test_a_shard_is_read_by_its_own_numbers_and_its_datasets_have_those_of_the_input() -> None:
    for layout in ("allennlp", "packed"):
        embed("text", layout, shard="2/3", layout=layout)
        with open_activations(layout) as found:
            assert [found[n].shape[1] for n in range(len(found))] == [0, 2, 2]
            assert found.number_of("a bank") == 2
    with h5py.File("allennlp") as file:
        assert set(file) == {"1", "4", "7", "sentence_to_index"}


def test_what_another_run_has_begun_is_not_merged_into() -> None:
    shards = embed_shards("text", 2)
    with pytest.raises(StoppedError):
        embed("text", "merged", should_stop=lambda: True)
    with pytest.raises(OutputError, match=r"merged.partial is of an unfinished run; --overwrite"):
        merge_shards("merged", shards)
    merge_shards("merged", shards, overwrite=True)
    embed("text", "whole")
    assert_equal("merged", "whole")


def test_a_merge_that_was_killed_before_its_file_had_its_name_is_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards, replace = embed_shards("text", 2), os.replace

    def kill(source: Path, target: Path) -> None:
        if Path(target).name == "merged":
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", kill)
        with pytest.raises(KeyboardInterrupt):
            merge_shards("merged", shards)
    with pytest.raises(OutputError, match="merged exists already; --overwrite replaces it"):
        merge_shards("merged", shards)
    embed("text", "whole")
    assert_equal("merged", "whole")


def test_a_merge_that_is_stopped_leaves_nothing(folder: Path) -> None:
    shards = embed_shards("text", 2)
    with pytest.raises(StoppedError, match=r"^Stopped; nothing is written$"):
        merge_shards("merged", shards, should_stop=lambda: True)
    assert not list(folder.glob("merged*"))


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_a_shard_that_has_lost_records_is_refused(layout: str) -> None:
    shards = embed_shards("text", 3, layout=layout)
    with h5py.File("shard-3", "r+") as file:
        if layout == "packed":
            file["offsets"].resize(3, axis=0)
        else:
            del file["8"]
    with pytest.raises(InputError, match=r"^shard-3: the file is damaged: "):
        merge_shards("merged", shards)
    assert not Path("merged").exists()


def _lose(shards: list[str]) -> str:
    shards.remove("shard-2")
    return "shard-1: expected all 3 shards, each once, found 1/3, 3/3"


def _other_settings(shards: list[str]) -> str:
    embed("text", "shard-2", shard="2/3", output_format="top", overwrite=True)
    return "shard-2 does not fit to shard-1: layers is top, not all"


def _other_input(shards: list[str]) -> str:
    Path("text").write_text(TEXT + "more\n")
    embed("text", "shard-2", shard="2/3", overwrite=True)
    return "shard-2 does not fit to shard-1: input_records is 11, not 10"


def _unfinished(shards: list[str]) -> str:
    Path("shard-2").unlink()
    with pytest.raises(StoppedError):
        embed("text", "shard-2", shard="2/3", should_stop=lambda: True)
    return "shard-2: its run is not finished; give its command again"


@pytest.mark.parametrize("spoil", [_lose, _other_settings, _other_input, _unfinished])
def test_shards_that_do_not_make_one_output_are_refused(
    spoil: Callable[[list[str]], str], folder: Path
) -> None:
    shards = embed_shards("text", 3)
    message = spoil(shards)
    with pytest.raises(InputError, match=rf"^{message}"):
        merge_shards("merged", shards)
    assert not list(folder.glob("merged*"))


def test_a_shard_is_never_replaced() -> None:
    shards = embed_shards("text", 2)
    with pytest.raises(OutputError, match="is the input"):
        merge_shards("shard-1", shards, overwrite=True)


def test_a_shard_goes_on_after_an_interruption() -> None:
    asked = iter(range(100))
    with pytest.raises(StoppedError, match=r"Stopped after line 2; .* resumes after line 2$"):
        embed("text", "shard-2", shard="2/3", should_stop=lambda: next(asked) == 0)
    merge_shards("merged", embed_shards("text", 3))
    embed("text", "whole")
    assert_equal("merged", "whole")


def test_the_commands_do_it_from_a_stream() -> None:
    for number in (1, 2):
        result = elmo(
            *("embed", "-", f"s{number}", "--shard", f"{number}/2", "--model", TINY), stdin=TEXT
        )
        assert result.exit_code == 0
    embed("text", "whole")
    result = elmo("merge", "out", "s1", "s2")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "out: 2 shards, 10 records\n"
    assert_fails(elmo("merge", "out", "s1", "s2"), "out exists already; --overwrite replaces it")
    assert_fails(
        elmo("merge", "new", "whole"),
        "whole: expected a shard, as `elmo embed --shard` writes it",
    )
    message = "expected all 2 shards, each once, found 2/2, 2/2"
    assert_fails(elmo("merge", "new", "s2", "s2"), f"s2: {message}")
    assert elmo("merge", "new").exit_code == 2
    for output in ("new.jsonl", "-"):
        message = "expected a file of HDF5, as the shards are"
        assert_fails(elmo("merge", output, "s1", "s2"), f"{output}: {message}")
    for options, message in (
        (("3/2",), "shard '3/2': expected I/N, I from 1 to N, such as 3/16"),
        (
            ("1/2", "--state", "carry"),
            "--shard requires --state zero or warm: carried states need all lines in their order; "
            "leave out --shard",
        ),
    ):
        result = elmo("embed", "text", "new", "--model", TINY, "--shard", *options)
        assert_misused(result, message)
