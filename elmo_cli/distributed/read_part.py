"""Records of a part, and the first texts of an input."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice

from elmo_cli.distributed.find_inputs import find_input_format
from elmo_cli.distributed.hashing_reader import HashingReader
from elmo_cli.distributed.input_files import changed_error, open_input_file
from elmo_cli.distributed.input_part import Part
from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.options.text import DEFAULT_ID, TextSettings
from elmo_cli.records.first_texts import texts_to_tokenize
from elmo_cli.records.ids import IdChecker, IdRules
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.open_records import check_records
from elmo_cli.records.parquet import Parquet
from elmo_cli.records.record import Record
from elmo_cli.text.choose_tokenizer import choose_tokenizer
from elmo_cli.text.evidence import EVIDENCE_LINES
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import WHITESPACE


def read_part(part: Part, settings: TextSettings, *, has_ids: bool) -> Iterator[Record]:
    """Yield the records of a part. With `skip_errors`, invalid ones have an `error`.

    With `has_ids`, a record without an id or with an empty one is invalid. An
    `OtherInputError` is raised after the last record if the bytes differ from the
    plan's.
    """
    input_format = find_input_format(settings, part.path)
    if has_ids:
        settings = replace(settings, id_column=settings.id_column or DEFAULT_ID)
    text_input = TextInput(
        source=Source(part.path),
        settings=settings,
        format=input_format,
        tokenizer=choose_tokenizer(settings, "lines"),
    )
    check = partial(
        check_records,
        text_input=text_input,
        id_checker=IdChecker(IdRules()) if has_ids else None,
    )
    with open_input_file(part.path) as file:
        if isinstance(input_format, Parquet):
            rows = range(part.start, part.start + part.n_records)
            yield from check(input_format.parse_file(file.raw, text_input, rows=rows))
            return
        reader = HashingReader(
            part.path, file, input_format, start=part.start, number=part.line
        )
        # A damaged plan has any number.
        n_lines = min(max(part.n_lines, 0), sys.maxsize)
        taken = islice(reader.take(), n_lines)
        decode = partial(reader.lines.decode, skip_errors=settings.skip_errors)
        yield from check(input_format.parse(map(decode, taken), text_input))
        if reader.take_sha256() != part.sha256:
            raise changed_error(part.path)


def read_first_texts_of(path: str, settings: TextSettings) -> list[str]:
    """Return the texts to tokenize in the first records of a file.

    Errors are left for the reader of the whole file to report.
    """
    text_input = TextInput(
        source=Source(path),
        settings=settings,
        format=find_input_format(settings, path),
        tokenizer=WHITESPACE,
    )

    def read(text_input: TextInput) -> Iterable[Record]:
        if isinstance(text_input.format, Parquet):
            return text_input.format.parse_file(file.raw, text_input)
        reader = HashingReader(path, file, text_input.format)
        decode = partial(reader.lines.decode, skip_errors=True)
        return text_input.format.parse(map(decode, reader.take()), text_input)

    texts: list[str] = []
    with suppress(ElmoError), open_input_file(path) as file:
        texts += islice(texts_to_tokenize(text_input, read), EVIDENCE_LINES)
    return texts
