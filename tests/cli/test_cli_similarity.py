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
from tests.support.commands import TINY, assert_misused, elmo
from tests.support.table_files import NAMES, csv_rows, write_matrices, write_table

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
        for command in (
            "embed text.txt v.hdf5",
            "embed more.txt more.hdf5",
            "embed text.txt packed.hdf5 --layout packed --layers 1,2",
            "embed text.txt average.hdf5 --layers average",
            "embed text.txt pooled.hdf5 --pooling mean",
            "occurrences text.txt u.hdf5 --words targets.txt",
            "occurrences text.txt u.parquet --words targets.txt",
        ):
            assert elmo(*command.split(), "--model", TINY, "-q").exit_code == 0
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
    embedder = ElmoEmbedder(model=TINY)
    a = embedder.embed_sentence(one)[:, index].astype(float)
    b = embedder.embed_sentence(other)[:, other_index].astype(float)
    pairs = list(zip(a, b, strict=True))
    pairs.append((a.mean(axis=0), b.mean(axis=0)))
    found: list[float] = []
    for x, y in pairs:
        lengths = np.linalg.norm(x) * np.linalg.norm(y)
        found.append(float(x @ y / lengths))
    return found


RAW = "Tokenizer: moses, because the text is raw\n"


@pytest.fixture(scope="module")
def expected() -> list[float]:
    """Return the cosines of `bank` in `RIVER` and `MONEY`."""
    return cosines(tokenize(RIVER), 4, tokenize(MONEY), 1)


def cosine(*arguments: str, stdin: str | None = None) -> Result:
    """Run `elmo cosine` with the tiny model."""
    return elmo("cosine", *arguments, "--model", TINY, stdin=stdin)


def test_the_words_and_the_cosine_of_each_layer_are_shown(
    expected: list[float],
) -> None:
    result = cosine("bank", RIVER, MONEY)
    assert result.stderr == ""
    assert result.exit_code == 0, result.stderr
    assert result.stdout == (
        "I sat by the [bank] .\n"
        "The [bank] lent us money .\n"
        "\n"
        f"layer 0  {expected[0]:8.4f}\n"
        f"layer 1  {expected[1]:8.4f}\n"
        f"layer 2  {expected[2]:8.4f}\n"
        f"average  {expected[3]:8.4f}\n"
    )


@pytest.mark.parametrize(
    ("layer", "index"),
    [
        ("0", 0),
        ("2", 2),
        ("top", 2),
        ("lstm1", 1),
        ("average", 3),
        ("0,1,2", 3),
    ],
)
def test_the_cosine_of_chosen_layers_is_a_number(
    layer: str, index: int, expected: list[float]
) -> None:
    result = cosine("-q", "bank", RIVER, MONEY, "--layers", layer)
    assert result.stderr == ""
    assert result.stdout == f"{expected[index]:.4f}\n"
    row = cosine("bank", "-", "--layers", layer, stdin=f"{RIVER}\t{MONEY}\n").stdout
    assert float(row) == pytest.approx(expected[index], abs=2e-6)
    assert len(row.strip().partition(".")[2]) == 6


def test_tokenized_sentences_are_split_at_spaces() -> None:
    result = cosine("bank", "I sat by the bank .", "The bank 's money .")
    assert "I sat by the [bank] .\nThe [bank] 's money .\n" in result.stdout
    reason = "Tokenizer: whitespace, because the text is tokenized\n"
    assert result.stderr == reason


def test_a_word_is_found_with_a_typographic_or_a_plain_apostrophe() -> None:
    plain = cosine("'s", "It’s open.", "It's shut.").stdout
    typographic = cosine("’s", "It’s open.", "It's shut.").stdout
    assert typographic == plain
    assert plain.startswith("It ['s] open .\nIt ['s] shut .\n")


def cosines_in(row: dict[str, Any]) -> list[float]:
    """Return the cosines in a row of JSON or CSV."""
    return [float(row[name]) for name in COLUMNS]


def test_json_holds_everything(expected: list[float]) -> None:
    result = cosine("bank", RIVER, MONEY, "--json")
    answer = json.loads(result.stdout)
    assert_allclose(cosines_in(answer), expected, atol=2e-6)
    columns = {
        "line": 1,
        "word1": "bank",
        "occurrence1": 1,
        "sentence1": RIVER,
        "word2": "bank",
        "occurrence2": 1,
        "sentence2": MONEY,
    }
    assert answer.items() >= columns.items()
    Path("pair.jsonl").write_text(result.stdout)
    again = cosine("--pairs", "pair.jsonl", "--json")
    assert cosines_in(json.loads(again.stdout)) == cosines_in(answer)


