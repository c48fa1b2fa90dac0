"""Target words: those whose uses alone are wanted, with all their forms."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from elmo_cli.errors import InputError
from elmo_cli.text.lines import Record, open_lines

POSITIONS: Final = "positions"
"""The attribute of a record that says which of its tokens are wanted, from 0."""


def read_targets(path: str | Path) -> dict[str, str]:
    """Read a file of target words.

    Args:
        path: a word a line, or a word and its forms with commas between: `lemma,form,form`.

    Returns:
        The word of each form; a word is a form of itself.

    Raises:
        InputError: the file cannot be read, has no word, or a form belongs to two words.
    """
    targets: dict[str, str] = {}
    with open_lines(path) as (lines, _):
        for number, line in enumerate(lines, start=1):
            forms = [form.strip() for form in line.split(",")]
            if line == ",":  # the word itself
                forms = [line]
            for form in filter(None, forms):
                word = targets.setdefault(form, forms[0])
                if word != forms[0]:
                    raise InputError(
                        f"{path}, line {number}: {form!r} is a form of {word!r} already; expected "
                        "each form once"
                    )
    if not targets:
        raise InputError(f"{path}: expected a word a line, found nothing")
    return targets


def target_record(record: Record, words: Mapping[str, str]) -> Record:
    """A record of which only some words are wanted; one without any becomes a blank line."""
    positions = [str(place) for place, token in enumerate(record.tokens) if token in words]
    if not positions:
        return record._replace(text="", tokens=[])
    return record._replace(attributes={**record.attributes, POSITIONS: ",".join(positions)})


def target_positions(record: Record) -> list[int]:
    """The places of the tokens of a record that are wanted, which are all if it does not say."""
    positions = record.attributes.get(POSITIONS)
    if positions is None:
        return list(range(len(record.tokens)))
    return [int(position) for position in positions.split(",")]
