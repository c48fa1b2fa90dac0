import json
from pathlib import Path

import pytest
from commands import assert_misused, elmo

MODEL = ("--model", "model")


pytestmark = pytest.mark.usefixtures("word_model")


def test_the_next_words() -> None:
    result = elmo("predict", "The cat sat on the", *MODEL, "--top", "3")
    share = "<UNK>, which represents all words outside the vocabulary, has 12.5%"
    assert result.stderr == f"Model: model\n{share}. Use --with-unknown to show it.\n"
    assert result.stdout == "  0.2500  </S>\n  0.2500  the\n  0.1250  cat\n"
    whole = elmo("predict", "The cat sat on the", *MODEL, "--top", "3", "--with-unknown")
    assert whole.stderr == "Model: model\n"
    assert whole.stdout == "  0.2500  </S>\n  0.2500  the\n  0.1250  <UNK>\n"


def test_a_gap_may_touch_other_tokens() -> None:
    result = elmo("predict", "I sat on (____).", *MODEL, "--json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    # the 1/16 over its prior, log(5/4), is more than cat 1/64 over log(6/5).
    assert [answer["word"] for answer in answers][:2] == ["the", "cat"]
    assert sum(answer["probability"] for answer in answers) == pytest.approx(1)
    apart = elmo("predict", "I sat on ( ___ ) .", *MODEL, "--json", "--tokenizer", "whitespace")
    assert apart.stdout == result.stdout


def test_lines_of_standard_input() -> None:
    stdin = "the cat\n\nthe ___ sat\n"
    rows = elmo("predict", "-", *MODEL, "--top", "2", "-q", stdin=stdin).stdout.splitlines()
    assert rows[:2] == ["line\trank\tword\tprobability", "1\t1\t</S>\t0.250000"]
    assert [row.split("\t")[0] for row in rows[1:]] == ["1", "1", "2", "2", "3", "3"]
    assert rows[5].startswith("3\t1\tthe\t")
    lines = elmo("predict", "-", *MODEL, "--json", "-q", "--top", "2", stdin=stdin).stdout
    answers = [json.loads(line) for line in lines.splitlines()]
    assert [list(map(str, answer.values()))[:3] for answer in answers] == [
        row.split("\t")[:3] for row in rows[1:]
    ]


def test_the_share_of_unknown_words_ignores_texts_with_gaps() -> None:
    result = elmo("predict", "-", *MODEL, "--json", stdin="the\nthe ___ sat\ncat\n")
    assert (
        "<UNK>, which represents all words outside the vocabulary, has 12.5% on average."
        in result.stderr
    )
    gap = elmo("predict", "the ___ sat", *MODEL)
    assert gap.stderr == "Model: model\n"


def test_substitutes_of_each_token() -> None:
    # Both directions agree: the 1/16 over its prior log(5/4), cat 1/64 over log(6/5).
    alone = elmo("predict", "sat cat", *MODEL, "--each", "--top", "2").stdout.splitlines()
    assert [line.split()[-1] for line in alone] == ["sat", "the", "cat", "cat", "the", "cat"]
    result = elmo("predict", "-", *MODEL, "--each", "--top", "1", stdin="sat cat\n\nsat\n")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[:6] for row in rows] == [
        ["line", "position", "token", "known", "rank", "word"],
        ["1", "0", "sat", "1", "1", "the"],
        ["1", "1", "cat", "1", "1", "the"],
        ["3", "0", "sat", "1", "1", "the"],
    ]
    printed = elmo("predict", "-", *MODEL, "--each", "--json", stdin="\nsat cat\n").stdout
    gap = [
        json.loads(line)
        for line in elmo("predict", "sat ___", *MODEL, "-f", "json").stdout.splitlines()
    ]
    assert [json.loads(line) for line in printed.splitlines()] == [
        {"line": 2, "position": position, "token": token, "known": True} | answer | {"line": 2}
        for position, token in enumerate(["sat", "cat"])
        for answer in gap
    ]


def test_white_space_is_a_tokenizer_too() -> None:
    arguments = ("predict", "the cat's", *MODEL, "--each", "--top=1", "--json", "--tokenizer")
    for name, tokens in (("whitespace", ["the", "cat's"]), ("moses", ["the", "cat", "'s"])):
        lines = elmo(*arguments, name).stdout.splitlines()
        assert [json.loads(line)["token"] for line in lines] == tokens


def test_samples() -> None:
    arguments = ("predict", "the cat", *MODEL, "--sample", "4", "--max-words", "5", "-q")
    result = elmo(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("the cat") and len(line.split()) <= 7 for line in lines)
    assert elmo(*arguments).stdout == result.stdout
    assert elmo(*arguments, "--seed", "1").stdout != result.stdout
    samples = [json.loads(line) for line in elmo(*arguments, "--json").stdout.splitlines()]
    assert [sample["text"] for sample in samples] == lines
    cold = elmo(*arguments, "--temperature", "0.01").stdout.splitlines()
    assert {word for line in cold for word in line.split()} <= {"the", "cat"}
    behind = elmo(*arguments, "--backward").stdout.splitlines()
    assert all(line.endswith("the cat") for line in behind)


def test_a_file_is_not_taken_for_the_text() -> None:
    Path("two texts.txt").write_text("the cat\nthe cat sat\n")
    message = (
        "two texts.txt: TEXT is the text itself, but a file with this name exists. To read its "
        "texts, use `elmo predict --file 'two texts.txt'`."
    )
    assert_misused(elmo("predict", "two texts.txt", *MODEL), message)
    assert elmo("predict", "model", *MODEL, "-q").exit_code == 0  # a folder has no lines


def test_lines_before_a_wrong_one_are_answered() -> None:
    result = elmo("predict", "-", *MODEL, "--top", "1", stdin="The\ncat\n___ and ___\n")
    rows = "line\trank\tword\tprobability\n1\t1\t</S>\t0.250000\n2\t1\t</S>\t0.250000\n"
    assert (result.exit_code, result.stdout) == (1, rows)
    assert result.stderr.endswith(
        "Error: standard input, line 3: ___ and ___: 2 gaps (___). Fill all but one of them.\n"
    )
