"""`sentence_to_index` of many sentences: spilled to files, and written in pieces."""

import io
import json
import struct
import tracemalloc
from pathlib import Path

import h5py
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import Corpus, assert_holds, corpora, write

from elmo_cli import open_activations
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.heap_string import create_empty_string, open_string, write_string
from elmo_cli.outputs.numbered_texts import NumberedTexts
from elmo_cli.outputs.sentence_index import SentenceIndex, read_pairs


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
        with open_string(file["string"]) as found:
            assert found.read() == text
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


@given(
    index=st.dictionaries(st.text('ab "\\\0é東\ud800,:{}', max_size=9), st.integers(0, 10**9)),
    indent=st.sampled_from([None, 0, 3]),
    as_text=st.booleans(),
    block=st.integers(1, 40),
)
def test_an_index_is_read_in_pieces_of_any_size(
    index: dict[str, int], indent: int | None, as_text: bool, block: int
) -> None:
    named = {sentence: str(n) if as_text else n for sentence, n in index.items()}
    text = json.dumps(named, indent=indent, ensure_ascii=not as_text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("elmo_cli.outputs.sentence_index._BLOCK_CHARACTERS", block)
        assert list(read_pairs(io.StringIO(text))) == list(index.items())
        if index:
            with pytest.raises(ValueError, match="expected a JSON object of numbers"):
                list(read_pairs(io.StringIO(text[:-1].rstrip())))


@pytest.mark.parametrize("text", ["", "[]", '["a"]', '{"a"}', '{"a": "b"}', '{"a": [1]}', "{a: 1}"])
def test_what_is_no_index_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="expected a JSON object of numbers"):
        list(read_pairs(io.StringIO(text)))


@pytest.mark.parametrize("userblock", [0, 512])
def test_a_string_is_found_among_others_however_it_is_kept(userblock: int, tmp_path: Path) -> None:
    texts = [f"{number} é " * number * 7 for number in range(200)]
    string = h5py.string_dtype(encoding="utf-8")
    with h5py.File(tmp_path / "file", "w", userblock_size=userblock) as file:
        for number, text in enumerate(texts):
            settings = {"chunks": (1,)} if number % 5 == 4 else {}
            file.create_dataset(str(number), (1,), dtype=string, **settings)[0] = text
        file.create_dataset("none", (1,), dtype=string)
    with h5py.File(tmp_path / "file") as file:
        for number, text in enumerate(texts):
            with open_string(file[str(number)]) as found:
                assert found.read() == text
        with open_string(file["none"]) as found:
            assert found.read() == ""


def test_a_reference_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    string = h5py.string_dtype(encoding="utf-8")
    with h5py.File(tmp_path / "file", "w") as file:
        file.create_dataset("a", (1,), dtype=string)[0] = "text"
        offset = file["a"].id.get_offset()
    whole = (tmp_path / "file").read_bytes()
    length, address, number = struct.unpack_from("<IQI", whole, offset)
    for wrong in (
        (10**9, address, number),
        (length + 100, address, number),
        (length, address + 8, number),
        (length, 1 << 60, number),
        (length, address, number + 1),
    ):
        content = bytearray(whole)
        struct.pack_into("<IQI", content, offset, *wrong)
        (tmp_path / "file").write_bytes(content)
        with h5py.File(tmp_path / "file") as file, pytest.raises(ValueError, match="not there"):
            open_string(file["a"])


@given(
    texts=st.lists(st.tuples(st.integers(0, 20), st.text("ab\0é\ud800", max_size=9)), max_size=30)
)
def test_texts_are_kept_by_their_numbers(texts: list[tuple[int, str]]) -> None:
    kept = NumberedTexts()
    expected: dict[int, str] = {}
    for number, text in texts:
        kept.put(number, text)
        expected[number] = text
        assert kept.get(number) == text
    assert len(kept) == max(expected, default=-1) + 1
    assert list(kept) == [expected.get(number) for number in range(len(kept))]
    assert kept.get(len(kept)) is None
    kept.close()


def test_a_long_index_is_read_with_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.outputs.sentence_index._BLOCK_CHARACTERS", 1 << 12)
    text = json.dumps({f"a sentence of the number {n}": str(n) for n in range(50_000)})
    file = io.StringIO(text)
    kept = NumberedTexts()
    tracemalloc.start()
    for sentence, number in read_pairs(file):
        kept.put(number, sentence)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept.get(49_999) == "a sentence of the number 49999"
    assert peak < 200_000 < len(text)
    kept.close()