# Pairs from standard input

PAIRS = f"{RIVER}\t{MONEY}\n{MONEY}\t{MONEY}\nNaïve bank\tbank Zürich\n"


@pytest.fixture(scope="module")
def answers(expected: list[float]) -> list[list[float]]:
    """Return the cosines of `bank` in `PAIRS`."""
    same_sentence = [1.0] * 4
    last = cosines(["Naïve", "bank"], 1, ["bank", "Zürich"], 0)
    return [expected, same_sentence, last]


def test_every_pair_is_answered_with_a_line(answers: list[list[float]]) -> None:
    result = cosine("bank", "-", stdin=PAIRS)
    assert result.stderr == RAW
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    found = [[float(value) for value in line.split("\t")] for line in lines]
    assert_allclose(found, answers, atol=2e-6)


def test_every_pair_is_answered_with_an_object_of_json(
    answers: list[list[float]],
) -> None:
    result = cosine("bank", "-", "--json", stdin=PAIRS)
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["line"] for each in objects] == [1, 2, 3]
    assert "bank Zürich" in result.stdout
    found = [cosines_in(each) for each in objects]
    assert_allclose(found, answers, atol=2e-6)


def test_a_line_whose_word_is_not_found_has_empty_cosines(
    expected: list[float],
) -> None:
    stdin = f"{RIVER}\t{MONEY}\nA cat.\t{MONEY}\n\t{MONEY}\n{RIVER}\t{MONEY}\n"
    warning = (
        "Warning: 2 lines without cosines. The first is standard input, line 2: 'bank' "
        "is not a token of 'A cat .'. Choose 'A', 'cat' or '.'.\n"
    )
    all_layers = cosine("bank", "-", stdin=stdin)
    one_layer = cosine("bank", "-", "--layers", "2", stdin=stdin)
    table = cosine("bank", "-", "--format", "csv", stdin=stdin)
    for result in (all_layers, one_layer, table):
        assert result.stderr == RAW + warning
        assert result.exit_code == 0
    found = [line.split("\t") for line in all_layers.stdout.splitlines()]
    no_cosines = ["", "", "", ""]
    assert found[1:3] == [no_cosines, no_cosines]
    for line in (found[0], found[3]):
        assert_allclose([float(value) for value in line], expected, atol=2e-6)
    number = f"{expected[2]:.6f}"
    assert one_layer.stdout.splitlines() == [number, "", "", number]
    rows = csv_rows(table.stdout)
    assert [row["line"] for row in rows] == ["1", "2", "3", "4"]
    assert {rows[1][name] for name in COLUMNS} == {""}
    assert rows[1]["sentence1"] == "A cat."
    assert [row["occurrence1"] for row in rows] == ["1", "", "", "1"]


def test_an_occurrence_that_a_line_lacks_has_an_empty_cosine() -> None:
    stdin = "a bank\tthe bank\na bank\tbank bank\n"
    result = cosine("bank", "-", "--layers", "0", "--occurrence2", "2", stdin=stdin)
    assert result.exit_code == 0
    assert result.stdout == "\n1.000000\n"
    problem = "The first is standard input, line 1: 'bank' occurs once in "
    assert problem in result.stderr


def test_a_line_without_a_tab_stops_after_the_lines_before_it() -> None:
    stdin = f"{RIVER}\t{MONEY}\nA cat.\t{MONEY}\n\n{RIVER}\t{MONEY}\n"
    result = cosine("bank", "-", "--layers", "2", stdin=stdin)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 2
    problem = "line 3: expected two sentences separated by a tab, found 1"
    assert f"Error: standard input, {problem}\n" in result.stderr


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
    result = cosine("--pairs", table, "--format", "csv", *arguments)
    assert result.exit_code == 0, result.stderr
    return csv_rows(result.stdout)


