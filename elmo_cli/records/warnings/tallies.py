"""Tallies: counts of something in all records of an input, and a warning each."""

import re
from typing import Final

from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import counted
from elmo_cli.files.file_types import conversion_command
from elmo_cli.files.text_files import BYTE_ORDER_MARK
from elmo_cli.model.token_limit import TokenLimit
from elmo_cli.records.record import Record


class Tally:
    """Count of something in the records, and the start of the first one that has it."""

    def __init__(self) -> None:
        self.n_found = 0
        self.first = 0

    def see(self, record: Record) -> None:
        """Count in the next record."""
        n_found = self.count(record)
        if n_found:
            if not self.n_found:
                self.first = record.start
            self.n_found += n_found

    def count(self, record: Record) -> int:
        """Return the count in a record."""
        raise NotImplementedError

    def warning(self, first: str) -> Message | str:
        """Return the warning; `first` names the first record, such as `line 3`."""
        raise NotImplementedError


class LongTokens(Tally):
    """Tokens that are longer than a model reads."""

    def __init__(self, limit: TokenLimit) -> None:
        super().__init__()
        self._limit = limit
        # A character has at most 4 bytes, so most sentences need no encoding.
        self._max_characters = limit.length
        if limit.unit == "bytes":
            self._max_characters //= 4

    def count(self, record: Record) -> int:
        """Count the long tokens of a record."""
        longest = max(map(len, record.tokens), default=0)
        if longest <= self._max_characters:
            return 0
        if self._limit.unit == "bytes":
            lengths = [len(token.encode("utf-8", "ignore")) for token in record.tokens]
        else:
            lengths = [len(token) for token in record.tokens]
        return sum(length > self._limit.length for length in lengths)

    def warning(self, first: str) -> str:
        """Return the warning."""
        are = f"{self.n_found:,} tokens are"
        if self.n_found == 1:
            are = "1 token is"
        limit = f"{self._limit.length} {self._limit.unit}"
        rest = f"The rest is ignored. The first is in {first}."
        return f"{are} longer than the {limit} that the model reads. {rest}"


class MissingBlankLines(Tally):
    """Sentences of CoNLL-U without a blank line before them."""

    def count(self, record: Record) -> int:
        """Return 1 for such a sentence."""
        return 1 if record.lacks_blank_line else 0

    def warning(self, first: str) -> str:
        """Return the warning."""
        which = f"the first of {self.n_found:,} sentences"
        if self.n_found == 1:
            which = "a sentence"
        remedy = "Every line with the ID 1 begins a new sentence."
        return f"{first}: {which} of CoNLL-U without a blank line before. {remedy}"


class TypographicMarks(Tally):
    """Tokens with typographic marks, which the text of English models hardly has."""

    MARKS: Final = frozenset("‘’“”–—…")
    N_EXAMPLES: Final = 3

    def __init__(self, *, seems_raw: bool = False) -> None:
        """Count the tokens. `seems_raw` is True if a warning has said so.

        The remedy of that warning is the remedy for the marks too.
        """
        super().__init__()
        self._seems_raw = seems_raw
        self._examples: list[str] = []

    def count(self, record: Record) -> int:
        """Count the tokens with marks."""
        if "".join(record.tokens).isascii():
            return 0
        found = [token for token in record.tokens if not self.MARKS.isdisjoint(token)]
        n_missing = self.N_EXAMPLES - len(self._examples)
        self._examples += found[:n_missing]
        return len(found)

    def warning(self, first: str) -> Message:
        """Return the warning."""
        remedy = (
            "If the text is raw, use {--tokenizer moses}. If it is tokenized, replace "
            "them by plain quotes and dashes."
        )
        return Message(
            f"{counted(self.n_found, 'token')} with typographic marks "
            f"({' '.join(self._examples)}), which the model hardly knows, "
            f"the first in {first}",
            remedy=None if self._seems_raw else remedy,
        )


class MisreadCharacters(Tally):
    """Characters that only a wrong conversion of a file leaves in its text."""

    def __init__(
        self,
        characters: str,
        *,
        name: str,
        reason: str,
        command: str,
        source_name: str,
        are_ascii: bool = False,
    ) -> None:
        """Count the characters of a pattern.

        Args:
            characters: Pattern of a character.
            name: Name of the characters.
            reason: Sentences about their origin, and what to do by the command.
            command: Command that repairs the text.
            source_name: Name of the input.
            are_ascii: True if they are ASCII characters.
        """
        super().__init__()
        self._pattern = re.compile(characters)
        self._are_ascii = are_ascii
        self._name = name
        self._reason = reason
        self._command = command
        self._source_name = source_name

    def count(self, record: Record) -> int:
        """Count the characters."""
        if record.text.isascii() and not self._are_ascii:
            return 0
        return len(self._pattern.findall(record.text))

    def warning(self, first: str) -> str:
        """Return the warning."""
        repair = conversion_command(self._command, self._source_name, mark=".clean")
        found = f"{self._name}: {self.n_found:,}, the first in {first}"
        return f"{found}. {self._reason} {repair}."


def control_characters(source_name: str) -> MisreadCharacters:
    """Return the tally of control characters of Windows-1252."""
    return MisreadCharacters(
        "[\x80-\x9f]",
        name="control characters (U+0080 to U+009F)",
        reason="They are probably quotes and dashes of Windows-1252 that were read as "
        "Latin-1. Repair them with",
        command="""perl -CSD -MEncode -pe 's/[\\x80-\\x9f]/decode("cp1252", $&)/ge'""",
        source_name=source_name,
    )


def ascii_control_characters(source_name: str) -> MisreadCharacters:
    """Return the tally of control characters that no text has, such as zero bytes."""
    return MisreadCharacters(
        "[\x00-\x08\x0e-\x1a\x7f]",
        name="control characters (U+0000 to U+001F)",
        reason="Perhaps the input is not a text. Remove them with",
        command="tr -d '\\000-\\010\\016-\\032\\177' <",
        source_name=source_name,
        are_ascii=True,
    )


def byte_order_marks(source_name: str) -> MisreadCharacters:
    """Return the tally of byte order marks within lines."""
    return MisreadCharacters(
        BYTE_ORDER_MARK,
        name="byte order marks (U+FEFF) within lines",
        reason="They become part of words. Remove them with",
        command="perl -pe 's/\\xef\\xbb\\xbf//g'",
        source_name=source_name,
    )
