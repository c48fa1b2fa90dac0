"""Target words: those whose uses are wanted, with all their forms."""

from collections.abc import Iterable
from pathlib import Path

from elmo_cli.errors import InputError
from elmo_cli.text.lines import open_lines


def read_targets(path: str | Path) -> dict[str, str]:
    """Read a file of target words.

    Args:
        path: a word a line, or a word and its forms with commas between: `lemma,form,form`.

    Returns:
        The word of each form; a word is a form of itself.

    Raises:
        InputError: the file cannot be read, has no word, or a form belongs to two words.
    """
    with open_lines(path) as lines:
        targets = _targets(path, lines)
    if not targets:
        raise InputError(f"{path}: expected a word a line, found nothing")
    return targets


def _targets(path: str | Path, lines: Iterable[str]) -> dict[str, str]:
    targets: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        forms = [form.strip() for form in line.split(",")]
        if line == ",":  # the word itself
            forms = [line]
        for form in filter(None, forms):
            word = targets.setdefault(form, forms[0])
            if word != forms[0]:
                raise InputError(
                    f"{path}, line {number}: {form!r} is a form of {word!r} already; expected each "
                    "form once"
                )
    return targets
