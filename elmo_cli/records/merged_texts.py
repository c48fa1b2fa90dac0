"""Tables of words whose id names several texts, such as the conditions of an item."""

import logging
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import Final

from elmo_cli.errors.messages import Message
from elmo_cli.options.column_names import column_names_text
from elmo_cli.options.text import DEFAULT_ID
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.record import Record

logger = logging.getLogger(__name__)

SAMPLE_ROWS: Final = 200
"""Number of first rows in which texts are looked for."""
_MIN_SHARE: Final = 0.5
"""Minimum share of the ids that name several texts."""
_MIN_LIKENESS: Final = 0.5
"""Minimum share of the words that two texts of an item have in common."""


def note_merged(records: Iterable[Record], text_input: TextInput) -> Iterator[Record]:
    """Yield the rows of a table of words, and log whether an id names several texts.

    Such texts, of which another column has the names, have most of their words in
    common, unlike the sentences of a passage. The first rows decide.
    """
    sample: list[Record] = []
    n_rows = 0
    for record in records:
        if n_rows < SAMPLE_ROWS and record.error is None:
            sample.append(record)
        n_rows += 1
        if n_rows == SAMPLE_ROWS:
            _log_merged(sample, text_input)
        yield record
    if n_rows < SAMPLE_ROWS:
        _log_merged(sample, text_input)


def _log_merged(rows: Sequence[Record], text_input: TextInput) -> None:
    word_column = text_input.settings.word_column
    ids = text_input.settings.id_columns or (DEFAULT_ID,)
    groups: dict[str | None, list[Record]] = {}
    for row in rows:
        groups.setdefault(row.id, []).append(row)
    counts: Counter[str] = Counter()
    examples: dict[str, str | None] = {}
    for identifier, group in groups.items():
        for name in group[0].fields:
            if name not in (word_column, *ids) and _names_texts(name, group):
                counts[name] += 1
                examples.setdefault(name, identifier)
    if not counts:
        return
    [(name, n_groups)] = counts.most_common(1)
    if n_groups < _MIN_SHARE * len(groups):
        return
    columns = column_names_text([*ids, name])
    warning = Message(
        "{input_name}: the rows of {identifier} seem to be several texts, one for "
        "each {column}",
        remedy="Use {--id-column}={value}.",
        shell_remedy="Use {--id-column} {typed}.",
        input_name=text_input.source.name,
        identifier=repr(examples[name]),
        column=repr(name),
        value=repr(columns),
        typed=shlex.quote(columns),
    )
    logger.warning("%s", warning)


def _names_texts(name: str, rows: Sequence[Record]) -> bool:
    """Return whether a column divides the rows of an id into similar texts."""
    names: list[str] = []
    texts: list[list[str]] = []
    for value, block in groupby(rows, key=lambda row: str(row.fields.get(name))):
        names.append(value)
        texts.append([row.text for row in block])
    if len(texts) < 2 or len(set(names)) < len(names):
        return False
    if min(map(len, texts)) < 2:
        return False
    return all(_are_alike(first, second) for first, second in pairwise(texts))


def _are_alike(first: list[str], second: list[str]) -> bool:
    """Return whether two texts have most of their words in common, in their order."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    return matcher.ratio() >= _MIN_LIKENESS
