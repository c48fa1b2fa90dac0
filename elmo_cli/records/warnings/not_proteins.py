"""Tally of sequences that are no proteins: text, and DNA or RNA."""

import re
from typing import Final

from elmo_cli.errors.messages import Message
from elmo_cli.records.record import Record
from elmo_cli.records.warnings.tallies import Tally

_NO_RESIDUE: Final = re.compile(r"[^A-Z*.-]")
_NUCLEOTIDES: Final = frozenset("ACGTUN-")
_MIN_NUCLEOTIDES: Final = 8
_MIN_KINDS: Final = 3
"""Number of different letters of DNA, apart from N and gaps."""
_TEXT_LETTERS: Final = "OUJ"
"""Letters of text that proteins hardly have."""
_MIN_TEXT: Final = 0.04
_MIN_TEXT_LETTERS: Final = 2


class NotProteins(Tally):
    """Sequences that seem to be text or nucleotides in place of proteins."""

    def __init__(self) -> None:
        super().__init__()
        self._kind = ""
        self._name = ""

    def count(self, record: Record) -> int:
        """Count the record if its residues are none."""
        kind = _other_kind("".join(record.tokens))
        if kind is None:
            return 0
        if not self.n_found:
            self._kind = kind
            self._name = record.id or ""
        return 1

    def warning(self, first: str) -> Message:
        """Return the warning."""
        place = f"{self._name!r} in {first}" if self._name else first
        return Message(
            f"sequences that do not look like proteins: {self.n_found:,}. "
            f"The first one, {place}, looks like {self._kind}.",
            remedy="Translate DNA and RNA to proteins, and leave out text.",
        )


def _other_kind(sequence: str) -> str | None:
    """Return what a sequence is if it is no protein: text, DNA or RNA."""
    if _NO_RESIDUE.search(sequence):
        return "text"
    letters = set(sequence)
    n_kinds = len(letters - {"N", "-"})
    is_long = len(sequence) >= _MIN_NUCLEOTIDES
    if letters <= _NUCLEOTIDES and n_kinds >= _MIN_KINDS and is_long:
        return "RNA" if "U" in letters else "DNA"
    n_found = sum(sequence.count(letter) for letter in _TEXT_LETTERS)
    if n_found >= max(_MIN_TEXT_LETTERS, _MIN_TEXT * len(sequence)):
        return "text"
    return None
