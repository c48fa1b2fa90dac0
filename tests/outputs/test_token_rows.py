"""Rows of Parquet and JSON lines: one per token, with ids and columns."""

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from elmo_cli import ElmoEmbedder
from elmo_cli.errors.exceptions import InputError
from tests.support.commands import TINY, elmo
from tests.support.table_files import read_rows, write_table

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ITEMS = """\
id,text,group,line
a/1,"the "" cat",x,7
b 2,,y,8
"c, 3",dog NA null,,9
"""
TOKENS = [
    ("a/1", 1, 0, "the", "x", "7"),
    ("a/1", 1, 1, '"', "x", "7"),
    ("a/1", 1, 2, "cat", "x", "7"),
    ("c, 3", 3, 0, "dog", "", "9"),
    ("c, 3", 3, 1, "NA", "", "9"),
    ("c, 3", 3, 2, "null", "", "9"),
]
both = pytest.mark.parametrize("name", ["out.parquet", "out.jsonl"])


pytestmark = pytest.mark.usefixtures("items_file")


@pytest.fixture
def items_file(folder: Path) -> None:
    """Write a table into the current folder."""
    Path("items.csv").write_text(ITEMS)


def embed(source: str, output: str, **options: Any) -> None:
    ElmoEmbedder(model=TINY).embed_file(source, output, overwrite=True, **options)


@both
def test_each_token_has_a_row(name: str) -> None:
    embed("items.csv", name, output_format="0,2", rows="tokens", keep_columns=["all"])
    rows = read_rows(name)
    names = ["id", "line", "position", "token", "group", "input_line"]
    assert list(rows[0])[:6] == names
    assert [tuple(row.values())[:6] for row in rows] == TOKENS

    sentences = [["the", '"', "cat"], ["dog", "NA", "null"]]
    arrays = ElmoEmbedder(model=TINY).embed_batch(sentences)
    layers = np.concatenate(arrays, axis=1)  # (3, 6, 32)
    for layer in (0, 2):
        values = [row[f"layer_{layer}"] for row in rows]
        assert_array_equal(np.array(values, np.float32), layers[layer])

    embed("items.csv", name, output_format="top", rows="tokens")
    assert list(read_rows(name)[0]) == ["id", "line", "position", "token", "vector"]


@both
def test_lines_without_ids_are_numbered_from_one(name: str) -> None:
    Path("raw.txt").write_text("A dog.\n\nA cat. It sat.\n")
    embed("raw.txt", name, output_format="top", rows="tokens", tokenizer="moses")
    rows = read_rows(name)
    assert {row["id"] for row in rows} == {None}
    assert [row["line"] for row in rows] == [1] * 3 + [3] * 6
    assert [row["position"] for row in rows] == [*range(3), *range(6)]

    embed("raw.txt", name, output_format="top", rows="tokens", split_sentences=True)
    numbers = {(row["line"], row["sentence_number"]) for row in read_rows(name)}
    assert numbers == {(1, 1), (3, 2), (3, 3)}


def test_vectors_of_tokens_are_lists_of_fixed_size() -> None:
    kinds = {"float32": pyarrow.float32(), "float16": pyarrow.float16()}
    for dtype, kind in kinds.items():
        name = f"{dtype}.parquet"
        embed("items.csv", name, output_format="1,2", rows="tokens", dtype=dtype)
        schema = parquet.read_schema(name)
        assert schema.field("layer_1").type == pyarrow.list_(kind, 32)
        assert json.loads(schema.metadata[b"elmo"])["layers"] == "1,2"


@pytest.mark.parametrize("text", ["\n\n", ""])
def test_a_text_without_tokens_is_an_error(text: str) -> None:
    Path("blank.txt").write_text(text)
    with pytest.raises(InputError, match=r"blank\.txt: (the file is empty|no tokens)"):
        embed("blank.txt", "out.parquet", output_format="top", rows="tokens")
    assert not Path("out.parquet").exists()


def test_columns_of_parquet_keep_their_types() -> None:
    columns = {
        "id": pyarrow.array([10, 11, 12], pyarrow.int32()),
        "text": pyarrow.array(["a b", "c", None]),
        "small": pyarrow.array([None, None, 3], pyarrow.int8()),
        "day": pyarrow.array([datetime.date(2020, 1, 2), None, None]),
        "price": pyarrow.array([decimal.Decimal("1.50"), None, None]),
        "kind": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
        "pair": pyarrow.array([[1, 2], [], None], pyarrow.list_(pyarrow.int16())),
        "layer_9": pyarrow.array([1.5, 2.5, None], pyarrow.float32()),
    }
    table = pyarrow.table(columns)
    parquet.write_table(table, "in.parquet")
    ids = table["id"].cast(pyarrow.int64())
    expected = table.drop_columns(["text"]).set_column(0, "id", ids)
    expected_rows = expected.to_pylist()
    for options in ({"pooling": "mean"}, {"rows": "tokens"}):
        embed("in.parquet", "out.parquet", keep_columns=["all"], **options)
        output = parquet.read_table("out.parquet")
        # Columns of vectors have such names in rows of tokens.
        if "input_layer_9" in output.schema.names:
            output = output.rename_columns({"input_layer_9": "layer_9"})
        kept = output.select(expected.schema.names)
        assert kept.schema.types == expected.schema.types
        for row in kept.to_pylist():
            assert row in expected_rows


