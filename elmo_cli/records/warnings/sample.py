"""First records of an input, which the checks look at."""

from dataclasses import dataclass, field
from typing import Final

from elmo_cli.records.record import Record
from elmo_cli.records.warnings.expected import UNKNOWN, Expected
from elmo_cli.types import Sentence

SAMPLE_TOKENS: Final = 1000
SAMPLE_LINES: Final = 200


@dataclass
class Sample:
    """First records of an input, and how they are read."""

    source_name: str = "the input"
    """Name of the input in messages."""
    is_text: bool = True
    """True if each line is a sentence, or is split into sentences."""
    is_split_at_spaces: bool = True
    is_table: bool = False
    is_whole: bool = True
    """True if each line or text is one record, which may be a passage."""
    has_sequences: bool = False
    """True for FASTA."""
    has_word_rows: bool = False
    """True for a table with one word per row."""
    has_residues: bool = False
    """True if each token is a residue."""
    seems_raw: bool = False
    """True if a warning has said so."""
    expected: Expected = UNKNOWN
    tokens: Sentence = field(default_factory=list)
    """First tokens, at least `SAMPLE_TOKENS` if the input has so many."""
    lines: dict[int, str] = field(default_factory=dict)
    """First lines of a text, or texts of a table, by their numbers from 1.

    Blank ones may be missing.
    """

    @property
    def texts(self) -> list[str]:
        """First lines or texts that are not blank."""
        return [text for text in self.lines.values() if text.strip()]

    @property
    def has_tokens(self) -> bool:
        """True if there are enough tokens."""
        return len(self.tokens) >= SAMPLE_TOKENS

    def has_lines(self, last: Record) -> bool:
        """Return whether there are enough lines or texts up to the last record."""
        n_read = len(self.lines) if self.has_word_rows else last.start
        return n_read >= SAMPLE_LINES

    def add(self, record: Record) -> None:
        """Add the next record."""
        if not self.has_tokens:
            self.tokens += record.tokens
        number = record.start
        if self.has_word_rows:
            # Each row is a word, so rows are no measure of the texts.
            number = len(self.lines) + 1
        if number > SAMPLE_LINES:
            return
        before = self.lines.get(number)
        self.lines[number] = (
            record.text if before is None else f"{before} {record.text}"
        )
