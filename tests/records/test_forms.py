"""Forms of text that people have: a word per row, passages, sequences and raw text in tables."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import (
    ElmoEmbedder,
    LanguageModel,
    measure_units,
    open_activations,
    tokenize,
)
from elmo_cli.errors.exceptions import InputError
from tests.support.commands import TINY, elmo, run_python
from tests.support.runs import assert_same_file, embed
from tests.support.strategies import small_architecture
from tests.support.table_files import NAMES, csv_rows, read_rows, write_table

STORIES = {
    "s1": ["The cat sat.", "It was red, they said."],
    "s2": ["A bank closed early."],
    "s3": ["No.", "The river rose.", "We went."],
}
LINES = [sentence for sentences in STORIES.values() for sentence in sentences]
TEXTS = [" ".join(sentences) for sentences in STORIES.values()]
PASSAGES = [
    {"id": story, "text": text} for story, text in zip(STORIES, TEXTS, strict=True)
]
ROWS = [
    {"story": passage["id"], "zone": zone, "word": word}
    for passage in PASSAGES
    for zone, word in enumerate(passage["text"].split(), start=1)
]
TOKENS = [
    [token for word in text.split() for token in tokenize(word)] for text in TEXTS
]

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
    table = write_table(
        f"table.{name}", [{"id": number, "text": "A dog ."} for number in ids]
    )
    options = ("--layers", "top", "--pooling", "mean", "--model", TINY)
    assert elmo("embed", table, "o.parquet", *options).exit_code == 0
    column = parquet.read_table("o.parquet")["id"]
    assert (str(column.type), column.to_pylist()) == ("int64", ids)


# A word per row


@pytest.mark.parametrize("name", NAMES)
def test_a_word_per_row_has_the_context_of_its_text(
    name: str, model_folder: Path
) -> None:
    table = write_table(f"table.{name}", ROWS)
    options = ("--word-column", "word", "--id-column", "story", "--keep-columns", "all")
    rows = surprisals(table, "--model", model_folder, *options)
    assert [(row["id"], row["zone"], row["word"]) for row in rows] == [
        (row["story"], str(row["zone"]), row["word"]) for row in ROWS
    ]
    assert [row["word_number"] for row in rows] == [str(row["zone"]) for row in ROWS]
    Path("lines.txt").write_text("\n".join(map(" ".join, TOKENS)))
    expected = iter(surprisals("lines.txt", "--model", model_folder))
    for row in rows:
        bits = sum(
            float(next(expected)["surprisal"]) for _ in range(int(row["tokens"]))
        )
        assert_allclose(float(row["surprisal"]), bits, atol=1e-5)
    assert next(expected, None) is None


def test_a_text_of_words_is_one_record() -> None:
    options = ("--word-column", "word", "--id-column", "story")
    words = activations_of(write_table("table.csv", ROWS), *options)
    embedder = ElmoEmbedder(model=TINY)
    for values, tokens in zip(words, TOKENS, strict=True):
        assert_allclose(values, embedder.embed_sentence(tokens), atol=1e-6)
    split = activations_of(
        write_table("table.csv", ROWS), *options, "--split-sentences"
    )
    expected = activations_of(write_table("table.csv", PASSAGES), "--split-sentences")
    assert all(map(np.array_equal, split, expected))


# Passages


@pytest.mark.parametrize("name", NAMES)
def test_the_sentences_of_a_passage_are_computed_one_by_one(name: str) -> None:
    pytest.importorskip("sentencex")
    passages = activations_of(
        write_table(f"table.{name}", PASSAGES), "--split-sentences"
    )
    Path("lines.txt").write_text("\n".join(LINES))
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
    table = write_table("table.jsonl", PASSAGES)
    model = ("--model", model_folder)
    Path("lines.txt").write_text("\n".join(LINES))
    split = (table, "--split-sentences", *model)
    moses = ("lines.txt", "--tokenizer", "moses", *model)
    rows, single = (surprisals(*each, "--words-by", "space") for each in (split, moses))
    assert [row["surprisal"] for row in rows] == [row["surprisal"] for row in single]
    assert [int(row["word_number"]) for row in rows] == [row["zone"] for row in ROWS]
    one, other = (elmo("perplexity", *each, "--json").stdout for each in (split, moses))
    assert one == other != ""
    per_record = elmo(
        "perplexity", *split, "--per-sentence", "--json"
    ).stdout.splitlines()
    tokens = [*map(len, map(tokenize, TEXTS))]
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
    options = (
        "--split-sentences",
        "--rows",
        "tokens",
        "--layers",
        "top",
        "--model",
        TINY,
    )
    assert elmo("embed", table, "o.jsonl", *options).exit_code == 0
    rows = read_rows("o.jsonl")
    assert list(rows[0]) == ["id", "line", "position", "token", "vector"]
    positions = [n for text in TEXTS for n in range(len(tokenize(text)))]
    assert [row["position"] for row in rows] == positions


def test_a_state_is_carried_through_the_sentences_of_a_passage() -> None:
    pytest.importorskip("sentencex")
    table = write_table("table.csv", PASSAGES)
    Path("lines.txt").write_text("\n".join(TEXTS))
    carry = ("--split-sentences", "--state", "carry", "--tokenizer", "moses")
    passages = activations_of(table, *carry, "--batch-size", "1")
    lines = activations_of("lines.txt", *carry, "--batch-size", "1")
    assert_allclose(
        np.concatenate(passages, axis=1), np.concatenate(lines, axis=1), atol=1e-6
    )


# Sequences


@pytest.mark.parametrize("name", [*NAMES, "txt"])
def test_residues_of_sequences_are_those_of_fasta(name: str) -> None:
    sequences = ["CASSLGNEQF", "cass lgv*"]
    Path("s.fasta").write_text(f">a\n{sequences[0]}\n>b\ncassl\nGV*\n")
    options = ["--tokenizer", "residues"]
    if name == "txt":
        Path("table.txt").write_text("\n".join(sequences))
    else:
        items = zip("ab", sequences, strict=True)
        write_table(
            f"table.{name}",
            [{"key": key, "junction_aa": value} for key, value in items],
        )
        options += ["--text-column", "junction_aa", "--id-column", "key"]
    values = activations_of(f"table.{name}", *options)
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
    Path("t.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts)
    )
    options = {
        "token": (),
        "word": ("--words-by", "space"),
        "region": ("--regions", "text"),
    }[by]
    rows = surprisals(
        "t.jsonl", "--model", model_folder, "--direction", direction, *options
    )
    language_model = LanguageModel(model=model_folder)
    units = measure_units(language_model, texts, by, direction=direction)
    found = [unit for text in units for unit in text]
    assert [(row[by], row["known"]) for row in rows] == [
        (unit.text, str(int(unit.known))) for unit in found
    ]
    columns = {
        "forward": ["surprisal"],
        "both": ["surprisal_forward", "surprisal_backward"],
    }
    values = [[float(row[column]) for column in columns[direction]] for row in rows]
    bits = np.array([unit.surprisal for unit in found], np.float64)
    assert_allclose(np.array(values), bits, atol=1e-6)
    by_lists = list(
        measure_units(language_model, [texts[0].split()], direction=direction)
    )
    assert [unit.text for unit in by_lists[0]] == texts[0].split()


# CoNLL-U, JSON lines and FASTA

TREEBANK = """\
# newdoc id = d

