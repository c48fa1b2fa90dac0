"""`elmo perplexity`, `surprisal` and `predict`: what is no row to the letter (`answers.txt`)."""

import json
from pathlib import Path

import pytest
from commands import elmo
from table_files import csv_rows

MODEL = ("--model", "model")
TEXT = "the cat sat\n\nthe dog sat\n"


@pytest.fixture(autouse=True)
def text(word_model: None) -> None:
    """Write a text into the current folder."""
    Path("text.txt").write_text(TEXT)


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv", "-"])
def test_rows_of_surprisal_are_a_text_again(name: str, direction: str) -> None:
    row_format = "csv" if name.endswith("csv") else "jsonl"
    rows = elmo("surprisal", "text.txt", *MODEL, "-f", row_format, "--direction", direction).stdout
    Path(name).write_text(rows)
    found, expected = (
        elmo("perplexity", source, *MODEL, "-q", "--per-sentence", stdin=rows).stdout.splitlines()
        for source in (name, "text.txt")
    )
    del expected[2]  # A blank line has no row.
    assert [line.split("\t")[-7:] for line in found] == [row.split("\t")[-7:] for row in expected]


def test_a_softmax_and_vocabulary_may_be_elsewhere() -> None:
    expected = elmo("perplexity", "text.txt", *MODEL, "--json")
    for name in ("softmax.hdf5", "vocab.txt"):
        Path("model", name).rename(name)
    softmax = ("--softmax-file", "softmax.hdf5", "--json")
    files = ("--options-file", "model/options.json", "--weight-file", "model/weights.hdf5")
    for more in (MODEL, (*files, "--vocabulary-file", "vocab.txt")):
        assert elmo("perplexity", "text.txt", *softmax, *more).stdout == expected.stdout


def test_samples_continue_the_text_and_follow_the_seed() -> None:
    arguments = ("predict", "the cat", *MODEL, "--sample", "4", "--max-words", "5", "-q")
    result = elmo(*arguments)
    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr, len(lines)) == (0, "", 4)
    assert all(line.startswith("the cat") and len(line.split()) <= 7 for line in lines)
    assert elmo(*arguments).stdout == result.stdout != elmo(*arguments, "--seed", "1").stdout
    answers = [json.loads(line) for line in elmo(*arguments, "--json").stdout.splitlines()]
    assert [each["text"] for each in answers] == lines
    rows = csv_rows(elmo(*arguments, "--format", "csv").stdout)
    assert [(row["line"], row["sample_number"]) for row in rows] == [("1", n) for n in "1234"]
    cold = elmo(*arguments, "--temperature", "0.01").stdout
    assert set(cold.split()) <= {"the", "cat"}
    behind = elmo(*arguments, "--backward").stdout.splitlines()
    assert all(line.endswith("the cat") for line in behind)


def test_lines_before_a_wrong_one_are_answered() -> None:
    result = elmo("predict", "-", *MODEL, "--top", "1", stdin="The\ncat\n___ and ___\n")
    rows = "line\trank\tword\tprobability\n1\t1\t</S>\t0.250000\n2\t1\t</S>\t0.250000\n"
    assert (result.exit_code, result.stdout) == (1, rows)
    assert result.stderr.endswith(
        "Error: standard input, line 3: ___ and ___: 2 gaps (___). Fill all but one of them.\n"
    )


def test_the_accuracy_of_every_group_is_printed() -> None:
    pairs = [f"the cat,cat the,g{number}" for number in range(150)]
    Path("pairs.csv").write_text("\n".join(["good,bad,group", *pairs]))
    result = elmo("surprisal", "pairs.csv", "--pairs", "good,bad", "--group-by", "group", *MODEL)
    assert sum(line.startswith("group g") for line in result.stderr.splitlines()) == 150


def test_a_plot_is_drawn() -> None:
    pytest.importorskip("matplotlib", reason='needs pip install "elmo-cli[plot]"')
    Path("items.csv").write_text('id,text\na,"The cat, sat."\nb,the cat sat\n')
    result = elmo("surprisal", "items.csv", *MODEL, "--words-by", "space", "--plot", "s.html")
    assert result.stderr == "Model: model\n8 tokens, 3 of them unknown\nWrote s.html: 2 sentences\n"
    assert "cat,: 6.00 bits forward, unknown" in Path("s.html").read_text(encoding="utf-8")
