"""Target words with their forms, and their positions in records."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from elmo_cli.errors import InputError, counted, shown
from elmo_cli.text.lines import open_lines
from elmo_cli.text.records import Record

WORDS: Final = "words"
"""Attribute of a file with the target word of each form, as JSON. Files of all tokens lack it."""
POSITIONS: Final = "positions"
"""Attribute of a record with the positions of its target words, separated by commas."""


def read_targets(path: str | Path) -> dict[str, str]:
    """Read a file of target words.

    A line has a word, or a word and its forms separated by commas: `lemma,form,form`.

    Returns:
        The word of each form. A word is a form of itself.
    """
    targets: dict[str, str] = {}
    with open_lines(path) as (lines, _):
        for number, line in enumerate(lines, start=1):
            forms = [form.strip() for form in line.split(",")]
            if line == ",":  # The target word is a comma.
                forms = [line]
            for form in filter(None, forms):
                word = targets.setdefault(form, forms[0])
                if word != forms[0]:
                    raise InputError(
                        f"{path}, line {number}: {form!r} is a form of {word!r} already. Name "
                        "each form once."
                    )
    if not targets:
        raise InputError(f"{path}: no words. Write one word per line, or lemma,form,form.")
    return targets


def target_record(record: Record, words: Mapping[str, str]) -> Record:
    """Return a record with the positions of its target words. Without any, it becomes blank."""
    positions = [str(position) for position, token in enumerate(record.tokens) if token in words]
    if not positions:
        return record._replace(text="", tokens=[])
    return record._replace(attributes={**record.attributes, POSITIONS: ",".join(positions)})


def target_positions(record: Record) -> list[int]:
    """Return the positions of the target words of a record, or all positions without targets.

    Raises:
        InputError: The positions are damaged.
    """
    text = record.attributes.get(POSITIONS)
    if text is None:
        return list(range(len(record.tokens)))
    if not record.tokens:  # The record was skipped.
        return []
    positions = [int(part) if part.isdecimal() else -1 for part in text.split(",")]
    if not all(0 <= position < len(record.tokens) for position in positions):
        raise InputError(
            f"the file is damaged: expected positions of {counted(len(record.tokens), 'token')}, "
            f"found {shown(text)!r}"
        )
    return positions
