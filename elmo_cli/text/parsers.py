"""Parsers of the formats with lines: each yields the records of its lines, as entries.

text     one sentence per line, raw or tokenized; or running text, which is split into sentences;
         with `paragraphs`, the lines until a blank line belong together

conllu   one sentence per record; its words are the tokens and its `sent_id` is the id; a blank
         line ends it, and so does the ID 1 of the next sentence

    # sent_id = fr-1
    1-2    Du    _    ...      a multiword token, which is ignored: its words follow
    1      De    de   ADP      fields are separated by tabs; the first three are read
    2.1    _     _    ...      an empty node, which is ignored

jsonl    one object per line, with its text or its tokens, and optionally an id

    {"id": "a1", "text": "We sat by the river."}
    {"id": "a2", "tokens": ["We", "sat", "by", "the", "river", "."]}

fasta    one sequence per record, one token per residue; as in SeqVec, whitespace is removed,
         letters become upper case, and every other character (`*`, `-`, `X`) is a token

    >sp|P69905|HBA_HUMAN Hemoglobin    the header; its first word is the id, which is required
    MVLSPADKTNVKAAWG                   the sequence, in any number of lines, or none
    kvgahageygaealer*
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, groupby
from typing import Any, Final, NamedTuple

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import is_offered
from elmo_cli.options.text import ALL_COLUMNS, TOKENS_COLUMN, TextSettings
from elmo_cli.text.line_reader import InvalidLine
from elmo_cli.text.records import NumericId, Record, Span
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, split_residues

LINE: Final = "line"
"""Attribute of a sentence that was split from a line: the number of the line, from 0."""
ORIGINAL_ID: Final = "original_id"
"""Attribute of a sequence: its whole header. bio_embeddings uses the same name."""

_SENT_ID: Final = re.compile(r"#\s*sent_id\s*=\s*(.*)")
_IGNORED_ID: Final = re.compile(r"\d+[-.]\d+")  # a multiword token, or an empty node
_COLUMN: Final = """`awk 'NF {printf "%s ", $1; next} {print ""}' FILE > FILE.txt`"""
TO_ONE_SENTENCE_PER_LINE: Final = (
    f"write one sentence per line: {_COLUMN} takes the words in column 1."
)
_OTHER_CONLL: Final = f"If this is another kind of CoNLL, {TO_ONE_SENTENCE_PER_LINE}"
_READ_AS_TEXT: Final = "Use --input-format text to read one sentence per line."


class Entry(NamedTuple):
    """Record of an input, with the number of its first line or of its error, from 1."""

    line: int
    record: Record
    error: str | None = None  # error in the format of the record
    has_no_blank_line: bool = False
    """True if a sentence of CoNLL-U begins without a blank line before it."""


def text_entries(
    lines: Iterable[str],
    tokenizer: Tokenizer,
    settings: TextSettings,
    check_first: Callable[[int, str], object] | None = None,
) -> Iterator[Entry]:
    """Yield the sentences of a text. The first line that is not blank is checked."""
    tokenize, is_split = tokenizer.tokenize, tokenizer.splits_by is not None
    for number, line in (
        _paragraphs(lines) if settings.paragraphs else enumerate(lines, start=1)
    ):
        if check_first is not None and line:
            check_first(number, line)
            check_first = None
        attributes: dict[str, object] = {LINE: number - 1} if is_split else {}
        if isinstance(line, InvalidLine):
            yield Entry(number, Record("", [], None, attributes, line.error))
        elif is_split:
            for sentence in tokenizer.split_sentences(line):
                yield Entry(
                    number, Record(sentence, tokenize(sentence), None, attributes)
                )
        else:
            yield Entry(number, Record(line, tokenize(line)))


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield paragraphs with the numbers of their first lines. An `InvalidLine` is one alone."""
    parts: list[str] = []
    start = 0
    for number, line in enumerate(chain(lines, [""]), start=1):
        is_valid = not isinstance(line, InvalidLine)
        if line and is_valid:
            start = start if parts else number
            parts.append(line)
        elif parts:
            yield start, " ".join(parts)
            parts = []
        if not is_valid:
            yield number, line


_NumberedLines = list[tuple[int, str]]


