"""Tests of the input formats that all commands read."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from elmo_cli.cli import main

ROWS = 'item,sentence\na,"The cat , he said , sat ."\nb,The dog ran .\n'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "items.csv"
    path.write_text(ROWS, encoding="utf-8")
    return path


def test_surprisal_prints_the_ids_of_a_table(table: Path) -> None:
    options = ["--text-column", "sentence", "--id-column", "item"]
    result = CliRunner().invoke(main, ["surprisal", str(table), *options])
    assert result.exit_code == 0, result.stderr
    ids = [line.split("\t")[0] for line in result.stdout.splitlines()[1:]]
    assert ids == ["a"] * 8 + ["b"] * 4


def test_perplexity_lists_the_columns_if_one_is_missing(table: Path) -> None:
    result = CliRunner().invoke(main, ["perplexity", str(table)])
    assert result.exit_code == 1
    assert "The columns are 'item', 'sentence'. Name the text with --text-column." in result.stderr


def test_predict_reads_texts_from_a_file(table: Path) -> None:
    options = ["--file", str(table), "--text-column", "sentence", "--top", "1"]
    result = CliRunner().invoke(main, ["predict", *options])
    assert result.exit_code == 0, result.stderr
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == ["line", "1", "2"]


def test_predict_refuses_options_of_a_file_for_a_text() -> None:
    result = CliRunner().invoke(main, ["predict", "The cat", "--paragraphs"])
    assert result.exit_code == 2
    assert "--paragraphs requires --file FILE, or - as TEXT" in result.stderr
