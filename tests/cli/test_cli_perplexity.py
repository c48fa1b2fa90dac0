import json
from pathlib import Path

import numpy as np
import pytest
from commands import TINY, assert_fails, assert_misused, elmo
from strategies import make_language_model, small_architecture

TEXT = "the cat sat\n\nthe dog sat\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a text, and in `model` a language model of single words.

    <S> 1/16, </S> 1/4, <UNK> 1/8, the 1/4, cat 1/8, sat 1/16, naïve 1/16, 東京 1/16.
    """
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    Path("model").mkdir()
    bias = -np.array([4, 2, 3, 2, 3, 4, 4, 4]) * np.log(2)
    make_language_model(small_architecture(), 1, Path("model"), weight=np.zeros((8, 3)), bias=bias)
    return tmp_path


def test_the_table() -> None:
    result = elmo("perplexity", "text.txt", "--model", "model")
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


def test_json() -> None:
    found = json.loads(elmo("perplexity", "text.txt", "--model", "model", "--json").stdout)
    assert found["tokens"] == 6
    assert found["all_words"]["forward"] == pytest.approx(2 ** (11 / 4))
    assert found["known_words"]["backward"] == pytest.approx(2 ** (23 / 7))


def test_a_line_a_sentence() -> None:
    result = elmo("perplexity", "text.txt", "--model", "model", "--per-sentence")
    header, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert header[:4] == ["sentence", "tokens", "unknown", "log_p_forward"]
    assert [row[:3] for row in rows] == [["0", "3", "0"], ["1", "0", "0"], ["2", "3", "1"]]
    assert rows[0][3:] == ["-7.624619", "-9.010913", "6.727171", "9.513657", "8.000000"]
    assert rows[1][3:] == ["0.000000", "0.000000", "", "", ""]  # keeps its number
    assert result.stderr.endswith("6 tokens, perplexity 8.00 (average of directions)\n")


def test_a_line_a_token_sums_to_the_sentences() -> None:
    arguments = ("perplexity", "text.txt", "--model", "model", "--json")
    tokens = [json.loads(line) for line in elmo(*arguments, "--per-token").stdout.splitlines()]
    sentences = [
        json.loads(line) for line in elmo(*arguments, "--per-sentence").stdout.splitlines()
    ]
    assert [row["token"] for row in tokens[:5]] == ["<S>", "the", "cat", "sat", "</S>"]
    assert [row["position"] for row in tokens] == [0, 1, 2, 3, 4] * 2
    assert (tokens[0]["log_p_forward"], tokens[4]["log_p_backward"]) == (None, None)
    assert [row["token"] for row in tokens if not row["known"]] == ["dog"]
    assert sentences[1]["forward"] is None
    for sentence in sentences:
        for name in ("log_p_forward", "log_p_backward"):
            total = sum(row[name] or 0 for row in tokens if row["sentence"] == sentence["sentence"])
            assert total == pytest.approx(sentence[name])


def test_the_same_as_tsv() -> None:
    result = elmo("perplexity", "-", "--model", "model", "--per-token", "-q", stdin=TEXT)
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "sentence\tposition\ttoken\tknown\tlog_p_forward\tlog_p_backward",
        "0\t0\t<S>\t1\t\t-2.772589",
        "0\t1\tthe\t1\t-1.386294\t-1.386294",
    ]
    assert lines[5] == "0\t4\t</S>\t1\t-1.386294\t"


def test_a_softmax_and_vocabulary_may_be_elsewhere(folder: Path) -> None:
    (folder / "other").mkdir()
    for name in ("softmax.hdf5", "vocab.txt"):
        (folder / "model" / name).rename(folder / "other" / name)
    assert_fails_without_softmax = elmo("perplexity", "text.txt", "--model", "model")
    assert "Error: model: no softmax, which" in assert_fails_without_softmax.stderr
    softmax = ("--softmax-file", "other/softmax.hdf5")
    result = elmo("perplexity", "text.txt", "--model", "model", *softmax, "--json")
    assert json.loads(result.stdout)["predictions"] == 8
    files = ("--options-file", "model/options.json", "--weight-file", "model/weights.hdf5")
    words = ("--vocabulary-file", "other/vocab.txt")
    again = elmo("perplexity", "text.txt", *files, *softmax, *words, "--json")
    assert again.stdout == result.stdout


def test_a_text_in_place_of_its_file_is_misused() -> None:
    message = (
        "FILE is a file of text, and there is no 'the cat sat'; "
        "`echo 'the cat sat' | elmo perplexity -` measures the text itself"
    )
    assert_misused(elmo("perplexity", "the cat sat", "--model", "model"), message)
    Path("the cat sat").write_text(TEXT)
    assert elmo("perplexity", "the cat sat", "--model", "model").exit_code == 0
    piped = elmo("perplexity", "-", "--model", "model", "--json", stdin="the cat sat\n")
    assert json.loads(piped.stdout)["tokens"] == 3


def test_what_goes_wrong(folder: Path) -> None:
    model = ("--model", "model")
    missing = elmo("perplexity", "no.txt", *model)
    assert_fails(missing, "no.txt: cannot read the input: No such file or directory")
    empty = elmo("perplexity", "-", *model, "-q", stdin="\n\n")
    assert_fails(empty, "expected a text with tokens to measure the perplexity of, found none")
    (folder / "latin.txt").write_bytes(b"the caf\xe9\n")
    assert (
        "latin.txt, line 1, column 8: expected UTF-8"
        in elmo("perplexity", "latin.txt", *model).stderr
    )
    without = elmo("perplexity", "text.txt", "--model", TINY)
    assert without.exit_code == 1
    assert f"Error: {TINY}: no softmax, which predicting words needs" in without.stderr
