"""Formats of inputs, and which one an input has."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Final, NamedTuple

from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import InputError
from elmo_cli.files.file_types import binary_error, conversion_command
from elmo_cli.records.conllu import Conllu, one_sentence_per_line_remedy
from elmo_cli.records.delimited import Csv, Tsv
from elmo_cli.records.fasta import HEADER, Fasta
from elmo_cli.records.input_format import InputFormat
from elmo_cli.records.json_array import JsonArray
from elmo_cli.records.json_lines import JsonLines
from elmo_cli.records.parquet import Parquet
from elmo_cli.records.plain_text import PlainText
from elmo_cli.records.record import Record
from elmo_cli.text.sources import Source

TEXT: Final = PlainText()
_FASTA: Final = Fasta()
_JSON_LINES: Final = JsonLines()
_JSON_ARRAY: Final = JsonArray()
INPUT_FORMATS_BY_NAME: Final[dict[str, InputFormat]] = {
    each.name: each
    for each in (
        TEXT,
        _FASTA,
        Conllu(),
        _JSON_LINES,
        _JSON_ARRAY,
        Csv(),
        Tsv(),
        Parquet(),
    )
}
"""Formats by their names, in the order in which they are recognized."""

_COMPRESSED_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes that may follow the suffix of a format."""


class _UnreadType(NamedTuple):
    """Type of files that are not read, with advice."""

    name: str
    advice: str = ""


_FASTQ_TO_FASTA: Final = """awk 'NR%4==1 {print ">" substr($0, 2)} NR%4==2'"""
_CONLL: Final = _UnreadType(
    "CoNLL other than CoNLL-U",
    "If its columns 1 and 2 are those of CoNLL-U (ID and FORM), use "
    "{--input-format conllu}. Otherwise {otherwise}",
)
_FASTQ: Final = _UnreadType("FASTQ", "Convert it to FASTA with {to_fasta}.")
_HTML: Final = _UnreadType("HTML")
_UNREAD_SUFFIXES: Final = {
    ".conll": _CONLL,
    ".iob": _CONLL,
    ".bio": _CONLL,
    ".fastq": _FASTQ,
    ".fq": _FASTQ,
    ".html": _HTML,
    ".htm": _HTML,
    ".xhtml": _HTML,
    ".xml": _UnreadType("XML"),
}


def find_format(source: Source, name: str | None = None) -> InputFormat:
    """Return the format of an input.

    It is the format with the name, if there is one, or else follows from the suffix of
    the path and the content. A stream of unknown format is plain text.
    """
    if name is not None:
        check_choice("input_format", name, tuple(INPUT_FORMATS_BY_NAME))
        return INPUT_FORMATS_BY_NAME[name]
    if source.path is None:
        return TEXT
    if _recognize(source.first_line) is _JSON_LINES:
        return _JSON_LINES
    by_content = _recognize(source.head)
    if by_content is None or not by_content.is_binary:
        error = binary_error(source.name, source.head)
        if error is not None:
            raise error
    by_suffix = _find_by_suffix(source.path)
    # A file of JSON lines may be called .json, too.
    if by_suffix is _JSON_ARRAY and by_content is _JSON_LINES:
        return by_content
    if by_suffix is not None:
        return by_suffix
    if by_content is not None:
        return by_content
    _check_is_read(source)
    return TEXT


def looks_like_path(text: str) -> bool:
    """Return whether a text is hardly anything but the path of a text file.

    It has the suffix of one, or is in an existing folder.
    """
    name = _without_compression(text)
    folder = os.path.dirname(text)
    return (
        name != text.lower()
        or name.endswith(".txt")
        or _find_by_suffix(text) is not None
        or (folder != "" and os.path.isdir(folder))
    )


def _find_by_suffix(path: str) -> InputFormat | None:
    name = _without_compression(path)
    for input_format in INPUT_FORMATS_BY_NAME.values():
        if name.endswith(input_format.suffixes):
            return input_format
    return None


def _without_compression(path: str) -> str:
    """Return a path in lower case without the suffix of a compression."""
    name = path.lower()
    for suffix in _COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _check_is_read(source: Source) -> None:
    """Raise an `InputError` if the suffix of a path is that of another type of text."""
    suffix = PurePath(_without_compression(str(source.path))).suffix
    unread = _UNREAD_SUFFIXES.get(suffix)
    if unread is not None:
        as_lines = "To read it as lines of text, use {--input-format text}."
        raise InputError(
            "{name}: {unread} is not read",
            remedy=f"{unread.advice} {as_lines}".lstrip(),
            name=source.name,
            unread=unread.name,
            otherwise=one_sentence_per_line_remedy(source.name),
            to_fasta=conversion_command(_FASTQ_TO_FASTA, source.name, suffix=".fasta"),
        )


def refuse_other_formats(records: Iterable[Record], name: str) -> Iterator[Record]:
    """Yield the records of a stream that is read as plain text.

    Raise an `InputError` if its first text seems to be in another format. Comments may
    precede it in CoNLL-U, and are not held back: a program may wait for their results.
    """
    records = iter(records)
    for record in records:
        if record.text:
            other = _recognize_line(record.text)
            if other is not None:
                raise InputError(
                    f"{name}, line {record.start}: it seems to be {other.name}, not "
                    "text",
                    remedy=(
                        f"Use {{--input-format {other.name}}}, or {{--input-format "
                        "text} to read one sentence per line."
                    ),
                )
        yield record
        if record.text and not record.text.startswith("#"):
            break
    yield from records


def _recognize_line(line: str) -> InputFormat | None:
    # The sequence after a header is not known yet.
    if HEADER.match(line):
        return _FASTA
    return _recognize(line.encode("utf-8", "surrogatepass"))


def _recognize(content: bytes) -> InputFormat | None:
    """Return the format of a text by its beginning, or None for plain text."""
    text = content.decode("utf-8-sig", "replace")
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text) if line.strip()]
    if not lines:
        return None
    for input_format in INPUT_FORMATS_BY_NAME.values():
        if input_format.is_like(lines):
            return input_format
    return None