@pytest.mark.parametrize("name", [f"wic.{name}" for name in NAMES])
def test_a_table_of_pairs_keeps_all_columns(name: str, expected: list[float]) -> None:
    write_table(name, WIC)
    result = cosine("--pairs", name)
    warning = (
        f"Warning: 1 row without cosines. The first is {name}, row 2: 'lend' is not a "
        "token of 'The bank lent us money .'. Did you mean 'lent'?\n"
    )
    assert result.stderr == RAW + warning
    assert result.exit_code == 0
    first, second = csv_rows(result.stdout, "\t")
    assert [*first] == ["line", *COLUMNS, "word", "sentence1", "sentence2", "label"]
    assert_allclose(cosines_in(first), expected, atol=2e-6)
    assert first["line"] == "1"
    assert first["sentence2"] == MONEY
    assert first["label"] == "F"
    assert {second[each] for each in COLUMNS} == {""}
    assert second["line"] == "2"
    assert second["word"] == "lend"
    assert [row["label"] for row in rows_of("--layers", "2", table=name)] == ["F", "T"]


def test_words_occurrences_and_characters_choose_tokens() -> None:
    sentence = "A bank, a bank."
    pair = {
        "word": "bank",
        "word2": "",
        "occurrence1": "",
        "start1": "",
        "end1": "",
        "sentence1": sentence,
        "sentence2": RIVER,
    }
    chosen = [
        pair | {"word2": "bank", "occurrence1": "1"},
        pair | {"word2": "bank", "occurrence1": "2.0"},
        pair | {"word2": "sat", "start1": "10", "end1": "14"},
        pair | {"word2": "sat", "start1": "0", "end1": "1"},
    ]
    write_table("wic.csv", chosen)
    found = [float(row["cosine"]) for row in rows_of("--layers", "2")]
    one = tokenize(sentence)
    other = tokenize(RIVER)
    layer = 2
    expected = [
        cosines(one, 1, other, 4)[layer],
        cosines(one, 4, other, 4)[layer],
        cosines(one, 4, other, 1)[layer],
        cosines(one, 0, other, 1)[layer],
    ]
    assert found == pytest.approx(expected, abs=2e-6)


def test_characters_choose_the_tokens_that_they_overlap() -> None:
    compound = "The right-wing paper has a new wing."
    stop = "He said no. no means no, you know."
    chosen = [
        {"word": "wing", "start1": 10, "end1": 14, "sentence1": compound},
        {"word": "no", "start1": 12, "end1": 14, "sentence1": stop},
        {"word": "said no", "start1": 3, "end1": 10, "sentence1": stop},
        {"word": "no", "start1": 33, "end1": 40, "sentence1": stop},
    ]
    other = {"word2": "bank", "occurrence2": "", "sentence2": RIVER}
    write_table("wic.csv", [{"word1": "", **row, **other} for row in chosen])
    result = cosine("--pairs", "wic.csv", "--layers", "2")
    assert "2 annotated words are not one whole token" in result.stderr
    assert "The first is wic.csv, row 1: 'right-wing'" in result.stderr
    assert (
        "1 row without cosines. The first is wic.csv, row 4: characters 33:40:"
        in result.stderr
    )
    rows = csv_rows(result.stdout, "\t")
    layer = 2
    found = [float(row["cosine"]) for row in rows[:2]]
    expected = [
        cosines(tokenize(compound), 1, tokenize(RIVER), 4)[layer],
        cosines(tokenize(stop), 3, tokenize(RIVER), 4)[layer],
    ]
    assert found == pytest.approx(expected, abs=2e-6)
    assert rows[2]["cosine"] not in ("", rows[1]["cosine"])
    assert rows[3]["cosine"] == ""


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ({"start1": 14}, "the word has a 'start1', but no 'end1'"),
        ({"start1": 14, "end1": ""}, "the word has a 'start1', but no 'end1'"),
        ({"end2": 18}, "the word has an 'end2', but no 'start2'"),
    ],
)
def test_a_start_without_an_end_has_no_cosine(
    place: dict[str, object], problem: str
) -> None:
    pair = {"word": "bank", "sentence1": RIVER, "sentence2": MONEY}
    write_table("wic.csv", [pair | place])
    result = cosine("--pairs", "wic.csv", "--layers", "2")
    warning = f"1 row without cosines. The first is wic.csv, row 1: {problem}. Add the"
    assert warning in result.stderr
    [row] = csv_rows(result.stdout, "\t")
    assert row["cosine"] == ""


