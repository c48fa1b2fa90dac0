"""Split the inputs of a distributed run into parts.

A part is a stretch of bytes between line ends, or of rows of Parquet. The records of
lines are counted by the function that reads them later, so that the numbers agree for
every content.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from elmo_cli.distributed.column_types import ColumnTypes
from elmo_cli.distributed.find_inputs import find_input_format
from elmo_cli.distributed.hashing_reader import HashingReader
from elmo_cli.distributed.input_files import open_input_file
from elmo_cli.distributed.input_part import Part
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.options.text import TextSettings
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.parquet import Parquet
from elmo_cli.text.choose_tokenizer import choose_tokenizer
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import Tokenizer

_TOKEN_BYTES: Final = 6
"""Approximate bytes of text per token, with the space. A residue of FASTA is 1."""


def split_inputs(
    paths: Iterable[str], text_settings: TextSettings, n_tokens: float
) -> tuple[list[Part], dict[str, Any]]:
    """Split inputs into parts of about `n_tokens` tokens.

    A compressed file is one part. The types of the kept columns, and of the column `id`
    if there are ids, are returned too.
    """
    parts = _PartList()
    types = ColumnTypes()
    splits_records: bool | None = None  # None before the first input
    for path in paths:
        input_format = find_input_format(text_settings, path)
        if text_settings.split_sentences and input_format.has_tokens:
            raise SettingsError(
                "{path}: {--split-sentences True} requires text or a table, found "
                "{name}",
                remedy="Remove {--split-sentences True}.",
                path=path,
                name=input_format.name,
            )
        splits_these = text_settings.split_sentences and input_format.has_columns
        if splits_records is None:
            splits_records = splits_these
        if splits_these != splits_records:
            problem = (
                "{path}: {--split-sentences True} requires text alone, or tables alone"
            )
            remedy = "Embed them to two folders."
            raise SettingsError(problem, remedy=remedy, path=path)
        input_format.check_settings(text_settings)
        # A residue of FASTA is a token of one byte.
        token_bytes = 1 if input_format.has_sequences else _TOKEN_BYTES
        n_bytes = max(1, int(n_tokens * token_bytes))
        source = TextInput(
            source=Source(path),
            settings=text_settings,
            format=input_format,
            tokenizer=choose_tokenizer(text_settings, "lines"),
        )
        if isinstance(input_format, Parquet):
            _split_rows(source, input_format, n_bytes, parts=parts, types=types)
        else:
            _split_lines(source, n_bytes, parts=parts, types=types)
    if types.first_with_ids is not None and types.first_without_ids is not None:
        raise InputError(
            f"{types.first_without_ids}: no ids, but the records of "
            f"{types.first_with_ids} have ids",
            remedy="Embed the inputs with ids and those without to two folders.",
        )
    return parts.found, types.merged()


class _PartList:
    """Parts that were found so far, numbered in the order of the inputs."""

    def __init__(self) -> None:
        self.found: list[Part] = []
        self._n_records = 0

    def add(
        self,
        path: str,
        *,
        start: int,
        line: int,
        n_lines: int,
        n_records: int,
        sha256: str = "",
    ) -> None:
        """Add the next part of an input; see `Part` for the arguments."""
        part = Part(
            number=len(self.found),
            first=self._n_records,
            path=path,
            start=start,
            line=line,
            n_lines=n_lines,
            n_records=n_records,
            sha256=sha256,
        )
        self.found.append(part)
        self._n_records += n_records


def _split_lines(
    text_input: TextInput, n_bytes: int, parts: _PartList, types: ColumnTypes
) -> None:
    """Add the parts of a file of lines, and the types of its ids and columns."""
    path = text_input.source.name
    input_format = text_input.format
    splits_by = None if input_format.has_columns else text_input.tokenizer.splits_by
    # Tokens are not counted here, and a tokenizer takes longer than everything else.
    without_tokens = Tokenizer(tokenize=lambda _: [], splits_by=splits_by)
    text_input = replace(text_input, tokenizer=without_tokens)
    is_record_per_line = input_format.is_plain and splits_by is None
    has_ids: bool | None = None  # None until a record tells it
    if input_format.ids != "by_first_record":
        has_ids = input_format.ids == "always"
    with open_input_file(path) as file:
        reader = HashingReader(path, file, input_format)
        limit = math.inf if reader.lines.is_compressed else n_bytes
        while reader.peek():
            start = reader.position
            number = reader.number
            n_records = 0
            taken = reader.take(limit)
            if is_record_per_line:
                n_records = sum(1 for _ in taken)
            else:
                lines = map(partial(reader.lines.decode, skip_errors=True), taken)
                for record in input_format.parse(lines, text_input):
                    n_records += 1
                    if record.error is None:
                        has_ids = has_ids or record.id is not None
                        types.add(record)
            parts.add(
                path,
                start=start,
                line=number,
                n_lines=reader.number - number,
                n_records=n_records,
                sha256=reader.take_sha256(),
            )
    if has_ids is not None:
        types.add_input(path, has_ids=has_ids)


def _split_rows(
    text_input: TextInput,
    input_format: Parquet,
    n_bytes: int,
    parts: _PartList,
    types: ColumnTypes,
) -> None:
    """Add the parts of a file of rows, and the types of its ids and columns."""
    path = text_input.source.name
    with open_input_file(path) as file:
        footer = input_format.read_footer(file.raw, text_input)
    types.add_schema(footer.id_type, footer.kept_types)
    types.add_input(path, has_ids=footer.id_type is not None)
    step = max(1, footer.n_rows * n_bytes // max(1, footer.n_text_bytes))
    for start in range(0, footer.n_rows, step):
        n_here = min(step, footer.n_rows - start)
        parts.add(
            path,
            start=start,
            line=start + 1,
            n_lines=n_here,
            n_records=n_here,
        )
