"""Plain text: one sentence per line, or running text that is split into sentences."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from elmo_cli.options.text import TextSettings
from elmo_cli.records.record import LINE, Entry, Record
from elmo_cli.text.line_reader import InvalidLine
from elmo_cli.text.tokenizers import Tokenizer


def text_entries(
    lines: Iterable[str],
    tokenizer: Tokenizer,
    settings: TextSettings,
    check_first: Callable[[int, str], object] | None = None,
) -> Iterator[Entry]:
    """Yield the sentences of a text. The first line that is not blank is checked."""
    tokenize, is_split = tokenizer.tokenize, tokenizer.splits_by is not None
    for number, line in (
        _paragraphs(lines) if settings.paragraphs else enumerate(lines, start=1)
    ):
        if check_first is not None and line:
            check_first(number, line)
            check_first = None
        attributes: dict[str, object] = {LINE: number - 1} if is_split else {}
        if isinstance(line, InvalidLine):
            yield Entry(number, Record("", [], None, attributes, line.error))
        elif is_split:
            for sentence in tokenizer.split_sentences(line):
                yield Entry(
                    number, Record(sentence, tokenize(sentence), None, attributes)
                )
        else:
            yield Entry(number, Record(line, tokenize(line)))


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield paragraphs with the numbers of their first lines. An `InvalidLine` is one alone."""
    parts: list[str] = []
    start = 0
    for number, line in enumerate(chain(lines, [""]), start=1):
        is_valid = not isinstance(line, InvalidLine)
        if line and is_valid:
            start = start if parts else number
            parts.append(line)
        elif parts:
            yield start, " ".join(parts)
            parts = []
        if not is_valid:
            yield number, line
