"""`elmo perplexity` and `elmo surprisal`, which score a text."""

import json
import math
from pathlib import Path

import pytest
from commands import TINY, assert_fails, assert_misused, elmo

TEXT = "the cat sat\n\nthe dog sat\n"
MODEL = ("--model", "model")


@pytest.fixture(autouse=True)
def text(word_model: None) -> None:
    """Write a text into the current folder."""
    Path("text.txt").write_text(TEXT)


# Perplexity


def test_the_perplexity_is_a_table() -> None:
    result = elmo("perplexity", "text.txt", *MODEL)
    assert (result.exit_code, result.stderr) == (0, "Model: model\n")
    # Forward 2^(11/4), or 2^(19/7) without the unknown word; backward 2^(13/4), 2^(23/7).
    assert result.stdout == (
        "sentences               2\n"
        "tokens                  6\n"
        "predictions             8  in each direction\n"
        "unknown            16.67%  of the tokens\n"
        "\n"
        "perplexity      all words   known words\n"
        "forward              6.73          6.56\n"
        "backward             9.51          9.75\n"
        "average              8.00          8.00\n"
    )


def test_perplexity_as_json() -> None:
    perplexity = json.loads(elmo("perplexity", "text.txt", *MODEL, "--json").stdout)
    assert perplexity["tokens"] == 6
    assert perplexity["all_words"]["forward"] == pytest.approx(2 ** (11 / 4))
    assert perplexity["known_words"]["backward"] == pytest.approx(2 ** (23 / 7))


def test_a_row_per_sentence() -> None:
    result = elmo("perplexity", "text.txt", *MODEL, "--per-sentence")
    header, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert header[:4] == ["line", "tokens", "unknown", "log_p_forward"]
    assert [row[:3] for row in rows] == [["1", "3", "0"], ["2", "0", "0"], ["3", "3", "1"]]
    figures = [-7.624619, -9.010913, 6.727171, 9.513657, 8]
    assert [float(cell) for cell in rows[0][3:]] == pytest.approx(figures, abs=2e-6)
    assert rows[1][3:] == ["0.000000", "0.000000", "", "", ""]  # keeps its number
    assert result.stderr.endswith("6 tokens, perplexity 8.00 (average of directions)\n")


def test_rows_of_sentences_are_the_sums_of_their_surprisals() -> None:
    result = elmo("perplexity", "-", *MODEL, "--per-sentence", "--json", "-q", stdin=TEXT)
    assert result.stderr == ""
    first, blank, last = map(json.loads, result.stdout.splitlines())
    assert (blank["line"], blank["tokens"], blank["forward"]) == (2, 0, None)
    lines = elmo("surprisal", "text.txt", *MODEL, "--json").stdout.splitlines()
    tokens = [json.loads(line) for line in lines]
    for sentence in (first, last):
        bits = [row["surprisal"] for row in tokens if row["line"] == sentence["line"]]
        bits.append(2)  # `</S>`
        assert sum(bits) == pytest.approx(-sentence["log_p_forward"] / math.log(2))


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv", "-"])
def test_rows_of_surprisal_are_a_text_again(name: str, direction: str) -> None:
    row_format = "csv" if name.endswith("csv") else "jsonl"
    rows = elmo("surprisal", "text.txt", *MODEL, "-f", row_format, "--direction", direction).stdout
    Path(name).write_text(rows)
    result = elmo("perplexity", name, *MODEL, "-q", "--per-sentence", stdin=rows)
    expected = elmo("perplexity", "text.txt", *MODEL, "-q", "--per-sentence").stdout
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    numbers = [line.split("\t") for line in expected.splitlines() if "\t0\t0\t" not in line]
    assert [line[-7:] for line in lines] == [line[-7:] for line in numbers]


