"""FASTA to records: a sequence a record, a residue a token.

    >sp|P69905|HBA_HUMAN Hemoglobin    the header; its first word is the id
    MVLSPADKTNVKAAWG                   the sequence, in any number of lines
    kvgahageygaealer*

As in SeqVec, white space is dropped and letters become upper case; every other character
(`*`, `-`, `X`) is a token. A sequence may be empty. The id names a dataset of HDF5: it is
required and unique, is not "." and contains no "/".
"""

from collections.abc import Iterable, Iterator

from elmo_cli.text.entries import Entry, checked_records
from elmo_cli.text.lines import InvalidLine, Record

ORIGINAL_ID = "original_id"
"""Attribute of a dataset with the whole header, named as in bio_embeddings."""


def read_fasta(lines: Iterable[str], name: str, skip_errors: bool = False) -> Iterator[Record]:
    """The records of FASTA, from lines without white space at their ends; see `checked_records`.

    Raises:
        InputError: an id is missing, cannot name a dataset or occurs twice, or a sequence has
            no header.
    """
    return checked_records(_entries(lines), name, skip_errors)


def _entries(lines: Iterable[str]) -> Iterator[Entry]:
    start = 0
    header: str | None = None
    parts: list[str] = []
    error: str | None = None
    for number, line in enumerate(lines, start=1):
        if line.startswith(">"):
            if start:
                yield _entry(start, header, "".join(parts), error)
            start, header, parts, error = number, line[1:].strip(), [], None
        elif line:
            start = start or number
            parts.append("".join(line.split()).upper())
        if isinstance(line, InvalidLine):
            error = error or line.error
    if start:
        yield _entry(start, header, "".join(parts), error)


def _entry(line: int, header: str | None, sequence: str, unreadable: str | None) -> Entry:
    """The entry of a sequence.

    Args:
        line: number of its first line.
        header: without the `>`; None for a sequence before the first header.
        sequence: its residues.
        unreadable: the error of its first line that is not UTF-8.
    """
    identifier = header.split(maxsplit=1)[0] if header else ""
    record = Record(
        f"{header or ''}\n{sequence}",
        [] if unreadable else list(sequence),
        identifier,
        {ORIGINAL_ID: header or ""},
        unreadable,
    )
    return Entry(line, record, _error(header, identifier, sequence))


def _error(header: str | None, identifier: str, sequence: str) -> str | None:
    if header is None:
        return (
            f"expected a header, `>` and an id, found {sequence[:60]!r}; "
            "--input-format text reads a sentence a line"
        )
    if not identifier:
        return "expected an id after `>`, found none"
    if "\0" in header:
        return f"the header of {identifier[:60]!r} holds a zero byte"
    if "/" in identifier or identifier == ".":
        return (
            f"the id {identifier[:60]!r} cannot name a dataset of HDF5; "
            "`sed '/^>/y,/,_,'` makes each / a _"
        )
    return None
