"""CoNLL-U: one sentence per record, whose words are the tokens."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from elmo_cli.errors.checks import Sentence
from elmo_cli.options.text import TextSettings
from elmo_cli.records.record import Entry, Record
from elmo_cli.text.line_reader import InvalidLine
from elmo_cli.text.tokenizers import Tokenizer

_SENT_ID: Final = re.compile(r"#\s*sent_id\s*=\s*(.*)")


_IGNORED_ID: Final = re.compile(r"\d+[-.]\d+")  # a multiword token, or an empty node


_COLUMN: Final = """`awk 'NF {printf "%s ", $1; next} {print ""}' FILE > FILE.txt`"""


TO_ONE_SENTENCE_PER_LINE: Final = (
    f"write one sentence per line: {_COLUMN} takes the words in column 1."
)


_OTHER_CONLL: Final = f"If this is another kind of CoNLL, {TO_ONE_SENTENCE_PER_LINE}"


READ_AS_TEXT: Final = "Use --input-format text to read one sentence per line."


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
        found = f"found {identifier[:60]!r}. {READ_AS_TEXT} {_OTHER_CONLL}"
        return f"expected 10 fields separated by tabs, {found}"
    if _IGNORED_ID.fullmatch(identifier):
        return None
    if not identifier.isdecimal():
        expected = "expected a number such as 3, 3-4 or 3.1"
        return f"field 1 (ID): {expected}, found {identifier[:60]!r}. {_OTHER_CONLL}"
    if int(identifier) != n_words + 1:
        return f"field 1 (ID): expected {n_words + 1}, found {identifier[:60]}"
    return None if columns[1] else "field 2 (FORM): expected a word, found none"
