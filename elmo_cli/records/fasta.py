"""FASTA: one sequence per record, one token per residue.

As in SeqVec, whitespace is removed, letters become upper case, and every other
character (`*`, `-`, `X`) is a token.

    >sp|P69905|HBA_HUMAN Hemoglobin    the header; its first word is the id
    MVLSPADKTNVKAAWG                   the sequence, in any number of lines, or none
    kvgahageygaealer*
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from elmo_cli.errors.messages import Message
from elmo_cli.records.input_format import InputFormat, TextInput
from elmo_cli.records.record import Record
from elmo_cli.text.line_reader import Line
from elmo_cli.text.tokenizers import split_residues

HEADER: Final = re.compile(r">[^\s>]")
_SEQUENCE: Final = re.compile(r"[A-Za-z*-]+")


class Fasta(InputFormat):
    """Sequences of proteins with headers."""

    name = "fasta"
    unit = "sequence"
    suffixes = (".fasta", ".fa", ".faa", ".fas")
    ids = "always"
    has_tokens = True
    has_sequences = True
    splits_at_cr = True
    has_parts = True

    def starts_record(self, line: str) -> bool:
        """Return whether a line is a header."""
        return line.startswith(">")

    def is_like(self, lines: Sequence[str]) -> bool:
        """Return whether a header comes first, and a sequence second."""
        if len(lines) < 2 or not HEADER.match(lines[0]):
            return False
        return _SEQUENCE.fullmatch(lines[1]) is not None

    def parse(self, lines: Iterable[Line], text_input: TextInput) -> Iterator[Record]:
        """Yield the sequences."""
        sequence: list[Line] = []
        for line in lines:
            if sequence and line.text.startswith(">"):
                yield _record_of_sequence(sequence, text_input)
                sequence = []
            if line.text:
                sequence.append(line)
        if sequence:
            yield _record_of_sequence(sequence, text_input)


def _record_of_sequence(lines: list[Line], text_input: TextInput) -> Record:
    """Return the record of a header and the lines of its sequence."""
    start = lines[0].number
    header = ""
    texts = [line.text for line in lines]
    has_header = texts[0].startswith(">")
    if has_header:
        header = texts.pop(0)[1:].strip()
    identifier = header.split(maxsplit=1)[0] if header else ""
    residues = split_residues("".join(texts))
    sequence = "".join(residues)
    content = f"{header}\n{sequence}"
    problem: Message | str | None = None
    if not has_header:
        problem = Message(
            f"expected a header, `>` and an id, found {sequence[:60]!r}",
            remedy="Use {--input-format text} to read one sentence per line.",
        )
    elif not header:
        problem = "expected an id after `>`, found none"
    elif "\0" in header:
        problem = f"the header of {identifier[:60]!r} has a zero byte"
    if problem is not None:
        return Record(
            content, residues, error=text_input.error_at(start, problem), start=start
        )
    for line in lines:
        if line.error is not None:
            return Record(
                content,
                [],
                id=identifier,
                error=line.error,
                start=start,
                original_id=header,
            )
    return Record(content, residues, id=identifier, start=start, original_id=header)
