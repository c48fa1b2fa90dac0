"""Ids of several columns, such as item and condition: each output has them."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_cli import ElmoEmbedder, InputError, open_activations
from elmo_cli.options.column_names import column_names_text, parse_column_names
from tests.support.commands import TINY, elmo

pandas = pytest.importorskip("pandas")

pytestmark = pytest.mark.usefixtures("folder")

ROWS = [
    {"item": "1", "cond, long": "a", "text": "the cat", "rt": "310"},
    {"item": "1", "cond, long": "b", "text": "the dog", "rt": "320"},
    {"item": "2", "cond, long": "a", "text": "a bird sat", "rt": "330"},
]
COLUMNS = ["item", "cond, long"]
ON_COMMAND_LINE = 'item,"cond, long"'
IDS = ["1/a", "1/b", "2/a"]
WORDS = "item,condition,word\n1,long,The\n1,long,keys\n1,short,The\n1,short,key\n"


@pytest.fixture(params=["csv", "tsv", "jsonl", "json", "parquet"])
def table(request: pytest.FixtureRequest) -> Path:
    """Write the rows in a format."""
    path = Path(f"items.{request.param}")
    frame = pandas.DataFrame(ROWS)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix in (".csv", ".tsv"):
        frame.to_csv(path, index=False, sep="," if path.suffix == ".csv" else "\t")
    else:
        frame.to_json(path, orient="records", lines=path.suffix == ".jsonl")
    return path


def printed(*arguments: str) -> list[dict[str, str]]:
    """Return the rows that a command prints as CSV."""
    result = elmo(*arguments, "--model", "model", "--format", "csv")
    assert result.exit_code == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


def test_columns_of_the_id_are_columns_of_parquet(
    tiny: ElmoEmbedder, table: Path
) -> None:
    tiny.embed_file(table, "o.parquet", "top", id_column=COLUMNS)
    output = pandas.read_parquet("o.parquet")
    assert output["id"].tolist() == IDS
    assert output["item"].astype(str).tolist() == ["1", "1", "2"]
    assert output["cond, long"].tolist() == ["a", "b", "a"]
    assert "rt" not in output


def test_other_columns_are_kept_next_to_the_id(tiny: ElmoEmbedder, table: Path) -> None:
    for kept in (["rt", "item"], ["all"]):
        tiny.embed_file(
            table,
            "o.parquet",
            "top",
            id_column=COLUMNS,
            keep_columns=kept,
            overwrite=True,
        )
        output = pandas.read_parquet("o.parquet")
        assert {"id", "item", "cond, long", "rt"} <= set(output)


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_the_joined_id_names_a_record_of_hdf5(
    tiny: ElmoEmbedder, table: Path, layout: Any
) -> None:
    tiny.embed_file(table, "o.hdf5", "top", id_column=ON_COMMAND_LINE, layout=layout)
    with open_activations("o.hdf5") as output:
        assert len(output) == 3
        assert sorted(str(record.id) for record, _ in output.records()) == IDS
        assert [len(output[name]) for name in IDS] == [2, 2, 3]


def test_a_run_with_several_id_columns_is_left_when_it_is_complete(
    tiny: ElmoEmbedder,
) -> None:
    pandas.DataFrame(ROWS).to_csv("items.csv", index=False)
    first = tiny.embed_file("items.csv", "o.hdf5", id_column=COLUMNS)
    again = tiny.embed_file("items.csv", "o.hdf5", id_column=COLUMNS)
    assert not first.was_complete
    assert again.was_complete


def test_the_joined_id_names_an_array_of_npz(tiny: ElmoEmbedder) -> None:
    pandas.DataFrame(ROWS).to_csv("items.csv", index=False)
    tiny.embed_file("items.csv", "o.npz", "top", id_column=COLUMNS)
    assert set(np.load("o.npz").files) >= set(IDS)


@pytest.mark.usefixtures("word_model")
def test_rows_of_words_with_the_same_columns_are_one_text(tiny: ElmoEmbedder) -> None:
    Path("words.csv").write_text(WORDS)
    command = "surprisal words.csv --word-column word --id-column item,condition"
    rows = printed(*command.split())
    assert [row["id"] for row in rows] == ["1/long"] * 2 + ["1/short"] * 2
    assert [row["condition"] for row in rows] == ["long"] * 2 + ["short"] * 2
    assert [row["word_number"] for row in rows] == ["1", "2", "1", "2"]
    assert rows[0]["surprisal"] == rows[2]["surprisal"]

    tiny.embed_file(
        "words.csv",
        "o.parquet",
        word_column="word",
        id_column=["item", "condition"],
    )
    output = pandas.read_parquet("o.parquet")
    assert output["sentence"].tolist() == ["The keys", "The key"]
    assert output["item"].tolist() == [1, 1]
    assert output["condition"].tolist() == ["long", "short"]


@pytest.mark.usefixtures("word_model")
@pytest.mark.parametrize("command", ["surprisal", "perplexity --per-sentence"])
def test_columns_of_the_id_are_printed(table: Path, command: str) -> None:
    rows = printed(*command.split(), str(table), "--id-column", ON_COMMAND_LINE)
    found = {row["id"]: (row["item"], row["cond, long"]) for row in rows}
    assert found == {"1/a": ("1", "a"), "1/b": ("1", "b"), "2/a": ("2", "a")}


@pytest.mark.usefixtures("word_model")
def test_columns_of_the_id_are_printed_for_pairs() -> None:
    Path("pairs.csv").write_text("item,c,good,bad\n1,x,the cat,cat the\n")
    command = "surprisal pairs.csv --pair-columns good,bad --id-column item,c"
    rows = printed(*command.split())
    assert [(row["id"], row["item"], row["c"]) for row in rows] == [("1/x", "1", "x")]


def test_columns_of_the_id_are_in_json_lines() -> None:
    pandas.DataFrame(ROWS).to_csv("items.csv", index=False)
    result = elmo(
        "embed",
        "items.csv",
        "o.jsonl",
        "--id-column",
        ON_COMMAND_LINE,
        "--model",
        TINY,
        "--layers",
        "top",
    )
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
    found = [(line["id"], line["item"], line["cond, long"]) for line in lines]
    assert found == [("1/a", 1, "a"), ("1/b", 1, "b"), ("2/a", 2, "a")]


@pytest.mark.parametrize("cell", ["a/b", "", "."])
def test_a_part_that_names_no_group_is_an_error_in_hdf5(
    tiny: ElmoEmbedder, cell: str
) -> None:
    Path("items.csv").write_text(f"item,c,text\n1,{cell},the cat\n")
    with pytest.raises(InputError, match="cannot name a dataset"):
        tiny.embed_file("items.csv", "o.hdf5", id_column=["item", "c"])


def test_each_column_of_the_id_must_exist(tiny: ElmoEmbedder) -> None:
    pandas.DataFrame(ROWS).to_csv("items.csv", index=False)
    with pytest.raises(InputError, match="no column 'items'"):
        tiny.embed_file("items.csv", "o.hdf5", id_column=["item", "items"])
    result = elmo("embed", "items.csv", "o.h5", "--id-column", "cond, long")
    assert """needs quotes: --id-column '"cond, long"'.""" in result.stderr


def test_a_row_without_a_part_of_the_id_is_an_error(tiny: ElmoEmbedder) -> None:
    Path("items.jsonl").write_text('{"item": 1, "text": "the cat"}\n')
    with pytest.raises(InputError, match="field 'c': expected an id, found none"):
        tiny.embed_file("items.jsonl", "o.parquet", id_column=["item", "c"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("item", ("item",)),
        ("item,condition", ("item", "condition")),
        ("item, condition", ("item", "condition")),
        ('item,"a, b"', ("item", "a, b")),
        ('"a, b"', ("a, b",)),
        (" item", (" item",)),
        ("item,item", ("item", "item")),
    ],
)
def test_names_of_columns(text: str, names: tuple[str, ...]) -> None:
    assert parse_column_names(text) == names
    assert parse_column_names(column_names_text(names)) == names


@pytest.mark.parametrize("text", ["item,", ",", 'item,""'])
def test_an_empty_name_of_a_column_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="expected names separated by commas"):
        parse_column_names(text)


def test_a_skipped_record_without_an_id_keeps_the_numbers_of_the_packed_layout(
    tiny: ElmoEmbedder,
) -> None:
    Path("ids.csv").write_text("id,text\na,the cat\n,sat\nc,the dog sat\n")
    tiny.embed_file("ids.csv", "o.hdf5", "top", layout="packed", skip_errors=True)
    with open_activations("o.hdf5") as output:
        lengths = [len(values) for _, values in output.records()]
    assert lengths == [2, 0, 3]