def test_columns_of_json_get_types_by_their_first_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elmo_cli.outputs.parquet_writer.ROW_GROUP_BYTES", 1)

    def embed_columns(*columns: dict[str, Any]) -> list[object]:
        write_table("in.jsonl", [{"text": "a", **each} for each in columns])
        embed("in.jsonl", "out.parquet", pooling="mean", keep_columns=["all"])
        return [row["n"] for row in read_rows("out.parquet")]

    assert embed_columns({"n": None}, {"n": 1}, {"n": "x"}) == [None, "1", "x"]
    problem = "column 'n': expected int64, as in the first rows, fo"
    with pytest.raises(InputError, match=problem):
        embed_columns({"n": 1}, {"n": "x"})
    problem = "column 'm': record 2 has it, but none of the first rec"
    with pytest.raises(InputError, match=problem):
        embed_columns({"n": 1}, {"n": 2, "m": 1})


@both
@pytest.mark.parametrize("rows", ["sentences", "tokens"])
def test_ids_may_have_any_characters(rows: str, name: str) -> None:
    ids = ["a/b", ".", "tab\t,\"'", "line\nend\r", "zero\0", "ü☃"]
    write_table("in.jsonl", [{"id": each, "text": "a"} for each in ids])
    embed("in.jsonl", name, output_format="top", rows=rows)
    assert [row["id"] for row in read_rows(name)] == ids


def test_npy_has_a_file_of_ids() -> None:
    embed("items.csv", "out.npy", output_format="top", pooling="mean")
    assert Path("out.npy.ids.txt").read_text() == "a/1\nb 2\nc, 3\n"
    assert np.load("out.npy").shape == (3, 32)
    Path("in.txt").write_text("c\n")
    embed("in.txt", "out.npy", output_format="top", pooling="mean")
    assert not Path("out.npy.ids.txt").exists()


def test_a_skipped_record_has_no_rows() -> None:
    records = ['{"id": 1, "text": "a b"}', "wrong", '{"id": 3, "text": "c"}']
    Path("in.jsonl").write_text("\n".join(records))
    embed("in.jsonl", "out.parquet", rows="tokens", skip_errors=True)
    rows = read_rows("out.parquet")
    assert [row["id"] for row in rows] == [1, 1, 3]
    assert [row["token"] for row in rows] == ["a", "b", "c"]


@both
def test_rows_of_sentences_keep_columns(name: str) -> None:
    embed("items.csv", name, pooling="mean", keep_columns=["line", "group"])
    rows = read_rows(name)
    assert [row["id"] for row in rows] == ["a/1", "b 2", "c, 3"]
    assert [row["input_line"] for row in rows] == ["7", "8", "9"]
    assert [row["group"] for row in rows] == ["x", "y", ""]


def test_rows_of_occurrences_keep_columns() -> None:
    Path("words.txt").write_text("dog\ncat\n")
    command = (
        "occurrences items.csv occurrences.parquet --words words.txt --keep-columns "
        "group"
    )
    result = elmo(*command.split(), "--model", TINY)
    assert result.exit_code == 0
    rows = read_rows("occurrences.parquet")
    assert [row["id"] for row in rows] == ["a/1", "c, 3"]
    assert [row["word"] for row in rows] == ["cat", "dog"]
    assert [row["group"] for row in rows] == ["x", ""]


@both
@pytest.mark.parametrize(
    "ids",
    [
        [3, 10],
        [0, -7],
        ["03", "10"],
        ["3", "x"],
        [3, 1111111111111111111],
        ["3", "11111111111111111111"],
    ],
    ids=str,
)
def test_ids_are_integers_if_all_of_them_look_like_integers(
    ids: list[object], name: str
) -> None:
    write_table("in.csv", [{"id": each, "text": "a"} for each in ids])
    write_table("in.json", [{"id": each, "text": "a"} for each in ids])
    for source, rows in (
        ("in.csv", "sentences"),
        ("in.json", "sentences"),
        ("in.json", "tokens"),
    ):
        embed(source, name, output_format="top", rows=rows)
        assert [row["id"] for row in read_rows(name)] == ids
