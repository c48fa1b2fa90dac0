"""Files of both layouts, read back, and shards that are read as one."""

import copy
import os
import pickle
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from elmo_cli import ElmoEmbedder, open_activations, open_occurrences
from elmo_cli.errors.exceptions import InputError, StoppedError
from elmo_cli.options.shard import Shard
from elmo_cli.records.progress import ShardReader
from elmo_cli.records.record import Record
from tests.support import runs
from tests.support.golden import GOLDEN, Golden
from tests.support.layouts import (
    Corpus,
    assert_holds,
    corpora,
    layouts,
    line_record,
    lines,
    write,
)


@layouts
@given(corpus=corpora())
def test_what_is_written_is_read(
    layout: str, corpus: Corpus, tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("file") / "out.hdf5"
    write(corpus, path, layout)
    has_ids = corpus.attributes["format"] == "fasta"
    assert_holds(path, corpus, in_order=layout == "packed" or not has_ids)
    assert [file.name for file in path.parent.iterdir()] == ["out.hdf5"]


@pytest.mark.parametrize("layers", ["all", "top", "average"])
def test_the_files_of_allennlp_are_read(golden: Golden, layers: str) -> None:
    path = golden.folder / f"allennlp-{layers}.hdf5"
    with open_activations(path) as activations, h5py.File(path) as file:
        assert len(activations) == len(golden.sentences)
        for index, sentence in enumerate(golden.sentences):
            assert_array_equal(activations[index], file[str(index)][()])
            assert activations[" ".join(sentence)].shape == activations[index].shape


@layouts
def test_numbers_slices_and_sentences(layout: str, tmp_path: Path) -> None:
    write(lines("a", "b", "a", "c"), tmp_path / "out", layout)
    with open_activations(tmp_path / "out") as activations:
        assert_array_equal(activations[np.int64(1)], np.full((2, 1, 3), 1))
        for which in (
            slice(1, 3),
            slice(None, None, -1),
            slice(-3, None, 2),
            slice(3, 1),
        ):
            numbers = [int(values[0, 0, 0]) for values in activations[which]]
            assert numbers == [0, 1, 2, 3][which]
        assert "a" in activations
        assert "d" not in activations
        assert 1 not in activations
        assert activations.index_of("a") == 2
        assert activations.sentence(-1) == "c"
        with pytest.raises(KeyError, match="'d'"):
            activations["d"]
        for number in (4, -5):
            problem = rf"^record {number}: .*out has 4 records, 0 to 3$"
            with pytest.raises(IndexError, match=problem):
                activations[number]
        with pytest.raises(TypeError):
            activations["a":"c"]
        for wrong in (None, 1.0, [0], b"a"):
            with pytest.raises(TypeError, match=r"^index: expected a whole number"):
                activations[wrong]  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=r"found the string 'a'\. Use index_of"):
            activations.sentence("a")  # type: ignore[arg-type]


