"""Report of what was read: each warning about an input is logged once.

`InputReport.see` takes each record as it passes, so a stream never waits. A check looks
once at a `Sample` of the first records, as large as it needs. A `Tally` counts
something in all records, and warns at the end.
"""

import logging
from collections.abc import Callable
from typing import Final

from elmo_cli.errors.messages import Message
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.record import Record
from elmo_cli.records.warnings import lines, texts, tokens
from elmo_cli.records.warnings.expected import Expected
from elmo_cli.records.warnings.not_proteins import NotProteins
from elmo_cli.records.warnings.sample import Sample
from elmo_cli.records.warnings.tallies import (
    LongTokens,
    MissingBlankLines,
    Tally,
    TypographicMarks,
    ascii_control_characters,
    byte_order_marks,
    control_characters,
)
from elmo_cli.text.tokenizers import WHITESPACE

logger = logging.getLogger(__name__)

InputCheck = Callable[[Sample], Message | str | None]

_TOKEN_CHECKS: Final[tuple[InputCheck, ...]] = (
    tokens.no_tokens,
    tokens.unspaced_script,
    tokens.other_domain,
    tokens.removed_forms,
    tokens.repeated_words,
)
"""Checks that wait for `SAMPLE_TOKENS`. The others wait for `SAMPLE_LINES`."""
CHECKS: Final[tuple[InputCheck, ...]] = (
    lines.hard_wrapping,
    *_TOKEN_CHECKS,
    texts.only_numbers,
    texts.words_as_texts,
    texts.sequences_as_words,
    texts.sentences_in_texts,
    texts.region_marks,
    lines.tabs_in_lines,
)


class InputReport:
    """Warnings about an input, each logged once."""

    def __init__(self, sample: Sample, number_unit: str = "line") -> None:
        """Report on an input.

        Args:
            sample: Sample without records, which says how the input is read.
            number_unit: What `Record.start` counts.
        """
        self._sample = sample
        self._number_unit = number_unit
        self._waiting: list[InputCheck] = list(CHECKS)
        self._tallies: list[Tally] = [
            ascii_control_characters(sample.source_name),
            control_characters(sample.source_name),
            byte_order_marks(sample.source_name),
        ]
        if sample.expected.token_limit is not None:
            self._tallies.append(LongTokens(sample.expected.token_limit))
        if sample.expected.language == "English":
            self._tallies.append(TypographicMarks(seems_raw=sample.seems_raw))
        if sample.has_residues:
            self._tallies.append(NotProteins())
        if not sample.is_text:
            self._tallies.append(MissingBlankLines())

    def see(self, record: Record) -> None:
        """Take the next record."""
        for tally in self._tallies:
            tally.see(record)
        if not self._waiting:
            return
        self._sample.add(record)
        has_lines = self._sample.has_lines(record)
        has_tokens = self._sample.has_tokens
        for check in list(self._waiting):
            is_due = has_tokens if check in _TOKEN_CHECKS else has_lines
            if is_due:
                self._run(check)

    def end(self, *, is_complete: bool) -> None:
        """Log the other warnings; `is_complete` is False if only a part was read."""
        for tally in self._tallies:
            if tally.n_found:
                first = f"{self._number_unit} {tally.first:,}"
                logger.warning("%s", tally.warning(first))
        if is_complete:
            for check in list(self._waiting):
                self._run(check)

    def _run(self, check: InputCheck) -> None:
        self._waiting.remove(check)
        warning = check(self._sample)
        if warning is not None:
            logger.warning("%s", warning)


def report_for(text_input: TextInput, expected: Expected) -> InputReport:
    """Return the report on an input."""
    is_plain = text_input.format.is_plain
    has_columns = text_input.format.has_columns
    is_split = text_input.tokenizer.splits_by is not None
    # Functions are compared, because a name may belong to a changed tokenizer.
    tokenizes_at_spaces = text_input.tokenizer.tokenize is WHITESPACE.tokenize
    sample = Sample(
        source_name=text_input.source.name,
        is_text=is_plain and not text_input.settings.paragraphs,
        is_split_at_spaces=tokenizes_at_spaces and not text_input.format.has_tokens,
        is_table=has_columns,
        is_whole=(has_columns or is_plain) and not is_split,
        has_sequences=text_input.format.has_sequences,
        has_word_rows=text_input.settings.word_column is not None,
        has_residues=text_input.format.has_sequences
        or text_input.tokenizer.name == "residues",
        seems_raw=text_input.seems_raw,
        expected=expected,
    )
    return InputReport(sample, text_input.format.number_unit)
