"""Input files to records, in each format that can be read; those that a run reads."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from elmo_cli.errors import InputError, check_choice
from elmo_cli.text.entries import (
    Entry,
    conllu_entries,
    fasta_entries,
    json_entries,
    text_entries,
)
from elmo_cli.text.lines import Record, name_of, open_lines
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, watched


@dataclass(frozen=True)
class InputFormat:
    """A way to write records in lines."""

    name: str
    unit: str
    """What messages call a record."""
    suffixes: tuple[str, ...]
    """Of the files that are taken for it; `.gz` may follow."""
    entries: Callable[[Iterable[str], Tokenizer], Iterator[Entry]]
    has_keys: bool | None
    """Whether records have names of their own, so that none needs a number or an index; None
    where the first record says it."""
    has_tokens: bool
    """Whether it says itself what the tokens are."""


TEXT = InputFormat("text", "line", (), text_entries, has_keys=False, has_tokens=False)
CONLLU = InputFormat(
    "conllu", "sentence", (".conllu",), conllu_entries, has_keys=None, has_tokens=True
)
JSON_LINES = InputFormat(
    "jsonl", "record", (".jsonl", ".ndjson"), json_entries, has_keys=None, has_tokens=False
)
_FASTA_SUFFIXES = (".fasta", ".fa", ".faa", ".fas")
FASTA = InputFormat(
    "fasta", "sequence", _FASTA_SUFFIXES, fasta_entries, has_keys=True, has_tokens=True
)
FORMATS = {format_.name: format_ for format_ in (TEXT, FASTA, CONLLU, JSON_LINES)}


def find_format(
    source: object, name: str | None = None, tokenizer: Tokenizer = WHITESPACE
) -> InputFormat:
    """The format of an input, by its name, or by the suffix of a path; else text."""
    if name is None:
        path = str(source).lower().removesuffix(".gz") if isinstance(source, (str, Path)) else ""
        found = next((each for each in FORMATS.values() if path.endswith(each.suffixes)), TEXT)
    else:
        check_choice("format", name, tuple(FORMATS))
        found = FORMATS[name]
    if tokenizer != WHITESPACE and found.has_tokens:
        raise InputError(f"--tokenizer has no effect with {found.name}, which has tokens")
    if tokenizer.splits_by is not None and found is not TEXT:
        raise InputError(f"--split-sentences requires text, found {found.name}")
    return found


class Records(NamedTuple):
    """The records of a file."""

    records: Iterator[Record]
    is_ready: Callable[[], bool]
    """Whether the next one can be read without a long wait: see `Pipe.has_line`."""
    has_keys: bool
    """Whether they have names of their own."""


@contextmanager
def open_records(
    source: IO[str] | str | Path,
    input_format: InputFormat,
    on_bytes: Callable[[int], object] = lambda count: None,
    *,
    tokenizer: Tokenizer = WHITESPACE,
    skip_errors: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Records]:
    """The records of a file, given by its path or already open as text; see `open_lines`.

    With `skip_errors`, an invalid one is a record with its `error`.
    """
    opened = open_lines(source, on_bytes, skip_errors=skip_errors, should_stop=should_stop)
    with opened as (lines, is_ready):
        entries = input_format.entries(lines, tokenizer)
        records = checked_records(entries, name_of(source), skip_errors)
        if tokenizer.cut is WHITESPACE.cut and not input_format.has_tokens:
            records = watched(records)
        has_keys, first = input_format.has_keys, []
        if has_keys is None:
            for record in records:
                first.append(record)
                if record.error is None:
                    break
            has_keys = any(record.key is not None for record in first)
        yield Records(chain(first, records), is_ready, has_keys)


def checked_records(entries: Iterable[Entry], name: str, skip_errors: bool) -> Iterator[Record]:
    """The records of the entries of an input, whose `name` is for error messages.

    An entry that is wrong is an `InputError`, after the records before it; with `skip_errors`, a
    record with its error, without tokens and key.
    """
    lines: dict[str | None, int] = {}
    for line, record, error in entries:
        if error is None and (record.error is None or record.key is not None):
            error = _key_error(record.key, line, lines)
        if error is None:
            yield record
        elif skip_errors:
            yield Record(record.text, [], error=f"{name}, line {line}: {error}")
        else:
            raise InputError(f"{name}, line {line}: {error}")


def _key_error(key: str | None, line: int, lines: dict[str | None, int]) -> str | None:
    """What is wrong with a key, if anything: it is new and names a dataset; all have one, or none.

    Notes its line in `lines`, where the keys before it are.
    """
    if lines and (key is None) != (None in lines):
        if key is None:
            return "expected an id, as before, found none"
        return f"expected no id, as before, found {key[:60]!r}"
    if key is not None and (key in ("", ".") or "/" in key or "\0" in key):
        return f"the id {key[:60]!r} cannot name a dataset of HDF5; leave out / and zero bytes"
    first = lines.setdefault(key, line)
    if key is not None and first != line:
        return f"the id {key[:60]!r} is that of line {first} already"
    return None


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
    """Read `3/16`."""
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
    """The records of a shard in their order; all of the input are hashed."""

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
        """How far the input is read."""
        return Place(self._n_read, self._digest.hexdigest())

    def read(self, n_records: int | None = None) -> Iterator[tuple[Record, Place]]:
        """Read on, until so many records of the input are read, or to its end.

        It gives those of the shard, each with the place where it ends.
        """
        rest = None if n_records is None else n_records - self._n_read
        for record in islice(self._records, rest):
            self._digest.update(record.text.encode("utf-8", "surrogatepass") + b"\n")
            self._n_read += 1
            if self._shard.has(self._n_read - 1):
                yield self._prepare(record), self.place
