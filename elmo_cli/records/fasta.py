"""FASTA: one sequence per record, whose residues are the tokens."""

from collections.abc import Iterable, Iterator
from itertools import chain

from elmo_cli.options.text import TextSettings
from elmo_cli.records.conllu import READ_AS_TEXT
from elmo_cli.records.record import ORIGINAL_ID, Entry, Record
from elmo_cli.text.line_reader import InvalidLine
from elmo_cli.text.tokenizers import Tokenizer, split_residues


def fasta_entries(
    lines: Iterable[str], tokenizer: Tokenizer, settings: TextSettings
) -> Iterator[Entry]:
    """Yield the sequences of FASTA, which is tokenized."""
    start, group = 0, list[str]()
    for number, line in enumerate(chain(lines, [">"]), start=1):
        if group and line.startswith(">"):
            yield _fasta_entry(start, group)
            group = []
        if line:
            start = start if group else number
            group.append(line)


def _fasta_entry(start: int, lines: list[str]) -> Entry:
    """Return the entry of a header and its sequence, which begin in line `start`."""
    has_header = lines[0].startswith(">")
    header = lines[0][1:].strip() if has_header else ""
    identifier = header.split(maxsplit=1)[0] if header else ""
    residues = split_residues("".join(lines[has_header:]))
    sequence = "".join(residues)
    error = None
    if not has_header:
        error = (
            f"expected a header, `>` and an id, found {sequence[:60]!r}. {READ_AS_TEXT}"
        )
    elif not header:
        error = "expected an id after `>`, found none"
    elif "\0" in header:
        error = f"the header of {identifier[:60]!r} has a zero byte"
    unreadable = next(
        (line.error for line in lines if isinstance(line, InvalidLine)), None
    )
    tokens = [] if unreadable else residues
    text = f"{header}\n{sequence}"
    return Entry(
        start,
        Record(text, tokens, identifier, {ORIGINAL_ID: header}, unreadable),
        error,
    )
