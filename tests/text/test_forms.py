"""Forms of text that people have: a word per row, passages, sequences and raw text in tables."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import TINY, assert_fails, elmo
from numpy.testing import assert_allclose, assert_array_equal
from table_files import NAMES, csv_rows, read_rows, write_table

from elmo_cli import ElmoEmbedder, LanguageModel, measure_units, open_activations, tokenize

STORIES = {
    "s1": ["The cat sat.", "It was red, they said."],
    "s2": ["A bank closed early."],
    "s3": ["No.", "The river rose.", "We went."],
}
ROWS = [
    {"story": story, "zone": zone, "word": word}
    for story, sentences in STORIES.items()
    for zone, word in enumerate(" ".join(sentences).split(), start=1)
]
PASSAGES = [{"id": name, "text": " ".join(sentences)} for name, sentences in STORIES.items()]

pytestmark = pytest.mark.usefixtures("folder")


def surprisals(*arguments: str | Path) -> list[dict[str, str]]:
    """Return the rows of `elmo surprisal`."""
    result = elmo("surprisal", *arguments, "--format", "csv")
    assert result.exit_code == 0, result.stderr
    return csv_rows(result.stdout)


def activations_of(table: str, *options: str) -> list[np.ndarray]:
    """Embed a table to HDF5, and return the activations of its records."""
    result = elmo("embed", table, "o.h5", "--model", TINY, "--overwrite", *options)
    assert result.exit_code == 0, result.stderr
    with open_activations("o.h5") as activations:
        return [np.asarray(each) for each in activations]


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_19_digits_join_the_output_with_its_input(name: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    ids = [1294030472427835393, 1294030472427835394]
    table = write_table(f"table.{name}", [{"id": number, "text": "A dog ."} for number in ids])
    options = ("--layers", "top", "--pooling", "mean", "--model", TINY)
    assert elmo("embed", table, "o.parquet", *options).exit_code == 0
    column = parquet.read_table("o.parquet")["id"]
    assert (str(column.type), column.to_pylist()) == ("int64", ids)


# A word per row


@pytest.mark.parametrize("name", NAMES)
def test_a_word_per_row_has_the_context_of_its_text(name: str, model_folder: Path) -> None:
    table = write_table(f"table.{name}", ROWS)
    options = ("--word-column", "word", "--id-column", "story", "--keep-columns", "all")
    rows = surprisals(table, "--model", model_folder, *options)
    assert [(row["id"], row["zone"], row["word"]) for row in rows] == [
        (row["story"], str(row["zone"]), row["word"]) for row in ROWS
    ]
    assert [row["word_number"] for row in rows] == [str(row["zone"]) for row in ROWS]
    tokens = [
        [token for word in " ".join(text).split() for token in tokenize(word)]
        for text in STORIES.values()
    ]
    Path("lines.txt").write_text("".join(" ".join(line) + "\n" for line in tokens))
    expected = iter(surprisals("lines.txt", "--model", model_folder))
    for row in rows:
        bits = sum(float(next(expected)["surprisal"]) for _ in range(int(row["tokens"])))
        assert_allclose(float(row["surprisal"]), bits, atol=1e-5)
    assert next(expected, None) is None


def test_a_text_of_words_is_one_record() -> None:
    options = ("--word-column", "word", "--id-column", "story")
    words = activations_of(write_table("table.csv", ROWS), *options)
    embedder = ElmoEmbedder(model=TINY)
    for values, sentences in zip(words, STORIES.values(), strict=True):
        tokens = [token for word in " ".join(sentences).split() for token in tokenize(word)]
        assert_allclose(values, embedder.embed_sentence(tokens), atol=1e-6)
    split = activations_of(write_table("table.csv", ROWS), *options, "--split-sentences")
    expected = activations_of(write_table("table.csv", PASSAGES), "--split-sentences")
    assert all(map(np.array_equal, split, expected))


# Passages


@pytest.mark.parametrize("name", NAMES)
def test_the_sentences_of_a_passage_are_computed_one_by_one(name: str) -> None:
    pytest.importorskip("sentencex")
    passages = activations_of(write_table(f"table.{name}", PASSAGES), "--split-sentences")
    lines = [sentence for sentences in STORIES.values() for sentence in sentences]
    Path("lines.txt").write_text("\n".join(lines))
    single = iter(activations_of("lines.txt", "--tokenizer", "moses"))
    for values, sentences in zip(passages, STORIES.values(), strict=True):
        expected = np.concatenate([next(single) for _ in sentences], axis=1)
        assert_array_equal(values, expected)


@pytest.mark.parametrize("pooling", ["mean", "max", "first", "last"])
def test_a_passage_is_pooled_over_all_its_tokens(pooling: str) -> None:
    pytest.importorskip("sentencex")
    table = write_table("table.csv", PASSAGES)
    passages = activations_of(table, "--split-sentences", "--layers", "top")
    options = ("--layers", "top", "--pooling", pooling, "--normalize")
    pooled = activations_of(table, "--split-sentences", *options)
    for values, vector in zip(passages, pooled, strict=True):
        pools = {"mean": values.mean(0), "max": values.max(0), "first": values[0]}
        expected = pools.get(pooling, values[-1])
        assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)


def test_a_passage_is_one_record_of_every_command(model_folder: Path) -> None:
    pytest.importorskip("sentencex")
    table, model = write_table("table.jsonl", PASSAGES), ("--model", model_folder)
    Path("lines.txt").write_text("\n".join(text for texts in STORIES.values() for text in texts))
    split = (table, "--split-sentences", *model)
    moses = ("lines.txt", "--tokenizer", "moses", *model)
    rows, single = (surprisals(*each, "--words-by", "space") for each in (split, moses))
    assert [row["surprisal"] for row in rows] == [row["surprisal"] for row in single]
    numbers = [n for texts in STORIES.values() for n in range(1, len(" ".join(texts).split()) + 1)]
    assert [int(row["word_number"]) for row in rows] == numbers
    one, other = (elmo("perplexity", *each, "--json").stdout for each in (split, moses))
    assert one == other != ""
    per_record = elmo("perplexity", *split, "--per-sentence", "--json").stdout.splitlines()
    tokens = [len(tokenize(" ".join(texts))) for texts in STORIES.values()]
    assert [json.loads(line)["tokens"] for line in per_record] == tokens
    each = ("--each", "--top", "1", "--json")
    words, expected = (
        re.findall(r'"word": "(.+?)"', elmo("predict", "--file", *of, *each).stdout)
        for of in (split, moses)
    )
    assert words == expected != []


def test_rows_of_tokens_count_over_the_passage() -> None:
    pytest.importorskip("sentencex")
    table = write_table("table.csv", PASSAGES)
    options = ("--split-sentences", "--rows", "tokens", "--layers", "top", "--model", TINY)
    assert elmo("embed", table, "o.jsonl", *options).exit_code == 0
    rows = read_rows("o.jsonl")
    assert list(rows[0]) == ["id", "line", "position", "token", "vector"]
    tokens = [tokenize(" ".join(sentences)) for sentences in STORIES.values()]
    assert [row["position"] for row in rows] == [n for each in tokens for n in range(len(each))]


def test_a_state_is_carried_through_the_sentences_of_a_passage() -> None:
    pytest.importorskip("sentencex")
    table = write_table("table.csv", PASSAGES)
    Path("lines.txt").write_text("\n".join(text["text"] for text in PASSAGES))
    carry = ("--split-sentences", "--state", "carry", "--tokenizer", "moses")
    passages = activations_of(table, *carry, "--batch-size", "1")
    lines = activations_of("lines.txt", *carry, "--batch-size", "1")
    assert_allclose(np.concatenate(passages, axis=1), np.concatenate(lines, axis=1), atol=1e-6)
    result = elmo("embed", table, "p.h5", "--model", TINY, *carry)
    error = "--state carry with --split-sentences of a table requires --batch-size 1, not 64."
    assert_fails(result, error, loads=True)


# Sequences


@pytest.mark.parametrize("name", [*NAMES, "txt"])
def test_residues_of_sequences_are_those_of_fasta(name: str) -> None:
    sequences = ["CASSLGNEQF", "cass lgv*"]
    Path("s.fasta").write_text(f">a\n{sequences[0]}\n>b\ncassl\nGV*\n")
    if name == "txt":
        Path("table.txt").write_text("\n".join(sequences))
    else:
        items = zip("ab", sequences, strict=True)
        rows = [{"sequence_id": key, "junction_aa": value} for key, value in items]
        write_table(f"table.{name}", rows)
    columns = ("--text-column", "junction_aa", "--id-column", "sequence_id")
    options = () if name == "txt" else columns
    values = activations_of(f"table.{name}", "--tokenizer", "residues", *options)
    with open_activations("o.h5") as activations:
        assert activations.tokens(1) == list("CASSLGV*")
    assert all(map(np.array_equal, values, activations_of("s.fasta")))


# Default tokenizers


def test_the_default_tokenizer_goes_by_the_input() -> None:
    text = "Don't go, ..."
    rows: list[tuple[dict[str, Any], list[str]]]
    rows = [({"text": text}, tokenize(text)), ({"tokens": text}, text.split())]
    lists = [({"tokens": ["go,", "a b"]}, ["go,", "a b"]), ({"text": ["a b"]}, ["a b"])]
    cases = [(f"t.{name}", row, tokens) for name in NAMES for row, tokens in rows]
    embedder = ElmoEmbedder(model=TINY)
    for name, row, tokens in (*cases, *(("t.jsonl", *each) for each in lists)):
        write_table(name, [row])
        activations_of(name)
        embedder.embed_file(name, "p.h5", overwrite=True)
        for file in ("o.h5", "p.h5"):
            with open_activations(file) as activations:
                assert activations.tokens(0) == tokens, (name, row)
    Path("t.txt").write_text(text)
    activations_of("t.txt")
    with open_activations("o.h5") as activations:
        assert activations.tokens(0) == text.split()


# Python


@pytest.mark.parametrize("by", ["token", "word", "region"])
@pytest.mark.parametrize("direction", ["forward", "both"])
def test_units_in_python_are_the_rows_of_the_command(
    by: Any, direction: Any, model_folder: Path
) -> None:
    texts = ["The cat | sat, they said.", "No."]
    Path("t.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    options = {"token": (), "word": ("--words-by", "space"), "region": ("--regions", "text")}[by]
    rows = surprisals("t.jsonl", "--model", model_folder, "--direction", direction, *options)
    language_model = LanguageModel(model=model_folder)
    units = measure_units(language_model, texts, by, direction=direction)
    found = [unit for text in units for unit in text]
    assert [(row[by], row["known"]) for row in rows] == [
        (unit.text, str(int(unit.known))) for unit in found
    ]
    columns = {"forward": ["surprisal"], "both": ["surprisal_forward", "surprisal_backward"]}
    values = [[float(row[column]) for column in columns[direction]] for row in rows]
    bits = np.array([unit.surprisal for unit in found], np.float64)
    assert_allclose(np.array(values), bits, atol=1e-6)
    by_lists = list(measure_units(language_model, [texts[0].split()], direction=direction))
    assert [unit.text for unit in by_lists[0]] == texts[0].split()
