"""FASTA to records: a sequence a record, a residue a token.

    >sp|P69905|HBA_HUMAN Hemoglobin    the header; its first word is the id
    MVLSPADKTNVKAAWG                   the sequence, in any number of lines
    kvgahageygaealer*

As in SeqVec, white space is dropped and letters become upper case; every other character
(`*`, `-`, `X`) is a token. A sequence may be empty. The id names a dataset of HDF5: it is
required and unique, is not "." and contains no "/".
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.text.lines import InvalidLine, Record

ORIGINAL_ID = "original_id"
"""Attribute of a dataset with the whole header, named as in bio_embeddings."""

_MAX_SHOWN_ERRORS = 5


class _Entry(NamedTuple):
    line: int
    """Number of its first line, from 1."""
    header: str | None
    """Header without the `>`; None for a sequence before the first header."""
    sequence: str
    error: str | None = None
    """The error of its first line that is not UTF-8."""

    @property
    def identifier(self) -> str:
        """The first word of the header."""
        return self.header.split(maxsplit=1)[0] if self.header else ""


def read_fasta(lines: Iterable[str], name: str, skip_errors: bool = False) -> Iterator[Record]:
    """The records of FASTA.

    Args:
        lines: without white space at their ends.
        name: of the input, for error messages.
        skip_errors: give an invalid entry as a record with its error, without tokens, and
            without a key unless its id is valid.

    Raises:
        InputError: an id is missing, cannot name a dataset or occurs twice, or a sequence has
            no header. It comes after the records before it, and names later errors too.
    """
    first_lines: dict[str, int] = {}  # of each id
    entries = _entries(lines)
    for entry in entries:
        error = _error(entry, first_lines)
        header = entry.header or ""
        text = f"{header}\n{entry.sequence}"
        if error and not skip_errors:
            rest = _errors(entries, first_lines)
            raise InputError(f"{name}, line {entry.line}: {error}{_summary(rest)}")
        if error:
            yield Record(text, [], error=f"{name}, line {entry.line}: {error}")
        else:
            tokens = [] if entry.error else list(entry.sequence)
            yield Record(text, tokens, entry.identifier, {ORIGINAL_ID: header}, entry.error)


def _entries(lines: Iterable[str]) -> Iterator[_Entry]:
    start = 0
    header: str | None = None
    parts: list[str] = []
    error: str | None = None
    for number, line in enumerate(lines, start=1):
        if line.startswith(">"):
            if start:
                yield _Entry(start, header, "".join(parts), error)
            start, header, parts, error = number, line[1:].strip(), [], None
        elif line:
            start = start or number
            parts.append("".join(line.split()).upper())
        if isinstance(line, InvalidLine):
            error = error or line.error
    if start:
        yield _Entry(start, header, "".join(parts), error)


def _error(entry: _Entry, first_lines: dict[str, int]) -> str | None:
    """What is wrong with an entry, if anything; its id is noted."""
    if entry.header is None:
        return (
            f"expected a header, `>` and an id, found {entry.sequence[:60]!r}; "
            "--input-format text reads a sentence a line"
        )
    identifier = entry.identifier
    if not identifier:
        return "expected an id after `>`, found none"
    if "\0" in entry.header:
        return f"the header of {identifier[:60]!r} holds a zero byte"
    if "/" in identifier or identifier == ".":
        return (
            f"the id {identifier[:60]!r} cannot name a dataset of HDF5; "
            "`sed '/^>/y,/,_,'` makes each / a _"
        )
    first = first_lines.setdefault(identifier, entry.line)
    if first != entry.line:
        return f"the id {identifier[:60]!r} is that of line {first} already"
    return None


def _errors(entries: Iterator[_Entry], first_lines: dict[str, int]) -> Iterator[str]:
    """The errors of the rest, up to a line that cannot be read."""
    try:
        for entry in entries:
            error = _error(entry, first_lines)
            if error:
                yield f"line {entry.line}: {error}"
    except InputError:
        return


def _summary(errors: Iterator[str]) -> str:
    shown = "".join(f"; {error}" for error in islice(errors, _MAX_SHOWN_ERRORS - 1))
    n_more = sum(1 for _ in errors)
    return shown + (f"; and {n_more:,} more" if n_more else "")