def conllu_entries(
    lines: Iterable[str], tokenizer: Tokenizer, settings: TextSettings
) -> Iterator[Entry]:
    """Yield the sentences of CoNLL-U, which is tokenized."""
    for is_sentence, group in groupby(
        enumerate(lines, start=1), lambda pair: pair[1] != ""
    ):
        for index, sentence in enumerate(
            _split_at_first_ids(group) if is_sentence else ()
        ):
            for entry in _conllu_entry(sentence):
                yield entry._replace(has_no_blank_line=True) if index else entry


def _split_at_first_ids(lines: Iterable[tuple[int, str]]) -> Iterator[_NumberedLines]:
    """Split numbered lines before the first ID of each sentence, or before its comments."""
    sentence: _NumberedLines = []
    comments: _NumberedLines = []
    has_words = False
    for number, line in lines:
        identifier = line.partition("\t")[0]
        if has_words and line.startswith("#"):
            comments.append((number, line))
            continue
        if has_words and (identifier == "1" or identifier.startswith(("1-", "0."))):
            yield sentence
            sentence, has_words = [], False
        sentence += [*comments, (number, line)]
        comments = []
        has_words = has_words or identifier.isdecimal()
    yield sentence + comments


def _conllu_entry(lines: _NumberedLines) -> Iterator[Entry]:
    """Yield the entry of numbered lines. Comments alone have none."""
    tokens: Sentence = []
    lemmas: Sentence = []
    identifier = unreadable = wrong = None
    for number, line in lines:
        if isinstance(line, InvalidLine):
            unreadable = unreadable or line.error
        elif line.startswith("#"):
            match = _SENT_ID.match(line)
            identifier = match[1] if match else identifier
        elif not unreadable and not wrong:
            columns = line.split("\t")
            error = _conllu_error(columns, len(tokens))
            wrong = (number, error) if error else None
            if not error and columns[0].isdecimal():
                tokens.append(columns[1])
                lemmas.append(columns[2] if len(columns) > 2 else "_")
    number, error = wrong or (lines[0][0], None)
    if tokens or error or unreadable:
        record = Record(" ".join(tokens), tokens, identifier, lemmas=lemmas)
        if unreadable:
            record = record._replace(tokens=[], lemmas=[], error=unreadable)
        yield Entry(number, record, error)


def _conllu_error(columns: list[str], n_words: int) -> str | None:
    identifier = columns[0]
    if len(columns) < 2:
        found = f"found {identifier[:60]!r}. {_READ_AS_TEXT} {_OTHER_CONLL}"
        return f"expected 10 fields separated by tabs, {found}"
    if _IGNORED_ID.fullmatch(identifier):
        return None
    if not identifier.isdecimal():
        expected = "expected a number such as 3, 3-4 or 3.1"
        return f"field 1 (ID): {expected}, found {identifier[:60]!r}. {_OTHER_CONLL}"
    if int(identifier) != n_words + 1:
        return f"field 1 (ID): expected {n_words + 1}, found {identifier[:60]}"
    return None if columns[1] else "field 2 (FORM): expected a word, found none"


def fasta_entries(
    lines: Iterable[str], tokenizer: Tokenizer, settings: TextSettings
) -> Iterator[Entry]:
    """Yield the sequences of FASTA, which is tokenized."""
    start, group = 0, list[str]()
    for number, line in enumerate(chain(lines, [">"]), start=1):
        if group and line.startswith(">"):
            yield _fasta_entry(start, group)
            group = []
        if line:
            start = start if group else number
            group.append(line)


def _fasta_entry(start: int, lines: list[str]) -> Entry:
    """Return the entry of a header and its sequence, which begin in line `start`."""
    has_header = lines[0].startswith(">")
    header = lines[0][1:].strip() if has_header else ""
    identifier = header.split(maxsplit=1)[0] if header else ""
    residues = split_residues("".join(lines[has_header:]))
    sequence = "".join(residues)
    error = None
    if not has_header:
        error = f"expected a header, `>` and an id, found {sequence[:60]!r}. {_READ_AS_TEXT}"
    elif not header:
        error = "expected an id after `>`, found none"
    elif "\0" in header:
        error = f"the header of {identifier[:60]!r} has a zero byte"
    unreadable = next(
        (line.error for line in lines if isinstance(line, InvalidLine)), None
    )
    tokens = [] if unreadable else residues
    text = f"{header}\n{sequence}"
    return Entry(
        start,
        Record(text, tokens, identifier, {ORIGINAL_ID: header}, unreadable),
        error,
    )