@pytest.mark.parametrize("split", [False, True])
@layouts
def test_tokens_have_their_characters(
    layout: Any, split: bool, tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    if split:
        pytest.importorskip("sentencex")
    text = "It isn’t — “so…” He left. – No."
    source = tmp_path / "text.txt"
    source.write_text(f"{text}\n", encoding="utf-8")
    output = tmp_path / "out.hdf5"
    tiny.embed_file(
        source, output, tokenizer="moses", layout=layout, split_sentences=split
    )
    expected = ["It", "isn", "’t", "—", "“", "so", "…", "”", "He", "left", "."]
    expected += ["–", "No", "."]
    found: list[str] = []
    with open_activations(output) as activations:
        for number in range(len(activations)):
            sentence = activations.sentence(number) or ""
            for start, end in activations.offsets(number) or []:
                found.append(sentence[start:end])
    assert found == expected


def test_characters_of_tokens_need_the_sentence_and_the_tokens(
    tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    source = tmp_path / "table.jsonl"
    source.write_text('{"id": "a", "text": "The cat."}\n')
    output = tmp_path / "out.hdf5"
    # AllenNLP's layout has no sentences of records with ids.
    tiny.embed_file(source, output)
    with open_activations(output) as activations:
        assert activations.offsets(0) is None
    tiny.embed_file(source, output, layout="packed", overwrite=True)
    with open_activations(output) as activations:
        assert activations.offsets(0) == [(0, 3), (4, 7), (7, 8)]


def test_sentences_as_names_are_sentences(tmp_path: Path) -> None:
    write(lines("b c", "a / b", "d"), tmp_path / "out", use_sentence_keys=True)
    with open_activations(tmp_path / "out") as activations:
        assert len(activations) == 3
        assert int(activations["a / b"][0, 0, 0]) == 1
        assert {activations.sentence(i) for i in range(3)} == {"a / b", "b c", "d"}
        assert activations.id(0) is None


def test_texts_of_one_hash_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lines("a", "b", "a", "c"), tmp_path / "out", "packed")
    monkeypatch.setattr(
        "elmo_cli.outputs.hdf5_packed.hash", lambda text: 7, raising=False
    )
    with open_activations(tmp_path / "out") as activations:
        assert activations.index_of("a") == 2
        assert activations.index_of("b") == 1
        assert activations.index_of("c") == 3
        assert "d" not in activations


def test_many_records_of_a_packed_file_are_read_in_blocks(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    some = random.integers(0, 4, 2500)
    more = random.integers(0, 4, 100)
    records = []
    values = []
    for index, length in enumerate([*some, 5000, 0, *more]):
        records.append(Record(f"line {index}", ["t"] * length))
        vectors = random.normal(size=(length, 64))
        values.append(vectors.astype(np.float32))
    write(Corpus(records, values, {"layers": "top"}), tmp_path / "out", "packed")
    with open_activations(tmp_path / "out") as activations:
        for which in (slice(None), slice(900, 2600)):
            for array, expected in zip(activations[which], values[which], strict=True):
                assert_array_equal(array, expected)
        assert activations.index_of("line 2501") == 2501


@layouts
def test_a_reader_is_pickled_copied_and_forked(layout: str, tmp_path: Path) -> None:
    write(lines("a", "b"), tmp_path / "out", layout)
    with open_activations(tmp_path / "out") as activations:
        for copied in (pickle.loads(pickle.dumps(activations)), copy.copy(activations)):
            with copied:
                assert_array_equal(copied["b"], activations["b"])
        assert int(activations["b"][0, 0, 0]) == 1
        child = os.fork()
        if child == 0:
            os._exit(int(activations["b"][0, 0, 0]) + 6)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        assert int(activations["b"][0, 0, 0]) == 1


def test_blank_lines_without_datasets_are_no_damage(tmp_path: Path) -> None:
    write(lines("a b", "", "c"), tmp_path / "out", use_sentence_keys=True)
    with open_activations(tmp_path / "out") as activations:
        assert len(activations) == 2
        assert activations.attributes["records"] == 3
        assert activations.index_of("c") == 1


def numbers_of(activations: Iterable[NDArray[Any]]) -> list[int]:
    """Return the number that is each value of a record's array; see `lines`."""
    return [int(values[0, 0, 0]) for values in activations]


@layouts
def test_several_files_are_read_as_one(layout: str, tmp_path: Path) -> None:
    write(lines("a", "b", "c"), tmp_path / "part-1", layout)
    write(lines(), tmp_path / "part-2", layout)
    write(lines("c", "d"), tmp_path / "part-3", layout)
    with open_activations(tmp_path / "part-*") as activations:
        names = [Path(path).name for path in activations.paths]
        assert names == ["part-1", "part-2", "part-3"]
        sentences = [activations.sentence(number) for number in range(5)]
        assert sentences == ["a", "b", "c", "c", "d"]
        assert [record.text for record, _ in activations.records()] == sentences
        assert numbers_of(activations) == [0, 1, 2, 0, 1]
        assert numbers_of(activations[1:5:2]) == [1, 0]
        assert activations.index_of("c") == 3
        assert activations.index_of("a") == 0
        with pickle.loads(pickle.dumps(activations)) as copied:
            assert numbers_of(copied) == [0, 1, 2, 0, 1]
            assert int(copied[-1][0, 0, 0]) == 1


@layouts
def test_files_of_two_runs_are_refused(layout: str, tmp_path: Path) -> None:
    write(lines("a", "b", "c"), tmp_path / "part-1", layout)
    write(Corpus([], [], {"layers": "top"}), tmp_path / "part-4", layout)
    message = (
        r"part-4 cannot be read together: layers is .*part-4 again with "
        r"layers='0,1'\.$"
    )
    with pytest.raises(InputError, match=message):
        open_activations(tmp_path / "part-*")
    with pytest.raises(InputError, match=r"gone-\* .*: no such file$"):
        open_activations(tmp_path / "gone-*", tmp_path / "none-*")


@pytest.mark.parametrize("open_files", [open_activations, open_occurrences])
def test_at_least_one_path_is_required(open_files: Callable[[], object]) -> None:
    message = "^paths: expected at least one file, found none$"
    with pytest.raises(InputError, match=message):
        open_files()


EXPECTED = (
    "expected HDF5 from `elmo embed` or `elmo occurrences`, or a folder from "
    "`elmo distribute`"
)
FOUND = "expected activations, as `elmo embed` writes them, found"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", "no such file"),
        (
            "text",
            f"{EXPECTED}. If it is a text, embed it first: `elmo embed text "
            "vectors.hdf5`.",
        ),
        (
            "text.hdf5",
            f"{EXPECTED}, found another or a damaged file. Copy it again, or run its "
            "command again.",
        ),
        ("folder", f"{EXPECTED}, found another folder. Name a file in it."),
        ("weights", f"{FOUND} CNN, CNN_high_0, CNN_high_1, CNN_proj, RNN_0"),
        ("empty", f"{FOUND} nothing"),
    ],
)
def test_other_files_are_refused(name: str, message: str, folder: Path) -> None:
    Path("text").write_text("a line\n")
    Path("text.hdf5").write_text("a line\n")
    Path("folder").mkdir()
    Path("weights").symlink_to(GOLDEN / "relu" / "weights.hdf5")
    h5py.File("empty", "w").close()
    with pytest.raises(InputError) as caught:
        open_activations(name)
    assert str(caught.value) == f"{name}: {message}"


