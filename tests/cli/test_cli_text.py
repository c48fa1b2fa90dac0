"""Raw text in the commands that read it: tokenizers, languages and sentences."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from commands import TINY, elmo
from table_files import read_rows

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.pretrained.registry import PublishedModel

TINY_MODEL = ("--model", str(TINY))
RAW = "The bank, I'd say. It's \u201copen\u201d!\n\nA bank.\n"
LINES = RAW.splitlines()
MOSES = [
    ["The", "bank", ",", "I", "'d", "say", ".", "It", "'s", '"', "open", '"', "!"],
    [],
    ["A", "bank", "."],
]
SENTENCES = ["The bank, I'd say.", "It's \u201copen\u201d!", "A bank."]
OF_SENTENCES = [MOSES[0][:7], MOSES[0][7:], MOSES[2]]
OUTPUTS = ("out.hdf5", "out.hdf5 --layout packed", "out.jsonl", "out.npz", "out.parquet")


@pytest.fixture(autouse=True)
def text(folder: Path) -> None:
    """Write a raw text into the current folder."""
    Path("raw.txt").write_text(RAW, encoding="utf-8")


def records_of(path: str) -> list[dict[str, Any]]:
    """Return the records of an output in the form of JSON lines, with their values."""
    if path.endswith((".jsonl", ".parquet")):
        return read_rows(path)
    if path.endswith(".npz"):
        with np.load(path) as file:
            rows = [json.loads(line) for line in file["records.jsonl"].decode().splitlines()]
            return [{**row, "activations": file[str(row["index"])]} for row in rows]
    with open_activations(path) as activations:
        records = []
        for number, (record, values) in enumerate(activations.records()):
            assert (activations.tokens(number) or []) == record.tokens
            lines = {name: int(str(value)) + 1 for name, value in record.attributes.items()}
            fields = {"index": number, "sentence": record.text, "tokens": record.tokens}
            records.append({**fields, **lines, "activations": values})
        return records


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    ("split", "sentences", "tokens"),
    [((), LINES, MOSES), (("--split-sentences",), SENTENCES, OF_SENTENCES)],
)
def test_the_embedded_tokens_are_stored_next_to_the_sentence(
    output: str, split: tuple[str, ...], sentences: list[str], tokens: list[list[str]]
) -> None:
    pytest.importorskip("sentencex")
    arguments = ("embed", "raw.txt", *output.split(), *TINY_MODEL, "--layers", "top", *split)
    assert elmo(*arguments, "--tokenizer", "moses").exit_code == 0
    records = records_of(output.split()[0])
    assert [row["tokens"] for row in records] == tokens
    assert [row["sentence"] for row in records] == sentences
    assert [row.get("line", 3) for row in records] == ([1, 1, 3] if split else [3, 3, 3])
    top = ElmoEmbedder(model=TINY).embed_sentences(tokens, layers="top")
    for row, expected in zip(records, top, strict=True):
        actual = np.array(row["activations"], np.float32).reshape(expected.shape)
        np.testing.assert_allclose(actual, expected, atol=2e-6)


def test_a_reader_of_allennlps_files_sees_what_it_always_saw() -> None:
    elmo("embed", "raw.txt", "out.hdf5", *TINY_MODEL, "--tokenizer", "moses")
    with h5py.File("out.hdf5") as file:
        assert sorted(file) == ["0", "1", "2", "sentence_to_index"]
        assert json.loads(file["sentence_to_index"][0]) == {LINES[0]: "0", LINES[2]: "2"}
        assert file["0"].shape == (3, len(MOSES[0]), 32)
        assert json.loads(file["0"].attrs["tokens"]) == MOSES[0]
    elmo("embed", "raw.txt", "bare.hdf5", *TINY_MODEL, "--tokenizer", "moses", "--forget-sentences")
    with h5py.File("bare.hdf5") as file:
        assert list(file["0"].attrs) == []
    with open_activations("bare.hdf5") as activations:
        assert activations.tokens(0) is None


def test_shards_of_sentences_are_read_as_the_whole_file() -> None:
    pytest.importorskip("sentencex")
    cut = ("--tokenizer", "moses", "--split-sentences")
    for shard in "12":
        elmo("embed", "raw.txt", f"{shard}.hdf5", *TINY_MODEL, *cut, "--shard", f"{shard}/2")
    elmo("embed", "raw.txt", "whole.hdf5", *TINY_MODEL, *cut)
    with open_activations("1.hdf5", "2.hdf5") as merged, open_activations("whole.hdf5") as whole:
        found, expected = ([record for record, _ in each.records()] for each in (merged, whole))
    assert found == expected


def test_the_language_defaults_to_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = PublishedModel("mini", language_code="fr")
    monkeypatch.setattr("elmo_cli.pretrained.registry.MODELS", (mini,))
    elmo("embed", "-", "out.jsonl", "--model", "mini", "--tokenizer", "moses", stdin="L'eau.\n")
    [row] = records_of("out.jsonl")
    assert row["tokens"] == ["L'", "eau", "."]
    ElmoEmbedder().embed_file("raw.txt", "out.hdf5", tokenizer="moses")
    with open_activations("out.hdf5") as activations:
        assert activations.attributes["tokenizer"] == "moses:fr"
    # It can be set if the model has none.
    sentences = ("L'eau est froide.", "De l'eau !")
    french = elmo("cosine", "eau", *sentences, "--language", "fr", "--layer", "0", *TINY_MODEL)
    assert float(french.stdout) == pytest.approx(1, abs=1e-6)


def test_word_vectors_split_raw_text() -> None:
    pytest.importorskip("sentencex")
    Path("tokenized.txt").write_text("".join(" ".join(each) + "\n" for each in OF_SENTENCES))
    average = ("word-vectors", *TINY_MODEL, "--min-count", "1", "--corpus")
    assert elmo(*average, "tokenized.txt", "expected.vec").exit_code == 0
    cut = ("--tokenizer", "moses", "--split-sentences")
    assert elmo(*average, "raw.txt", "found.vec", *cut).exit_code == 0
    assert Path("found.vec").read_text() == Path("expected.vec").read_text()


def test_a_line_that_is_skipped_is_counted_among_the_sentences() -> None:
    pytest.importorskip("sentencex")
    Path("raw.txt").write_bytes(b"One. Two.\n\xff\nThree.\n")
    options = ("--split-sentences", "--skip-errors", *TINY_MODEL)
    result = elmo("embed", "raw.txt", "out.hdf5", *options)
    assert "Skipped: raw.txt, line 2, column 1: not valid UTF-8" in result.stderr
    with open_activations("out.hdf5") as activations:
        lines = [record.attributes["line"] for record, _ in activations.records()]
        assert lines == [0, 0, 1, 2]
        assert json.loads(activations.attributes["skipped"]).keys() == {"2"}
        assert activations[2].shape == (3, 0, 32)


@pytest.mark.parametrize("pooling", [(), ("--pooling", "max")])
def test_vectors_may_be_scaled_to_length_one(pooling: tuple[str, ...]) -> None:
    arguments = ("embed", "raw.txt", *TINY_MODEL, "--layers", "1,2", *pooling)
    elmo(*arguments, "plain.hdf5")
    elmo(*arguments, "out.hdf5", "--normalize")
    with open_activations("plain.hdf5") as plain, open_activations("out.hdf5") as normalized:
        assert normalized.attributes["normalize"] is True
        for values, scaled in zip(plain, normalized, strict=True):
            lengths = np.linalg.norm(values, axis=-1, keepdims=True)
            np.testing.assert_allclose(scaled, values / np.maximum(lengths, 1e-12), atol=1e-6)
    assert "other options: --normalize" in elmo(*arguments, "out.hdf5").stderr