def test_a_softmax_and_vocabulary_may_be_elsewhere() -> None:
    Path("other").mkdir()
    for name in ("softmax.hdf5", "vocab.txt"):
        Path("model", name).rename(Path("other", name))
    assert_fails_without_softmax = elmo("perplexity", "text.txt", *MODEL)
    assert (
        "Error: model: predicting words requires a softmax" in assert_fails_without_softmax.stderr
    )
    softmax = ("--softmax-file", "other/softmax.hdf5")
    result = elmo("perplexity", "text.txt", *MODEL, *softmax, "--json")
    assert json.loads(result.stdout)["predictions"] == 8
    files = ("--options-file", "model/options.json", "--weight-file", "model/weights.hdf5")
    words = ("--vocabulary-file", "other/vocab.txt")
    again = elmo("perplexity", "text.txt", *files, *softmax, *words, "--json")
    assert again.stdout == result.stdout


# Surprisal


def test_surprisal_is_a_row_per_token() -> None:
    result = elmo("surprisal", "text.txt", *MODEL)
    assert result.stdout == (
        "line\tposition\ttoken\tsurprisal\tlog_frequency_by_rank\tlength\tknown\n"
        "1\t0\tthe\t2.000000\t-3.299638\t3\t1\n"
        "1\t1\tcat\t3.000000\t-3.591125\t3\t1\n"
        "1\t2\tsat\t4.000000\t-3.833269\t3\t1\n"
        "3\t0\tthe\t2.000000\t-3.299638\t3\t1\n"
        "3\t1\tdog\t3.000000\t\t3\t0\n"
        "3\t2\tsat\t4.000000\t-3.833269\t3\t1\n"
    )
    assert result.stderr == "Model: model\n6 tokens, 1 of them unknown\n"
    piped = elmo("surprisal", "-", *MODEL, "--direction", "backward", "-q", stdin=TEXT)
    assert (piped.stdout, piped.stderr) == (result.stdout, "")


def test_the_entropy_is_a_column_more() -> None:
    header, first, *_ = elmo("surprisal", "text.txt", *MODEL, "--entropy").stdout.splitlines()
    assert header.split("\t")[3:5] == ["surprisal", "entropy"]
    assert first.split("\t")[3:5] == ["2.000000", "2.750000"]


def test_surprisal_as_json_lines() -> None:
    result = elmo("surprisal", "text.txt", *MODEL, "--json", "--entropy")
    *_, dog, _ = map(json.loads, result.stdout.splitlines())
    assert dog == {
        **{"line": 3, "position": 1, "token": "dog", "known": False, "length": 3},
        **{"surprisal": pytest.approx(3), "entropy": pytest.approx(2.75)},
        "log_frequency_by_rank": None,
    }


def test_the_suffix_is_the_format_of_the_input() -> None:
    expected = elmo("surprisal", "text.txt", *MODEL).stdout.replace("\n3\t", "\n2\t")
    Path("text.conllu").write_text("1\tthe\n2\tcat\n3\tsat\n\n1\tthe\n2\tdog\n3\tsat\n")
    Path("text.jsonl").write_text('{"text": "the cat sat"}\n{"tokens": ["the", "dog", "sat"]}\n')
    for name in ("text.conllu", "text.jsonl"):
        assert elmo("surprisal", name, *MODEL).stdout == expected
    cut = elmo("surprisal", "text.conllu", *MODEL, "--tokenizer", "moses", "-q")
    assert_misused(cut, "--tokenizer has no effect with conllu, which has tokens")


def test_an_empty_text_has_no_rows() -> None:
    result = elmo("surprisal", "-", *MODEL, "-q", stdin="")
    assert (result.exit_code, result.stdout.count("\n"), result.stderr) == (0, 1, "")


# What goes wrong


@pytest.mark.parametrize("command", ["perplexity", "surprisal"])
def test_errors_are_one_line(command: str) -> None:
    missing = elmo(command, "no.txt", *MODEL)
    assert_fails(missing, "no.txt: cannot read the input: No such file or directory")
    Path("latin.txt").write_bytes(b"the caf\xe9\n")
    latin = elmo(command, "latin.txt", *MODEL)
    assert "latin.txt, line 1, column 8: not valid UTF-8" in latin.stderr
    without = elmo(command, "text.txt", "--model", TINY)
    assert without.exit_code == 1
    assert f"Error: {TINY}: predicting words requires a softmax. Add" in without.stderr


def test_a_text_without_tokens_has_no_perplexity() -> None:
    empty = elmo("perplexity", "-", *MODEL, "-q", stdin="\n\n")
    assert_fails(empty, "standard input has no tokens")
