"""CoNLL-U: one sentence per record, whose words are the tokens and `sent_id` the id.

A blank line ends a sentence, and so does the ID 1 of the next one.

    # sent_id = fr-1
    1-2    Du    _    ...      a multiword token, which is ignored: its words follow
    1      De    de   ADP      fields are separated by tabs; the first three are read
    2.1    _     _    ...      an empty node, which is ignored
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Final

from elmo_cli.errors.messages import Message
from elmo_cli.files.file_types import conversion_command
from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.records.record import Record
from elmo_cli.text.line_reader import Line
from elmo_cli.types import Sentence

_SENT_ID: Final = re.compile(r"#\s*sent_id\s*=\s*(.*)")
_IGNORED_ID: Final = re.compile(r"\d+[-.]\d+")
"""ID of a multiword token or an empty node."""
_WORD: Final = re.compile(
    r"""
    (?P<id> \d+ (?:[-.]\d+)? ) \t
    [^\t]+ \t                  # FORM, which may have spaces
    (?: [^\t]* \t ){4}         # LEMMA, UPOS, XPOS, FEATS
    (?: \d+ | _ ) \t           # HEAD
    (?! [-+]?[\d.]+ (?:\t|$) ) # DEPREL, which is no number
    [^\t\s]+
    (?: \t | $ )
    """,
    re.VERBOSE,
)
_MAX_ID_DIGITS: Final = 9
_MAX_CHECKED: Final = 5
"""Number of first words that show the format."""


def one_sentence_per_line_remedy(name: str) -> str:
    """Return the remedy for another file with one word per line."""
    command = """awk 'NF {printf "%s ", $1; next} {print ""}'"""
    converted = conversion_command(command, name, mark=".lines", suffix=".txt")
    return f"write one sentence per line: {converted} takes the words in column 1."


def _other_conll(name: str) -> str:
    return f"If this is another kind of CoNLL, {one_sentence_per_line_remedy(name)}"


class Conllu(InputFormat):
    """Sentences with annotations, one word per line."""

    name = "conllu"
    unit = "sentence"
    suffixes = (".conllu",)
    has_tokens = True
    tokens_are_stored = True
    has_lemmas = True
    splits_at_cr = True

    def is_like(self, lines: Sequence[str]) -> bool:
        """Return whether the first lines after the comments are words.

        The columns that only CoNLL-U has are looked at: HEAD and DEPREL.
        """
        words = [line for line in lines if not line.startswith("#")]
        if not words or not words[0].startswith(("1\t", "1-")):
            return False
        # The last line may be cut off.
        complete = words[:-1] or words
        return all(map(_WORD.match, complete[:_MAX_CHECKED]))

    def parse(self, lines: Iterable[Line], text_input: TextInput) -> Iterator[Record]:
        """Yield the sentences."""
        # The remedy opens the file, to say how to convert it.
        other_conll = cache(partial(_other_conll, text_input.source.name))
        for is_blank, block in groupby(lines, key=lambda line: line.text == ""):
            if is_blank:
                continue
            for index, sentence in enumerate(_split_at_first_ids(block)):
                record = _record_of_sentence(sentence, text_input, other_conll)
                if record is None:
                    continue
                if index > 0:
                    record = record._replace(lacks_blank_line=True)
                yield record


def _split_at_first_ids(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Split lines before the first ID of each sentence, or before its comments.

    # sent_id = a    sentence 1
    1   The
    2   cat
    # sent_id = b    held until the next ID: of sentence 2, because that is 1
    1   It           sentence 2
    """
    sentence: list[Line] = []
    has_words = False  # in `sentence`
    held_comments: list[Line] = []
    for line in lines:
        if has_words and line.text.startswith("#"):
            held_comments.append(line)
            continue
        identifier, _, _ = line.text.partition("\t")
        if has_words and _is_first_id(identifier):
            yield sentence
            sentence = []
            has_words = False
        sentence += held_comments
        sentence.append(line)
        held_comments = []
        if identifier.isdecimal():
            has_words = True
    yield sentence + held_comments


def _is_first_id(identifier: str) -> bool:
    """Return whether an ID is that of a first line, which may not be a word.

    A multiword token such as 1-2 or an empty node such as 0.1 may be before word 1.
    """
    return identifier == "1" or identifier.startswith(("1-", "0."))


def _record_of_sentence(
    lines: list[Line], text_input: TextInput, other_conll: Callable[[], str]
) -> Record | None:
    """Return the record of a sentence; None for comments alone.

    `other_conll` returns the remedy for another kind of CoNLL.
    """
    identifier = _find_sentence_id(lines)
    start = lines[0].number
    tokens: Sentence = []
    lemmas: Sentence = []
    for line in lines:
        if line.error is not None:
            error: str | Message = line.error
            return Record(" ".join(tokens), [], id=identifier, error=error, start=start)
        if line.text.startswith("#"):
            continue
        fields = line.text.split("\t")
        problem = _find_problem(fields, other_conll, n_words=len(tokens))
        if problem is not None:
            error = text_input.error_at(line.number, problem)
            return Record(" ".join(tokens), [], id=identifier, error=error, start=start)
        if fields[0].isdecimal():
            tokens.append(fields[1])
            lemmas.append(fields[2] if len(fields) > 2 else "_")
    if not tokens:
        return None
    return Record(" ".join(tokens), tokens, id=identifier, lemmas=lemmas, start=start)


def _find_sentence_id(lines: list[Line]) -> str | None:
    """Return the last `sent_id` in the comments of a sentence, if there is one."""
    identifier = None
    for line in lines:
        if line.error is None:
            match = _SENT_ID.match(line.text)
            if match is not None:
                identifier = match[1]
    return identifier


def _find_problem(
    fields: list[str], other_conll: Callable[[], str], *, n_words: int
) -> Message | str | None:
    """Return the problem of a line that follows `n_words` words, or None."""
    identifier = fields[0]
    if len(fields) < 2:
        return Message(
            "expected 10 fields separated by tabs, found {found}",
            remedy="Use {--input-format text} to read one sentence per line. {other}",
            found=repr(identifier[:60]),
            other=other_conll(),
        )
    if _IGNORED_ID.fullmatch(identifier):
        return None
    if not identifier.isdecimal():
        expected = "expected a number such as 3, 3-4 or 3.1"
        return Message(
            "field 1 (ID): {expected}, found {found}",
            remedy="{other}",
            expected=expected,
            found=repr(identifier[:60]),
            other=other_conll(),
        )
    is_next = len(identifier) <= _MAX_ID_DIGITS and int(identifier) == n_words + 1
    if not is_next:
        return f"field 1 (ID): expected {n_words + 1}, found {identifier[:60]}"
    if not fields[1]:
        return "field 2 (FORM): expected a word, found none"
    return None
