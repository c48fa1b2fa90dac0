"""First texts of an input, which show whether they are raw or tokenized."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from elmo_cli.callbacks import ignore, never
from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.record import Record
from elmo_cli.records.words import group_words, text_of_words
from elmo_cli.text.evidence import EVIDENCE_LINES
from elmo_cli.text.tokenizers import Tokenizer
from elmo_cli.types import Sentence


def read_first_texts(text_input: TextInput) -> list[str]:
    """Return the texts to tokenize in the first records of an input.

    These are the first 200 records of a file, or the first one of a pipe, so that it
    never waits for more. The input is read from its beginning again. Errors are left
    for its reader to report.
    """
    texts: list[str] = []
    with suppress(ElmoError):
        n_records = EVIDENCE_LINES if text_input.source.is_rereadable else 1
        with text_input.source.peeking():
            texts += islice(texts_to_tokenize(text_input, _read), n_records)
    return texts


def texts_to_tokenize(
    text_input: TextInput, read: Callable[[TextInput], Iterable[Record]]
) -> Iterator[str]:
    """Yield what a tokenizer would get of each record; nothing of a list of tokens.

    Only a format knows which parts of a record it tokenizes. So it gets a tokenizer
    that notes these parts, and returns no tokens.

    `read` returns the records of an input.
    """
    noted: list[str] = []  # parts of the current record

    def note(part: str) -> Sentence:
        noted.append(part)
        return []

    reading = replace(
        text_input,
        tokenizer=Tokenizer(tokenize=note),
        settings=replace(text_input.settings, skip_errors=True, keep_columns=()),
    )
    for record in read(reading):
        if record.words:
            yield text_of_words([word.text for word in record.words])
        else:
            yield " ".join(noted)
        noted.clear()


def _read(text_input: TextInput) -> Iterable[Record]:
    records, _ = text_input.format.read(text_input, ignore, never)
    if text_input.settings.word_column is None:
        return records
    return group_words(records, text_input)
