"""FASTA to records: a protein each, a residue a token.

    >sp|P69905|HBA_HUMAN Hemoglobin    the header; its first word is the id
    MVLSPADKTNVKAAWG                   the sequence, in any number of lines
    kvgahageygaealer*

As SeqVec reads it: white space is dropped, letters become upper case, every other
character (`*`, `-`, `X`) is a token like any. A sequence may be empty. The id names
a dataset of HDF5, so it is there, is no "." and has no "/", and occurs once.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.text.lines import FaultyLine, Record

ORIGINAL_ID = "original_id"
"""The attribute of a dataset that holds the whole header, as bio_embeddings called it."""

_FAULTS_SHOWN = 5


class _Entry(NamedTuple):
    line: int
    """Where it starts, from 1."""
    header: str | None
    """Without the `>`; None where the sequence comes before any header."""
    sequence: str
    fault: str | None = None
    """Of its lines, one that is not UTF-8."""

    @property
    def identifier(self) -> str:
        """The first word of the header."""
        return self.header.split(maxsplit=1)[0] if self.header else ""


def read_fasta(lines: Iterable[str], name: str, skip_errors: bool = False) -> Iterator[Record]:
    """The records of FASTA.

    Args:
        lines: without white space at their ends.
        name: of the input, for error messages.
        skip_errors: give an entry that is at fault as a record with that fault, without
            tokens, and without a key unless its id is good.

    Raises:
        InputError: ids are missing, cannot name a dataset or occur twice, or there is no
            header before a sequence. The records before the first fault are given; the
            error tells of the faults after it too.
    """
    first_lines: dict[str, int] = {}  # of each id
    entries = _entries(lines)
    for entry in entries:
        fault = _fault(entry, first_lines)
        header = entry.header or ""
        text = f"{header}\n{entry.sequence}"
        if fault and not skip_errors:
            rest = _faults(entries, first_lines)
            raise InputError(f"{name}, line {entry.line}: {fault}{_summary(rest)}")
        if fault:
            yield Record(text, [], fault=f"{name}, line {entry.line}: {fault}")
        else:
            tokens = [] if entry.fault else list(entry.sequence)
            yield Record(text, tokens, entry.identifier, {ORIGINAL_ID: header}, entry.fault)


def _entries(lines: Iterable[str]) -> Iterator[_Entry]:
    start = 0
    header: str | None = None
    parts: list[str] = []
    fault: str | None = None
    for number, line in enumerate(lines, start=1):
        if line.startswith(">"):
            if start:
                yield _Entry(start, header, "".join(parts), fault)
            start, header, parts, fault = number, line[1:].strip(), [], None
        elif line:
            start = start or number
            parts.append("".join(line.split()).upper())
        if isinstance(line, FaultyLine):
            fault = fault or line.fault
    if start:
        yield _Entry(start, header, "".join(parts), fault)


def _fault(entry: _Entry, first_lines: dict[str, int]) -> str | None:
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


def _faults(entries: Iterator[_Entry], first_lines: dict[str, int]) -> Iterator[str]:
    """The faults of the rest, up to a line that cannot be read."""
    try:
        for entry in entries:
            fault = _fault(entry, first_lines)
            if fault:
                yield f"line {entry.line}: {fault}"
    except InputError:
        return


def _summary(faults: Iterator[str]) -> str:
    shown = "".join(f"; {fault}" for fault in islice(faults, _FAULTS_SHOWN - 1))
    n_more = sum(1 for _ in faults)
    return shown + (f"; and {n_more:,} more" if n_more else "")
