"""JSON lines: texts, tokens and ids, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import TINY, assert_misused, elmo
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import open_activations
from elmo_cli.errors import InputError
from elmo_cli.text.entries import json_entries
from elmo_cli.text.lines import Record
from elmo_cli.text.records import checked_records
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, make_tokenizer

TINY_MODEL = ("--model", str(TINY))


def read(*rows: Any, tokenizer: Tokenizer = WHITESPACE) -> list[Record]:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    return list(checked_records(json_entries(lines, tokenizer), "a.jsonl", skip_errors=False))


texts = st.text(max_size=8)
words = st.text(max_size=8)


@given(st.lists(st.one_of(texts, st.lists(words, max_size=4), st.none()), max_size=5))
def test_what_is_written_is_read(values: list[Any]) -> None:
    rows = [{"tokens" if isinstance(value, list) else "text": value} for value in values]
    expected = [value if isinstance(value, list) else (value or "").split() for value in values]
    records = read(*rows)
    assert [record.tokens for record in records] == expected
    assert [record.key for record in records] == [None] * len(rows)


def test_a_text_is_tokenized_and_tokens_are_not() -> None:
    rows = ['{"text": "New York.", "id": 1}', "", '{"tokens": ["New York."], "text": "a", "id": 2}']
    records = read(*rows, tokenizer=make_tokenizer("moses"))
    assert [record.tokens for record in records] == [["New", "York", "."], ["New York."]]
    assert [record.key for record in records] == ["1", "2"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": ""}, '{"text"'], 'line 2: expected a JSON object, found {"text"'),
        (["[1]"], "line 1: expected a JSON object, found [1]"),
        ([{}], "line 1: expected a field 'tokens' or 'text', found none"),
        (
            [{"id": "a", "sentence": "b"}],
            "line 1: expected a field 'tokens' or 'text', found 'id', 'sentence'",
        ),
        ([{"text": 3}], "line 1: field 'text': expected a text or a list of tokens, found 3"),
        (
            [{"tokens": ["a", 3]}],
            "line 1: field 'tokens': expected a text or a list of tokens, found ['a', 3]",
        ),
        (
            ['{"text": "\\ud800"}'],
            r"line 1: field 'text': expected a text or a list of tokens, found '\ud800'",
        ),
        ([{"text": "", "id": True}], "line 1: field 'id': expected a text, found True"),
        (
            [{"text": "", "id": ""}],
            "line 1: the id '' cannot name a dataset of HDF5; leave out / and zero bytes",
        ),
        (
            [{"text": "", "id": "7"}, "", {"text": "", "id": 7}],
            "line 3: the id '7' is that of line 1 already",
        ),
    ],
)
def test_an_error_is_one_line_that_names_the_line_and_the_field(
    rows: list[Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(*rows)
    assert str(caught.value) == f"a.jsonl, {message}"


def test_a_line_in_error_keeps_its_number_among_numbers_and_none_among_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("embed", "-", *TINY_MODEL, "--input-format", "jsonl", "--skip-errors")
    elmo(*arguments, "out.hdf5", stdin='{\n{"text": "a b"}\n{}\n{"text": "c"}\n')
    with open_activations("out.hdf5") as activations:
        assert [len(values[0]) for values in activations] == [0, 2, 0, 1]
        assert json.loads(activations.attributes["skipped"]).keys() == {"0", "2"}
    elmo(*arguments, "keys.hdf5", stdin='{\n{"id": "x", "text": "a b"}\n{"id": "y"}\n')
    with open_activations("keys.hdf5") as activations:
        assert [activations.key(number) for number in range(len(activations))] == ["x"]
        assert json.loads(activations.attributes["skipped"]).keys() == {"record 1", "record 3"}


def test_texts_of_json_lines_are_not_split_into_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    pytest.importorskip("sentencex")
    result = elmo("embed", tmp_path / "a.jsonl", tmp_path / "out.hdf5", "--split-sentences")
    assert_misused(result, "--split-sentences requires text, found jsonl")


def test_json_lines_go_in_and_out_of_a_pipe() -> None:
    arguments = ("embed", "-", "-", *TINY_MODEL, "--input-format", "jsonl", "--format", "jsonl")
    result = elmo(*arguments, "--pooling", "mean", "--layers", "top", stdin='{"tokens": ["a b"]}')
    row = json.loads(result.stdout)
    assert (row["number"], row["sentence"], row["tokens"]) == (0, "a b", ["a b"])
    assert len(row["activations"]) == 32
