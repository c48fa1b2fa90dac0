"""Shards of an input, and one output of all of them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from commands import TINY, assert_fails, assert_misused, elmo
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.errors import InputError, OutputError, StoppedError
from elmo_cli.outputs.convert_activations import convert_activations
from elmo_cli.outputs.merge import merge_shards
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.text.lines import Record, line_record
from elmo_cli.text.records import RunInput, Shard, parse_shard

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


def embed(source: str, output: str, **settings: Any) -> None:
    settings = {"overwrite": False, "skip_errors": True, **settings}
    ElmoEmbedder(model=TINY, batch_tokens=8).embed_file(source, output, **settings)


def embed_shards(source: str, total: int, **settings: Any) -> list[str]:
    shards = [f"shard-{number}" for number in range(1, total + 1)]
    for number, shard in enumerate(shards, start=1):
        embed(source, shard, shard=f"{number}/{total}", **settings)
    return shards


def assert_same(found: str, expected: str) -> None:
    """The same names, attributes, texts; values within 1e-6."""
    with h5py.File(found) as one, h5py.File(expected) as other:
        assert dict(one.attrs) == dict(other.attrs)
        assert set(one) == set(other)
        for name in other:
            if name == "sentence_to_index":
                assert json.loads(one[name][0]) == json.loads(other[name][0])
            else:
                np.testing.assert_allclose(one[name][()], other[name][()], atol=1e-6)
                assert dict(one[name].attrs) == dict(other[name].attrs)


@given(n_lines=st.integers(0, 40), total=st.integers(1, 9))
def test_every_record_is_in_one_shard(n_lines: int, total: int) -> None:
    lines = [str(number) for number in range(n_lines)]
    found = []
    for number in range(1, total + 1):
        shard = Shard(number, total)
        records = RunInput(map(line_record, lines), shard)
        for place, (record, _) in enumerate(records):
            assert record.text == str(shard.place(place))
            found.append(int(record.text))
        whole = RunInput(map(line_record, lines))
        list(whole)
        assert records.place == whole.place  # the hash is of the whole input
    assert sorted(found) == list(range(n_lines))


@pytest.mark.parametrize("text", ["", "3", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "１/３", " 1/3"])
def test_what_is_no_shard_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="expected I/N, I from 1 to N, such as 3/16"):
        parse_shard(text)


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
@pytest.mark.parametrize("source", ["text", "text.fasta"])
@pytest.mark.parametrize("total", [1, 3, 12])
def test_merged_shards_are_what_one_run_writes(layout: str, source: str, total: int) -> None:
    shards = embed_shards(source, total, layout=layout)
    merge_shards("merged", shards[::-1])
    embed(source, "whole", layout=layout)
    assert_same("merged", "whole")
    with open_activations("merged") as merged, open_activations("whole") as whole:
        assert len(merged) == len(whole)
        assert [merged.sentence(n) for n in range(len(merged))] == [
            *(whole.sentence(n) for n in range(len(whole)))
        ]


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
    assert_same("merged", "whole")


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


def assert_reads_same(found: str, expected: str) -> None:
    """The same records in every way to read them, and the same attributes."""
    with open_activations(found) as one, open_activations(expected) as other:
        assert one.attributes == other.attributes
        assert len(one) == len(other)
        for (record, values), (known, theirs) in zip(one.records(), other.records(), strict=True):
            np.testing.assert_allclose(values, theirs, atol=1e-6)
            assert record == known
        for number in range(len(one)):
            np.testing.assert_allclose(one[number], other[number], atol=1e-6)
            name = other.key(number) or other.sentence(number)
            if name:
                assert one.number_of(name) == other.number_of(name)


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
@pytest.mark.parametrize("source", ["text", "text.fasta"])
@pytest.mark.parametrize(
    ("total", "settings"), [(1, {}), (3, {"pooling": "mean", "output_format": "top"}), (12, {})]
)
def test_links_read_like_the_values(
    layout: str, source: str, settings: dict[str, Any], total: int, folder: Path
) -> None:
    (folder / "shards").mkdir()
    shards = embed_shards(source, total, layout=layout, **settings)
    for shard in shards:
        shutil.move(shard, "shards")
    merge_shards("merged", [f"shards/{shard}" for shard in shards], link=True)
    embed(source, "whole", layout=layout, **settings)
    assert_reads_same("merged", "whole")
    if layout == "allennlp":
        assert_same("merged", "whole")
    (folder / "elsewhere").mkdir()
    shutil.move("merged", "elsewhere")  # links are relative: all move together
    shutil.move("shards", "elsewhere")
    assert_reads_same("elsewhere/merged", "whole")
    other = "packed" if layout == "allennlp" else "allennlp"
    convert_activations("elsewhere/merged", "other.hdf5", layout=other)
    convert_activations("whole", "expected.hdf5", layout=other)
    assert_same("other.hdf5", "expected.hdf5")
    assert not list(folder.glob("**/*.partial*"))


def test_linked_rows_are_read_without_this_package() -> None:
    merge_shards("merged", embed_shards("text", 3, layout="packed"), link=True)
    embed("text", "whole")
    with h5py.File("merged") as merged, h5py.File("whole") as whole:
        assert set(merged) == {"activations", "ranges", "sentences", "sentence_ranges"}
        for number, line in enumerate(TEXT.splitlines()):
            start, end = merged["ranges"][number]
            values = np.moveaxis(merged["activations"][start:end], 0, 1)
            np.testing.assert_allclose(values, whole[str(number)], atol=1e-6)
            start, end = merged["sentence_ranges"][number]
            assert merged["sentences"][start:end].tobytes().decode() == line


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_a_shard_that_is_gone_or_another_is_named_and_never_read_as_zeros(
    layout: str, folder: Path
) -> None:
    (folder / "shards").mkdir()
    shards = [f"shards/{shard}" for shard in embed_shards("text", 3, layout=layout)]
    for shard in shards:
        shutil.move(Path(shard).name, shard)
    merge_shards("merged", shards, link=True)
    shutil.move("shards/shard-2", "away")
    gone = "^merged: links to shards/shard-2, and no such file is there; bring it back, or merge"
    with pytest.raises(InputError, match=gone), open_activations("merged") as merged:
        list(merged)
    Path("text").write_text("another input\n" * 10)
    embed("text", "shards/shard-2", shard="2/3", layout=layout)
    changed = r"^merged: links to \S*shards/shard-2, which has changed since; merge the"
    with pytest.raises(InputError, match=changed), open_activations("merged") as merged:
        list(merged)
    shutil.move("away", "shards/shard-2")
    with open_activations("merged") as merged:
        assert merged[1].shape == (3, 0, 32)
        assert merged[4].any()


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_a_file_of_links_is_known_again_and_not_added_to(
    layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    merge_shards("merged", embed_shards("text", 2, layout=layout), link=True)
    before = Path("merged").read_bytes()
    embed("text", "merged", layout=layout)  # the same: nothing to do
    Path("text").write_text(TEXT + "one more\n")
    with pytest.raises(OutputError, match=r"^merged is of links to shards and cannot be added to;"):
        embed("text", "merged", layout=layout, append=True)
    assert "Going on" not in caplog.text
    assert Path("merged").read_bytes() == before
    assert not Path("merged.partial").exists()


def test_datasets_that_are_named_by_their_sentence_are_not_linked() -> None:
    Path("text").write_text("a b\nc\n")
    shards = embed_shards("text", 2, use_sentence_keys=True)
    with pytest.raises(InputError, match="--link goes without --use-sentence-keys"):
        merge_shards("merged", shards, link=True)


class _Killed(BaseException):
    """What a kill is to the code that it ends."""


@pytest.mark.parametrize(
    ("way", "layout"), [("write", "allennlp"), ("write", "packed"), ("link", "allennlp")]
)
@pytest.mark.parametrize("source", ["text", "text.fasta"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_merge_goes_on_where_it_was_stopped(
    way: str, layout: str, source: str, is_killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.outputs.copied_records.CHECKPOINT_SECONDS", 0)
    shards = embed_shards(source, 3, layout=layout)
    embed(source, "whole", layout=layout)
    written: list[object] = []
    write = getattr(ActivationsWriter, way)

    stops = [2, 4]  # after so many records that are written

    def note(writer: ActivationsWriter, record: Record, what: Any) -> None:
        written.append(record)
        write(writer, record, what)
        if is_killed and len(written) in stops:
            raise _Killed

    monkeypatch.setattr(ActivationsWriter, way, note)
    for n_written in stops:

        def should_stop(n_written: int = n_written) -> bool:
            return len(written) == n_written

        with pytest.raises((StoppedError, _Killed)) as stopped:
            merge_shards("merged", shards, link=way == "link", should_stop=should_stop)
        assert is_killed or "Stopped after record" in str(stopped.value)
        assert not Path("merged").exists()
    merge_shards("merged", shards, link=way == "link")
    assert_same("merged", "whole")
    n_lost = len(stops) if is_killed else 0  # each before its checkpoint
    with open_activations("whole") as whole:
        assert len(written) == len(whole) + n_lost
    assert not list(Path().glob("*.partial*"))


def test_what_another_run_has_begun_is_not_merged_into() -> None:
    shards = embed_shards("text", 2)
    with pytest.raises(StoppedError):
        embed("text", "merged", should_stop=lambda: True)
    for link in (False, True):
        with pytest.raises(OutputError, match=r"merged.partial is of an unfinished run"):
            merge_shards("merged", shards, link=link)
    with pytest.raises(StoppedError):
        merge_shards("other", shards, should_stop=lambda: True)
    with pytest.raises(InputError, match=r"other.partial is of an unfinished run over another"):
        embed("text", "other")
    merge_shards("merged", shards, overwrite=True)
    embed("text", "other", overwrite=True)
    assert_same("merged", "other")


def test_links_to_packed_shards_that_are_stopped_leave_nothing(folder: Path) -> None:
    shards = embed_shards("text", 2, layout="packed")
    with pytest.raises(StoppedError, match=r"^Stopped; nothing is written$"):
        merge_shards("merged", shards, link=True, should_stop=lambda: True)
    assert not list(folder.glob("merged*"))


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_a_shard_that_has_lost_records_is_refused(layout: str) -> None:
    shards = embed_shards("text", 3, layout=layout)
    with h5py.File("shard-3", "r+") as file:
        if layout == "packed":
            file["offsets"].resize(3, axis=0)
        else:
            del file["8"]
    for link in (False, True):
        with pytest.raises(InputError, match=r"^shard-3: the file is damaged: "):
            merge_shards("merged", shards, link=link)
    assert not Path("merged").exists()


def _lose(shards: list[str]) -> str:
    shards.remove("shard-2")
    return "expected 3 shards, found 2: without 2/3"


def _double(shards: list[str]) -> str:
    shutil.copy("shard-2", "again")
    shards.append("again")
    return "again: shard 2/3 is there already, as shard-2"


def _other_settings(shards: list[str]) -> str:
    embed("text", "shard-2", shard="2/3", output_format="top", overwrite=True)
    return "shard-2 does not fit to shard-1: layers is top, not all"


def _other_input(shards: list[str]) -> str:
    Path("text").write_text(TEXT + "more\n")
    embed("text", "shard-2", shard="2/3", overwrite=True)
    return r"shard-2 does not fit to shard-1: input_records is 11, not 10, input_sha256 is \w+, not"


def _other_total(shards: list[str]) -> str:
    embed("text", "shard-2", shard="2/4", overwrite=True)
    return "shard-2 does not fit to shard-1: number of shards is 4, not 3"


def _unfinished(shards: list[str]) -> str:
    Path("shard-2").unlink()
    with pytest.raises(StoppedError):
        embed("text", "shard-2", shard="2/3", should_stop=lambda: True)
    return "shard-2: its run is not finished; give its command again"


def _whole(shards: list[str]) -> str:
    embed("text", "shard-2", overwrite=True)
    return "shard-2: expected a shard, as `elmo embed --shard` writes it"


def _gone(shards: list[str]) -> str:
    Path("shard-2").unlink()
    return "shard-2: no such file of activations"


@pytest.mark.parametrize(
    "spoil",
    [_lose, _double, _other_settings, _other_input, _other_total, _unfinished, _whole, _gone],
)
def test_shards_that_do_not_make_one_output_are_refused(
    spoil: Callable[[list[str]], str], folder: Path
) -> None:
    shards = embed_shards("text", 3)
    message = spoil(shards)
    for link in (False, True):
        with pytest.raises(InputError, match=rf"^{message}"):
            merge_shards("merged", shards, link=link)
    assert not list(folder.glob("merged*"))


def test_an_output_is_replaced_where_asked_only_and_never_a_shard() -> None:
    shards = embed_shards("text", 2)
    Path("merged").write_text("old")
    with pytest.raises(OutputError, match="merged exists already"):
        merge_shards("merged", shards)
    merge_shards("merged", shards, overwrite=True)
    embed("text", "whole")
    assert_same("merged", "whole")
    with pytest.raises(OutputError, match="is the input"):
        merge_shards("shard-1", shards, overwrite=True)


def test_a_merged_output_can_be_added_to() -> None:
    merge_shards("merged", embed_shards("text", 3))
    Path("text").write_text(TEXT + "one more\n")
    embed("text", "merged", append=True)
    embed("text", "whole")
    assert_same("merged", "whole")


def test_a_shard_goes_on_after_an_interruption_and_is_added_to() -> None:
    asked = iter(range(100))
    with pytest.raises(StoppedError, match="Stopped after line 5,"):
        embed("text", "shard-2", shard="2/3", should_stop=lambda: next(asked) == 1)
    shards = embed_shards("text", 3)
    Path("text").write_text(TEXT + "one more\nand more\n")
    with pytest.raises(OutputError, match="shard-3 exists already, of the first 10 lines"):
        embed("text", "shard-3", shard="3/3")
    embed_shards("text", 3, append=True)
    merge_shards("merged", shards)
    embed("text", "whole")
    assert_same("merged", "whole")


def test_the_commands_do_it_from_a_stream() -> None:
    for number in (1, 2):
        result = elmo(
            *("embed", "-", f"s{number}", "--shard", f"{number}/2", "--model", TINY), stdin=TEXT
        )
        assert result.exit_code == 0
    result = elmo("merge", "out", "s1", "s2")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "out: 2 shards, 10 records\n"
    assert_fails(elmo("merge", "out", "s1", "s2"), "out exists already; --overwrite replaces it")
    assert_fails(elmo("merge", "new", "s2"), "expected 2 shards, found 1: without 1/2")
    assert elmo("merge", "new").exit_code == 2
    for output in ("new.jsonl", "-"):
        message = "shards are merged to a file of HDF5; `elmo convert` makes other formats of it"
        assert_fails(elmo("merge", output, "s1", "s2"), f"{output}: {message}")
    for options, message in (
        (("3/2",), "shard '3/2': expected I/N, I from 1 to N, such as 3/16"),
        (
            ("1/2", "--state", "carry"),
            "--shard goes with --state zero or warm: carried states need all lines in their order; "
            "embed them without --shard",
        ),
    ):
        result = elmo("embed", "text", "new", "--model", TINY, "--shard", *options)
        assert_misused(result, message)


def test_what_many_shards_lack_is_not_listed_in_full() -> None:
    embed("text", "one", shard="3/1000")
    with pytest.raises(
        InputError, match=r"without 1/1000, 2/1000, 4/1000, 5/1000, 6/1000 and 994 more$"
    ):
        merge_shards("merged", ["one"])
