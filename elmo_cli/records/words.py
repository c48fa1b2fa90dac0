"""Words that an input gives, each tokenized by itself."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, groupby

from elmo_cli.records.record import Entry, Record, Span
from elmo_cli.text.tokenizers import Tokenizer


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
