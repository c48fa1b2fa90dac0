"""Forms of text that people have: words per row, passages, sequences, tables."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import (
    ElmoEmbedder,
    LanguageModel,
    measure_surprisal,
    open_activations,
    tokenize,
)
from elmo_cli.errors.exceptions import InputError
from tests.support.commands import PROGRAMS, TINY, elmo, run_python
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


def words_of_passages() -> list[dict[str, Any]]:
    """Return a row per word, with the story and the place of the word in it."""
    rows: list[dict[str, Any]] = []
    for passage in PASSAGES:
        for zone, word in enumerate(passage["text"].split(), start=1):
            rows.append({"story": passage["id"], "zone": zone, "word": word})
    return rows


ROWS = words_of_passages()
TOKENS = [
    [token for word in text.split() for token in tokenize(word)] for text in TEXTS
]
RAW = "Don't go, ..."

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
    rows = [{"id": number, "text": "A dog ."} for number in ids]
    table = write_table(f"table.{name}", rows)
    result = elmo(
        "embed",
        table,
        "o.parquet",
        "--layers",
        "top",
        "--pooling",
        "mean",
        "--model",
        TINY,
    )
    assert result.exit_code == 0
    column = parquet.read_table("o.parquet")["id"]
    assert str(column.type) == "int64"
    assert column.to_pylist() == ids


# A word per row


@pytest.mark.parametrize("name", NAMES)
def test_a_word_per_row_has_the_context_of_its_text(
    name: str, model_folder: Path
) -> None:
    found = surprisals(
        write_table(f"table.{name}", ROWS),
        "--model",
        model_folder,
        "--word-column",
        "word",
        "--id-column",
        "story",
        "--keep-columns",
        "all",
    )
    Path("lines.txt").write_text("\n".join(" ".join(tokens) for tokens in TOKENS))
    by_token = iter(surprisals("lines.txt", "--model", model_folder))
    for row, expected in zip(found, ROWS, strict=True):
        assert row["id"] == expected["story"]
        assert row["word"] == expected["word"]
        assert row["zone"] == str(expected["zone"])
        assert row["word_number"] == str(expected["zone"])
        bits = 0.0
        for _ in range(int(row["tokens"])):
            bits += float(next(by_token)["surprisal"])
        assert_allclose(float(row["surprisal"]), bits, atol=1e-5)
    assert next(by_token, None) is None


def test_the_words_of_a_text_are_one_record() -> None:
    table = write_table("table.csv", ROWS)
    words = activations_of(table, "--word-column", "word", "--id-column", "story")
    embedder = ElmoEmbedder(model=TINY)
    for values, tokens in zip(words, TOKENS, strict=True):
        assert_allclose(values, embedder.embed_sentence(tokens), atol=1e-6)


QUOTED = [
    "The companies' 'snow angel' plans ended.",
    "He said 'Yes, I do.' No. no, “they” said. Mr. Lee's cat–dog sat.",
]
"""Texts whose words have other tokens by themselves."""


@pytest.mark.parametrize("options", [[], ["--split-sentences"]])
@pytest.mark.parametrize("tokenizer", ["moses", "spacy", "whitespace"])
def test_a_text_has_the_same_values_in_every_form(
    tokenizer: str, options: list[str], model_folder: Path
) -> None:
    pytest.importorskip("spacy" if tokenizer == "spacy" else "sacremoses")
    if options:
        pytest.importorskip("sentencex")
    options = [*options, "--tokenizer", tokenizer, "--model", str(model_folder)]
    options += ["--direction", "both", "--entropy"]
    cells = []
    rows = []
    regions = []
    lists = []
    for number, text in enumerate(QUOTED, start=1):
        words = text.split()
        cells.append({"id": number, "text": text})
        lists.append({"id": number, "text": words})
        regions.append({"id": number, "text": " | ".join(words)})
        rows += [{"id": number, "word": word} for word in words]
    expected = surprisals(write_table("cells.csv", cells), *options, "--by", "word")
    by_row = surprisals(
        write_table("rows.csv", rows), *options, "--word-column", "word"
    )
    assert by_row == expected
    by_list = surprisals(write_table("lists.jsonl", lists), *options, "--by", "word")
    assert by_list == expected
    by_word_of_region = surprisals(
        write_table("regions.csv", regions), *options, "--regions", "text", "--by=word"
    )
    for row, word in zip(by_word_of_region, expected, strict=True):
        assert row.pop("region_number") == word["word_number"]
        assert row.pop("region") == word["word"]
        assert row == word
    by_region = surprisals(
        write_table("regions.csv", regions), *options, "--regions", "text"
    )
    for region, word in zip(by_region, expected, strict=True):
        shown = {**region, "word": region["region"]}
        assert {name: shown[name] for name in word if name != "word_number"} == {
            name: value for name, value in word.items() if name != "word_number"
        }


def test_words_with_their_own_spaces_have_the_values_of_their_text(
    model_folder: Path,
) -> None:
    (model_folder.parent / "counts.txt").write_text("mr. 3\nmr 2\ncat 5\n")
    options = ["--model", str(model_folder), "--tokenizer", "moses"]
    options += ["--frequencies", str(model_folder.parent / "counts.txt")]
    text = "Mr. cat, Mr. Cat sat."
    words = [
        word if index == 0 else f" {word}" for index, word in enumerate(text.split())
    ]
    rows = [{"id": 1, "word": word} for word in words]
    spaced = surprisals(write_table("rows.csv", rows), *options, "--word-column=word")
    cell = write_table("cell.csv", [{"id": 1, "text": text}])
    expected = surprisals(cell, *options, "--by", "word")
    frequency = float(expected[2]["log_frequency"])
    assert frequency == pytest.approx(np.log2(3 / 10), abs=1e-4)
    for row, word in zip(spaced, expected, strict=True):
        assert row == {**word, "word": row["word"]}
        assert row["word"].strip() == word["word"]


def test_regions_of_a_list_are_an_error(model_folder: Path) -> None:
    model = LanguageModel(model_folder)
    message = "expected a text with regions, found a list. Join its items with spaces."
    with pytest.raises(InputError, match=f"^record 1: {re.escape(message)}$"):
        measure_surprisal(model, [["the", "cat", "|", "sat"]], "region")
    rows = [{"id": "a", "text": ["the", "cat", "|", "sat"]}]
    table = write_table("lists.jsonl", rows)
    for by in ([], ["--by", "word"]):
        result = elmo(
            "surprisal", table, f"--model={model_folder}", "--regions=text", *by
        )
        assert result.exit_code == 1
        found = result.stderr.splitlines()[-1]
        assert found == f"Error: lists.jsonl, line 1: field 'text': {message}"


def test_words_that_begin_with_spaces_are_joined_as_they_are(
    model_folder: Path,
) -> None:
    words = ["The", " right", "-wing", " can", "'t", " sit", "."]
    rows = [{"id": 1, "word": word} for word in words]
    table = write_table("rows.csv", rows)
    found = elmo(
        *["surprisal", table, "--word-column", "word", "--tokenizer", "moses"],
        *["--model", str(model_folder), "--format", "csv"],
    )
    assert found.exit_code == 0
    assert "Warning: 2 words, such as ' right', have a token with char" in found.stderr
    tokens = ["The", "right-wing", "can", "'t", "sit", "."]
    Path("line.txt").write_text(" ".join(tokens))
    values = [
        row["surprisal"] for row in surprisals("line.txt", "--model", model_folder)
    ]
    rows_found = csv_rows(found.stdout)
    assert [row["word"] for row in rows_found] == words
    assert [row["surprisal"] for row in rows_found] == [
        values[0],
        *[values[1], values[1]],
        *values[2:],
    ]


# Passages


def test_the_words_of_a_text_are_split_into_its_sentences() -> None:
    table = write_table("table.csv", ROWS)
    found = activations_of(
        table, "--word-column", "word", "--id-column", "story", "--split-sentences"
    )
    passages = write_table("passages.csv", PASSAGES)
    expected = activations_of(passages, "--split-sentences")
    for values, others in zip(found, expected, strict=True):
        assert_array_equal(values, others)


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


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [
        ("mean", lambda values: values.mean(axis=0)),
        ("max", lambda values: values.max(axis=0)),
        ("first", lambda values: values[0]),
        ("last", lambda values: values[-1]),
    ],
)
def test_a_passage_is_pooled_over_all_its_tokens(
    pooling: str, pool: Callable[[np.ndarray], np.ndarray]
) -> None:
    pytest.importorskip("sentencex")
    table = write_table("table.csv", PASSAGES)
    passages = activations_of(table, "--split-sentences", "--layers", "top")
    pooled = activations_of(
        table,
        "--split-sentences",
        "--layers",
        "top",
        "--pooling",
        pooling,
        "--normalize",
    )
    for values, vector in zip(passages, pooled, strict=True):
        expected = pool(values)
        assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)


@pytest.fixture
def passages_and_sentences(folder: Path) -> None:
    """Write passages into a table, and their sentences into lines.txt."""
    pytest.importorskip("sentencex")
    write_table("table.jsonl", PASSAGES)
    Path("lines.txt").write_text("\n".join(LINES))


@pytest.mark.usefixtures("passages_and_sentences")
def test_surprisal_of_a_passage_is_that_of_its_sentences(model_folder: Path) -> None:
    rows = surprisals(
        "table.jsonl",
        "--split-sentences",
        "--model",
        model_folder,
        "--by",
        "word",
    )
    expected = surprisals(
        "lines.txt",
        "--tokenizer",
        "moses",
        "--model",
        model_folder,
        "--by",
        "word",
    )
    bits = [row["surprisal"] for row in rows]
    assert bits == [row["surprisal"] for row in expected]
    numbers = [int(row["word_number"]) for row in rows]
    assert numbers == [row["zone"] for row in ROWS]


@pytest.mark.usefixtures("passages_and_sentences")
def test_perplexity_of_a_passage_is_that_of_its_sentences(model_folder: Path) -> None:
    def of_passages(*options: str) -> str:
        """Return the perplexity of the passages."""
        result = elmo(
            "perplexity",
            "table.jsonl",
            "--split-sentences",
            "--model",
            model_folder,
            "--json",
            *options,
        )
        return result.stdout

    expected = elmo(
        "perplexity",
        "lines.txt",
        "--tokenizer",
        "moses",
        "--model",
        model_folder,
        "--json",
    ).stdout
    assert expected != ""
    assert of_passages() == expected
    found: list[int] = []
    for line in of_passages("--per-sentence").splitlines():
        found.append(json.loads(line)["tokens"])
    assert found == [len(tokenize(text)) for text in TEXTS]


@pytest.mark.usefixtures("passages_and_sentences")
def test_words_predicted_in_a_passage_are_those_of_its_sentences(
    model_folder: Path,
) -> None:
    def predicted(path: str, *options: str) -> list[str]:
        """Return the likeliest word at each place."""
        result = elmo(
            "predict",
            "--file",
            path,
            "--each",
            "--top",
            "1",
            "--json",
            "--model",
            model_folder,
            *options,
        )
        return re.findall(r'"word": "(.+?)"', result.stdout)

    words = predicted("table.jsonl", "--split-sentences")
    assert words == predicted("lines.txt", "--tokenizer", "moses") != []


def test_positions_in_rows_of_tokens_count_through_the_passage() -> None:
    pytest.importorskip("sentencex")
    table = write_table("table.csv", PASSAGES)
    result = elmo(
        "embed",
        table,
        "o.jsonl",
        "--split-sentences",
        "--rows",
        "tokens",
        "--layers",
        "top",
        "--model",
        TINY,
    )
    assert result.exit_code == 0
    rows = read_rows("o.jsonl")
    assert list(rows[0]) == ["id", "line", "position", "token", "vector"]
    positions: list[int] = []
    for text in TEXTS:
        positions += range(len(tokenize(text)))
    assert [row["position"] for row in rows] == positions


def test_a_state_is_carried_through_the_sentences_of_a_passage() -> None:
    pytest.importorskip("sentencex")
    Path("lines.txt").write_text("\n".join(TEXTS))

    def carried(table: str) -> np.ndarray:
        """Return the activations of all tokens."""
        values = activations_of(
            table,
            "--split-sentences",
            "--state",
            "carry",
            "--tokenizer",
            "moses",
            "--batch-size",
            "1",
        )
        return np.concatenate(values, axis=1)

    passages = carried(write_table("table.csv", PASSAGES))
    assert_allclose(passages, carried("lines.txt"), atol=1e-6)


# Sequences


def assert_activations_of_sequences(found: list[np.ndarray]) -> None:
    """Assert that these, which are in o.h5, are the activations of two sequences."""
    with open_activations("o.h5") as activations:
        assert activations.tokens(1) == list("CASSLGV*")
    Path("s.fasta").write_text(">a\nCASSLGNEQF\n>b\ncassl\nGV*\n")
    for values, expected in zip(found, activations_of("s.fasta"), strict=True):
        assert_array_equal(values, expected)


@pytest.mark.parametrize("name", NAMES)
def test_sequences_of_a_table_are_those_of_fasta(name: str) -> None:
    rows = [
        {"key": "a", "junction_aa": "CASSLGNEQF"},
        {"key": "b", "junction_aa": "cass lgv*"},
    ]
    table = write_table(f"table.{name}", rows)
    found = activations_of(
        table,
        "--tokenizer",
        "residues",
        "--text-column",
        "junction_aa",
        "--id-column",
        "key",
    )
    assert_activations_of_sequences(found)


# Default tokenizers


def test_sequences_in_lines_are_those_of_fasta() -> None:
    Path("table.txt").write_text("CASSLGNEQF\ncass lgv*")
    found = activations_of("table.txt", "--tokenizer", "residues")
    assert_activations_of_sequences(found)


@pytest.mark.parametrize(
    ("name", "row", "tokens"),
    [
        *((f"t.{name}", {"text": RAW}, tokenize(RAW)) for name in NAMES),
        *((f"t.{name}", {"tokens": RAW}, RAW.split()) for name in NAMES),
        ("t.jsonl", {"tokens": ["go,", "a b"]}, ["go,", "a b"]),
        ("t.jsonl", {"text": ["a b"]}, ["a b"]),
    ],
)
def test_the_default_tokenizer_goes_by_the_column(
    name: str, row: dict[str, Any], tokens: list[str]
) -> None:
    write_table(name, [row])
    activations_of(name)
    with open_activations("o.h5") as activations:
        assert activations.tokens(0) == tokens
    ElmoEmbedder(model=TINY).embed_file(name, "p.h5")
    with open_activations("p.h5") as activations:
        assert activations.tokens(0) == tokens


# Python


def test_lines_are_split_at_spaces_with_the_flags_of_allennlp() -> None:
    Path("t.txt").write_text(RAW)
    activations_of("t.txt", "--all")
    with open_activations("o.h5") as activations:
        assert activations.tokens(0) == RAW.split()


@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("token", []),
        ("word", ["--by", "word"]),
        ("region", ["--regions", "text"]),
    ],
)
@pytest.mark.parametrize(
    ("direction", "columns"),
    [
        ("forward", ["surprisal"]),
        ("both", ["surprisal_forward", "surprisal_backward"]),
    ],
)
def test_units_in_python_are_the_rows_of_the_command(
    by: Any, options: list[str], direction: Any, columns: list[str], model_folder: Path
) -> None:
    texts = ["The cat | sat, they said.", "No."]
    table = write_table("t.jsonl", [{"text": text} for text in texts])
    rows = surprisals(
        table, "--model", model_folder, "--direction", direction, *options
    )
    language_model = LanguageModel(model=model_folder)
    units = []
    for units_of_text in measure_surprisal(
        language_model, texts, by, direction=direction
    ):
        units += units_of_text
    for row, unit in zip(rows, units, strict=True):
        assert row[by] == unit.text
        assert row["known"] == str(int(unit.known))
        bits = [float(row[column]) for column in columns]
        assert bits == pytest.approx(list(unit.surprisals), abs=1e-6)


# CoNLL-U, JSON lines and FASTA


def test_units_may_be_measured_of_tokens(model_folder: Path) -> None:
    tokens = ["The", "cat", "|", "sat,", "they", "said."]
    language_model = LanguageModel(model=model_folder)
    [units] = measure_surprisal(language_model, [tokens], by="word")
    assert [unit.text for unit in units] == tokens


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
        assert activations.has_ids
        for key, tokens in SENTENCES.items():
            number = activations.index_of(key)
            assert activations.tokens(number) == tokens
            assert_allclose(
                activations[key], embedder.embed_sentence(tokens), atol=2e-6
            )
    with h5py.File("out.hdf5") as file:
        assert ("fr-1" in file) == (layout == "allennlp")
        assert "sentence_to_index" not in file


def test_a_run_that_an_error_ended_resumes() -> None:
    Path("bad.conllu").write_text(f"{TREEBANK}\n# sent_id = fr-3\n1\n")
    with pytest.raises(InputError, match=r"bad\.conllu, line 19: expected 10 fields"):
        embed("bad.conllu", "out.hdf5", checkpoint_tokens=1)
    Path("bad.conllu").write_text(f"{TREEBANK}\n# sent_id = fr-3\n1\tNon\n")
    resumed = embed("bad.conllu", "out.hdf5", checkpoint_tokens=1)
    assert resumed.resumed_from == 2
    whole = embed("bad.conllu", "whole.hdf5", checkpoint_tokens=1)
    assert whole.resumed_from == 0
    assert_same_file("out.hdf5", "whole.hdf5")
    with h5py.File("out.hdf5") as file:
        assert sorted(file) == ["fr-1", "fr-2", "fr-3"]
        assert file["fr-2"].attrs["tokens"] == '["Oui"]'


def skip_errors(lines: str) -> None:
    """Embed JSON lines to o.h5, and skip those with errors."""
    elmo(
        "embed",
        "-",
        "o.h5",
        "--model",
        TINY,
        "--input-format",
        "jsonl",
        "--skip-errors",
        stdin=lines,
    )


def test_a_skipped_record_keeps_its_number() -> None:
    skip_errors('{\n{"text": "a b"}\n{}\n{"text": "c"}\n')
    with open_activations("o.h5") as activations:
        assert [len(values[0]) for values in activations] == [0, 2, 0, 1]
        assert json.loads(activations.attributes["skipped"]).keys() == {"0", "2"}


def test_a_skipped_record_has_no_id() -> None:
    skip_errors('{\n{"id": "x", "text": "a b"}\n{"id": "y"}\n')
    with open_activations("o.h5") as activations:
        assert [activations.id(number) for number in range(len(activations))] == ["x"]
        skipped = json.loads(activations.attributes["skipped"])
        assert skipped.keys() == {"record 1", "record 3"}


def activations_of_proteins() -> list[np.ndarray]:
    """Return the activations of `PROTEINS`, computed from their residues."""
    embedder = ElmoEmbedder(model=TINY)
    return embedder.embed_batch([list("MKVLAGH*"), [], list("SEQWENCE")])


def test_the_residues_of_fasta_are_tokens_and_its_first_word_the_key() -> None:
    Path("p.fasta").write_text(PROTEINS)
    result = elmo("embed", "p.fasta", "out.h5", "--model", TINY)
    assert result.exit_code == 0, result.stderr
    ids = ["sp|P1|ONE First protein OS=Homo sapiens", "two", "three a/b"]
    with h5py.File("out.h5") as file:
        assert file.attrs["format"] == "fasta"
        assert len(file) == 3
        for name, expected in zip(ids, activations_of_proteins(), strict=True):
            dataset = file[name.split()[0]]
            assert dataset.attrs["original_id"] == name
            assert dataset.shape == expected.shape
            assert_allclose(dataset[()], expected, atol=1e-5)


def test_the_vector_of_seqvec_is_the_mean_of_the_sum_of_the_layers() -> None:
    elmo(
        "embed",
        "-",
        "sum.h5",
        "--layers",
        "sum",
        "--pooling",
        "mean",
        "--input-format",
        "fasta",
        "--model",
        TINY,
        stdin=PROTEINS,
    )
    expected = activations_of_proteins()[2].sum(axis=0).mean(axis=0)
    with h5py.File("sum.h5") as file:
        assert_allclose(file["three"][()], expected, atol=1e-5)
        assert file["two"][()].tolist() == [0] * 32


def test_proteins_log_a_warning_for_a_model_of_english() -> None:
    Path("q.fasta").write_text(">a\n" + "MKVLAGH" * 5 + "\n")
    result = elmo("embed", "q.fasta", "out.h5", "--model", "mini")
    message = (
        "Warning: the input seems to be proteins, but the model mini was trained on "
        "English text. --model seqvec was trained on proteins.\n"
    )
    assert result.stderr.count(message) == 1


# Every format is opened once


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
    result = run_python(PROGRAMS / "count_openings.py", *commands)
    assert result.stdout.split() == ["1"] * len(commands), result.stderr
