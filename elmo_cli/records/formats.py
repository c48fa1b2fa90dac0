"""Formats of inputs, and which one an input has."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Final

from elmo_cli.callbacks import ignore
from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import InputError
from elmo_cli.files.file_types import AS_TEXT, PANDOC, binary_error
from elmo_cli.options.text import TextSettings
from elmo_cli.records.conllu import TO_ONE_SENTENCE_PER_LINE, conllu_entries
from elmo_cli.records.delimited import delimited_entries
from elmo_cli.records.fasta import fasta_entries
from elmo_cli.records.json_array import json_array_entries
from elmo_cli.records.json_lines import json_entries
from elmo_cli.records.plain_text import text_entries
from elmo_cli.records.record import Entry
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import Tokenizer


@dataclass(frozen=True)
class InputFormat:
    """Format of an input file."""

    name: str
    unit: str  # word for a record in messages
    suffixes: tuple[
        str, ...
    ]  # suffixes of its files; the suffix of a compression may follow
    # Parser of lines.
    entries: Callable[[Iterable[str], Tokenizer, TextSettings], Iterator[Entry]]
    # Recognizes the first lines of a file, none of them blank, if they are unlikely in plain text.
    is_like: Callable[[Sequence[str]], object] = ignore
    has_ids: bool | None = None  # None if the first record decides for all records
    has_tokens: bool = False
    number_unit: str = "line"  # unit that the numbers of records count in messages
    delimiter: str | None = None  # usual character between the fields of CSV or TSV
    # True if lines are parsed with the whitespace at their ends
    keeps_ends: bool = False
    splits_at_cr: bool = False  # True if a lone CR ends a line, also in files with LF
    has_columns: bool = False  # True if the columns with texts and ids can be chosen
    is_guess: bool = False  # True if nothing was known about the input


FASTA_HEADER: Final = re.compile(r">[^\s>]")


def _is_fasta(lines: Sequence[str]) -> object:
    is_sequence = len(lines) > 1 and re.fullmatch(r"[A-Za-z*-]+", lines[1])
    return is_sequence and FASTA_HEADER.match(lines[0])


def _is_jsonl(lines: Sequence[str]) -> object:
    if not lines[0].startswith('{"'):
        return False
    try:
        row = json.loads(lines[0])
    except (
        ValueError,
        RecursionError,
    ):  # A long line is cut off, so it is no valid JSON.
        return re.match(r'\{"(text|tokens|id)":', lines[0])
    return isinstance(row, dict) and not row.keys().isdisjoint(
        ("text", "tokens", "token")
    )


def _is_conllu(lines: Sequence[str]) -> object:
    first = next((line for line in lines if not line.startswith("#")), "")
    return re.match(r"1(-\d+)?\t[^\t]+(\t[^\t]*){7}", first)


TEXT: Final = InputFormat("text", "line", (), text_entries, has_ids=False)


FASTA: Final = InputFormat(
    "fasta",
    "sequence",
    (".fasta", ".fa", ".faa", ".fas"),
    fasta_entries,
    _is_fasta,
    has_ids=True,
    has_tokens=True,
    splits_at_cr=True,
)


CONLLU: Final = InputFormat(
    "conllu",
    "sentence",
    (".conllu",),
    conllu_entries,
    _is_conllu,
    has_tokens=True,
    splits_at_cr=True,
)


JSON_LINES: Final = InputFormat(
    "jsonl",
    "record",
    (".jsonl", ".ndjson"),
    json_entries,
    _is_jsonl,
    has_columns=True,
)


JSON_ARRAY: Final = InputFormat(
    "json",
    "record",
    (".json",),
    json_array_entries,
    lambda lines: re.match(r"\[\s*\{\s*\"", "\n".join(lines)),
    number_unit="record",
    keeps_ends=True,
    has_columns=True,
)


CSV: Final = InputFormat(
    "csv",
    "row",
    (".csv",),
    partial(delimited_entries, delimiter=","),
    delimiter=",",
    keeps_ends=True,
    splits_at_cr=True,
    has_columns=True,
)


TSV: Final = replace(
    CSV,
    name="tsv",
    suffixes=(".tsv", ".tab"),
    entries=partial(delimited_entries, delimiter="\t"),
    delimiter="\t",
)


PARQUET: Final = InputFormat(
    "parquet",
    "row",
    (".parquet", ".pq"),
    lambda lines, tokenizer, settings: iter(
        ()
    ),  # It has no lines; see `parquet_entries`.
    lambda lines: lines[0].startswith("PAR1\x15"),
    number_unit="row",
    has_columns=True,
)


FORMATS: Final = {
    each.name: each
    for each in (TEXT, FASTA, CONLLU, JSON_LINES, JSON_ARRAY, CSV, TSV, PARQUET)
}


_COMPRESSED_SUFFIXES: Final = (
    ".gz",
    ".bz2",
    ".xz",
    ".zst",
)  # follow the suffix of a format


_CONLL: Final = (
    "If its columns 1 and 2 are those of CoNLL-U (ID and FORM), use --input-format conllu. "
    f"Otherwise {TO_ONE_SENTENCE_PER_LINE}"
)


_FASTQ: Final = (
    """`awk 'NR%4==1 {print ">" substr($0, 2)} NR%4==2' FILE > FILE.fasta`"""
)


_UNREAD_SUFFIXES: Final = {
    **dict.fromkeys((".conll", ".iob", ".bio"), ("CoNLL other than CoNLL-U", _CONLL)),
    **dict.fromkeys(
        (".fastq", ".fq"), ("FASTQ", f"Convert it to FASTA with {_FASTQ}.")
    ),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("HTML", PANDOC)),
    ".xml": ("XML", AS_TEXT),
}
"""Types of files that are not read, with advice, by their suffixes."""


def find_format(source: Source, name: str | None = None) -> InputFormat:
    """Return the format of an input by its name, its content or the suffix of its path."""
    if name is not None:
        check_choice("format", name, tuple(FORMATS))
        return FORMATS[name]
    if source.path is None:
        return replace(TEXT, is_guess=True)
    if recognize(source.first_line.decode("utf-8-sig", "replace")) is JSON_LINES:
        return JSON_LINES
    content = recognize(source.head.decode("utf-8-sig", "replace"))
    if content is not PARQUET and (error := binary_error(source.name, source.head)):
        raise error
    path = source.path.lower()
    for suffix in _COMPRESSED_SUFFIXES:
        path = path.removesuffix(suffix)
    by_suffix = next(
        (each for each in FORMATS.values() if path.endswith(each.suffixes)), None
    )
    if by_suffix is JSON_ARRAY and content is JSON_LINES:
        return content
    if found := by_suffix or content:
        return found
    if unread := _UNREAD_SUFFIXES.get(PurePath(path).suffix):
        advice = f"{unread[1]} To read it as lines of text, use --input-format text."
        raise InputError(f"{source.name}: {unread[0]} is not read. {advice}")
    return replace(TEXT, is_guess=not source.head)


def recognize(text: str) -> InputFormat | None:
    """Return the format of a text by its beginning, or None for plain text."""
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text) if line.strip()]
    return next(
        (each for each in FORMATS.values() if lines and each.is_like(lines)), None
    )
