"""Record: one sentence or text of an input, with what the input says about it."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

from elmo_cli.errors.checks import Sentence


class NumericId(str):
    """Id that is an integer in its input, and again in outputs that have integers."""

    __slots__ = ()


class Span(NamedTuple):
    """Part of a record: one of its sentences or words."""

    text: str
    n_tokens: int


class Record(NamedTuple):
    """Record of an input: a line, a FASTA sequence, a CoNLL-U sentence, a row of a table."""

    text: str  # text that is hashed: the line, or the header and the sequence of FASTA
    tokens: Sentence
    id: str | None = None  # name of its dataset in the output; None for its number
    attributes: Mapping[str, object] = MappingProxyType({})
    """Attributes of its dataset in the output."""
    error: str | None = None
    """Reason why the record is skipped, with `skip_errors`. The record has no tokens then."""
    columns: Mapping[str, object] = MappingProxyType({})
    """Other columns of a table that are kept, by their names."""
    sentences: Sequence[Span] = ()
    """Sentences, each computed by itself. Without any, the whole record is one."""
    words: Sequence[Span] = ()  # words that the input gives, each tokenized by itself
    word_columns: Sequence[Mapping[str, object]] = ()
    """The `columns` of each word, if each is a row of the input."""
    lemmas: Sequence[str] = ()  # lemma of each token in CoNLL-U; empty in other formats

    def split(self) -> list[Sentence]:
        """Return the tokens of each sentence; at least one list."""
        if not self.sentences:
            return [self.tokens]
        ends = list(accumulate(span.n_tokens for span in self.sentences))
        return [
            self.tokens[start:end] for start, end in zip([0, *ends], ends, strict=False)
        ]


def id_value(identifier: str | None) -> str | int | None:
    """Return an id as its input had it, so that an output joins the input."""
    return int(identifier) if isinstance(identifier, NumericId) else identifier


LINE: Final = "line"
"""Attribute of a sentence that was split from a line: the number of the line, from 0."""


ORIGINAL_ID: Final = "original_id"
"""Attribute of a sequence: its whole header. bio_embeddings uses the same name."""


class Entry(NamedTuple):
    """Record of an input, with the number of its first line or of its error, from 1."""

    line: int
    record: Record
    error: str | None = None  # error in the format of the record
    has_no_blank_line: bool = False
    """True if a sentence of CoNLL-U begins without a blank line before it."""
