"""Target words with their forms, and their positions in records."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from elmo_cli.errors import InputError, SettingsError, counted, shown
from elmo_cli.settings import ALL_COLUMNS, TextSettings
from elmo_cli.text.input_formats import PARQUET, InputFormat, find_format, open_input, open_records
from elmo_cli.text.records import Record
from elmo_cli.text.sources import Source
from elmo_cli.text.tables import column_types

WORDS: Final = "words"
"""Attribute of a file with the target word of each form, as JSON. Files of all tokens lack it."""
POSITIONS: Final = "positions"
"""Attribute of a record with the positions of its target words, separated by commas."""

_WORD: Final = "word"
_FORM: Final = "form"
"""Columns of a table of target words, as `elmo usages` writes them."""


def read_targets(
    path: str | Path, input_format: str | None = None, column: str | None = None
) -> dict[str, str]:
    """Read a file of target words.

    A line has a word, or a word and its forms separated by commas: `lemma,form,form`. A table has
    a column of words, and optionally a column `form` with one form of the word per row.

    Args:
        path: Path of the file. CSV and TSV without a header `word` are read as lines.
        input_format: Format of the file. None goes by its content and suffix.
        column: Column of the words in a table; `word` by default.

    Returns:
        The word of each form. A word is a form of itself.
    """
    source = Source(path)
    file_format = find_format(source, input_format)
    is_table = file_format.has_columns
    if is_table and input_format is None and column is None and file_format.delimiter is not None:
        lines, _ = source.lines()
        header = next(csv.reader([next(lines, "")], delimiter=file_format.delimiter), [])
        source.rewind()
        is_table = _WORD in header
    if column is not None and not is_table:
        raise SettingsError(
            f"{path}: expected a table with a column {column!r}, found {file_format.name}."
        )
    rows = _read_rows(source, file_format, column or _WORD) if is_table else _read_lines(source)
    targets: dict[str, str] = {}
    for location, forms in rows:
        for form in filter(None, forms):
            word = targets.setdefault(form, forms[0])
            if word != forms[0]:
                raise InputError(
                    f"{path}, {location}: {form!r} is a form of {word!r} already. "
                    "Name each form once."
                )
    if not targets:
        raise InputError(f"{path}: no words. Write one word per line, or lemma,form,form.")
    return targets


def _read_lines(source: Source) -> Iterator[tuple[str, list[str]]]:
    """Yield the number of each line, as `line 3`, and a word with its forms."""
    with source:
        lines, _ = source.lines()
        for number, line in enumerate(lines, start=1):
            # The target word of the line "," is a comma.
            forms = [line] if line == "," else [form.strip() for form in line.split(",")]
            yield f"line {number}", forms


def _read_rows(source: Source, table: InputFormat, column: str) -> Iterator[tuple[str, list[str]]]:
    columns: tuple[str, ...] = ALL_COLUMNS
    if table.name == PARQUET.name:  # The table may have large columns of vectors.
        columns = (_FORM,) if _FORM in column_types(source) else ()
    settings = TextSettings(table.name, text_column=column, keep_columns=columns)
    with open_records(open_input(source, settings), ids="none", is_quiet=True) as (records, *_):
        for number, record in enumerate(records, start=1):
            form = record.columns.get(_FORM)
            yield f"row {number}", [record.text, *([form] if isinstance(form, str) else [])]


def target_positions(record: Record) -> list[int]:
    """Return the positions of the target words of a record, or all positions without targets."""
    text = record.attributes.get(POSITIONS)
    if text is None:
        return list(range(len(record.tokens)))
    if not record.tokens:  # The record was skipped.
        return []
    positions = [int(part) if part.isdecimal() else -1 for part in str(text).split(",")]
    if not all(0 <= position < len(record.tokens) for position in positions):
        raise InputError(
            f"the file is damaged: expected positions of {counted(len(record.tokens), 'token')}, "
            f"found {shown(str(text))!r}"
        )
    return positions
