"""Columns in an input that would be read as plain text: words with tags, and tables.

CoNLL-2003 and IOB2 have one word per line, with its tags in other columns. A table in a
pipe, or in a file with the suffix `.txt`, has a header and the same number of cells in
each line. Only several lines show either.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.records.conllu import one_sentence_per_line_remedy
from elmo_cli.text.line_reader import Line
from elmo_cli.text.sources import HEAD_BYTES, Source

_MAX_WAITING: Final = 8
"""Number of lines of a stream that wait for the next ones, while they seem columns."""
_DOCUMENT: Final = "-DOCSTART-"
"""Word that begins each document of CoNLL-2003."""

_MIN_WORDS: Final = 3
_MIN_PARTS_OF_SPEECH: Final = 5
"""Number of words from which tags that may be words of a text are believed."""
_MAX_FIELDS: Final = 15
_NAMED_ENTITY: Final = re.compile(r"O|[BIESLU]-\S+")
_UNIVERSAL_TAGS: Final = """
    ADJ ADP ADV AUX CCONJ CONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X
"""
_PENN_TAGS: Final = """
    CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP
    SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB -LRB- -RRB- HYPH NFP AFX ADD
"""
_MARKS: Final = ". , : ; ! ? ( ) $ # `` '' \" -"
_PARTS_OF_SPEECH: Final = frozenset(
    f"{_UNIVERSAL_TAGS} {_PENN_TAGS} {_MARKS}".split(),
)

_FORMATS: Final = {",": "csv", ";": "csv", "|": "csv", "\t": "tsv"}
"""Formats of tables by their delimiters."""
_NAME: Final = re.compile(r"[^\W\d][\w.()/#%-]*(?: [\w.()/#%-]+){0,2}")
"""Name of a column: at most three words, without marks."""
_USUAL_NAMES: Final = """
    id text sentence token word item label condition context lemma document title
    content question target identifier
