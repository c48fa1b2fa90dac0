"""Plain text: one sentence per line, raw or tokenized, or running text.

Running text is split into sentences. With `paragraphs`, the lines up to a blank line
belong together.
"""

from collections.abc import Callable, Iterable, Iterator

from elmo_cli.records.columns_in_text import check_stream_is_text
from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.records.record import Record
from elmo_cli.text.line_reader import Line


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

    def read(
        self,
        text_input: TextInput,
        on_bytes: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> tuple[Iterator[Record], Callable[[], bool]]:
        """Return the records of a text. Refuse a stream that seems to be a table."""
        lines, is_ready = text_input.source.lines(
            on_bytes,
            skip_errors=text_input.settings.skip_errors,
            should_stop=should_stop,
        )
        if text_input.format_is_guess:
            lines = check_stream_is_text(lines, text_input.source.name)
        return self.parse(lines, text_input), is_ready

    def parse(self, lines: Iterable[Line], text_input: TextInput) -> Iterator[Record]:
        """Yield the lines of a text, or their sentences."""
        tokenizer = text_input.tokenizer
        is_split = tokenizer.splits_by is not None
        if text_input.settings.paragraphs:
            lines = _join_paragraphs(lines)
        for line in lines:
            if line.error is not None:
                yield Record(
                    "",
                    [],
                    error=line.error,
                    start=line.number,
                    line=line.number if is_split else None,
                )
            elif is_split:
                for sentence in tokenizer.split_sentences(line.text):
                    tokens = tokenizer.tokenize(sentence)
                    yield Record(sentence, tokens, start=line.number, line=line.number)
            else:
                tokens = tokenizer.tokenize(line.text)
                yield Record(line.text, tokens, start=line.number)


def _join_paragraphs(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield each paragraph as one line, with the number of its first line.

    A line that is not UTF-8 stays alone.
    """
    paragraph: list[Line] = []
    for line in lines:
        if line.text and line.error is None:
            paragraph.append(line)
            continue
        if paragraph:
            yield _join_lines(paragraph)
            paragraph = []
        if line.error is not None:
            yield line
    if paragraph:
        yield _join_lines(paragraph)


def _join_lines(lines: list[Line]) -> Line:
    return Line(lines[0].number, " ".join(line.text for line in lines))