# sent_id = fr-1
# text = Du vin de New York !
1-2\tDu\t_\t_\t_\t_\t_\t_\t_\t_
1\tDe\tde\tADP\t_\t_\t_\t_\t_\t_
2\tle\tle\tDET\t_\t_\t_\t_\t_\t_
3\tvin\tvin\tNOUN\t_\t_\t_\t_\t_\t_
3.1\tbon\tbon\tADJ\t_\t_\t_\t_\t_\t_
4\tde\tde\tADP\t_\t_\t_\t_\t_\t_
5\tNew York\tNew York\tPROPN\t_\t_\t_\t_\t_\t_
6\t!\t!\tPUNCT\t_\t_\t_\t_\t_\t_


# sent_id=fr-2
1\tOui\toui\tINTJ\t_\t_\t_\t_\t_\t_
"""
SENTENCES = {"fr-1": ["De", "le", "vin", "de", "New York", "!"], "fr-2": ["Oui"]}
PROTEINS = """\
>sp|P1|ONE First protein OS=Homo sapiens
MKV L
agh*

>two
>three a/b
SEQWENCE
"""


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_datasets_are_named_by_sentence_ids(layout: str) -> None:
    Path("b.CoNLLU.gz").write_bytes(gzip.compress(TREEBANK.encode()))
    result = elmo(
        "embed", "b.CoNLLU.gz", "out.hdf5", "--model", TINY, "--layout", layout
    )
    assert "Wrote out.hdf5: 2 sentences, 7 tokens" in result.stderr
    embedder = ElmoEmbedder(model=TINY)
    with open_activations("out.hdf5") as activations:
        assert activations.has_keys
        for key, tokens in SENTENCES.items():
            number = activations.number_of(key)
            assert activations.tokens(number) == tokens
            assert_allclose(
                activations[key], embedder.embed_sentence(tokens), atol=2e-6
            )
    with h5py.File("out.hdf5") as file:
        assert ("fr-1" in file) == (layout == "allennlp")
        assert "sentence_to_index" not in file


def test_a_run_that_an_error_ended_resumes() -> None:
    Path("bad.conllu").write_text(f"{TREEBANK}\n# sent_id = fr-3\n1\n")
    often: dict[str, Any] = {"checkpoint_tokens": 1}
    with pytest.raises(InputError, match=r"bad\.conllu, line 19: expected 10 fields"):
        embed("bad.conllu", "out.hdf5", **often)
    Path("bad.conllu").write_text(f"{TREEBANK}\n# sent_id = fr-3\n1\tNon\n")
    assert embed("bad.conllu", "out.hdf5", **often).resumed_from == 2
    assert embed("bad.conllu", "whole.hdf5", **often).resumed_from == 0
    assert_same_file("out.hdf5", "whole.hdf5")
    with h5py.File("out.hdf5") as file:
        assert sorted(file) == ["fr-1", "fr-2", "fr-3"]
        assert file["fr-2"].attrs["tokens"] == '["Oui"]'


def test_a_skipped_record_keeps_its_number_but_not_its_id() -> None:
    arguments = (
        "embed",
        "-",
        "--model",
        TINY,
        "--input-format",
        "jsonl",
        "--skip-errors",
    )
    elmo(*arguments, "out.hdf5", stdin='{\n{"text": "a b"}\n{}\n{"text": "c"}\n')
    with open_activations("out.hdf5") as activations:
        assert [len(values[0]) for values in activations] == [0, 2, 0, 1]
        assert json.loads(activations.attributes["skipped"]).keys() == {"0", "2"}
    elmo(*arguments, "keys.hdf5", stdin='{\n{"id": "x", "text": "a b"}\n{"id": "y"}\n')
    with open_activations("keys.hdf5") as activations:
        assert [activations.key(number) for number in range(len(activations))] == ["x"]
        assert json.loads(activations.attributes["skipped"]).keys() == {
            "record 1",
            "record 3",
        }


def test_a_residue_is_a_token_and_the_first_word_the_key() -> None:
    Path("p.fasta").write_text(PROTEINS)
    result = elmo("embed", "p.fasta", "out.h5", "--model", TINY)
    assert result.exit_code == 0, result.stderr
    expected = ElmoEmbedder(model=TINY).embed_batch(
        [list("MKVLAGH*"), [], list("SEQWENCE")]
    )
    ids = ["sp|P1|ONE First protein OS=Homo sapiens", "two", "three a/b"]
    with h5py.File("out.h5") as file:
        assert file.attrs["format"] == "fasta"
        assert len(file) == 3
        for name, array in zip(ids, expected, strict=True):
            dataset = file[name.split()[0]]
            assert (dataset.attrs["original_id"], dataset.shape) == (name, array.shape)
            assert_allclose(dataset[()], array, atol=1e-5)
    # The mean of the sum of the layers is SeqVec's vector.
    chosen = ("--layers", "sum", "--pooling", "mean", "--input-format", "fasta")
    elmo("embed", "-", "sum.h5", *chosen, "--model", TINY, stdin=PROTEINS)
    with h5py.File("sum.h5") as file:
        assert_allclose(
            file["three"][()], expected[2].sum(axis=0).mean(axis=0), atol=1e-5
        )
        assert file["two"][()].tolist() == [0] * 32


def test_proteins_for_a_model_of_english_are_warned_of() -> None:
    Path("q.fasta").write_text(">a\n" + "MKVLAGH" * 5 + "\n")
    message = (
        "Warning: the input seems to be proteins, but the model mini was trained on English text. "
        "--model seqvec was trained on proteins.\n"
    )
    assert (
        elmo("embed", "q.fasta", "out.h5", "--model", "mini").stderr.count(message) == 1
    )


# Every format is opened once

COUNT_OPENINGS = """
import sys
from click.testing import CliRunner
from elmo_cli.cli import main

