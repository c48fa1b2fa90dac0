"""Forms of text that people have: a word per row, passages, sequences and raw text in tables."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import TINY, assert_fails, elmo
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from table_files import NAMES, csv_rows, read_rows, write_table

from elmo_cli import ElmoEmbedder, LanguageModel, measure_units, open_activations, tokenize
from elmo_cli.text.parsers import record_of_words, row_record
from elmo_cli.text.records import Record, TextSettings
from elmo_cli.text.tokenizers import Tokenizer, make_tokenizer

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


# Files as other programs write them

FILES: dict[str, tuple[str, str, str, list[str]]] = {
    "a column counts tokens": ("csv", "", "id,text,tokens\n1,A dog .,3\n", ["1 A dog ."]),
    "quotes are text": (
        "tsv",
        "--text-column context --id-column key --quotes none",
        'key\tcontext\na\t" A dog ,\nb\tIt sat .\nc\tA cat . "\n',
        ['a " A dog ,', "b It sat .", 'c A cat . "'],
    ),
    "tabs in csv": (
        "csv",
        "--text-column context --quotes none",
        'id\tcontext\nb\t" Why ? " she said .\n',
        ['b " Why ? " she said .'],
    ),
    "empty rows": (
        "csv",
        "",
        "id,text,,\n1,A dog .,,\n,,,\n2,A cat .,,\n,,,\n",
        ["1 A dog .", "2 A cat ."],
    ),
    "joined files": ("csv", "", "\ufeffid,text\n1,A dog\n\ufeff2,A cat\n", ["1 A dog", "2 A cat"]),
    "semicolons and decimal commas": (
        "csv",
        "--text-column sentence --id-column item",
        "\ufeffitem;sentence;rt\r\n1;A dog, a cat.;3,5\r\n",
        ["1 A dog , a cat ."],
    ),
    "Prodigy": (
        "jsonl",
        "--id-column _task_hash",
        '{"text": "Kim left.", "_task_hash": -7, "tokens": [{"text": "Kim", "start": 0, "end": 3, '
        '"id": 0}, {"text": "left.", "start": 4, "end": 9, "id": 1}], "spans": []}\n',
        ["-7 Kim left."],
    ),
    "Label Studio": (
        "json",
        "--text-column data.text",
        '[{"id": 1, "annotations": [], "data": {"text": "A dog."}}]',
        ["1 A dog ."],
    ),
    "whole floats as ids": (
        "jsonl",
        "",
        '{"id": 1.0, "text": "A"}\n{"id": 2.0, "text": "B"}',
        ["1 A", "2 B"],
    ),
    "sentences": (
        "csv",
        "--split-sentences",
        'id,text\n1,"I slept. It rained."\n',
        ["1 I slept . It rained ."],
    ),
}


@pytest.mark.parametrize(("name", "options", "content", "texts"), FILES.values(), ids=FILES)
@pytest.mark.parametrize("is_stream", [False, True])
def test_files_of_other_programs_are_read(
    name: str, options: str, content: str, texts: list[str], is_stream: bool, model_folder: Path
) -> None:
    if "--split-sentences" in options:
        pytest.importorskip("sentencex")
    path = Path(f"a.{name}")
    path.write_bytes(content.encode())
    source, stdin = ("-", path.read_bytes()) if is_stream else (path, b"")
    arguments = (source, *options.split(), "--input-format", name, "--model", model_folder)
    result = elmo("surprisal", *arguments, "--format", "csv", stdin=stdin)
    assert result.exit_code == 0, result.stderr
    tokens: dict[str, list[str]] = {}
    for row in csv_rows(result.stdout):
        tokens.setdefault(row["id"], []).append(row["token"])
    assert [" ".join([key, *each]) for key, each in tokens.items()] == texts
    scores = elmo("perplexity", *arguments, "--per-sentence", "--json", stdin=stdin).stdout
    assert [json.loads(line)["tokens"] for line in scores.splitlines()] == list(
        map(len, tokens.values())
    )


def test_typographic_apostrophes_have_equal_surprisal(model_folder: Path) -> None:
    texts = [{"text": f"She didn{mark}t know it{mark}s hers."} for mark in "'’"]
    rows = surprisals(
        write_table("table.csv", texts), "--model", model_folder, "--words-by", "space"
    )
    plain, typographic = rows[:5], rows[5:]
    assert [row["word"] for row in typographic] == texts[1]["text"].split()
    for name in ("surprisal", "known", "tokens"):
        assert [row[name] for row in plain] == [row[name] for row in typographic]


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


@given(st.lists(st.lists(st.sampled_from(["a", "b.", "Mr. X", "", "x\t"]), max_size=4), max_size=4))
def test_sentences_of_words_contain_every_word_once(sentences: list[list[str]]) -> None:
    words = [word for sentence in sentences for word in sentence]
    texts = [" ".join(sentence) for sentence in sentences]
    tokenizer = replace(make_tokenizer("moses"), splits_by="en")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tokenizer, "split_sentences", lambda tokenizer, text: texts)
        record = record_of_words(Record("", []), words, tokenizer)
    assert [word.text for word in record.words] == words
    assert record.tokens == [token for word in words for token in tokenizer.tokenize(word)]
    assert sum(word.n_tokens for word in record.words) == len(record.tokens)
    if record.sentences:
        assert [token for tokens in record.split() for token in tokens] == record.tokens
        spans = [span.text.split() for span in record.sentences]
        assert spans == [text.split() for text in texts if text.split()]


READINGS = [
    {"item": 1, "zone": zone, "word": word, "subject": subject, "rt": 300 + zone}
    for zone, word in enumerate(["The", "north", "of", "it", "rose."], start=1)
    for subject in ("a", "b")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_row_per_word_and_subject_is_warned_of(name: str, model_folder: Path) -> None:
    options = ("--word-column", "word", "--id-column", "item", "--model", model_folder)
    result = elmo("surprisal", write_table(f"table.{name}", READINGS), *options)
    assert "Warning: most words repeat the one before (The The)" in result.stderr
    once = elmo("surprisal", write_table(f"table.{name}", READINGS[::2]), *options)
    assert "Warning" not in once.stderr


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
    table, split = (
        write_table("table.jsonl", PASSAGES),
        ("--split-sentences", "--model", model_folder),
    )
    lines = [sentence for sentences in STORIES.values() for sentence in sentences]
    Path("lines.txt").write_text("\n".join(lines))
    rows = surprisals(table, *split, "--words-by", "space")
    single = surprisals("lines.txt", "--model", model_folder, "--words-by", "space")
    assert [row["surprisal"] for row in rows] == [row["surprisal"] for row in single]
    numbers = [n for texts in STORIES.values() for n in range(1, len(" ".join(texts).split()) + 1)]
    assert [int(row["word_number"]) for row in rows] == numbers
    perplexity = elmo("perplexity", table, *split, "--json").stdout
    moses = ("--tokenizer", "moses", "--model", model_folder)
    assert perplexity == elmo("perplexity", "lines.txt", *moses, "--json").stdout
    per_record = elmo("perplexity", table, *split, "--per-sentence", "--json").stdout.splitlines()
    tokens = [len(tokenize(" ".join(texts))) for texts in STORIES.values()]
    assert [json.loads(line)["tokens"] for line in per_record] == tokens
    each = elmo("predict", "--file", table, *split, "--each", "--top", "1", "--json").stdout
    alone = elmo("predict", "--file", "lines.txt", *moses, "--each", "--top", "1", "--json").stdout
    words = [json.loads(line)["word"] for line in each.splitlines()]
    assert words == [json.loads(line)["word"] for line in alone.splitlines()] != []


def test_rows_of_tokens_count_over_the_passage() -> None:
    pytest.importorskip("sentencex")
    table = write_table("table.csv", PASSAGES)
    options = ("--split-sentences", "--rows", "tokens", "--layers", "top", "--model", TINY)
    assert elmo("embed", table, "o.jsonl", *options).exit_code == 0
    rows = read_rows("o.jsonl")
    assert list(rows[0]) == ["id", "line", "position", "token", "vector"]
    tokens = [tokenize(" ".join(sentences)) for sentences in STORIES.values()]
    assert [row["position"] for row in rows] == [n for each in tokens for n in range(len(each))]


def test_a_repeated_id_begins_a_text_of_its_own(model_folder: Path) -> None:
    rows = [
        {"id": name, "word": word} for name, word in zip("aaba", ["a", "b", "c", "d"], strict=True)
    ]
    options = ("--word-column", "word", "--model", model_folder)
    found = surprisals(write_table("table.csv", rows), *options)
    assert [(row["id"], row["line"], row["word_number"]) for row in found] == [
        ("a", "1", "1"),
        ("a", "1", "2"),
        ("b", "2", "1"),
        ("a", "3", "1"),
    ]
    assert list(surprisals(write_table("table.csv", rows[:3]), *options)[0])[:2] == [
        "id",
        "word_number",
    ]


def test_pairs_of_passages_are_the_sums_of_their_sentences(model_folder: Path) -> None:
    pytest.importorskip("sentencex")
    pair = {"good": "The cat sat. It was red.", "bad": "The cat sat."}
    table, options = (
        write_table("table.csv", [pair]),
        ("--pairs", "good,bad", "--model", model_folder),
    )
    [row] = surprisals(table, *options, "--split-sentences")
    [first] = surprisals(write_table("table.csv", [pair | {"good": "The cat sat."}]), *options)
    [second] = surprisals(write_table("table.csv", [pair | {"good": "It was red."}]), *options)
    total = float(first["surprisal_good"]) + float(second["surprisal_good"])
    assert_allclose(float(row["surprisal_good"]), total, atol=1e-5)
    assert_allclose(float(row["surprisal_bad"]), float(first["surprisal_bad"]), atol=1e-5)


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
    expected = {"text": tokenize(text), "tokens": text.split()}
    for name in NAMES:
        for column, tokens in expected.items():
            activations_of(write_table(f"table.{name}", [{column: text}]))
            with open_activations("o.h5") as activations:
                assert activations.tokens(0) == tokens, (name, column)
    for rows in ([{"tokens": ["go,", "a b"]}], [{"text": ["go,", "a b"]}]):
        activations_of(write_table("table.jsonl", rows))
        with open_activations("o.h5") as activations:
            assert activations.tokens(0) == ["go,", "a b"]
    Path("t.txt").write_text(text)
    activations_of("t.txt")
    with open_activations("o.h5") as activations:
        assert activations.tokens(0) == text.split()


def test_the_library_chooses_the_same_tokenizer() -> None:
    table = write_table("table.csv", [{"text": "Don't go, ..."}])
    expected = activations_of(table)
    ElmoEmbedder(model=TINY).embed_file(table, "p.h5")
    with open_activations("p.h5") as activations:
        assert_array_equal(activations[0], expected[0])


def test_a_record_without_sentences_is_one() -> None:
    settings = TextSettings(split_sentences=False)
    record, error = row_record({"text": "A b. C d."}, settings, make_tokenizer("moses"))
    assert (record.split(), error) == ([["A", "b", ".", "C", "d", "."]], None)


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
    columns = (
        ["surprisal"] if direction == "forward" else ["surprisal_forward", "surprisal_backward"]
    )
    values = [[float(row[column]) for column in columns] for row in rows]
    bits = np.array([unit.surprisal for unit in found], np.float64)
    assert_allclose(np.array(values), bits, atol=1e-6)
    by_lists = list(measure_units(language_model, [texts[0].split()], direction=direction))
    assert [unit.text for unit in by_lists[0]] == texts[0].split()