"""
_MIN_ROWS: Final = 3
"""Number of rows from which a header with unusual names is believed."""
_REPLACED: Final = "\ufffd"
"""What stands in decoded text for bytes that are not UTF-8."""
_MIN_TEXT_WORDS: Final = 3
_MAX_SHOWN: Final = 4
_AS_TEXT: Final = "or {--input-format text} to read one sentence per line."


def check_file_is_text(source: Source) -> None:
    """Raise an `InputError` if a file of plain text seems to have columns."""
    head = source.head
    text = head.decode("utf-8-sig", "replace")
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text)]
    if len(head) == HEAD_BYTES:
        # The last line may be cut off.
        lines.pop()
    _check_lines(lines, source.name)


def check_stream_is_text(lines: Iterable[Line], name: str) -> Iterator[Line]:
    """Yield the lines of a stream. Raise an `InputError` if they seem to have columns.

    A line waits for the next one only while all of them seem to be columns.
    """
    lines = iter(lines)
    held: list[Line] = []
    texts: list[str] = []
    for line in lines:
        held.append(line)
        texts.append(line.text)
        if len(held) == _MAX_WAITING or not _may_have_columns(texts):
            break
    _check_lines(texts, name)
    yield from held
    yield from lines


def _check_lines(lines: Sequence[str], name: str) -> None:
    """Raise an `InputError` if the first lines of an input seem to have columns."""
    if any("\0" in line for line in lines):
        remedy = "To read it nevertheless, use {--input-format text}."
        if any(_REPLACED in line for line in lines):
            remedy = "Give a text instead."
        raise InputError(
            f"{name}: it contains zero bytes, so it is probably not a text",
            remedy=remedy,
        )
    lines = [line for line in lines if line]
    if _are_words_with_tags(lines):
        raise _words_error(lines, name)
    delimiter = _delimiter_of_table(lines)
    if delimiter is not None:
        raise _table_error(lines[0], delimiter=delimiter, name=name)


def _words_error(lines: Sequence[str], name: str) -> InputError:
    remedies: list[str] = [
        "To embed the words, {to_sentences} To read the lines as they are, use "
        "{--input-format text}."
    ]
    if _are_numbered(lines):
        remedies = [f"Use {{--input-format conllu}}, {_AS_TEXT}"]
    return InputError(
        "{name}: it seems to have one word per line, with tags, such as {line}",
        remedy=remedies,
        name=name,
        line=repr(_words(lines)[0][:60]),
        to_sentences=one_sentence_per_line_remedy(name),
    )


def _table_error(header: str, *, delimiter: str, name: str) -> InputError:
    table_format = _FORMATS[delimiter]
    columns = next(csv.reader([header], delimiter=delimiter))
    listed = ", ".join(map(repr, columns[:_MAX_SHOWN]))
    if len(columns) > _MAX_SHOWN:
        listed += ", ..."
    return InputError(
        f"{name}: it seems to be a table with the columns {listed}, not text",
        remedy=[
            f"Use {{--input-format {table_format}}}, {_AS_TEXT}",
            f"Give its file the suffix .{table_format}.",
        ],
    )


def _may_have_columns(lines: Sequence[str]) -> bool:
    """Return whether the first lines of a stream may be the first of columns."""
    lines = [line for line in lines if line]
    if not lines:
        return True
    if not _words(lines):
        # There are only comments.
        return True
    rows = _rows_of_words(lines)
    if rows is not None and _find_tags(rows) is not None:
        return True
    return any(_rows_of_table(lines, delimiter) for delimiter in _FORMATS)


# Words with tags


def _are_words_with_tags(lines: Sequence[str]) -> bool:
    rows = _rows_of_words(lines)
    if rows is None or len(rows) < _MIN_WORDS:
        return False
    if any(line.startswith(_DOCUMENT) for line in lines):
        return True
    tags = _find_tags(rows)
    if tags is None:
        return False
    kinds = set(tags)
    if all(map(_NAMED_ENTITY.fullmatch, kinds)):
        return kinds != {"O"} or len(rows) >= _MIN_PARTS_OF_SPEECH
    return len(rows) >= _MIN_PARTS_OF_SPEECH and len(kinds) > 1


def _words(lines: Sequence[str]) -> list[str]:
    """Return the lines without comments and beginnings of documents."""
    return [line for line in lines if not line.startswith(("# ", _DOCUMENT))]


def _rows_of_words(lines: Sequence[str]) -> list[list[str]] | None:
    """Return the fields of words, if all lines have the same number of several."""
    rows = [line.split("\t" if "\t" in line else None) for line in _words(lines)]
    numbers = set(map(len, rows))
    if len(numbers) != 1 or not 2 <= min(numbers) <= _MAX_FIELDS:
        return None
    return rows


def _find_tags(rows: Sequence[Sequence[str]]) -> Sequence[str] | None:
    """Return the first column that has tags alone, after another column."""
    columns = list(zip(*rows, strict=True))
    if all(cell in _PARTS_OF_SPEECH for cell in columns[0]):
        return None
    for column in columns[1:]:
        if all(map(_NAMED_ENTITY.fullmatch, column)):
            return column
        if all(cell in _PARTS_OF_SPEECH for cell in column):
            return column
    return None


def _are_numbered(lines: Sequence[str]) -> bool:
    """Return whether tabs separate the numbers and the words of CoNLL-U."""
    before = 0
    for line in _words(lines):
        identifier, tab, _ = line.partition("\t")
        if not tab or not re.match(r"\d{1,9}(?:[-.]\d+)?$", identifier):
            return False
        if identifier.isdecimal():
            if int(identifier) not in (1, before + 1):
                return False
            before = int(identifier)
    return True


# Tables


def _delimiter_of_table(lines: Sequence[str]) -> str | None:
    """Return the delimiter of a table, or None if the lines seem to be no table."""
    for delimiter in _FORMATS:
        rows = _rows_of_table(lines, delimiter)
        if rows and _is_table(rows):
            return delimiter
    return None


def _rows_of_table(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the rows of lines if they may be the first of a table, else none."""
    if not lines or delimiter not in lines[0]:
        return []
    with_ends = [f"{line}\n" for line in lines]
    try:
        rows = list(csv.reader(with_ends, delimiter=delimiter, strict=True))
    except csv.Error:
        # The end of the last cell may not be there yet.
        rows = list(csv.reader(with_ends, delimiter=delimiter))[:-1]
    if not rows:
        return []
    names = rows[0]
    if len(names) < 2 or len(set(names)) < len(names):
        return []
    if not all(map(_NAME.fullmatch, names)):
        return []
    if any(len(row) != len(names) for row in rows):
        return []
    return rows


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether rows like those of a table have a usual name or texts."""
    names, *others = rows
    if not others:
        return False
    usual = _USUAL_NAMES.split()
    if any(name.lower().rstrip("0123456789_s") in usual for name in names):
        return True
    if len(others) < _MIN_ROWS or any(" " in name for name in names):
        return False
    return any(map(_are_texts, zip(*others, strict=True)))


def _are_texts(cells: Iterable[str]) -> bool:
    return all(len(cell.split()) >= _MIN_TEXT_WORDS for cell in cells)
