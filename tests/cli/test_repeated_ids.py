"""Ids that repeat, are missing, or are not read, and outputs without rows."""

import json
from pathlib import Path
from unittest.mock import Mock

import h5py
import pytest
from commands import TINY, elmo
from table_files import read_rows, write_table

MODEL = ("--model", "model")
SENTENCES = ("the cat sat", "the dog", "the cat")
REPEATED = "1 record has the id of an earlier record. See their line or index."


pytestmark = pytest.mark.usefixtures("word_model")


def write(*ids: object, name: str = "in.csv") -> str:
    rows = [{"id": i, "text": text} for i, text in zip(ids, SENTENCES, strict=False)]
    return write_table(name, rows)


@pytest.mark.parametrize("name", ["in.csv", "in.json", "in.jsonl", "in.conllu", "in.parquet"])
def test_rows_of_repeated_ids_have_the_line_too(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write("a", "b", "a", name=name)
    for command in (
        ["surprisal", path, "--json"],
        ["perplexity", path, "--per-sentence", "--json"],
        ["predict", "--file", path, "--top", "2", "--json"],
        ["surprisal", path, "--words-by", "space", "--json"],
    ):
        if name != "in.conllu" or not {"predict", "--words-by"} & set(command):
            rows = map(json.loads, elmo(*command, *MODEL).stdout.splitlines())
            assert {(row["id"], row["line"]) for row in rows} == {("a", 1), ("b", 2), ("a", 3)}
            assert caplog.messages == [f"Warning: {path}: {REPEATED}"]
            caplog.clear()


def test_texts_of_parquet_are_not_read_to_compare_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path, read = write("a", "b", "a", name="in.parquet"), parquet.ParquetFile.iter_batches
    noted = Mock(side_effect=read)
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *a, **s: noted(*a, **s))
    for options in ([], ["--word-column", "text", "--id-column", "id"]):
        assert elmo("surprisal", path, "--json", *options, *MODEL).exit_code == 0
        assert [call.kwargs["columns"] for call in noted.mock_calls] == [["id"], ["text", "id"]]
        noted.reset_mock()


@pytest.mark.parametrize("command", ["embed", "embed --rows tokens", "usages --words words.txt"])
@pytest.mark.parametrize("output", ["out.jsonl", "out.parquet"])
def test_vectors_of_repeated_ids_have_an_index_or_line(
    output: str, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    Path("words.txt").write_text("the\n")
    path, (name, *options) = write("a", "b", "a"), command.split()
    elmo(name, path, output, *options, "--model", TINY)
    assert name == "usages" or caplog.messages.count(f"Warning: {path}: {REPEATED}") == 1
    found = read_rows(output)
    number, first = ("index", 0) if "index" in found[0] else ("line", 1)
    assert {(row["id"], row[number] - first) for row in found} == {("a", 0), ("b", 1), ("a", 2)}


def test_records_without_ids_are_numbered() -> None:
    for name, output in (("in.csv", "out.h5"), ("in.csv", "out.npz"), ("in.conllu", "c.h5")):
        command = ("embed", write("a", "b", "a", name=name), output, "--id-column", "")
        assert elmo(*command, "--model", TINY).exit_code == 0
    with h5py.File("out.h5") as file:
        assert set(file) == {"0", "1", "2", "sentence_to_index"}


@pytest.mark.parametrize("rows", ["sentences", "tokens"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("in.csv", "--layers all"), ("in.json", "--mix 1,2,3 --dtype float16")),
        *(("in.parquet", "--layers top"), ("in.conllu", "--layers top"), ("in.csv", "--mix 1,2,3")),
        *(("text", "--split-sentences"), ("text", "--split-sentences --pooling mean")),
    ],
)
def test_a_shard_without_rows_has_the_columns_of_the_others(
    name: str, options: str, rows: str
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    if name == "text":
        Path(name).write_text("One. Two.\n")
    else:
        write(1, 2, name=name)
    options += "" if "pooling" in options else f" --rows {rows}"
    options += " --keep-columns all" if name not in ("in.conllu", "text") else ""
    for number in (1, 3):
        shard = ["--shard", f"{number}/3", *options.split(), "--model", str(TINY)]
        assert elmo("embed", name, f"{number}.parquet", *shard).exit_code == 0
    first, last = (parquet.read_table(f"{number}.parquet") for number in (1, 3))
    assert last.num_rows == 0 < first.num_rows
    assert last.schema.remove_metadata() == first.schema.remove_metadata()


@pytest.mark.parametrize("rows", ["sentences", "tokens"])
def test_json_vectors_have_null_in_place_of_nan(rows: str) -> None:
    Path("in.jsonl").write_text('{"id": "NaN", "text": "the", "x": NaN, "y": [Infinity, "NaN"]}')
    options = ("--format", "jsonl", "--keep-columns", "all", "--rows", rows)
    text = elmo("embed", "in.jsonl", "-", *options, "--model", TINY).stdout
    row = json.loads(text, parse_constant=pytest.fail)
    assert (row["id"], row["x"], row["y"]) == ("NaN", None, [None, "NaN"])
