"""Words that an input gives, lists or tables of words, and the text that they form.

The text is tokenized once, and each word gets the tokens that its characters overlap,
so that a word table has the same tokens as its text.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message, Template
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.record import Record, Span, Word
from elmo_cli.records.record_of_text import record_of_text
from elmo_cli.text.alignment import CharacterSpan, align_spans, locate_tokens
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer

logger = logging.getLogger(__name__)


def text_of_words(words: Sequence[str]) -> str:
    """Join words to their text: by a space, unless the words have their own spaces."""
    have_spaces = any(word.startswith(" ") for word in words)
    return ("" if have_spaces else " ").join(words)


def record_of_words(
    words: Sequence[str], tokenizer: Tokenizer, record: Record | None = None
) -> Record:
    """Return a record of words, whose text is tokenized as a whole.

    It has the other fields of `record`, such as its id.
    """
    record = Record("", []) if record is None else record
    if tokenizer.name == WHITESPACE.name:
        return _record_of_tokenized_words(words, tokenizer, record)
    text = text_of_words(words)
    tokenized = record_of_text(text, tokenizer)
    spans = []
    end = 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        spans.append(CharacterSpan(start, end))
    located = locate_tokens(text, tokenized.tokens)
    found = [
        Word(word, aligned.tokens, aligned.are_whole)
        for word, aligned in zip(words, align_spans(spans, located), strict=True)
    ]
    return record._replace(
        text=text,
        tokens=tokenized.tokens,
        words=found,
        sentences=tokenized.sentences,
    )


def _record_of_tokenized_words(
    words: Sequence[str], tokenizer: Tokenizer, record: Record
) -> Record:
    """Return a record of words that are tokens, or several tokens between spaces.

    No sentence ends within a word.
    """
    tokens: list[str] = []
    found = []
    for word in words:
        start = len(tokens)
        tokens += tokenizer.tokenize(word)
        found.append(Word(word, slice(start, len(tokens))))
    text = " ".join(words)
    return record._replace(
        text=text,
        tokens=tokens,
        words=found,
        sentences=_group_into_sentences(found, tokenizer.split_sentences(text)),
    )


def group_words(records: Iterable[Record], text_input: TextInput) -> Iterator[Record]:
    """Join consecutive records with the same id, each a word, to one record."""

    def key(record: Record) -> tuple[bool, str | int | None]:
        if record.error is None:
            return True, record.id
        return False, record.start

    for (is_valid, identifier), group in groupby(records, key):
        rows = list(group)
        first = rows[0]
        if not is_valid:
            yield first
        elif identifier is None:
            problem = Message(
                Template("expected the id of a text with {--word-column}, found none"),
                remedy="Use {--id-column}.",
            )
            yield first._replace(error=text_input.error_at(first.start, problem))
        else:
            words = [row.text for row in rows]
            id_parts: dict[str, object] = {}
            if len(text_input.settings.id_columns) > 1:
                id_parts = {
                    name: first.columns[name] for name in text_input.settings.id_columns
                }
            record = _record_of_rows(
                words, text_input, first._replace(columns=id_parts)
            )
            yield record._replace(word_columns=[row.columns for row in rows])


def note_scattered(records: Iterable[Record], name: str) -> Iterator[Record]:
    """Yield the texts of a table of words, and log whether their rows are together.

    Rows of one text that are not together are several texts with the same id.
    """
    seen: set[str] = set()
    first: str | None = None
    n_scattered = 0
    for record in records:
        if record.id in seen:
            n_scattered += 1
            first = first or record.id
        elif record.id is not None:
            seen.add(record.id)
        yield record
    if n_scattered:
        message = Message(
            "{name}: the rows of {n} are not together, for example of {first}, so that "
            "each part is a text of its own",
            remedy="Sort by id: sort the rows by {--id-column}, and within a text by "
            "the position of the word.",
            name=name,
            n="a text" if n_scattered == 1 else "texts",
            first=repr(first),
        )
        logger.warning("%s", message)


def _record_of_rows(
    words: Sequence[str], text_input: TextInput, first: Record
) -> Record:
    """Return the record of the words of several rows, the first of which is given."""
    try:
        return record_of_words(words, text_input.tokenizer, first)
    except InputError as error:
        return first._replace(error=text_input.error_at(first.start, error))


def _group_into_sentences(
    words: Sequence[Word], sentences: Sequence[str]
) -> list[Span]:
    """Return the sentences of a text as groups of its words; none for one sentence.

    A word is in one sentence only: in the one in which it begins.
    """
    if len(sentences) < 2:
        return []
    groups: list[Span] = []
    waiting = deque(words)
    n_read = 0
    for end in accumulate(_n_visible(sentence) for sentence in sentences):
        taken: list[Word] = []
        while waiting and n_read < end:
            word = waiting.popleft()
            taken.append(word)
            n_read += _n_visible(word.text)
        if taken:
            joined = " ".join(word.text for word in taken)
            n_tokens = taken[-1].tokens.stop - taken[0].tokens.start
            groups.append(Span(joined, n_tokens))
    return groups


def _n_visible(text: str) -> int:
    """Count the characters of a text that are not white space."""
    return len("".join(text.split()))
