"""Tables of `elmo perplexity`, `predict`, `change` and `neighbours`: --format and kept columns."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import elmo
from table_files import csv_rows

MODEL = ("--model", "model")


@pytest.fixture(autouse=True)
def items(word_model: None) -> None:
    """Write a table in the current folder."""
    Path("items.csv").write_text('id,text,note\na,the cat,"x, ""y"""\nb,the dog,\n')


def test_perplexity_keeps_ids_and_columns() -> None:
    options = ("--per-sentence", "--format", "csv", "--keep-columns", "note")
    rows = csv_rows(elmo("perplexity", "items.csv", *MODEL, *options).stdout)
    cells = [(row["id"], row["tokens"], row["unknown"], row["note"]) for row in rows]
    assert cells == [("a", "2", "0", 'x, "y"'), ("b", "2", "1", "")]


def test_predictions_keep_ids_and_columns() -> None:
    arguments = ("predict", "--file", "items.csv", *MODEL, "--top", "1", "--keep-columns", "note")
    [first, _] = csv_rows(elmo(*arguments, "--format", "csv").stdout)
    assert (first["id"], first["rank"], first["word"], first["note"]) == (
        *("a", "1", "</S>"),
        'x, "y"',
    )
    answer = json.loads(elmo(*arguments, "--json").stdout.splitlines()[0])
    assert (answer["id"], answer["note"], answer["word"]) == ("a", 'x, "y"', "</S>")


def test_substitutes_mark_unknown_words() -> None:
    arguments = ("predict", "--file", "items.csv", *MODEL, "--each", "--top", "1")
    rows = csv_rows(elmo(*arguments, "--format", "csv").stdout)
    assert [(row["position"], row["token"], row["known"]) for row in rows] == [
        *(("0", "the", "1"), ("1", "cat", "1"), ("0", "the", "1"), ("1", "dog", "0"))
    ]


def test_a_text_and_samples_may_be_rows_too() -> None:
    one = elmo("predict", "the cat", *MODEL, "--top", "1", "--format", "tsv", "-q")
    assert one.stdout == "line\trank\tword\tprobability\n1\t1\t</S>\t0.250000\n"
    rows = csv_rows(elmo("predict", "the", *MODEL, "--sample", "2", "--format", "csv").stdout)
    assert [(row["line"], row["sample_number"]) for row in rows] == [("1", "1"), ("1", "2")]
    assert all(row["text"].split()[0] == "the" for row in rows)


def test_changes_are_quoted() -> None:
    random = np.random.default_rng(0)
    for name in ("old.npz", "new.npz"):
        np.savez(name, **{'a,"b"': random.normal(size=(4, 3))})  # type: ignore[arg-type]
    [row] = csv_rows(elmo("change", "old.npz", "new.npz", "--format", "csv").stdout)
    assert (row["word"], row["n_old"], row["n_new"]) == ('a,"b"', "4", "4")
    answer = elmo("change", "old.npz", "new.npz", "--format", "jsonl")
    assert json.loads(answer.stdout) == json.loads(
        elmo("change", "old.npz", "new.npz", "--json").stdout
    )
