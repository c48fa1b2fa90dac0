"""Value types: sentences, the records of an input, and the progress in it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from elmo_cli.errors import InputError

Sentence = list[str]
_Tokens = TypeVar("_Tokens", bound=Sequence[str])


class Record(NamedTuple):
    """Record of an input: a line, a FASTA sequence, a CoNLL-U sentence."""

    text: str
    """Text that is hashed: the line, or the header and the sequence of FASTA."""
    tokens: Sentence
    id: str | None = None
    """Name of its dataset in the output; None for its number."""
    attributes: Mapping[str, object] = MappingProxyType({})
    """Attributes of its dataset in the output."""
    error: str | None = None
    """Reason why the record is skipped, with `skip_errors`. The record has no tokens then."""
    columns: Mapping[str, object] = MappingProxyType({})
    """Other columns of a table that are kept, by their names."""


class Progress(NamedTuple):
    """Progress in an input: number of records read and their hash."""

    n_records: int
    sha256: str
    """SHA-256 of the texts of these records, each with a line feed."""


def check_sentence(sentence: _Tokens) -> _Tokens:
    """Return the sentence if it is a sequence of strings.

    Raises:
        InputError: it is a string or no sequence, or has a token that is no string.
    """
    if isinstance(sentence, (str, bytes)):
        raise InputError(
            f"expected a sentence as a list of tokens, found the string {sentence[:40]!r}; split "
            "it first, for instance by .split()"
        )
    # Arrays are accepted. An iterator is not: checking it would consume it.
    if not hasattr(sentence, "__getitem__"):
        raise InputError(f"expected a sentence as a list of tokens, found {sentence!r}")
    for position, token in enumerate(sentence):
        if not isinstance(token, str):
            found = type(token).__name__
            raise InputError(f"expected a sentence of strings, found {found} as token {position}")
    return sentence
