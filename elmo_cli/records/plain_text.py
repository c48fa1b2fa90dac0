"""Plain text: one sentence per line, raw or tokenized, or running text.

Running text is split into sentences. With `paragraphs`, the lines up to a blank line
belong together.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.records.record import Record
from elmo_cli.text.line_reader import InvalidLine


class PlainText(InputFormat):
    """Lines of text."""

    name = "text"
    unit = "line"
    ids = "never"
    is_plain = True
    has_parts = True

    def starts_record(self, line: str) -> bool:
        """Return True, also for a blank line, which is an empty sentence."""
        return True

    def parse(
        self, lines: Iterable[str], text: TextInput, first: int = 1
    ) -> Iterator[Record]:
        """Yield the lines of a text, or their sentences."""
        tokenizer = text.tokenizer
        is_split = tokenizer.splits_by is not None
        numbered: Iterable[tuple[int, str]] = enumerate(lines, start=first)
        if text.settings.paragraphs:
            numbered = join_paragraphs(numbered)
        for number, line in numbered:
            if isinstance(line, InvalidLine):
                yield Record(
                    "",
                    [],
                    error=line.error,
                    start=number,
                    line=number if is_split else None,
                )
            elif is_split:
                for sentence in tokenizer.split_sentences(line):
                    tokens = tokenizer.tokenize(sentence)
                    yield Record(sentence, tokens, start=number, line=number)
            else:
                yield Record(line, tokenizer.tokenize(line), start=number)


def join_paragraphs(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield paragraphs with the numbers of their first lines.

    An `InvalidLine` is a paragraph alone.
    """
    parts: list[str] = []
    start = 0
    for number, line in chain(lines, [(0, "")]):
        is_valid = not isinstance(line, InvalidLine)
        if line and is_valid:
            if not parts:
                start = number
            parts.append(line)
        elif parts:
            yield start, " ".join(parts)
            parts = []
        if not is_valid:
            yield number, line