def test_characters_count_in_tokens_joined_by_spaces() -> None:
    tokens = ["A", "bank", "by", "the", "bank"]
    pair: dict[str, object] = {"word": "bank"}
    pair |= {"sentence1": tokens, "sentence2": tokens}
    pair |= {"start1": 14, "end1": 18, "start2": 2, "end2": 6}
    Path("p.jsonl").write_text(json.dumps(pair) + "\n")
    [row] = rows_of("--layers", "2", table="p.jsonl")
    expected = cosines(tokens, 4, tokens, 1)[2]
    assert float(row["cosine"]) == pytest.approx(expected, abs=2e-6)


def test_more_pairs_than_fit_together_keep_their_numbers(
    expected: list[float],
) -> None:
    write_table("wic.csv", [WIC[0]] * 150)
    rows = rows_of("--layers", "average")
    assert [row["line"] for row in rows] == [str(number) for number in range(1, 151)]
    assert {row["cosine"] for row in rows} == {f"{expected[3]:.6f}"}


def test_lists_of_tokens_are_not_tokenized() -> None:
    pair = {"word": "b", "text1": ["a", "b"], "text2": ["b", "c d"]}
    Path("p.jsonl").write_text(json.dumps(pair) + "\n")
    result = cosine("--pairs", "p.jsonl", "--text-column", "text1,text2", "--json")
    expected = cosines(["a", "b"], 1, ["b", "c d"], 0)
    assert_allclose(cosines_in(json.loads(result.stdout)), expected, atol=2e-6)


# Neighbours


def neighbours_in(result: Result) -> list[list[str]]:
    """Return the cosine, the line and the sentence of each neighbour."""
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    return [re.split(r" +|\t", line.strip(), maxsplit=2) for line in lines]


@pytest.mark.parametrize("name", ["v.hdf5", "packed.hdf5"])
def test_uses_are_shown_by_line_with_the_word_marked(name: str) -> None:
    result = elmo("neighbours", "bank", NEW, name, "--top", "3")
    neighbours = neighbours_in(result)
    for _, line, sentence in neighbours:
        assert line in ("1", "3", "4")
        assert len(re.findall(r"\[[\w.]+\]", sentence)) == 1
    found = [float(cosine) for cosine, _, _ in neighbours]
    assert found == sorted(found, reverse=True)
    chosen, baseline = result.stderr.splitlines(keepends=True)[:2]
    assert chosen == "Tokenizer: whitespace, because the text is tokenized\n"
    assert re.fullmatch(
        r"Cosine of two random tokens: -?0\.\d{4} on average\n", baseline
    )


def test_neighbors_is_the_same_command() -> None:
    british = elmo("neighbours", "bank", NEW, "v.hdf5", "--top", "3")
    american = elmo("neighbors", "bank", NEW, "v.hdf5", "--top", "3")
    assert american.stdout == british.stdout != ""


@pytest.mark.parametrize("name", [f"u.{name}" for name in FORMATS])
def test_target_words_of_every_format_are_searched(name: str) -> None:
    # They record their model.
    neighbours = neighbours_in(elmo("neighbours", "bank", NEW, name))
    found = set()
    for _, line, sentence in neighbours:
        found.add((line, re.findall(r"\[(\w+)\]", sentence)[0]))
    assert found == {("1", "bank"), ("1", "money"), ("3", "bank"), ("4", "cat")}
    others = neighbours_in(elmo("neighbours", "bank", NEW, name, "--other-words"))
    assert [row[1:] for row in others] == [["4", "The [cat] sat ."]]


def test_target_words_of_all_formats_have_the_same_cosines() -> None:
    def found(name: str) -> list[str]:
        """Return the cosines of the top layer."""
        result = elmo(
            "neighbours", "bank", NEW, name, "--model", TINY, "--layers", "top"
        )
        return [cosine for cosine, _, _ in neighbours_in(result)]

    assert found("u.parquet") == found("u.hdf5")


def test_vectors_of_another_program_need_a_model_and_a_layer() -> None:
    matrix = ElmoEmbedder(model=TINY).embed_sentence(["bank", "cat"])[2]
    name = write_matrices("m.parquet", {"bank": matrix[:1], "cat": matrix[1:]})
    result = elmo("neighbours", "bank", NEW, name)
    assert f"Error: {name}: unknown model. Name it with --model." in result.stderr
    result = elmo("neighbours", "bank", NEW, name, "--model", TINY)
    message = f"Error: {name}: unknown layer. Name it with --layers."
    assert message in result.stderr
    result = elmo("neighbours", "bank", NEW, name, "--model", TINY, "--layers", "top")
    sentences = {sentence for _, _, sentence in neighbours_in(result)}
    assert sentences == {"[bank]", "[cat]"}


