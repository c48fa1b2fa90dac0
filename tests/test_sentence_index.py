"""`sentence_to_index` of many sentences: spilled to files, and written in pieces."""

import json
from pathlib import Path

import h5py
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import Corpus, assert_holds, corpora, write

from elmo_cli import open_activations
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.heap_string import create_empty_string, write_string
from elmo_cli.outputs.sentence_index import SentenceIndex


@given(
    sentences=st.lists(st.text('ab "\\\0é東', max_size=3), max_size=60), full=st.integers(1, 2000)
)
def test_the_last_of_equal_sentences_wins_wherever_they_are_kept(
    sentences: list[str], full: int
) -> None:
    index = SentenceIndex()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("elmo_cli.outputs.sentence_index.MEMORY_BYTES", full)
        for number, sentence in enumerate(sentences):
            index.add(sentence, number if number % 2 else f"key {number}")
        with index.write_json(lambda place: f"<{place}>") as file:
            n_bytes = file.tell()
            file.seek(0)
            text = file.read()
    index.close()
    expected = {s: f"<{n}>" if n % 2 else f"<key {n}>" for n, s in enumerate(sentences)}
    assert len(text) == n_bytes
    pairs = json.loads(text, object_pairs_hook=list)
    assert dict(pairs) == expected
    assert len(pairs) == len(expected)


@pytest.mark.parametrize("n_bytes", [0, 1, 7, 8, 4031, 4047, 4048, 4049, 4064, 4065, 5_000_001])
def test_a_string_written_in_pieces_is_read_as_one_that_hdf5_wrote(
    n_bytes: int, tmp_path: Path
) -> None:
    text = ("é" * n_bytes).encode()[:n_bytes].decode(errors="replace").replace("\ufffd", "x")
    sink = CheckpointedFile(tmp_path / "file")
    with h5py.File(sink, "w") as file:
        file["before"] = [1.5, 2.5]
        reference = create_empty_string(file, "string")
        file["after"] = "other"
    (tmp_path / "text").write_text(text, encoding="utf-8")
    with open(tmp_path / "text", "rb") as content:
        content.seek(0, 2)
        write_string(sink, reference, content)
    sink.checkpoint({})
    sink.finish(tmp_path / "done")
    with h5py.File(tmp_path / "done", "r+") as file:
        assert file["string"].shape == (1,)
        assert h5py.check_string_dtype(file["string"].dtype).encoding == "utf-8"
        assert file["string"].asstr()[0] == text
        assert list(file["before"]) == [1.5, 2.5]
        file["more"] = "a string"  # into a heap of its own, or the free part of that one
        del file["string"]
        file["string"] = "new"
    with h5py.File(tmp_path / "done") as file:
        values = [file[name].asstr()[()] for name in ("after", "more", "string")]
        assert values == ["other", "a string", "new"]


@given(corpus=corpora(keyed=False), stops=st.sets(st.integers(0, 12), max_size=2))
def test_a_long_index_survives_interruptions(
    corpus: Corpus, stops: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / "out.hdf5"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("elmo_cli.outputs.allennlp_layout.LONG_BYTES", 0)
        patched.setattr("elmo_cli.outputs.sentence_index.MEMORY_BYTES", 400)
        write(corpus, path, stops=stops)
    assert_holds(path, corpus)
    assert [name.name for name in path.parent.iterdir()] == ["out.hdf5"]


def test_an_index_beyond_what_hdf5_holds_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from test_reader import lines

    monkeypatch.setattr("elmo_cli.outputs.allennlp_layout.MOST_BYTES", 10)
    write(lines("a", "b"), tmp_path / "out")
    assert "sentence_to_index would have 20 bytes" in caplog.text
    with open_activations(tmp_path / "out") as activations:
        assert (len(activations), activations.has_sentences) == (2, False)
