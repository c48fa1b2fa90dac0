"""Outputs, shards and unfinished runs that are damaged: one line of error, and nothing half done.

Single cases, most of them found with fuzz.py, and a few of each kind; see hostile_runs.py.
"""

import hashlib
import json
import os
import re
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from commands import TINY, elmo, without_size
from fuzz import run
from hostile_runs import RUN_TARGETS

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.errors import InputError, StoppedError
from elmo_cli.outputs.checkpointed_file import CheckpointedFile

TEXT = "the cat\n\nsat on the mat\na b\nbirds\n"
Change = Callable[[h5py.File], object]

layouts = pytest.mark.parametrize("layout", ["allennlp", "packed"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where commands run, with a text."""
    monkeypatch.chdir(tmp_path)
    Path("text").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize("name", RUN_TARGETS)
def test_damaged_files_of_runs_end_in_an_error_of_ours_or_are_read(name: str) -> None:
    assert run(RUN_TARGETS[name], 0, 8) == {}


def embed(output: str, **settings: Any) -> None:
    settings = {"overwrite": False, **settings}
    ElmoEmbedder(model=TINY, batch_tokens=8).embed_file("text", output, **settings)


def change(path: str, *changes: Change) -> None:
    with h5py.File(path, "r+") as file:
        for one in changes:
            one(file)


def replace(name: str, values: Any) -> Change:
    def act(file: h5py.File) -> None:
        del file[name]
        file[name] = values

    return act


def set_attribute(name: str, value: Any) -> Change:
    return lambda file: file.attrs.__setitem__(name, value)


def delete(name: str) -> Change:
    return lambda file: file.__delitem__(name)


def assert_one_line(message: str, *arguments: str) -> None:
    """The command ends with status 1 and one line that has this in it."""
    result = elmo(*arguments, *(("--model", TINY, "-q") if arguments[0] == "embed" else ()))
    errors = without_size(result.stderr)
    assert (result.exit_code, errors.count("\n")) == (1, 1), (result.stderr, result.exception)
    assert message in errors
    assert "Traceback" not in errors


# Shards.


def shards(layout: str) -> tuple[str, str]:
    embed("s1", shard="1/2", layout=layout)
    embed("s2", shard="2/2", layout=layout)
    return "s1", "s2"


def index(**texts: str) -> Any:
    return np.array([json.dumps(texts)], h5py.string_dtype())


ALLENNLP: list[tuple[Change, str]] = [
    (delete("2"), "expected 3 records, found 2"),
    (lambda file: file.move("2", "6"), "there is no 2"),
    (replace("2", np.zeros((3, 5, 32), "f4")), "expected 4 tokens for line 3, found 5"),
    (replace("2", np.zeros((3, 4, 16), "f4")), "does not go with the first record's"),
    (replace("2", np.zeros((3, 4, 32), "f8")), "/2 has float64 values"),
    (replace("2", np.zeros((3, 4, 32), "i4")), "/2 has int32 values"),
    (replace("2", h5py.ExternalLink("pipe", "2")), "links to pipe, and no such file is there"),
    (replace("2", h5py.SoftLink("/2")), "too many links"),
    (replace("sentence_to_index", index(a="99")), "names the dataset '99'"),
    (replace("sentence_to_index", index(a="1")), "names the dataset '1'"),
    (replace("sentence_to_index", np.array(["[]"], h5py.string_dtype())), "something else"),
    (set_attribute("shard", "1/999999999"), "number of shards is 2, not 999999999"),
    (set_attribute("records", "4"), "expected 4 records, found 3"),
    (set_attribute("skipped", '{"2": "fault"}'), "expected 0 tokens for line 3, found 4"),
    (set_attribute("dtype", "float64"), "expected its dtype to be float32 or float16"),
    (set_attribute("sentence_keys", "maybe"), "expected its sentence_keys to be True or False"),
    (set_attribute("layout", "rows"), "its layout is 'rows'"),
]
PACKED: list[tuple[Change, str]] = [
    (lambda file: file["offsets"].resize(3, 0), "offsets end at"),
    (lambda file: file["offsets"].__setitem__(1, 7), "offsets that fall"),
    (lambda file: file["offsets"].__setitem__(1, 1), "expected 2 tokens for line 1, found 1"),
    (lambda file: file["activations"].resize(9, 0), "offsets end at 7, of 9"),
    (lambda file: file["activations"].resize(2**60, 0), "offsets end at 7"),
    (lambda file: file["sentences"].__setitem__(0, ord("T")), "the sentences of all shards"),
    (lambda file: file["sentences"].__setitem__(0, 255), "can't decode byte"),
    (replace("offsets", np.zeros(4, "f4")), "/offsets has float32 values"),
    (replace("activations", h5py.ExternalLink("pipe", "x")), "activations is a link"),
    (replace("activations", np.zeros((7, 3, 32), "f8")), "expected float32, found float64"),
    (delete("offsets"), "offsets"),
]


@pytest.mark.parametrize(("spoil", "message"), ALLENNLP)
@pytest.mark.parametrize("way", [(), ("--link",)])
def test_a_damaged_shard_is_not_merged(
    spoil: Change, message: str, way: tuple[str, ...], folder: Path
) -> None:
    os.mkfifo("pipe")
    names = shards("allennlp")
    change("s1", spoil)
    assert_one_line(message, "merge", "merged", *names, *way)
    assert not list(folder.glob("merged*"))


@pytest.mark.parametrize(("spoil", "message"), PACKED)
def test_a_damaged_packed_shard_is_not_merged(spoil: Change, message: str, folder: Path) -> None:
    os.mkfifo("pipe")
    names = shards("packed")
    change("s1", spoil)
    assert_one_line(message, "merge", "merged", *names)
    assert not list(folder.glob("merged*"))


def test_an_id_is_that_of_its_header() -> None:
    Path("x.fasta").write_text(">a 1\nMV\n>b 2\nM\n")
    for number in (1, 2):
        ElmoEmbedder(model=TINY).embed_file("x.fasta", f"s{number}", shard=f"{number}/2")
    change("s1", lambda file: file.move("a", "c"))
    for way in ((), ("--link",)):
        assert_one_line("the header of 'c', found 'a 1'", "merge", "merged", "s1", "s2", *way)


@layouts
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_shard_that_is_cut_off_is_not_merged(layout: str, share: float, folder: Path) -> None:
    names = shards(layout)
    os.truncate("s2", int(share * os.path.getsize("s2")))
    assert_one_line("s2", "merge", "merged", *names)
    assert not list(folder.glob("merged*"))


def test_values_that_lie_in_other_files_are_not_read(folder: Path) -> None:
    os.mkfifo("pipe")

    def borrow(file: h5py.File) -> None:
        del file["2"]
        file.create_dataset("2", (3, 4, 32), "f4", external=[("pipe", 0, 3 * 4 * 32 * 4)])

    names = shards("allennlp")
    change("s1", borrow)
    assert_one_line("/2 has values of another file", "merge", "merged", *names)
    with pytest.raises(InputError, match="/2 has values of another file"):
        list(open_activations("s1"))


def test_the_number_of_shards_may_be_any() -> None:
    names = shards("allennlp")
    change("s1", set_attribute("shard", "1/999999999"))
    message = "expected 999,999,999 shards, found 1: without 2/999999999, 3/999999999,"
    assert_one_line(message, "merge", "merged", names[0])


def test_merging_by_links_leaves_an_unfinished_run_alone() -> None:
    names = shards("allennlp")
    with pytest.raises(StoppedError):
        embed("merged", should_stop=lambda: True)
    kept = Path("merged.partial").read_bytes()
    assert_one_line("merged.partial is of an unfinished run", "merge", "merged", *names, "--link")
    assert Path("merged.partial").read_bytes() == kept


def test_ids_may_be_the_name_of_the_index() -> None:
    Path("x.fasta").write_text(">sentence_to_index\nMV\n>b\nM\n")
    for number in (1, 2):
        ElmoEmbedder(model=TINY).embed_file("x.fasta", f"s{number}", shard=f"{number}/2")
    for way in ((), ("--link",)):
        assert elmo("merge", "merged", "s1", "s2", *way, "--overwrite").exit_code == 0
        with open_activations("merged") as found:
            assert found["sentence_to_index"].shape == (3, 2, 32)
            assert len(found) == 2


# Unfinished runs.


def stop(output: str, **settings: Any) -> None:
    asked = iter(range(9))
    with pytest.raises(StoppedError):
        embed(output, should_stop=lambda: next(asked) == 2, **settings)


def spoil_signature(path: Path) -> None:
    path.write_bytes(b"x" + path.read_bytes()[1:])


def spoil_structures(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:200] + b"\xff" * 2000 + content[2200:])


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def take_another(path: Path) -> None:
    """The unfinished output of a run that has come less far, as from a backup."""
    log = path.with_name(f"{path.name}.log")
    kept = log.read_bytes()
    size = path.stat().st_size
    path.unlink()
    log.unlink()
    layout = "packed" if path.name.startswith("packed") else "allennlp"
    with pytest.raises(StoppedError):
        embed(path.name.removesuffix(".partial"), should_stop=lambda: True, layout=layout)
    os.truncate(path, max(size, path.stat().st_size))
    log.write_bytes(kept)


@layouts
@pytest.mark.parametrize("spoil", [spoil_signature, spoil_structures, cut_off, take_another])
def test_a_damaged_unfinished_output_is_named_and_without_it_the_run_starts_anew(
    layout: str, spoil: Callable[[Path], None], folder: Path
) -> None:
    stop(layout, layout=layout)
    embed("whole", layout=layout)
    partial = Path(f"{layout}.partial")
    spoil(partial)
    message = f"{partial} is cut off" if spoil is cut_off else "the unfinished output is damaged"
    for overwrite in ((), ("--overwrite",)):
        assert_one_line(message, "embed", "text", layout, "--layout", layout, *overwrite)
        assert not Path(layout).exists()
    partial.unlink()
    embed(layout, layout=layout)
    assert {path.name for path in folder.iterdir()} == {"text", "whole", layout}
    with open_activations(layout) as found, open_activations("whole") as whole:
        assert [values.tolist() for values in found] == [values.tolist() for values in whole]


def test_an_unfinished_run_cannot_claim_rows_larger_than_its_memory(folder: Path) -> None:
    stop("out", layout="packed")
    partial = Path("out.partial")
    size = partial.stat().st_size

    def claim(file: h5py.File) -> None:
        n_rows = len(file["activations"])
        del file["activations"]
        shape = (3, 1 << 40)
        file.create_dataset(
            "activations", (n_rows, *shape), "f4", chunks=(1, 3, 8), maxshape=(None, *shape)
        )

    change(str(partial), claim)
    os.truncate(partial, max(size, partial.stat().st_size))
    message = "the unfinished output is damaged: rows of"
    assert_one_line(message, "embed", "text", "out", "--layout", "packed")
    assert not Path("out").exists()


def test_a_log_that_outlives_its_run_is_no_unfinished_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the two: the file has its name, and its log is not removed."""
    finish = CheckpointedFile.finish

    def keep_log(self: CheckpointedFile, final: Path) -> None:
        shutil.copy(self.log, "log")
        finish(self, final)
        shutil.move("log", self.log)

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointedFile, "finish", keep_log)
        embed("out")
    assert Path("out.partial.log").exists()
    embed("out")
    assert {path.name for path in folder.iterdir()} == {"text", "out"}


@pytest.mark.parametrize("states", ["x", "", "UEsDBA==", "5" * 400])
def test_damaged_carried_states_are_named(states: str) -> None:
    with pytest.raises(StoppedError):
        ElmoEmbedder(model=TINY, state="carry").embed_file(
            "text", "out", batch_size=1, should_stop=lambda: True
        )
    log = Path("out.partial.log")
    body = log.read_bytes().partition(b"\n")[2]
    body = re.sub(rb'"npz": "[^"]+"', b'"npz": "' + states.encode() + b'"', body)
    log.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    message = "out.partial.log: the states in it are damaged: "
    assert_one_line(message, "embed", "text", "out", "--state", "carry", "--batch-size", "1")


# Finished outputs.


@layouts
def test_a_damaged_output_is_not_added_to(layout: str, folder: Path) -> None:
    embed("out", layout=layout)
    content = bytearray(Path("out").read_bytes())
    Path("text").write_text(TEXT + "more\n")
    for name, message in {
        "superblock": "out exists already; --overwrite replaces it",
        "records": "out exists already; --overwrite replaces it",
    }.items():
        Path("out").write_bytes(content)
        if name == "superblock":
            Path("out").write_bytes(b"x" + content[1:])
        else:
            change("out", delete("2" if layout == "allennlp" else "offsets"))
        before = Path("out").read_bytes()
        assert_one_line(message, "embed", "text", "out", "--layout", layout, "--append")
        assert Path("out").read_bytes() == before
        assert {path.name for path in folder.iterdir()} == {"text", "out"}
    assert elmo("embed", "text", "out", "--model", TINY, "--overwrite").exit_code == 0


@layouts
def test_a_damaged_output_is_not_converted(layout: str, folder: Path) -> None:
    embed("out", layout=layout)
    name = "2" if layout == "allennlp" else "activations"
    shape = (2**60, 3, 32) if layout == "packed" else (3, 2**60, 32)

    def claim(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, shape, "f4", chunks=(1, 1, 32), compression="gzip")

    change("out", claim)
    for target in ("new.hdf5", "new.npz", "new.jsonl", "new.tsv", "new.safetensors"):
        assert_one_line("out: the file is damaged: ", "convert", "out", target)
    assert {path.name for path in folder.iterdir()} == {"text", "out"}


def assert_little_memory(read: Callable[[], object], message: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=message):
        read()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KB


MOST = b"\xf0\xff\xff\xff"
"""The length that a string can claim."""


def test_a_string_that_claims_more_than_the_file_takes_no_memory() -> None:
    embed("out")
    with h5py.File("out") as file:
        offset = file["sentence_to_index"].id.get_offset()
    content = bytearray(Path("out").read_bytes())
    content[offset : offset + 4] = MOST
    Path("out").write_bytes(content)
    with open_activations("out") as found:
        assert_little_memory(lambda: found.number_of("the cat"), "a string that is not there")


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_an_attribute_that_claims_more_than_the_file_takes_no_memory(layout: str) -> None:
    Path("x.fasta").write_text(f">id {'x' * 50}\nMV\n")
    ElmoEmbedder(model=TINY).embed_file("x.fasta", "out", layout=layout)
    with h5py.File("out") as file:
        lengths = {name: len(text) for name, text in file.attrs.items() if len(text) > 30}
    whole = Path("out").read_bytes()

    def claim(name: str, length: int) -> None:
        content = bytearray(whole)
        at = content.index(length.to_bytes(4, "little"), content.index(name.encode() + b"\0") + 8)
        content[at : at + 4] = MOST
        Path("out").write_bytes(content)

    assert {"weights_sha256", "input_sha256"} <= lengths.keys()
    for name, length in lengths.items():
        claim(name, length)
        assert_little_memory(lambda: open_activations("out"), "longer than the file")
    if layout == "allennlp":
        claim("original_id", 53)
        with open_activations("out") as found:
            assert_little_memory(lambda: list(found.records()), "longer than the file")