@layouts
def test_a_damaged_heap_of_names_is_damage(layout: str, tmp_path: Path) -> None:
    path = tmp_path / "out.hdf5"
    write(lines("the cat", "a bank"), path, layout)
    content = bytearray(path.read_bytes())
    free_list = content.index(b"HEAP") + 16
    content[free_list : free_list + 8] = b"\xee" * 8
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"the file is damaged: .*free list"):
        open_activations(path)


@pytest.mark.parametrize(
    ("position", "content", "reason"),
    [
        (0, b"\x1f", "Unable to .*unknown datatype class"),
        (16, b"\xff\xff\xff\x0f", "Insufficient precision"),
        (32, b"\x77", "Unable to .*bad version number for fill value message"),
    ],
)
def test_a_damaged_dataset_is_damage(
    position: int, content: bytes, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "sentence-keys.hdf5"
    with h5py.File(path, "w") as file:
        file["a cat"] = np.ones((2, 3), np.float32)
    damaged = bytearray(path.read_bytes())
    float32 = bytes.fromhex("11201f000400000000002000170800177f000000")
    start = damaged.index(float32) + position  # of the description of the dataset
    damaged[start : start + len(content)] = content
    path.write_bytes(damaged)
    with (
        pytest.raises(InputError, match=rf"hdf5: the file is damaged: {reason}"),
        open_activations(path) as activations,
    ):
        list(activations)


@pytest.mark.parametrize("attributes", [{}, {"layers": "all", "records": 1}])
@pytest.mark.parametrize("name", [b"caf\xe9", b"a/caf\xe9"])
@pytest.mark.parametrize("shape", [(2, 3), (3,)])
def test_a_name_that_is_not_utf8_is_damage(
    shape: tuple[int, ...], name: bytes, attributes: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "out.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset(name, shape, "f4")
        file.attrs.update(attributes)
    with (
        pytest.raises(InputError, match=r"/out\.hdf5: "),
        open_activations(path) as activations,
    ):
        list(activations)


@layouts
def test_a_truncated_file_is_damaged(layout: str, tmp_path: Path) -> None:
    write(lines(*"abcdefgh"), tmp_path / "out", layout)
    content = (tmp_path / "out").read_bytes()
    for length in range(100, len(content), len(content) // 9):
        (tmp_path / "out").write_bytes(content[:length])
        with (
            pytest.raises(InputError, match=r"/out: "),
            open_activations(tmp_path / "out") as file,
        ):
            list(file)


@layouts
def test_a_file_that_was_closed_is_reported(layout: str, tmp_path: Path) -> None:
    write(lines("a", "b", "c"), tmp_path / "out.hdf5", layout)
    with open_activations(tmp_path / "out.hdf5") as activations:
        assert len(list(activations)) == 3
    problem = r"out.hdf5: the file is closed. Open it again\.$"
    with pytest.raises(InputError, match=problem):
        list(activations)
    with pytest.raises(InputError, match=problem):
        activations[0]
    with pytest.raises(InputError, match=problem):
        activations.sentence(0)


def test_attributes_have_their_types(tmp_path: Path) -> None:
    record = Record("", ["a", "b"], "8", {"line_index": 3, "original_id": "8"})
    attributes = {"gamma": "0.5", "normalize": "True", "model": "8", "format": "fasta"}
    zeros = np.zeros((3, 2, 4), np.float32)
    write(Corpus([record], [zeros], attributes), tmp_path / "out")
    with open_activations(tmp_path / "out") as activations:
        assert activations.attributes["records"] == 1
        assert activations.attributes["gamma"] == 0.5
        assert activations.attributes["normalize"] is True
        assert activations.attributes["model"] == "8"
        [(read, _)] = activations.records()
    assert read.attributes == {"line_index": 3, "original_id": "8"}
    assert read.line == 4


@layouts
def test_the_line_of_older_files_is_read_as_its_index(
    tmp_path: Path, layout: str
) -> None:
    record = Record("a b", ["a", "b"], attributes={"line": 3})
    attributes = {"split_sentences": "True"}
    values = np.zeros((3, 2, 4), np.float32)
    corpus = Corpus([record], [values], attributes)
    write(corpus, tmp_path / "out", layout=layout)
    with open_activations(tmp_path / "out") as activations:
        [(read, _)] = activations.records()
    assert read.attributes == {"line_index": 3}
    assert read.line == 4


def test_attributes_of_other_programs_have_types_of_python(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "out", "w") as file:
        file.attrs["format"] = "fasta"
        file.attrs["size"] = 8
        file.attrs["is_long"] = np.False_
        file["a"] = np.zeros((3, 1, 4), np.float32)
        file["a"].attrs["length"] = np.int64(8)
        file["a"].attrs["known"] = np.False_
        file["a"].attrs["name"] = "8"
    with open_activations(tmp_path / "out") as activations:
        attributes = activations.attributes
        assert attributes == {"format": "fasta", "size": 8, "is_long": False}
        [(record, _)] = activations.records()
    assert record.attributes == {"length": 8, "known": False, "name": "8"}
    assert type(record.attributes["length"]) is int
    assert type(record.attributes["known"]) is bool
    assert type(record.attributes["name"]) is str


embed = partial(runs.embed, skip_errors=True, checkpoint_tokens=1)

TEXT = """\
The cat sat

a bank
the river bank
a bank
birds sang

a bank
the cat sat
x y
"""
FASTA = b">a 1\nMV\n>b 2\nM\n>c 3\n\n>a 4\nM\n>e 5\nKK\xff\n>f 6\nMKV\n>g 7\nM\n"


pytestmark = pytest.mark.usefixtures("text_files")


@pytest.fixture
def text_files(folder: Path) -> None:
    """Write a text and FASTA into the current folder."""
    Path("text").write_text(TEXT)
    Path("text.fasta").write_bytes(FASTA)


def embed_shards(source: str, total: int, **settings: Any) -> list[str]:
    """Embed all shards into files, and return their names."""
    names = []
    for number in range(1, total + 1):
        name = f"shard-{number}"
        embed(source, name, shard=f"{number}/{total}", **settings)
        names.append(name)
    return names


@given(n_lines=st.integers(0, 40), total=st.integers(1, 9))
def test_every_record_is_in_one_shard(n_lines: int, total: int) -> None:
    lines = [str(number) for number in range(n_lines)]
    numbers = []
    for number in range(1, total + 1):
        shard = Shard(number, total)
        records = ShardReader(map(line_record, lines), shard)
        for index, (record, _, _) in enumerate(records.read()):
            assert record.text == str(shard.index_in_input(index))
            numbers.append(int(record.text))
        whole = ShardReader(map(line_record, lines))
        list(whole.read())
        assert records.progress == whole.progress  # the hash is of the whole input
    assert sorted(numbers) == list(range(n_lines))


@layouts
@pytest.mark.parametrize(("source", "total"), [("text", 11), ("text.fasta", 3)])
def test_shards_read_as_one_equal_the_output_of_a_run(
    layout: str, source: str, total: int
) -> None:
    problem = r"Stopped after (line|sequence) 2\. .* after \w+ 2\.$"
    with pytest.raises(StoppedError, match=problem):
        embed(
            source,
            "shard-2",
            layout=layout,
            shard=f"2/{total}",
            should_stop=runs.stop_after(1),
        )
    shards = embed_shards(source, total, layout=layout)
    shards.reverse()
    embed(source, "whole", layout=layout)
    with open_activations(*shards) as shared, open_activations("whole") as whole:
        assert len(shared) == len(whole)
        in_order = layout == "packed" or source == "text"
        for number, (record, values) in enumerate(whole.records()):
            index = number if in_order else shared.index_of(record.id or "")
            assert_allclose(shared[index], values, atol=1e-6)
            assert shared.id(index) == record.id
            if layout == "packed" and source == "text":
                assert shared.sentence(index) == record.text
            name = record.id or record.text
            if in_order and name:
                assert shared.index_of(name) == whole.index_of(name)
        if in_order:
            for values, expected in zip(shared, whole, strict=True):
                assert_allclose(values, expected, atol=1e-6)


@layouts
def test_a_shard_that_has_lost_records_is_refused(layout: str) -> None:
    shards = embed_shards("text", 3, layout=layout)
    with h5py.File("shard-3", "r+") as file:
        if layout == "packed":
            file["offsets"].resize(3, axis=0)
        else:
            del file["8"]
    with pytest.raises(InputError, match=r"^shard-3: the file is damaged: "):
        open_activations(*shards)


MIXED = "shard-1 and shard-2 cannot be read together: "
STOP = {"should_stop": lambda: True}


@pytest.mark.parametrize(
    ("read", "text", "options", "message"),
    [
        ("13", TEXT, {}, "shard-1: expected all 3 shards, each once, found 1/3, 3/3"),
        (
            "221",
            TEXT,
            {},
            "shard-2: expected all 3 shards, each once, found 1/3, 2/3, 2/3",
        ),
        (
            "123",
            TEXT,
            {"output_format": "top"},
            f"{MIXED}layers is all in shard-1 and top",
        ),
        (
            "123",
            TEXT + "x\n",
            {},
            f"{MIXED}number of input records is 10 in shard-1 and 11",
        ),
        ("123", TEXT, STOP, "shard-2: the run is not finished. Run its command again."),
    ],
)
def test_shards_that_do_not_make_one_output_are_refused(
    read: str, text: str, options: dict[str, Any], message: str
) -> None:
    embed_shards("text", 3)
    Path("text").write_text(text)
    Path("shard-2").unlink()
    with suppress(StoppedError):
        embed("text", "shard-2", shard="2/3", **options)
    with pytest.raises(InputError, match=rf"^{message}"):
        open_activations(*(f"shard-{number}" for number in read))


def test_datasets_of_a_shard_have_the_numbers_of_the_input() -> None:
    for layout in ("allennlp", "packed"):
        embed("text", layout, shard="2/3", layout=layout)
        with open_activations(layout) as activations:
            lengths = [values.shape[1] for values in activations]
            assert lengths == [0, 2, 2]
            assert activations.index_of("a bank") == 2
    with h5py.File("allennlp") as file:
        assert set(file) == {"1", "4", "7", "sentence_to_index"}


def test_files_of_different_input_formats_are_read_as_one(
    tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    (tmp_path / "a.txt").write_text("The cat sat\n\nA dog\n")
    (tmp_path / "b.csv").write_text("id,text\nx,The dog\n")
    tiny.embed_file(tmp_path / "a.txt", tmp_path / "a.hdf5")
    tiny.embed_file(tmp_path / "b.csv", tmp_path / "b.hdf5", layout="packed")
    paths = (tmp_path / "a.hdf5", tmp_path / "b.hdf5")
    for names in (paths, paths[::-1]):
        with open_activations(*names) as both:
            first = 0 if names == paths else 1
            sentences = [both.sentence(first + index) for index in range(3)]
            assert sentences == ["The cat sat", None, "A dog"]
            assert both.id(first) is None
            assert both.index_of("A dog") == first + 2
            assert both.id(both.index_of("x")) == "x"
            assert both.sentence(both.index_of("x")) == "The dog"
            assert not both.has_ids
            assert both.has_sentences


def test_shards_of_different_input_formats_are_refused() -> None:
    embed_shards("text", 3)
    with h5py.File("shard-2", "r+") as file:
        file.attrs["format"] = "conllu"
    with pytest.raises(InputError, match=f"^{MIXED}input format is text in shard-1"):
        open_activations("shard-1", "shard-2", "shard-3")