counts, path = [], ""

def count(event, arguments):
    if event == "open" and str(arguments[0]) == path:
        counts[-1] += 1

sys.addaudithook(count)
for command in sys.argv[1:]:
    path, *rest = command.split()
    counts.append(0)
    result = CliRunner().invoke(main, ["embed", path, *rest, "--model", "model"])
    assert result.exit_code == 0, result.output
print(*counts)
"""
"""Program that prints how often each of some commands opens its input."""


@pytest.mark.usefixtures("word_model")
def test_embed_opens_its_input_once() -> None:
    pytest.importorskip("pyarrow")
    Path("a.txt").write_text("a b\n\nc\n")
    Path("a.gz").write_bytes(gzip.compress(b"a b\nc\n"))
    for name in NAMES:
        write_table(f"a.{name}", [{"id": number, "text": "a b"} for number in range(3)])
    options = small_architecture() | {"training": {"tokenizer": "moses:en"}}
    Path("model/options.json").write_text(json.dumps(options))
    commands = [
        "a.txt text.hdf5",
        "a.gz gz.hdf5",
        "a.csv csv.parquet",
        "a.jsonl jsonl.hdf5",
        "a.json json.hdf5",
        "a.parquet parquet.parquet --keep-columns all",
        "a.csv kept.parquet --rows tokens --keep-columns all",
        "a.txt moses.hdf5 --tokenizer moses",
    ]
    result = run_python("-c", COUNT_OPENINGS, *commands)
    assert result.stdout.split() == ["1"] * len(commands), result.stderr
