import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import LOADED, TINY, elmo
from numpy.testing import assert_allclose
from table_files import NAMES, csv_rows, write_table

from elmo_cli import ElmoEmbedder, tokenize

MODEL = ("--model", str(TINY))
RIVER, MONEY = "I sat by the bank.", "The bank lent us money."
COLUMNS = [f"cosine_{layer}" for layer in (0, 1, 2, "average")]

pytestmark = pytest.mark.usefixtures("folder")


def cosines(one: list[str], index: int, other: list[str], other_index: int) -> list[float]:
    """Return the cosine of two tokens in each layer, and of their average."""
    places = ((one, index), (other, other_index))
    a, b = (
        ElmoEmbedder(model=TINY).embed_sentence(tokens)[:, at].astype(float)
        for tokens, at in places
    )
    pairs = [*zip(a, b, strict=True), (a.mean(axis=0), b.mean(axis=0))]
    return [float(x @ y / np.sqrt((x @ x) * (y @ y))) for x, y in pairs]


EXPECTED = cosines(tokenize(RIVER), 4, tokenize(MONEY), 1)


# One pair


def test_a_table_shows_the_words_and_the_cosine_of_each_layer() -> None:
    result = elmo("cosine", "bank", RIVER, MONEY, *MODEL)
    assert (result.exit_code, result.stderr) == (0, LOADED)
    split_again = elmo("cosine", "bank", RIVER, "The bank 's money .", *MODEL).stderr
    assert '"bank \'s" looks tokenized already. Use --tokenizer whitespace.' in split_again
    names = ("layer 0", "layer 1", "layer 2", "average")
    rows = [f"{name}  {value:8.4f}\n" for name, value in zip(names, EXPECTED, strict=True)]
    assert result.stdout == "I sat by the [bank] .\nThe [bank] lent us money .\n\n" + "".join(rows)
    for layer, value in (("0", EXPECTED[0]), ("2", EXPECTED[2]), ("average", EXPECTED[3])):
        result = elmo("cosine", "-q", "bank", RIVER, MONEY, "--layer", layer, *MODEL)
        assert (result.stderr, len(result.stdout.splitlines())) == ("", 1)
        assert float(result.stdout) == pytest.approx(value, abs=2e-6)


def test_a_word_is_found_with_typographic_or_plain_marks() -> None:
    sentences = ("It’s open.", "It's shut.")
    plain, typed = (elmo("cosine", word, *sentences, *MODEL).stdout for word in ("'s", "’s"))
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
    one, other = tokenize(sentence), tokenize(RIVER)
    expected = [cosines(one, i, other, j)[2] for i, j in ((1, 4), (4, 4), (4, 1), (0, 1))]
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
    assert_allclose(cosines_in(answer), cosines(["a", "b"], 1, ["b", "c d"], 0), atol=2e-6)
