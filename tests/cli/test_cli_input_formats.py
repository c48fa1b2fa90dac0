"""Tests of the input formats that all commands read."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from elmo_cli import read_targets
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
    assert "The columns are 'item', 'sentence'. Choose one with --text-column." in result.stderr


def test_predict_reads_texts_from_a_file(table: Path) -> None:
    options = ["--file", str(table), "--text-column", "sentence", "--top", "1"]
    result = CliRunner().invoke(main, ["predict", *options])
    assert result.exit_code == 0, result.stderr
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == ["line", "1", "2"]


def test_predict_refuses_options_of_a_file_for_a_text() -> None:
    result = CliRunner().invoke(main, ["predict", "The cat", "--paragraphs"])
    assert result.exit_code == 2
    assert "--paragraphs requires --file FILE, or - as TEXT" in result.stderr


def test_surprisal_reads_delimiters_and_quotes(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text('sep=;\nitem;sentence\n1;" No , " he said .\n')
    command = ["surprisal", str(path), "--text-column", "sentence", "--quotes", "none"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1 + 7
    result = CliRunner().invoke(main, [*command, "--delimiter", "::"])
    assert result.exit_code == 2
    assert "'--delimiter': expected one character, or tab, found '::'" in result.stderr
    result = CliRunner().invoke(main, [*command, "--delimiter", "tab"])
    assert "The columns are 'item;sentence'." in result.stderr


def test_a_text_with_tabs_names_the_formats_of_tables(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text("item\tsentence\n1\tNo .\n")
    command = ["surprisal", str(path), "--text-column", "sentence"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "it has no columns. If it is a table, use --input-format csv, or tsv" in result.stderr
    for name in ("csv", "tsv"):
        assert CliRunner().invoke(main, [*command, "--input-format", name]).exit_code == 0


def test_target_words_may_be_separated_by_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("word;form\nsleep;slept\n")
    assert read_targets(path) == {"sleep": "sleep", "slept": "sleep"}
