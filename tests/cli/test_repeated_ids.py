"""Ids that repeat, are missing, or are not read, and outputs without rows."""

import json
from pathlib import Path
from typing import Any

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


def ids_and_lines(*arguments: str, stdin: str | None = None) -> set[tuple[Any, Any]]:
    result = elmo(*arguments, *MODEL, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    rows = map(json.loads, result.stdout.splitlines())
    return {(row["id"], row.get("line")) for row in rows}


@pytest.mark.parametrize("name", ["in.csv", "in.json", "in.jsonl", "in.conllu", "in.parquet"])
def test_rows_of_repeated_ids_have_the_line_too(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write("a", "b", "a", name=name)
    for command in (
        ["surprisal", path, "--format", "json"],
        ["perplexity", path, "--per-sentence", "--json"],
        ["predict", "--file", path, "--top", "2", "--format", "json"],
        ["predict", "--file", path, "--top", "2", "--json"],
        ["surprisal", path, "--words-by", "space", "--json"],
    ):
        if name != "in.conllu" or not {"predict", "--words-by"} & set(command):
            found = ids_and_lines(*command)
            assert found == {("a", 1), ("b", 2), ("a", 3)}
            assert caplog.messages == [f"Warning: {path}: {REPEATED}"]
            caplog.clear()


def test_texts_of_parquet_are_not_read_to_compare_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path, read = write("a", "b", "a", name="in.parquet"), parquet.ParquetFile.iter_batches
    columns = list[list[str]]()

    def note(*arguments: Any, **settings: Any) -> Any:
        columns.append(settings["columns"])
        return read(*arguments, **settings)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", note)
    for options in ([], ["--word-column", "text", "--id-column", "id"]):
        assert elmo("surprisal", path, "--json", *options, *MODEL).exit_code == 0
        assert columns == [["id"], ["text", "id"]]
        columns.clear()


def test_unique_ids_need_no_line_unless_they_come_from_a_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = write("a", "b", "c")
    found = ids_and_lines("surprisal", path, "--json")
    assert found == {("a", None), ("b", None), ("c", None)}
    assert not caplog.messages
    stdin = Path(path).read_text()
    found = ids_and_lines("surprisal", "-", "--input-format", "csv", "--json", stdin=stdin)
    assert found == {("a", 1), ("b", 2), ("c", 3)}
    header = elmo("surprisal", "-", "--input-format", "csv", *MODEL, stdin="text\na b\n").stdout
    assert header.startswith("line\tposition\ttoken")


def test_pairs_with_repeated_ids_have_their_lines() -> None:
    Path("pairs.csv").write_text("id,good,bad\n7,the cat,cat the\n7,the dog,dog the\n")
    found = ids_and_lines("surprisal", "pairs.csv", "--pairs", "good,bad", "--json")
    assert found == {("7", 1), ("7", 2)}


def test_perplexity_without_rows_ignores_ids() -> None:
    repeated = elmo("perplexity", write("a", "", "a"), *MODEL)
    assert repeated.exit_code == 0
    assert "Warning" not in repeated.stderr
    assert repeated.stdout == elmo("perplexity", write("a", "b", "c"), *MODEL).stdout


@pytest.mark.parametrize("rows", ["sentences", "tokens"])
@pytest.mark.parametrize("output", ["out.jsonl", "out.parquet"])
def test_vectors_of_repeated_ids_have_an_index_or_line(
    output: str, rows: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write("a", "b", "a")
    elmo("embed", path, output, "--rows", rows, "--model", TINY)
    assert caplog.messages.count(f"Warning: {path}: {REPEATED}") == 1
    found = read_rows(output)
    number, first = ("index", 0) if "index" in found[0] else ("line", 1)
    numbers = {(row["id"], row[number] - first) for row in found}
    assert numbers == {("a", 0), ("b", 1), ("a", 2)}


@pytest.mark.parametrize("output", ["out.jsonl", "out.parquet"])
def test_usages_of_repeated_ids_have_their_lines(output: str) -> None:
    Path("words.txt").write_text("cat\n")
    elmo("usages", write("a", "b", "a"), output, "--words", "words.txt", "--model", TINY)
    found = read_rows(output)
    assert [(row["id"], row["line"], row["position"]) for row in found] == [
        ("a", 1, 1),
        ("a", 3, 1),
    ]


def test_records_without_ids_are_numbered() -> None:
    for output in ("out.h5", "out.npz"):
        command = ("embed", write("a", "b", "a"), output, "--id-column", "", "--model", TINY)
        assert elmo(*command).exit_code == 0
    with h5py.File("out.h5") as file:
        assert set(file) == {"0", "1", "2", "sentence_to_index"}
    path = write("a", "b", "a", name="in.conllu")
    assert elmo("embed", path, "c.h5", "--id-column", "", "--model", TINY).exit_code == 0


# Outputs without rows


@pytest.mark.parametrize("rows", ["sentences", "tokens"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("in.csv", "--layers all"), ("in.json", "--mix 1,2,3 --dtype float16")),
        *(("in.parquet", "--layers top"), ("in.conllu", "--layers top"), ("in.csv", "--mix 1,2,3")),
    ],
)
def test_a_shard_without_rows_has_the_columns_of_the_others(
    name: str, options: str, rows: str
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = write(1, 2, name=name)
    keep = ["--keep-columns", "all"] if name != "in.conllu" else []
    for number in (1, 2, 3):
        shard = ["--shard", f"{number}/3", "--rows", rows, *options.split(), *keep]
        result = elmo("embed", path, f"{number}.parquet", *shard, "--model", TINY)
        assert result.exit_code == 0
    first, _, last = (parquet.read_table(f"{number}.parquet") for number in (1, 2, 3))
    assert last.num_rows == 0 < first.num_rows
    assert last.schema.remove_metadata() == first.schema.remove_metadata()


def test_pooled_shards_and_split_lines_have_their_columns_too() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    Path("text").write_text("One. Two.\n")
    for options in (["--pooling", "mean"], ["--rows", "tokens"]):
        for number in (1, 3):
            shard = ["--split-sentences", "--shard", f"{number}/3", "--overwrite", *options]
            elmo("embed", "text", f"{number}.parquet", *shard, "--model", TINY)
        first, last = (parquet.read_schema(f"{number}.parquet") for number in (1, 3))
        assert first.remove_metadata() == last.remove_metadata()


@pytest.mark.parametrize("row_format", ["csv", "tsv"])
def test_the_header_of_no_rows_has_all_columns(row_format: str) -> None:
    Path("in.csv").write_text("id,text,note\n1,the cat,x\n")
    options = ("--id-column", "id", "--keep-columns", "note", "--format", row_format)
    full = elmo("surprisal", "in.csv", *options, *MODEL).stdout
    Path("in.csv").write_text("id,text,note\n")
    assert elmo("surprisal", "in.csv", *options, *MODEL).stdout == full.splitlines()[0] + "\n"
    pairs = ("--pairs", "text,note", *options[:2])
    header = elmo("surprisal", "in.csv", *pairs, *MODEL).stdout
    assert header.startswith("id\tsurprisal_good\tsurprisal_bad\tcorrect")
    assert header.count("\n") == 1


# JSON without NaN, and all groups


def strict(text: str) -> Any:
    """Parse JSON, in which NaN and Infinity are errors."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def test_json_has_null_in_place_of_nan() -> None:
    rows = ['{"id": "NaN", "text": "the cat", "x": NaN, "y": {"z": [Infinity, 1, "NaN"]}}'] * 2
    Path("in.jsonl").write_text("\n".join(rows))
    keep = ("--keep-columns", "all")
    for command in (
        ("surprisal", "in.jsonl", "--json"),
        ("surprisal", "in.jsonl", "--format", "json"),
        ("perplexity", "in.jsonl", "--per-sentence", "--json"),
        ("predict", "--file", "in.jsonl", "--json"),
        ("embed", "in.jsonl", "-", "--format", "jsonl"),
        ("embed", "in.jsonl", "-", "--format", "jsonl", "--rows", "tokens"),
    ):
        result = elmo(*command, *keep, *MODEL)
        found = [strict(line) for line in result.stdout.splitlines()]
        assert {each["id"] for each in found} == {"NaN"}
        assert all((each["x"], each["y"]) == (None, {"z": [None, 1, "NaN"]}) for each in found)
    table = elmo("surprisal", "in.jsonl", "--format", "csv", *keep, *MODEL).stdout
    assert '"{""z"": [null, 1, ""NaN""]}"' in table


def test_the_accuracy_of_every_group_is_printed() -> None:
    pairs = [f"the cat,cat the,g{number}" for number in range(150)]
    Path("pairs.csv").write_text("\n".join(["good,bad,group", *pairs]))
    result = elmo("surprisal", "pairs.csv", "--pairs", "good,bad", "--group-by", "group", *MODEL)
    assert sum(line.startswith("group g") for line in result.stderr.splitlines()) == 150
