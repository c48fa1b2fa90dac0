"""Words that an input gives, each tokenized by itself: lists, or tables of words."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, groupby
from typing import Final

from elmo_cli.errors.messages import Message
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.record import Record, Span
from elmo_cli.text.tokenizers import Tokenizer

logger = logging.getLogger(__name__)

_CACHED_WORDS: Final = 1 << 16


def record_of_words(
    words: Sequence[str], tokenizer: Tokenizer, record: Record | None = None
) -> Record:
    """Return a record of words, each tokenized by itself, with their sentences.

    It has the other fields of `record`, such as its id.
    """
    tokens = [tokenizer.tokenize(word) for word in words]
    spans = [
        Span(word, len(own_tokens))
        for word, own_tokens in zip(words, tokens, strict=True)
    ]
    text = " ".join(words)
    sentences = tokenizer.split_sentences(text)
    record = Record("", []) if record is None else record
    return record._replace(
        text=text,
        tokens=list(chain.from_iterable(tokens)),
        words=spans,
        sentences=_group_into_sentences(spans, sentences),
    )


def group_words(records: Iterable[Record], text: TextInput) -> Iterator[Record]:
    """Join consecutive records with the same id, each a word, to one record."""
    # A tokenizer takes longer for single words than for a text, but most words occur
    # again.
    remembered = lru_cache(_CACHED_WORDS)(text.tokenizer.tokenize)
    tokenizer = replace(text.tokenizer, tokenize=remembered)

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
                "expected the id of a text with {--word-column}, found none",
                remedy="Use {--id-column}.",
            )
            yield first._replace(error=text.error_at(first.start, problem))
        else:
            words = [row.text for row in rows]
            id_parts: dict[str, object] = {}
            if len(text.settings.id_columns) > 1:
                id_parts = {
                    name: first.columns[name] for name in text.settings.id_columns
                }
            record = record_of_words(words, tokenizer, first._replace(columns=id_parts))
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
            "each part is a text of its own. Sort by id: sort the rows by "
            "{--id-column}, and within a text by the position of the word.",
            name=name,
            n="a text" if n_scattered == 1 else "texts",
            first=repr(first),
        )
        logger.warning("%s", message)


def _group_into_sentences(
    words: Sequence[Span], sentences: Sequence[str]
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
        taken: list[Span] = []
        while waiting and n_read < end:
            word = waiting.popleft()
            taken.append(word)
            n_read += _n_visible(word.text)
        if taken:
            joined = " ".join(word.text for word in taken)
            groups.append(Span(joined, sum(word.n_tokens for word in taken)))
    return groups


def _n_visible(text: str) -> int:
    """Count the characters of a text that are not white space."""
    return len("".join(text.split()))