def test_a_file_without_sentences_is_an_error_unless_others_have_some() -> None:
    Path("none.csv").write_text("text\n")
    elmo("embed", "none.csv", "none.hdf5", "--model", TINY)
    result = elmo("neighbours", "bank", NEW, "none.hdf5")
    assert result.stderr.endswith("Error: none.hdf5: no sentences to search\n")
    assert result.exit_code == 1
    result = elmo("neighbours", "bank", NEW, "none.hdf5", "v.hdf5", "--top", "1")
    assert result.stdout.split()[1].startswith("v.hdf5:")


def test_several_files_are_searched_as_one() -> None:
    result = elmo("neighbours", "bank", NEW, "v.hdf5", "more.hdf5", "--top", "50")
    assert {line for _, line, _ in neighbours_in(result)} == {
        "v.hdf5:1",
        "v.hdf5:3",
        "v.hdf5:4",
        "more.hdf5:1",
        "more.hdf5:3",
        "more.hdf5:4",
    }
    pattern = elmo("neighbours", "bank", NEW, "[v]*.hdf5", "more.hdf5", "--top", "50")
    assert pattern.stdout == result.stdout


PIPED = [
    "neighbours",
    "--queries",
    "-",
    "v.hdf5",
    "--input-format",
    "tsv",
    "--top",
    "2",
]


def test_queries_come_from_standard_input() -> None:
    queries = f"word\ttext\nbank\t{NEW}\nsat\tHe sat down .\n"
    table = elmo(*PIPED, stdin=queries)
    answers = elmo(*PIPED, "--json", stdin=queries)
    hits = [json.loads(line) for line in answers.stdout.splitlines()]
    shown = csv_rows(table.stdout, "\t")
    header = [
        "query_number",
        "rank",
        "cosine",
        "file",
        "line",
        "id",
        "position",
        "token",
        "sentence",
    ]
    assert list(hits[0]) == header
    assert list(shown[0]) == header
    numbers = [(hit["query_number"], hit["rank"]) for hit in hits]
    assert numbers == [(1, 1), (1, 2), (2, 1), (2, 2)]
    for hit, row in zip(hits, shown, strict=True):
        assert float(row.pop("cosine")) == pytest.approx(hit.pop("cosine"), abs=1e-6)
        for name, value in hit.items():
            assert row[name] == ("" if value is None else str(value))


def test_a_query_whose_word_is_not_found_has_no_neighbours() -> None:
    queries = (
        f"word\ttext\nbank\t{NEW}\nbnak\t{NEW}\nbank\t\nshe\tHe sat.\nbank\t{NEW}\n"
    )
    result = elmo(*PIPED, stdin=queries)
    assert result.exit_code == 0
    warning = "3 rows without neighbours. The first is standard input, row 2: 'bnak' is"
    assert f"Warning: {warning} not a " in result.stderr
    assert "on average" in result.stderr
    rows = csv_rows(result.stdout, "\t")
    assert [row["query_number"] for row in rows] == ["1", "1", "5", "5"]
    cosines = [row["cosine"] for row in rows]
    assert cosines[:2] == cosines[2:]


def test_no_neighbours_are_found_if_no_word_is() -> None:
    result = elmo(*PIPED, stdin=f"word\ttext\nbnak\t{NEW}\n")
    assert result.exit_code == 0
    assert csv_rows(result.stdout, "\t") == []
    assert result.stdout.startswith("query_number\trank\tcosine\t")
    assert "The first is standard input, row 1: 'bnak'" in result.stderr


def test_a_query_from_standard_input_is_answered_like_one_of_the_command_line() -> None:
    query = f"word\ttext\nbank\t{NEW}\n"
    answers = elmo(*PIPED, "--json", stdin=query)
    hits = [json.loads(line) for line in answers.stdout.splitlines()]
    neighbours = neighbours_in(elmo("neighbours", "bank", NEW, "v.hdf5", "--top", "2"))
    for hit, (_, line, sentence) in zip(hits, neighbours, strict=True):
        assert hit["file"] == "v.hdf5"
        assert str(hit["line"]) == line
        assert hit["id"] is None
        words = hit["sentence"].split()
        words[hit["position"]] = f"[{hit['token']}]"
        assert " ".join(words) == sentence


