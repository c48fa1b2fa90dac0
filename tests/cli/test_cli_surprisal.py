import json
from pathlib import Path

import numpy as np
import pytest
from commands import TINY, assert_misused, elmo
from strategies import make_language_model, small_architecture

TEXT = "the cat\n\nthe dog\n"
MODEL = ("--model", "model")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a text, and in `model` a language model of single words.

    <S> 1/16, </S> 1/4, <UNK> 1/8, the 1/4, cat 1/8, sat 1/16, naïve 1/16, 東京 1/16: an
    entropy of 2.75 bits.
    """
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    Path("model").mkdir()
    bias = -np.array([4, 2, 3, 2, 3, 4, 4, 4]) * np.log(2)
    make_language_model(small_architecture(), 1, Path("model"), weight=np.zeros((8, 3)), bias=bias)
    return tmp_path


def test_a_line_a_token() -> None:
    result = elmo("surprisal", "text.txt", *MODEL)
    assert result.stdout == (
        "sentence_id\ttoken_id\ttoken\tsurprisal\tknown\n"
        "1\t1\tthe\t2.000000\t1\n"
        "1\t2\tcat\t3.000000\t1\n"
        "3\t1\tthe\t2.000000\t1\n"
        "3\t2\tdog\t3.000000\t0\n"
    )
    assert result.stderr == "Model: model\n4 tokens, 1 of them unknown\n"
    piped = elmo("surprisal", "-", *MODEL, "--direction", "backward", "-q", stdin=TEXT)
    assert (piped.stdout, piped.stderr) == (result.stdout, "")


def test_the_entropy_is_a_column_more() -> None:
    header, first, *_ = elmo("surprisal", "text.txt", *MODEL, "--entropy").stdout.splitlines()
    assert header == "sentence_id\ttoken_id\ttoken\tsurprisal\tknown\tentropy"
    assert first == "1\t1\tthe\t2.000000\t1\t2.750000"


def test_json_lines() -> None:
    result = elmo("surprisal", "text.txt", *MODEL, "--json", "--entropy")
    *_, last = map(json.loads, result.stdout.splitlines())
    assert last == {
        **{"sentence_id": 3, "token_id": 2, "token": "dog", "known": False},
        **{"surprisal": pytest.approx(3), "entropy": pytest.approx(2.75)},
    }


def test_an_empty_text_has_no_rows() -> None:
    result = elmo("surprisal", "-", *MODEL, "-q", stdin="")
    assert (result.exit_code, result.stdout.count("\n"), result.stderr) == (0, 1, "")


def test_what_goes_wrong() -> None:
    text = elmo("surprisal", "the cat sat", *MODEL)
    message = "`echo 'the cat sat' | elmo surprisal -` measures the text itself"
    assert_misused(text, f"FILE is a file of text, and there is no 'the cat sat'; {message}")
    without = elmo("surprisal", "text.txt", "--model", TINY)
    assert without.exit_code == 1
    assert f"Error: {TINY}: no softmax, which predicting words needs" in without.stderr
