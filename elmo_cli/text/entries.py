"""Lines to records, in each format that can be read.

text     a sentence a line, raw or tokenized; or running text, that is split into sentences

conllu   a sentence a record, its words the tokens, its `sent_id` the key; a blank line ends it

    # sent_id = fr-1
    1-2    Du    _    ...      a multiword token, which is left out: its words follow
    1      De    de   ADP      fields are separated by tabs; the first two are read
    2.1    _     _    ...      an empty node, which is left out

jsonl    an object a line, with its text or its tokens, and perhaps an id

    {"id": "a1", "text": "We sat by the river."}
    {"id": "a2", "tokens": ["We", "sat", "by", "the", "river", "."]}

fasta    a sequence a record, a residue a token; as in SeqVec, white space is dropped, letters
         become upper case, and every other character (`*`, `-`, `X`) is a token

    >sp|P69905|HBA_HUMAN Hemoglobin    the header; its first word is the id, which is required
    MVLSPADKTNVKAAWG                   the sequence, in any number of lines, or none
    kvgahageygaealer*
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from elmo_cli.text.lines import InvalidLine, Record, Sentence
from elmo_cli.text.tokenizers import Tokenizer

LINE: Final = "line"
"""Attribute of a sentence that was split off: the number of its line, from 0."""
ORIGINAL_ID: Final = "original_id"
"""Attribute of a sequence with the whole header, named as in bio_embeddings."""

_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*)")
_LEFT_OUT = re.compile(r"\d+[-.]\d+")
_READ_AS_TEXT = "--input-format text reads a sentence a line"


class Entry(NamedTuple):
    """A record, and where it is in the input."""

    line: int
    """Number of its first line, from 1, or of the line with the error."""
    record: Record
    error: str | None = None
    """What is wrong with it in its format."""


def text_entries(lines: Iterable[str], tokenizer: Tokenizer) -> Iterator[Entry]:
    """The sentences of raw or tokenized text."""
    for number, line in enumerate(lines):
        attributes = {} if tokenizer.splits_by is None else {LINE: str(number)}
        if isinstance(line, InvalidLine):
            yield Entry(number + 1, Record("", [], None, attributes, line.error))
            continue
        for sentence in tokenizer.sentences(line):
            record = Record(sentence, tokenizer.cut(sentence), None, attributes)
            yield Entry(number + 1, record)


def conllu_entries(lines: Iterable[str], tokenizer: Tokenizer) -> Iterator[Entry]:
    """The sentences of CoNLL-U, which has tokens."""
    for is_there, group in groupby(enumerate(lines, start=1), lambda pair: pair[1] != ""):
        if is_there:
            yield from _conllu_entry(list(group))


def _conllu_entry(lines: list[tuple[int, str]]) -> Iterator[Entry]:
    """The entry of numbered lines; none where there are only comments."""
    tokens: Sentence = []
    key = unreadable = wrong = None
    for number, line in lines:
        fields = line.split("\t")
        if isinstance(line, InvalidLine):
            unreadable = unreadable or line.error
        elif line.startswith("#"):
            found = _SENT_ID.match(line)
            key = found[1] if found else key
        elif fields[0].isdecimal() and len(fields) > 1 and fields[1]:
            tokens.append(fields[1])
        elif not _LEFT_OUT.fullmatch(fields[0]):
            wrong = wrong or (number, _conllu_error(fields))
    number, error = wrong or (lines[0][0], None)
    if tokens or error or unreadable:
        record = Record(" ".join(tokens), [] if unreadable else tokens, key, error=unreadable)
        yield Entry(number, record, error)


def _conllu_error(fields: list[str]) -> str:
    """What is wrong with the fields of a line."""
    if len(fields) < 2:
        return f"expected 10 fields with tabs between, found {fields[0][:60]!r}; {_READ_AS_TEXT}"
    if not fields[0].isdecimal():
        return f"field 1 (ID): expected a number such as 3, 3-4 or 3.1, found {fields[0][:60]!r}"
    return "field 2 (FORM): expected a word, found none"


def fasta_entries(lines: Iterable[str], tokenizer: Tokenizer) -> Iterator[Entry]:
    """The sequences of FASTA, which has tokens."""
    start, group = 0, list[str]()
    for number, line in enumerate(lines, start=1):
        if group and line.startswith(">"):
            yield _fasta_entry(start, group)
            group = []
        if line:
            start = start if group else number
            group.append(line)
    if group:
        yield _fasta_entry(start, group)


def _fasta_entry(start: int, lines: list[str]) -> Entry:
    """The entry of a header and the lines of its sequence, of which line `start` is the first."""
    has_header = lines[0].startswith(">")
    header = lines[0][1:].strip() if has_header else ""
    identifier = header.split(maxsplit=1)[0] if header else ""
    sequence = "".join("".join(lines[has_header:]).split()).upper()
    error = None
    if not has_header:
        error = f"expected a header, `>` and an id, found {sequence[:60]!r}; {_READ_AS_TEXT}"
    elif not header:
        error = "expected an id after `>`, found none"
    elif "\0" in header:
        error = f"the header of {identifier[:60]!r} holds a zero byte"
    unreadable = next((line.error for line in lines if isinstance(line, InvalidLine)), None)
    tokens = [] if unreadable else list(sequence)
    text = f"{header}\n{sequence}"
    return Entry(start, Record(text, tokens, identifier, {ORIGINAL_ID: header}, unreadable), error)


class Fields(NamedTuple):
    """The names of what is read of a row."""

    text: tuple[str, ...] = ("tokens", "text")
    """Of a text or a list of tokens: the first one that is there is taken."""
    key: str | None = "id"


_DEFAULT_FIELDS: Final = Fields()


def json_entries(
    lines: Iterable[str], tokenizer: Tokenizer, fields: Fields = _DEFAULT_FIELDS
) -> Iterator[Entry]:
    """The records of JSON lines; blank lines are passed over."""
    for number, line in enumerate(lines, start=1):
        if isinstance(line, InvalidLine):
            yield Entry(number, Record("", [], error=line.error))
        elif line:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # which a row of many brackets is
                row = None
            if isinstance(row, dict):
                yield Entry(number, *row_record(row, fields, tokenizer))
            else:
                error = f"expected a JSON object, found {line[:60]}"
                yield Entry(number, Record("", []), error)


def row_record(
    row: Mapping[str, Any], fields: Fields, tokenizer: Tokenizer
) -> tuple[Record, str | None]:
    """The record of a row, whose text may be None for none; and what is wrong with it."""
    key = None if fields.key is None else row.get(fields.key)
    if type(key) is int:
        key = str(key)
    if key is not None and not _is_text(key):
        return Record("", []), f"field {fields.key!r}: expected a text, found {repr(key)[:60]}"
    name = next((name for name in fields.text if name in row), None)
    if name is None:
        wanted = " or ".join(map(repr, fields.text))
        error = f"expected a field {wanted}, found {', '.join(map(repr, row))[:60] or 'none'}"
        return Record("", [], key), error
    text = row[name]
    if text is None or _is_text(text):
        return Record(text or "", tokenizer.cut(text or ""), key), None
    if isinstance(text, list) and all(map(_is_text, text)):
        return Record(" ".join(text), text, key), None
    error = f"field {name!r}: expected a text or a list of tokens, found {repr(text)[:60]}"
    return Record("", [], key), error


def _is_text(value: object) -> bool:
    """Whether a value is a text of Unicode: JSON can also write halves of characters."""
    return isinstance(value, str) and value.encode("utf-8", "ignore").decode() == value
