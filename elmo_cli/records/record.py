"""Record of an input: a text with its tokens, its id, and what else the input says."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from elmo_cli.errors.messages import Message
from elmo_cli.types import Sentence

ID_SEPARATOR: Final = "/"
"""Character between the parts of an id that has several columns."""
LIST_OF_REGIONS: Final = Message(
    "expected a text with regions, found a list",
    remedy="Join its items with spaces.",
)
"""Problem of a record with tokens where marks separate the regions of a text."""


def join_id(parts: Iterable[object]) -> str:
    """Return the id of the values of its columns."""
    return ID_SEPARATOR.join(map(str, parts))


class Span(NamedTuple):
    """Part of a record: one of its sentences."""

    text: str
    n_tokens: int


class Word(NamedTuple):
    """Word that the input gives, with the tokens that its characters overlap."""

    text: str
    tokens: slice
    """Positions of its tokens in the record."""
    is_whole: bool = True
    """False if one of its tokens belongs to another word too."""


class AnnotatedPlace(NamedTuple):
    """Characters of an annotated word in a text, from 0.

    They are empty if the place cannot be read.
    """

    text: str
    """Text with the characters. Its tokens are those of the record."""
    start: int
    end: int
    is_certain: bool
    """True if its column can only have the place of an annotated word."""
    lemma: str | None = None
    """Lemma of the word, if the row tells it."""


class Record(NamedTuple):
    """Record of an input: a line, a FASTA sequence, a CoNLL-U sentence, a table row."""

    text: str
    """Text that is hashed: the line, or the header and the sequence of FASTA."""
    tokens: Sentence
    id: str | None = None
    """Id of the record as text. None if it has none and is named by its number.

    Several columns of an id are joined by `/`, and are in `columns` too.
    """
    attributes: Mapping[str, Any] = MappingProxyType({})
    """Attributes of its dataset in a file of vectors, such as `line_index`, or the
    `positions` of target words."""
    error: str | Message | None = None
    """Why the record is invalid or was skipped. It has no tokens then."""
    columns: Mapping[str, object] = MappingProxyType({})
    """Other columns of a table that are kept, by their names."""
    sentences: Sequence[Span] = ()
    """Sentences, each computed by itself. Without any, the whole record is one."""
    words: Sequence[Word] = ()
    """Words that the input gives: the items of a list, or the rows of a table."""
    word_columns: Sequence[Mapping[str, object]] = ()
    """The `columns` of each word, if each word is a row of the input."""
    fields: Mapping[str, object] = MappingProxyType({})
    """All columns of a row that is a word."""
    places: Sequence[AnnotatedPlace] = ()
    """Places of annotated words, if places are read."""
    lemmas: Sequence[str] = ()
    """Lemma of each token in CoNLL-U; empty in other formats."""
    start: int = 0
    """Line of the file at which the record begins, or its row, from 1."""
    line: int | None = None
    """Number that outputs show as its line, from 1; None if they show none.

    It is the line from which a sentence was split, or the number of a record whose id
    may repeat.
    """
    original_id: str | None = None
    """Whole header of a FASTA sequence. bio_embeddings uses the same name."""
    id_is_integer: bool = False
    """True if the id is an integer in its input, and in outputs that have integers."""
    lacks_blank_line: bool = False
    """True if a CoNLL-U sentence begins without a blank line before it."""

    def __repr__(self) -> str:
        """Return the fields that are not empty."""
        shown = []
        for name, value in self._asdict().items():
            if value:
                printed = dict(value) if isinstance(value, Mapping) else value
                shown.append(f"{name}={printed!r}")
        return f"Record({', '.join(shown)})"

    @property
    def id_value(self) -> str | int | None:
        """Id as its input has it, text or integer, to join an output with the input."""
        if self.id is not None and self.id_is_integer:
            return int(self.id)
        return self.id

    def split(self) -> list[Sentence]:
        """Return the tokens of each sentence; at least one list."""
        if not self.sentences:
            return [self.tokens]
        ends = list(accumulate(span.n_tokens for span in self.sentences))
        starts = [0, *ends[:-1]]
        return [self.tokens[start:end] for start, end in zip(starts, ends, strict=True)]