@pytest.mark.parametrize("name", [*(f"q.{name}" for name in NAMES), "-"])
def test_queries_come_from_a_table(name: str) -> None:
    queries = [
        {"word": "bank", "said": NEW},
        {"word": "cat", "said": "The cat , she said ."},
    ]
    options = ["--text-column", "said", "--json", "--top", "2"]
    stdin = ""
    if name == "-":
        stdin = Path(write_table("q.csv", queries)).read_text()
        options += ["--input-format", "csv"]
    else:
        write_table(name, queries)
    result = elmo("neighbours", "--queries", name, "v.hdf5", *options, stdin=stdin)
    expected = []
    for number, query in enumerate(queries, start=1):
        one = elmo(
            "neighbours",
            query["word"],
            query["said"],
            "v.hdf5",
            "--json",
            "--top",
            "2",
        )
        for line in one.stdout.splitlines():
            hit = json.loads(line)
            hit["query_number"] = number
            hit["cosine"] = pytest.approx(hit["cosine"], abs=1e-6)
            expected.append(hit)
    assert [json.loads(line) for line in result.stdout.splitlines()] == expected


def test_similar_sentences_are_found_in_files_of_sentence_vectors() -> None:
    result = elmo("neighbours", "--sentence", "The cat sat down .", "pooled.hdf5")
    _, line, sentence = neighbours_in(result)[0]
    assert line == "4"
    assert sentence == "The cat sat ."
    table = elmo(
        "neighbours", "--sentence", NEW, "pooled.hdf5", "--format", "csv", "--top", "1"
    )
    header, first = table.stdout.splitlines()
    assert header == "query_number,rank,cosine,file,line,id,sentence"
    assert first.startswith("1,1,0.")
    answer = elmo("neighbours", "--sentence", NEW, "pooled.hdf5", "--json")
    assert list(json.loads(answer.stdout.splitlines()[0]))[-1] == "sentence"
    Path("q.jsonl").write_text(json.dumps({"text": NEW}) + "\n")
    queries = elmo("neighbours", "--queries", "q.jsonl", "pooled.hdf5", "--json")
    assert queries.stdout == answer.stdout


def test_layer_0_logs_a_warning() -> None:
    def errors(name: str, *options: str) -> str:
        return elmo("neighbours", "bank", NEW, name, *options).stderr

    warning = "Warning: these vectors include layer 0, which finds similar spelling\n"
    assert warning in errors("average.hdf5")
    assert warning in errors("v.hdf5", "--layers", "0")
    assert warning not in errors("packed.hdf5")


def test_a_layer_that_the_file_lacks_is_an_error() -> None:
    result = elmo("neighbours", "bank", NEW, "packed.hdf5", "--layers", "0")
    message = "--layers 0: packed.hdf5 has only layers 1 and 2."
    assert_misused(result, message)


def test_layers_are_chosen_by_number_name_or_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(*options: str) -> str:
        return elmo("neighbours", "bank", NEW, "v.hdf5", *options).stdout

    layer_1 = answer("--layers", "1")
    assert layer_1 not in ("", answer())
    assert answer("--layers", "lstm1") == layer_1
    assert answer("--layers", "top") == answer("--layers", "2")
    assert answer("--layers", "all") == answer("--layers", "0,1,2")
    monkeypatch.setenv("ELMO_NEIGHBOURS_LAYERS", "1")
    assert answer() == layer_1


def test_a_query_is_tokenized_as_its_corpus_was() -> None:
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
        _, _, shown = error.partition("'x' is not a token of ")
        shown, _, _ = shown.partition(" Choose ")
        return shown.strip()[1:].rstrip("'\".")

    assert tokens_of("L'homme de la banque.") == "L' homme de la banque "
    assert tokens_of("L’homme de la banque…!") == "L' homme de la banque ... !"
    english = tokens_of("L'homme a la banque!", "--language=en")
    assert english == "L 'homme a la banque !"
    with h5py.File("moses.hdf5", "r+") as file:
        # as older versions wrote it
        del file.attrs["normalization"]
    assert tokens_of("L’homme de la banque…!") == "L ’ homme de la banque … !"
