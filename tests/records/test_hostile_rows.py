"""Rows that no program should write: one line of error, or an output that is read."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from elmo_cli.records.input_rows import MAX_LEVELS
from tests.support.commands import TINY, assert_fails, elmo

pytestmark = pytest.mark.usefixtures("folder")

DIGITS = "1" * 5000
"""More digits than Python converts to a number."""
TOO_DEEP = f"more than {MAX_LEVELS} levels of lists and objects"


def embed(content: str, name: str, output: str, *options: str) -> Result:
    """Run `elmo embed` on a file with this content."""
    Path(name).write_text(content, encoding="utf-8")
    return elmo("embed", name, output, "--model", TINY, "--layers", "top", *options)


def list_in_lists(n_levels: int) -> str:
    return "[" * n_levels + "]" * n_levels


def object_in_objects(n_levels: int) -> str:
    return '{"a":' * n_levels + "1" + "}" * n_levels


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (f'[{{"text":"a","n":{DIGITS}}}]', "a.json", "not valid JSON: a number has"),
        (f'{{"text":"a","n":{DIGITS}}}', "a.jsonl", "expected a JSON object, found"),
        (f"{DIGITS}\ta\n", "a.conllu", "field 1 (ID): expected 1, found 1111"),
        (f"1\ta\n{DIGITS}\tb\n", "a.conllu", "field 1 (ID): expected 2, found 1111"),
        ('{"text":"ab","tokens":[{"start":"x"}]}', "a.jsonl", "field 'tokens': expe"),
        ('{"text":"ab","tokens":[{"end":1.5}]}', "a.jsonl", "field 'tokens': expected"),
    ],
)
def test_an_odd_number_is_an_error(content: str, name: str, message: str) -> None:
    result = embed(content, name, "out.hdf5")
    assert message in result.stderr
    assert_fails(result, result.stderr.removeprefix("Error: ").rstrip("\n"))


def test_a_place_of_thousands_of_digits_is_no_place() -> None:
    content = f'{{"text":"the cat","indexes_target_token":"{DIGITS}:{DIGITS}"}}\n'
    Path("words.txt").write_text("cat\n")
    Path("a.jsonl").write_text(content)
    command = "occurrences a.jsonl out.parquet --words words.txt --layers top"
    result = elmo(*command.split(), "--model", TINY)
    assert_fails(result, result.stderr.removeprefix("Error: ").rstrip("\n"))
    assert "1 annotated place without a target word" in result.stderr


@pytest.mark.parametrize("output", ["out.jsonl", "out.parquet"])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (r'"x\ud800"', r"expected Unicode, found 'x\ud800'"),
        (r'["a", {"b": "\udc00"}]', r"expected Unicode, found '\udc00'"),
        (r'{"\ud800": 1}', r"expected Unicode, found '\ud800'"),
        (list_in_lists(MAX_LEVELS + 1), TOO_DEEP),
        (object_in_objects(MAX_LEVELS + 1), TOO_DEEP),
    ],
)
def test_a_kept_value_that_nothing_reads_is_an_error(
    value: str, problem: str, output: str
) -> None:
    content = f'{{"text":"a","k":{value}}}\n'
    result = embed(content, "a.jsonl", output, "--keep-columns", "all")
    assert_fails(result, f"a.jsonl, line 1: field 'k': {problem}")


def test_a_name_that_is_no_unicode_is_an_error() -> None:
    content = r'{"text":"a","\ud800":1}'
    result = embed(content, "a.jsonl", "out.jsonl", "--keep-columns", "all")
    problem = r"field '\ud800': expected a name in Unicode"
    assert_fails(result, f"a.jsonl, line 1: {problem}")


@pytest.mark.parametrize(
    "value",
    [
        list_in_lists(MAX_LEVELS),
        object_in_objects(MAX_LEVELS),
        "{}",
        '[{"a":{}}]',
        '[1,"a"]',
        str(2**64),
        DIGITS[:4000],
    ],
)
def test_what_is_kept_is_read_again(value: str) -> None:
    pandas = pytest.importorskip("pandas")
    parquet = pytest.importorskip("pyarrow.parquet")
    content = f'{{"text":"a","k":{value}}}\n'
    for output in ("out.jsonl", "out.parquet"):
        result = embed(content, "a.jsonl", output, "--keep-columns", "k")
        assert result.exit_code == 0
    row = json.loads(Path("out.jsonl").read_text(encoding="utf-8"))
    assert row["k"] == json.loads(value)
    (kept,) = parquet.read_table("out.parquet")["k"].to_pylist()
    if isinstance(kept, str):  # Parquet has no column of such values.
        kept = json.loads(kept)
    assert kept == json.loads(value)
    assert len(pandas.read_parquet("out.parquet")) == 1
