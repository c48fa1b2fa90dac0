import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import LOADED, TINY, elmo
from numpy.testing import assert_allclose
from table_files import NAMES, csv_rows, write_table

from elmo_cli import ElmoEmbedder

MODEL = ("--model", str(TINY))
RIVER, MONEY = "I sat by the bank.", "The bank lent us money."
RIVER_TOKENS = ["I", "sat", "by", "the", "bank", "."]
MONEY_TOKENS = ["The", "bank", "lent", "us", "money", "."]


pytestmark = pytest.mark.usefixtures("folder")


def vectors(tokens: list[str], index: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return a token's vector in each layer and their average, shape (4, 32)."""
    layers = ElmoEmbedder(model=TINY).embed_sentence(tokens)[:, index].astype(np.float64)
    return np.concatenate([layers, layers.mean(axis=0, keepdims=True)])


def cosines_of(
    one: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    other: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> list[float]:
    """Return the cosine of each layer, and of the average."""
    return [float(a @ b / np.sqrt((a @ a) * (b @ b))) for a, b in zip(one, other, strict=True)]


EXPECTED = cosines_of(vectors(RIVER_TOKENS, 4), vectors(MONEY_TOKENS, 1))


# One pair


def test_a_table_shows_the_words_and_the_cosine_of_each_layer() -> None:
    result = elmo("cosine", "bank", RIVER, MONEY, *MODEL)
    assert (result.exit_code, result.stderr) == (0, LOADED)
    assert result.stdout == (
        "I sat by the [bank] .\n"
        "The [bank] lent us money .\n"
        "\n"
        f"layer 0  {EXPECTED[0]:8.4f}\n"
        f"layer 1  {EXPECTED[1]:8.4f}\n"
        f"layer 2  {EXPECTED[2]:8.4f}\n"
        f"average  {EXPECTED[3]:8.4f}\n"
    )


def test_a_word_is_found_with_typographic_or_plain_marks() -> None:
    sentences = ("It’s open.", "It's shut.")
    plain, typed = (elmo("cosine", word, *sentences, *MODEL) for word in ("'s", "’s"))
    assert typed.exit_code == 0, typed.stderr
    assert typed.stdout == plain.stdout
    assert typed.stdout.startswith("It ['s] open .\nIt ['s] shut .\n")


@pytest.mark.parametrize(("layer", "index"), [("0", 0), ("2", 2), ("average", 3)])
def test_a_layer_is_a_bare_number(layer: str, index: int) -> None:
    result = elmo("cosine", "-q", "bank", RIVER, MONEY, "--layer", layer, *MODEL)
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == 1
    assert float(result.stdout) == pytest.approx(EXPECTED[index], abs=2e-6)


def cosines_in(row: dict[str, float]) -> list[float]:
    """Return the cosines in a row of JSON."""
    return [row[f"cosine_{layer}"] for layer in (0, 1, 2, "average")]


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
MORE = cosines_of(vectors(["Naïve", "bank"], 1), vectors(["bank", "Zürich"], 0))
ANSWERS = [EXPECTED, [1.0] * 4, MORE]


def test_pairs_are_answered_with_a_line_each() -> None:
    result = elmo("cosine", "bank", "-", *MODEL, stdin=PAIRS)
    assert (result.exit_code, result.stderr) == (0, LOADED)
    rows = [[float(value) for value in line.split("\t")] for line in result.stdout.splitlines()]
    assert_allclose(rows, ANSWERS, atol=2e-6)
    result = elmo("cosine", "bank", "-", "--json", *MODEL, stdin=PAIRS)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["line"] for answer in answers] == [1, 2, 3]
    assert "bank Zürich" in result.stdout
    assert_allclose([*map(cosines_in, answers)], ANSWERS, atol=2e-6)


# Pairs from a table

WIC: list[dict[str, Any]] = [
    {"word": "bank", "sentence1": RIVER, "sentence2": MONEY, "label": "F"},
    {"word": "lend", "sentence1": MONEY, "sentence2": "To lend, she lends.", "label": "T"},
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
    names = [f"cosine_{layer}" for layer in (0, 1, 2, "average")]
    assert [*first] == ["line", *names, "sentence1", "word", "sentence2", "label"]
    assert_allclose([float(first[each]) for each in names], EXPECTED, atol=2e-6)
    assert (first["line"], first["sentence2"], first["label"]) == ("1", MONEY, "F")
    assert {second[each] for each in names} == {""}
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
    cosines = [float(row["cosine"]) for row in rows_of("--layer", "2")]
    one, other = vectors(["A", "bank", ",", "a", "bank", "."], 0), vectors(RIVER_TOKENS, 1)
    assert cosines[3] == pytest.approx(cosines_of(one, other)[2], abs=2e-6)
    for row, position, index in [(0, 1, 4), (1, 4, 4), (2, 4, 1)]:
        one = vectors(["A", "bank", ",", "a", "bank", "."], position)
        expected = cosines_of(one, vectors(RIVER_TOKENS, index))[2]
        assert cosines[row] == pytest.approx(expected, abs=2e-6)


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
    expected = cosines_of(vectors(["a", "b"], 1), vectors(["b", "c d"], 0))
    assert_allclose([answer[f"cosine_{k}"] for k in (0, 1, 2, "average")], expected, atol=2e-6)
