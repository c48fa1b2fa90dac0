"""`elmo cosine` and `elmo neighbours`: similar occurrences of words."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import Result
from numpy.testing import assert_allclose

from elmo_cli import ElmoEmbedder, tokenize
from tests.support.commands import LOADED, TINY, assert_misused, elmo
from tests.support.table_files import NAMES, csv_rows, write_matrices, write_table

MODEL = ("--model", str(TINY))
RIVER = "I sat by the bank."
MONEY = "The bank lent us money."
COLUMNS = [f"cosine_{layer}" for layer in (0, 1, 2, "average")]
TEXT = "The bank lent us money .\n\nWe sat by the bank .\nThe cat sat .\n"
NEW = "She robbed the bank ."
FORMATS = ("hdf5", "parquet")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file of each layout, a pooled file, and target words."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text(TEXT)
    (folder / "more.txt").write_text(TEXT.replace("We", "They"))
    (folder / "targets.txt").write_text("bank,money\ncat\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in (
            "embed text.txt v.hdf5",
            "embed more.txt more.hdf5",
            "embed text.txt packed.hdf5 --layout packed --layers 1,2",
            "embed text.txt average.hdf5 --layers average",
            "embed text.txt pooled.hdf5 --pooling mean",
            *(f"usages text.txt u.{name} --words targets.txt" for name in FORMATS),
        ):
            assert elmo(*arguments.split(), "--model", TINY, "-q").exit_code == 0
    return folder


pytestmark = pytest.mark.usefixtures("embedded_corpus")


@pytest.fixture
def embedded_corpus(embedded: Path, folder: Path) -> None:
    """Write these files into the current folder."""
    shutil.copytree(embedded, folder, dirs_exist_ok=True)


# Two occurrences


def cosines(
    one: list[str], index: int, other: list[str], other_index: int
) -> list[float]:
    """Return the cosine of two tokens in each layer, and of their average."""
    embed = ElmoEmbedder(model=TINY).embed_sentence
    a = embed(one)[:, index].astype(float)
    b = embed(other)[:, other_index].astype(float)
    pairs = [*zip(a, b, strict=True), (a.mean(axis=0), b.mean(axis=0))]
    return [float(x @ y / np.sqrt((x @ x) * (y @ y))) for x, y in pairs]


EXPECTED = cosines(tokenize(RIVER), 4, tokenize(MONEY), 1)


def test_a_table_shows_the_words_and_the_cosine_of_each_layer() -> None:
    result = elmo("cosine", "bank", RIVER, MONEY, *MODEL)
    assert (result.exit_code, result.stderr) == (0, LOADED)
    split_again = elmo("cosine", "bank", RIVER, "The bank 's money .", *MODEL).stderr
    assert (
        '"bank \'s" looks tokenized already. Use --tokenizer whitespace.' in split_again
    )
    names = ("layer 0", "layer 1", "layer 2", "average")
    rows = [
        f"{name}  {value:8.4f}\n" for name, value in zip(names, EXPECTED, strict=True)
    ]
    assert (
        result.stdout
        == "I sat by the [bank] .\nThe [bank] lent us money .\n\n" + "".join(rows)
    )
    for layer, value in (
        ("0", EXPECTED[0]),
        ("2", EXPECTED[2]),
        ("average", EXPECTED[3]),
    ):
        result = elmo("cosine", "-q", "bank", RIVER, MONEY, "--layer", layer, *MODEL)
        assert (result.stderr, len(result.stdout.splitlines())) == ("", 1)
        assert float(result.stdout) == pytest.approx(value, abs=2e-6)


def test_a_word_is_found_with_typographic_or_plain_marks() -> None:
    sentences = ("It’s open.", "It's shut.")
    plain, typed = (
        elmo("cosine", word, *sentences, *MODEL).stdout for word in ("'s", "’s")
    )
    assert typed == plain
    assert typed.startswith("It ['s] open .\nIt ['s] shut .\n")


def cosines_in(row: dict[str, Any]) -> list[float]:
    """Return the cosines in a row of JSON or CSV."""
    return [float(row[name]) for name in COLUMNS]


def test_json_holds_everything() -> None:
    result = elmo("cosine", "bank", RIVER, MONEY, "--json", *MODEL)
    answer = json.loads(result.stdout)
    assert_allclose(cosines_in(answer), EXPECTED, atol=2e-6)
    first = {"word1": "bank", "occurrence1": 1, "sentence1": RIVER}
    second = {"word2": "bank", "occurrence2": 1, "sentence2": MONEY}
    assert answer.items() >= {"line": 1, **first, **second}.items()
    Path("pair.jsonl").write_text(result.stdout)
    again = elmo("cosine", "--pairs", "pair.jsonl", "--json", *MODEL)
    assert cosines_in(json.loads(again.stdout)) == cosines_in(answer)


# Pairs from standard input

PAIRS = f"{RIVER}\t{MONEY}\n{MONEY}\t{MONEY}\nNaïve bank\tbank Zürich\n"
ANSWERS = [EXPECTED, [1.0] * 4, cosines(["Naïve", "bank"], 1, ["bank", "Zürich"], 0)]


def test_pairs_are_answered_with_a_line_each() -> None:
    result = elmo("cosine", "bank", "-", *MODEL, stdin=PAIRS)
    assert (result.exit_code, result.stderr) == (0, LOADED)
    rows = [
        [float(value) for value in line.split("\t")]
        for line in result.stdout.splitlines()
    ]
    assert_allclose(rows, ANSWERS, atol=2e-6)
    result = elmo("cosine", "bank", "-", "--json", *MODEL, stdin=PAIRS)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["line"] for answer in answers] == [1, 2, 3]
    assert "bank Zürich" in result.stdout
    assert_allclose([*map(cosines_in, answers)], ANSWERS, atol=2e-6)


# Pairs from a table

WIC: list[dict[str, Any]] = [
    {"word": "bank", "sentence1": RIVER, "sentence2": MONEY, "label": "F"},
    {
        "word": "lend",
        "sentence1": MONEY,
        "sentence2": "To lend, she lends.",
        "label": "T",
    },
]


def rows_of(*arguments: str, table: str = "wic.csv") -> list[dict[str, str]]:
    """Return the rows that the command prints for a table of pairs."""
    result = elmo("cosine", "--pairs", table, "--format", "csv", *MODEL, *arguments)
    assert result.exit_code == 0, result.stderr
    return csv_rows(result.stdout)


@pytest.mark.parametrize("name", [f"wic.{name}" for name in NAMES])
def test_a_table_of_pairs_keeps_all_columns(name: str) -> None:
    write_table(name, WIC)
    result = elmo("cosine", "--pairs", name, *MODEL)
    warning = (
        "Warning: 1 row without cosines. The first is row 2: 'lend' is not a token of "
        "'The bank lent us money .'. Did you mean 'lent'?\n"
    )
    assert (result.exit_code, result.stderr) == (0, LOADED + warning)
    first, second = csv_rows(result.stdout, "\t")
    assert [*first] == ["line", *COLUMNS, "sentence1", "word", "sentence2", "label"]
    assert_allclose(cosines_in(first), EXPECTED, atol=2e-6)
    assert (first["line"], first["sentence2"], first["label"]) == ("1", MONEY, "F")
    assert {second[each] for each in COLUMNS} == {""}
    assert (second["line"], second["word"]) == ("2", "lend")
    assert [row["label"] for row in rows_of("--layer", "2", table=name)] == ["F", "T"]


def test_words_occurrences_and_characters_choose_tokens() -> None:
    sentence = "A bank, a bank."
    columns = {"word": "bank", "word2": "", "occurrence1": "", "start1": "", "end1": ""}
    pair = columns | {"sentence1": sentence, "sentence2": RIVER}
    chosen = [
        pair | {"word2": "bank", "occurrence1": "1"},
        pair | {"word2": "bank", "occurrence1": "2.0"},
        pair | {"word2": "sat", "start1": "10", "end1": "14"},
        pair | {"word2": "sat", "start1": "0", "end1": "1"},
    ]
    write_table("wic.csv", chosen)
    found = [float(row["cosine"]) for row in rows_of("--layer", "2")]
    one = tokenize(sentence)
    other = tokenize(RIVER)
    expected = [
        cosines(one, i, other, j)[2] for i, j in ((1, 4), (4, 4), (4, 1), (0, 1))
    ]
    assert found == pytest.approx(expected, abs=2e-6)


def test_more_pairs_than_fit_together_keep_their_numbers() -> None:
    write_table("wic.csv", [WIC[0]] * 150)
    rows = rows_of("--layer", "average")
    assert [row["line"] for row in rows] == [str(number) for number in range(1, 151)]
    assert {row["cosine"] for row in rows} == {f"{EXPECTED[3]:.6f}"}


def test_lists_of_tokens_are_not_tokenized() -> None:
    pair = {"word": "b", "text1": ["a", "b"], "text2": ["b", "c d"]}
    Path("p.jsonl").write_text(json.dumps(pair) + "\n")
    options = ("--text-column", "text1,text2", "--json")
    answer = json.loads(elmo("cosine", "--pairs", "p.jsonl", *options, *MODEL).stdout)
    assert_allclose(
        cosines_in(answer), cosines(["a", "b"], 1, ["b", "c d"], 0), atol=2e-6
    )


# Neighbours


def rows(result: Result) -> list[list[str]]:
    """Return the cosine, the line and the sentence of each neighbour."""
    assert result.exit_code == 0, result.stderr
    return [
        re.split(r" +|\t", line.strip(), maxsplit=2)
        for line in result.stdout.splitlines()
    ]


@pytest.mark.parametrize("name", ["v.hdf5", "packed.hdf5"])
def test_uses_are_shown_by_line_with_the_word_marked(name: str) -> None:
    result = elmo("neighbours", "bank", NEW, name, "--top", "3")
    neighbours = rows(result)
    assert all(len(re.findall(r"\[[\w.]+\]", row[2])) == 1 for row in neighbours)
    assert {row[1] for row in neighbours} <= {"1", "3", "4"}
    cosines = [float(row[0]) for row in neighbours]
    assert cosines == sorted(cosines, reverse=True)
    lines = result.stderr.splitlines(keepends=True)
    assert lines[0] == LOADED
    assert re.fullmatch(
        r"Cosine of two random tokens: -?0\.\d{3} on average\n", lines[1]
    )
    assert elmo("neighbors", "bank", NEW, name, "--top", "3").stdout == result.stdout


@pytest.mark.parametrize("name", [f"u.{name}" for name in FORMATS])
def test_target_words_of_every_format_are_searched(name: str) -> None:
    choice = ("--model", TINY, "--layers", "top")
    one, other = (
        rows(elmo("neighbours", "bank", NEW, u, *choice)) for u in ("u.hdf5", name)
    )
    assert [row[0] for row in one] == [row[0] for row in other]
    # They record their model.
    neighbours = rows(elmo("neighbours", "bank", NEW, name))
    lines = {(row[1], re.findall(r"\[(\w+)\]", row[2])[0]) for row in neighbours}
    assert lines == {("1", "bank"), ("1", "money"), ("3", "bank"), ("4", "cat")}
    others = rows(elmo("neighbours", "bank", NEW, name, "--other-words"))
    assert [row[1:] for row in others] == [["4", "The [cat] sat ."]]


def test_vectors_of_another_program_need_a_model_and_a_layer() -> None:
    matrix = ElmoEmbedder(model=TINY).embed_sentence(["bank", "cat"])[2]
    name = write_matrices("m.parquet", {"bank": matrix[:1], "cat": matrix[1:]})
    command = ("neighbours", "bank", NEW, name)
    unknown = f"Error: {name}: unknown"
    assert f"{unknown} model. Name it with --model." in elmo(*command).stderr
    result = elmo(*command, *MODEL)
    assert f"{unknown} layer. Name it with --mean-layers." in result.stderr
    found = rows(elmo(*command, *MODEL, "--mean-layers", "top"))
    assert {row[2] for row in found} == {"[bank]", "[cat]"}


def test_several_files_are_searched_as_one() -> None:
    result = elmo("neighbours", "bank", NEW, "v.hdf5", "more.hdf5", "--top", "50")
    places = {f"{name}.hdf5:{line}" for name in ("v", "more") for line in (1, 3, 4)}
    assert {row[1] for row in rows(result)} == places
    pattern = elmo("neighbours", "bank", NEW, "[v]*.hdf5", "more.hdf5", "--top", "50")
    assert pattern.stdout == result.stdout


def test_queries_come_from_standard_input() -> None:
    queries = f"bank\t{NEW}\nsat\tHe sat down .\n"
    table = elmo("neighbours", "-", "v.hdf5", "--top", "2", stdin=queries)
    answers = elmo("neighbours", "-", "v.hdf5", "--top", "2", "--json", stdin=queries)
    hits = [json.loads(line) for line in answers.stdout.splitlines()]
    header = [
        "query_number",
        "rank",
        "cosine",
        "file",
        "line",
        "id",
        "position",
        "token",
    ]
    shown = csv_rows(table.stdout, "\t")
    assert [*shown[0]] == [*hits[0]] == [*header, "sentence"]
    assert [(hit["query_number"], hit["rank"]) for hit in hits] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]
    for hit, row in zip(hits, shown, strict=True):
        assert float(row.pop("cosine")) == pytest.approx(hit.pop("cosine"), abs=1e-6)
        assert row == {
            name: "" if value is None else str(value) for name, value in hit.items()
        }
    one = rows(elmo("neighbours", "bank", NEW, "v.hdf5", "--top", "2"))
    for hit, (_, line, sentence) in zip(hits[:2], one, strict=True):
        assert (hit["file"], str(hit["line"]), hit["id"]) == ("v.hdf5", line, None)
        words = hit["sentence"].split()
        words[hit["position"]] = f"[{hit['token']}]"
        assert " ".join(words) == sentence


@pytest.mark.parametrize("name", [*(f"q.{name}" for name in NAMES), "-"])
def test_queries_come_from_a_table(name: str) -> None:
    words = [("bank", NEW), ("cat", "The cat , she said .")]
    queries = [{"word": word, "said": sentence} for word, sentence in words]
    table = write_table("q.csv" if name == "-" else name, queries)
    stdin = Path(table).read_text() if name == "-" else ""
    options = ["--text-column", "said", "--json", "--top", "2"]
    options += ["--input-format", "csv"] if name == "-" else []
    result = elmo("neighbours", "--queries", name, "v.hdf5", *options, stdin=stdin)
    hits = iter(result.stdout.splitlines())
    for number, (word, sentence) in enumerate(words, 1):
        one = elmo("neighbours", word, sentence, "v.hdf5", "--json", "--top", "2")
        for expected in map(json.loads, one.stdout.splitlines()):
            cosine = pytest.approx(expected["cosine"], abs=1e-6)
            assert json.loads(next(hits)) == {
                **expected,
                "query_number": number,
                "cosine": cosine,
            }
    assert next(hits, None) is None


def test_sentences_are_found_in_files_of_pooled_tokens() -> None:
    neighbours = rows(
        elmo("neighbours", "--sentence", "The cat sat down .", "pooled.hdf5")
    )
    assert neighbours[0][1:] == ["4", "The cat sat ."]
    table = elmo(
        "neighbours", "--sentence", NEW, "pooled.hdf5", "--format", "csv", "--top", "1"
    )
    assert table.stdout.startswith(
        "query_number,rank,cosine,file,line,id,sentence\n1,1,0."
    )
    answer = elmo("neighbours", "--sentence", NEW, "pooled.hdf5", "--json")
    assert [*json.loads(answer.stdout.splitlines()[0])][-1] == "sentence"
    Path("q.jsonl").write_text(json.dumps({"text": NEW}) + "\n")
    queries = elmo("neighbours", "--queries", "q.jsonl", "pooled.hdf5", "--json")
    assert queries.stdout == answer.stdout


def test_layer_0_logs_a_warning() -> None:
    warning = "Warning: these vectors contain layer 0, which finds similar spelling.\n"
    assert warning in elmo("neighbours", "bank", NEW, "average.hdf5").stderr
    assert (
        warning
        in elmo("neighbours", "bank", NEW, "v.hdf5", "--mean-layers", "0").stderr
    )
    assert warning not in elmo("neighbours", "bank", NEW, "packed.hdf5").stderr
    message = "--mean-layers '0': packed.hdf5 has only layers 1 and 2."
    assert_misused(
        elmo("neighbours", "bank", NEW, "packed.hdf5", "--layers", "0"), message
    )


def test_the_old_name_of_mean_layers_still_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = ("neighbours", "bank", NEW, "v.hdf5")
    answer = elmo(*command, "--mean-layers", "1").stdout
    assert answer not in ("", elmo(*command).stdout)
    assert elmo(*command, "--layers", "1").stdout == answer
    monkeypatch.setenv("ELMO_NEIGHBOURS_LAYERS", "1")
    assert elmo(*command).stdout == answer


def test_a_query_is_cut_as_its_corpus_was() -> None:
    elmo(
        "embed",
        "text.txt",
        "moses.hdf5",
        "--tokenizer",
        "moses:fr",
        "--model",
        TINY,
        "-q",
    )

    def tokens_of(sentence: str, *options: str) -> str:
        """Return the tokens of a query, which the error for a missing word shows."""
        error = elmo("neighbours", "x", sentence, "moses.hdf5", *options).stderr
        return error.partition("'x' is not a token of ")[2].strip()[1:].rstrip("'\".")

    assert tokens_of("L'homme de la banque.") == "L' homme de la banque "
    assert tokens_of("L’homme de la banque…!") == "L' homme de la banque ... !"
    with h5py.File("moses.hdf5", "r+") as file:
        del file.attrs["normalization"]  # as older versions wrote it
    assert tokens_of("L’homme de la banque…!") == "L ’ homme de la banque … !"
    assert (
        tokens_of("L'homme a la banque!", "--language=en") == "L 'homme a la banque !"
    )
