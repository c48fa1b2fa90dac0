"""Run over a text whose surprisal is measured: its rows, and what it counts."""

from collections.abc import Callable
from dataclasses import dataclass, field

from elmo_cli.callbacks import ignore
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.scored_records import WriteRows
from elmo_cli.language_model.surprisal_table import MeasuredRecord, SurprisalTable
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.records.open_records import Records


@dataclass
class SurprisalSummary:
    """What a run has measured."""

    n_tokens: int = 0
    n_unknown: int = 0
    n_rows: int = 0
    n_without_frequency: int = 0
    """Number of rows without a log frequency."""
    n_sharing: int = 0
    """Number of units that share a token with another one."""
    sharing: str = ""
    """Text of the first unit that shares a token with another one."""
    n_with_tokens: int = 0
    """Number of records that have tokens."""
    first_records: list[MeasuredRecord] = field(default_factory=list)
    """First records that have tokens, for a picture."""

    def add(self, measured: MeasuredRecord) -> None:
        """Count the tokens and rows of a record."""
        self.n_tokens += len(measured.record.tokens)
        if measured.record.tokens:
            self.n_with_tokens += 1
        self.n_rows += len(measured.result)
        for unit in measured.result:
            self.n_unknown += unit.n_unknown
            if unit.log_frequency is None:
                self.n_without_frequency += 1
            if not unit.is_whole:
                self.n_sharing += 1
                self.sharing = self.sharing or unit.text

    @property
    def few_have_frequencies(self) -> bool:
        """True if most rows have no log frequency."""
        return 2 * self.n_without_frequency > self.n_rows


def run_surprisal(
    table: SurprisalTable,
    model: LanguageModel,
    records: Records,
    *,
    write: WriteRows,
    batch_size: int = DEFAULT_BATCH_SIZE,
    n_first: int = 0,
    on_tokens: Callable[[int], object] = ignore,
) -> SurprisalSummary:
    """Measure the surprisal of the records of a text, and write their rows.

    Args:
        table: What is measured, and the columns of the rows.
        model: Language model.
        records: Records of the open text.
        write: Called with the rows of each record, once they are computed.
        batch_size: Sentences per batch; only matters with carried state.
        n_first: Maximum number of `SurprisalSummary.first_records`.
        on_tokens: Called after each record with the number of tokens so far.
    """
    summary = SurprisalSummary()
    measured_records = table.measure(
        model, records.records, batch_size=batch_size, is_ready=records.is_ready
    )
    for measured in measured_records:
        _write_record(table, measured, write)
        if measured.record.tokens and len(summary.first_records) < n_first:
            summary.first_records.append(measured)
        summary.add(measured)
        on_tokens(summary.n_tokens)
    return summary


def _write_record(
    table: SurprisalTable, measured: MeasuredRecord, write: WriteRows
) -> None:
    """Write the rows of a record. A word that was a row keeps its columns."""
    record = measured.record
    rows = [table.row(unit) for unit in measured.result]
    if not record.word_columns:
        write(rows, record.columns, measured.names)
        return
    for row, columns in zip(rows, record.word_columns, strict=True):
        write([row], columns, measured.names)