def json_entries(
    lines: Iterable[str], tokenizer: Tokenizer, settings: TextSettings
) -> Iterator[Entry]:
    """Yield the records of JSON lines. Blank lines are ignored."""
    for number, line in enumerate(lines, start=1):
        if isinstance(line, InvalidLine):
            yield Entry(number, Record("", [], error=line.error))
        elif line:
            try:
                row = json.loads(line)
            except (
                ValueError,
                RecursionError,
            ):  # Deeply nested JSON raises RecursionError.
                row = None
            if isinstance(row, dict):
                yield Entry(number, *row_record(row, settings, tokenizer))
            else:
                yield Entry(
                    number, Record("", []), f"expected a JSON object, found {line[:60]}"
                )


def row_record(
    row: Mapping[str, Any], settings: TextSettings, tokenizer: Tokenizer
) -> tuple[Record, str | None]:
    """Return the record of a row, and its error."""
    row, name = normal_row(row, settings)
    identifier, error = _row_id(row, settings)
    if name is None and error is None:
        names = " or ".join(map(repr, settings.text_columns))
        remedy = (
            f"Choose one with {settings.text_option}{or_word_column([*row], settings)}."
        )
        error = f"expected a field {names}, found {_shown_fields(row)}. {remedy}"
    if name is None or error is not None:
        return Record("", [], identifier), error
    text = row[name]
    is_list = isinstance(text, list)
    if name == TOKENS_COLUMN and settings.tokenizer is None and not is_list:
        tokenizer = replace(WHITESPACE, splits_by=tokenizer.splits_by)
    if text is None or _is_text(text):
        record = Record(text or "", [], identifier)
        if settings.word_column is None:  # Words are tokenized as a group.
            record = _split_text(record, tokenizer)
    elif is_list and all(map(_is_text, text)):
        record = Record(" ".join(text), text, identifier)
        record = (
            record_of_words(record, text, tokenizer)
            if settings.splits_words
            else record
        )
    else:
        error = f"field {name!r}: expected a text or a list of tokens, found {repr(text)[:60]}"
        return Record("", [], identifier), error
    if not settings.keep_columns:
        return record, None
    columns: Iterable[str] = settings.keep_columns
    if settings.keep_columns == ALL_COLUMNS:
        columns = [each for each in row if each not in (name, settings.id_name)]
    return record._replace(columns={each: row.get(each) for each in columns}), None


def or_word_column(names: Sequence[str], settings: TextSettings) -> str:
    """Return advice for a table that has a column of words instead of texts, or an empty text."""
    name = next(
        (each for each in names if each.lower() in ("word", "words", "token")), None
    )
    is_named = settings.text_column is not None or settings.word_column is not None
    if name is None or is_named or not is_offered("--word-column"):
        return ""
    return f", or if each row is a word, use --word-column {name} and --id-column for its text"


def _row_id(
    row: Mapping[str, Any], settings: TextSettings
) -> tuple[str | None, str | None]:
    name = settings.id_name
    identifier = None if name is None else row.get(name)
    if type(identifier) is int:
        identifier = NumericId(identifier)
    if identifier is not None and not _is_text(identifier):
        return (
            None,
            f"field {name!r}: expected a text or an integer, found {repr(identifier)[:60]}",
        )
    if identifier is None and settings.id_column:
        return None, f"field {name!r}: expected an id, found none"
    return identifier, None


def _split_text(record: Record, tokenizer: Tokenizer) -> Record:
    """Add the tokens of the text of a record, and its sentences if there are several."""
    sentences = tokenizer.split_sentences(record.text)
    if len(sentences) < 2:
        return record._replace(tokens=tokenizer.tokenize(record.text))
    tokens = list(map(tokenizer.tokenize, sentences))
    spans = list(map(Span, sentences, map(len, tokens)))
    return record._replace(tokens=list(chain.from_iterable(tokens)), sentences=spans)


