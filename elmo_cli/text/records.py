"""Input files to records, in each format that can be read; and the records that a run reads."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.text.conllu import read_conllu
from elmo_cli.text.fasta import read_fasta
from elmo_cli.text.json_lines import read_json_lines
from elmo_cli.text.lines import InvalidLine, Record, line_record, name_of, open_lines
from elmo_cli.text.pipes import never
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, watched

LINE: Final = "line"
"""Attribute of a sentence that was split off: the number of its line, from 0."""


@dataclass(frozen=True)
class InputFormat:
    """A way to write records in lines."""

    name: str
    unit: str
    """What messages call a record."""
    suffixes: tuple[str, ...]
    """Of the files that are taken for it; `.gz` may follow."""
    has_keys: bool | None
    """Whether records have names of their own, so that none needs a number or an index; None
    where the first record says it."""
    has_tokens: bool
    """Whether it says itself what the tokens are."""
    read: Callable[[Iterable[str], str, bool, Tokenizer], Iterator[Record]]
    """Lines, the input's name for error messages, whether errors are skipped, and the tokenizer
    -> records."""


def _read_text(
    lines: Iterable[str], name: str, skip_errors: bool, tokenizer: Tokenizer
) -> Iterator[Record]:
    """The records of raw or tokenized text, one a line or one a sentence."""
    for number, line in enumerate(lines):
        attributes = {} if tokenizer.splits_by is None else {LINE: str(number)}
        if isinstance(line, InvalidLine):
            yield line_record(line)._replace(attributes=attributes)
            continue
        for sentence in tokenizer.sentences(line):
            yield Record(sentence, tokenizer.cut(sentence), attributes=attributes)


TEXT = InputFormat(
    "text",
    "line",
    (),
    has_keys=False,
    has_tokens=False,
    read=_read_text,
)
FASTA = InputFormat(
    "fasta",
    "sequence",
    (".fasta", ".fa", ".faa", ".fas"),
    has_keys=True,
    has_tokens=True,
    read=lambda lines, name, skip_errors, tokenizer: read_fasta(lines, name, skip_errors),
)
CONLLU = InputFormat(
    "conllu",
    "sentence",
    (".conllu",),
    has_keys=None,
    has_tokens=True,
    read=lambda lines, name, skip_errors, tokenizer: read_conllu(lines, name, skip_errors),
)
JSON_LINES = InputFormat(
    "jsonl",
    "record",
    (".jsonl", ".ndjson"),
    has_keys=None,
    has_tokens=False,
    read=read_json_lines,
)
FORMATS = {format_.name: format_ for format_ in (TEXT, FASTA, CONLLU, JSON_LINES)}


def find_format(
    source: object, name: str | None = None, tokenizer: Tokenizer = WHITESPACE
) -> InputFormat:
    """The format of an input.

    Args:
        source: its path, or a file that is open.
        name: of the format; None goes by the suffix of the path, and is text without one.
        tokenizer: that is asked for; see `make_tokenizer`.

    Raises:
        InputError: there is no format of that name, or the tokenizer has no effect with it.
    """
    if name is None:
        path = str(source).lower().removesuffix(".gz") if isinstance(source, (str, Path)) else ""
        found = next((each for each in FORMATS.values() if path.endswith(each.suffixes)), TEXT)
    elif name in FORMATS:
        found = FORMATS[name]
    else:
        raise InputError(f"format {name!r}: expected {' or '.join(FORMATS)}")
    if tokenizer != WHITESPACE and found.has_tokens:
        raise InputError(f"--tokenizer has no effect with {found.name}, which has tokens")
    if tokenizer.splits_by is not None and found is not TEXT:
        raise InputError(f"--split-sentences requires text, found {found.name}")
    return found


@contextmanager
def open_records(
    source: IO[str] | str | Path,
    input_format: InputFormat,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    tokenizer: Tokenizer = WHITESPACE,
    skip_errors: bool = False,
    should_stop: Callable[[], bool] = never,
) -> Iterator["Records"]:
    """The records of a file, given by its path or already open as text; see `open_lines`.

    With `skip_errors`, an invalid one is a record with its `error`.
    """
    opened = open_lines(source, on_bytes, skip_errors=skip_errors, should_stop=should_stop)
    with opened as lines:
        records = input_format.read(lines, name_of(source), skip_errors, tokenizer)
        if tokenizer.cut is WHITESPACE.cut and not input_format.has_tokens:
            records = watched(records)
        has_keys, first = input_format.has_keys, []
        if has_keys is None:
            for record in records:
                first.append(record)
                if record.error is None:
                    break
            has_keys = any(record.key is not None for record in first)
        yield Records(chain(first, records), lines.is_ready, has_keys)


class Records(NamedTuple):
    """The records of a file."""

    records: Iterator[Record]
    is_ready: Callable[[], bool]
    """Whether the next one can be read without a long wait: see `Lines`."""
    has_keys: bool
    """Whether they have names of their own."""


class Shard(NamedTuple):
    """One of `total` equal shares of an input: every `total`-th record from the `number`-th.

    Every n-th, and not one stretch after the other: so the share of each process is known
    without counting the input, which may be a stream, and long and short texts are shared
    out alike.
    """

    number: int = 1
    """From 1."""
    total: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def has(self, index: int) -> bool:
        """Whether a record of the input, by its number from 0, is part of it."""
        return index % self.total == self.number - 1

    def place(self, number: int) -> int:
        """The number in the input of the record with this number in the shard, both from 0."""
        return number * self.total + self.number - 1


WHOLE = Shard()


def parse_shard(text: str) -> Shard:
    """Read `3/16`.

    Raises:
        InputError: it is no such thing.
    """
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    shard = Shard(*map(int, found.groups())) if found else Shard(0, 0)
    if not 1 <= shard.number <= shard.total:
        raise InputError(f"shard {text!r}: expected I/N, I from 1 to N, such as 3/16")
    return shard


def shard_of(attributes: Mapping[str, Any]) -> Shard:
    """The shard that an output is of, by its attributes."""
    return parse_shard(attributes["shard"]) if "shard" in attributes else WHOLE


class Place(NamedTuple):
    """How far an input is read."""

    n_records: int
    sha256: str
    """Of the texts of these records, each with a line feed."""


class RunInput:
    """The records of a shard in their order, each with the place where it ends.

    An iterator that hashes all records of the input, those of other shards too.
    """

    def __init__(
        self,
        records: Iterable[Record],
        shard: Shard = WHOLE,
        prepare: Callable[[Record], Record] = lambda record: record,
    ) -> None:
        self._records = iter(records)
        self._shard, self._prepare = shard, prepare
        self._digest = hashlib.sha256()
        self._n_read = 0

    @property
    def place(self) -> Place:
        """How far it is read."""
        return Place(self._n_read, self._digest.hexdigest())

    def __iter__(self) -> "RunInput":
        return self

    def __next__(self) -> tuple[Record, Place]:
        while True:
            record = self._read()
            if record is not None:
                return record, self.place

    def skip_to(self, n_records: int) -> Iterator[Record]:
        """Read on until so many records of the input are read, or it ends.

        Yields:
            Those of the shard.
        """
        while self._n_read < n_records:
            try:
                record = self._read()
            except StopIteration:
                return
            if record is not None:
                yield record

    def _read(self) -> Record | None:
        """The next record; None if another shard has it."""
        record = next(self._records)
        self._digest.update(hashed_text(record.text))
        self._n_read += 1
        return self._prepare(record) if self._shard.has(self._n_read - 1) else None


def hashed_text(text: str) -> bytes:
    """What the text of a record adds to the hash of an input."""
    return text.encode("utf-8", "surrogatepass") + b"\n"