def record_of_words(
    record: Record, words: Sequence[str], tokenizer: Tokenizer
) -> Record:
    """Add words to a record, each tokenized by itself, and their sentences."""
    tokens = list(map(tokenizer.tokenize, words))
    spans = list(map(Span, words, map(len, tokens)))
    text = " ".join(words)
    return record._replace(
        text=text,
        tokens=list(chain.from_iterable(tokens)),
        words=spans,
        sentences=_sentences_of_words(spans, tokenizer.split_sentences(text)),
    )


def _sentences_of_words(words: Sequence[Span], sentences: Sequence[str]) -> list[Span]:
    """Return the sentences of a text as groups of its words. A word has one sentence only."""
    spans: list[Span] = []
    waiting, n_read = deque(words), 0
    for end in accumulate(map(_n_visible, sentences)) if len(sentences) > 1 else ():
        taken: list[Span] = []
        while waiting and n_read < end:
            taken.append(waiting.popleft())
            n_read += _n_visible(taken[-1].text)
        if taken:
            text = " ".join(word.text for word in taken)
            spans.append(Span(text, sum(word.n_tokens for word in taken)))
    return spans


def _n_visible(text: str) -> int:
    return len("".join(text.split()))


def group_words(entries: Iterable[Entry], tokenizer: Tokenizer) -> Iterator[Entry]:
    """Join the words of consecutive rows with the same id to one record."""
    # A tokenizer takes longer for single words than for a text, but most words occur again.
    tokenizer = replace(tokenizer, tokenize=lru_cache(1 << 16)(tokenizer.tokenize))

    def text_of(entry: Entry) -> tuple[bool, str | int | None]:
        is_valid = entry.error is None and entry.record.error is None
        return is_valid, entry.record.id if is_valid else entry.line

    for (is_valid, identifier), group in groupby(entries, text_of):
        rows = list(group)
        first = rows[0]
        if is_valid and identifier is None:
            error = "expected the id of a text with --word-column, found none. Use --id-column."
            first = first._replace(error=error)
        elif is_valid:
            words = [row.record.text for row in rows]
            record = record_of_words(
                first.record._replace(columns={}), words, tokenizer
            )
            columns = [row.record.columns for row in rows]
            first = first._replace(record=record._replace(word_columns=columns))
        yield first


def normal_row(
    row: Mapping[str, Any], settings: TextSettings
) -> tuple[Mapping[str, Any], str | None]:
    """Return a row with its nested fields under their paths, and the name of its text, if any.

    The column `tokens` is read if it is a list; the tokens of Prodigy are objects with a `text`.
    An id such as 1.0 is an integer: pandas writes it where another id is missing.
    """
    row = {
        **{
            path: value
            for path in settings.paths
            for value in _nested_fields(row, path)
        },
        **row,
    }
    names = [name for name in settings.text_columns if name in row]
    lists = [name for name in names if isinstance(row[name], list)]
    for name in lists[:1]:
        if all(isinstance(each, dict) and "text" in each for each in row[name]):
            row[name] = [each["text"] for each in row[name]]
    identifier = None if settings.id_name is None else row.get(settings.id_name)
    if isinstance(identifier, float) and identifier.is_integer():
        row[str(settings.id_name)] = int(identifier)
    return row, next(iter(lists or names[-1:]), None)


def _nested_fields(row: Mapping[str, Any], path: str) -> list[Any]:
    """Return the value of a nested field in a list, which is empty without such a field."""
    values: list[Any] = [row]
    for name in path.split("."):
        values = [
            each[name] for each in values if isinstance(each, dict) and name in each
        ]
    return values


def _shown_fields(row: Mapping[str, Any]) -> str:
    nested = (
        f"{name}.{key}"
        for name in row
        if isinstance(row[name], dict)
        for key in row[name]
    )
    return ", ".join(map(repr, [*row, *nested]))[:60] or "none"


def _is_text(value: object) -> bool:
    """Return whether a value is a valid Unicode text. JSON can also encode lone surrogates."""
    return isinstance(value, str) and value.encode("utf-8", "ignore").decode() == value
