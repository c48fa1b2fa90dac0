"""Sink of a run over a file, which writes what was embedded and counts it."""

import logging
import shutil
import time
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from elmo_cli.errors.messages import Message, spelled_as_options
from elmo_cli.errors.wording import SAYS_ITS_KIND, counted, size_text
from elmo_cli.options.output import STANDARD_OUTPUT
from elmo_cli.outputs.finite import FiniteCheck
from elmo_cli.outputs.saved_output import ResumePoint, end_attributes
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.records.open_records import Records
from elmo_cli.records.progress import Progress
from elmo_cli.records.record import Record
from elmo_cli.runs.file_plan import FilePlan
from elmo_cli.runs.pipeline import EmbeddedRecord, RecordEmbedder

logger = logging.getLogger(__name__)


_MAX_SHOWN_ERRORS: Final = 20
"""Maximum number of skipped records that are named in the log."""
_RECORD_BYTES: Final = 400
"""Approximate bytes that HDF5 itself takes per dataset."""


@dataclass
class Summary:
    """Summary of a run, so far or in total."""

    n_records: int = 0
    """Number of records, such as sentences, that it has read in this run."""
    n_tokens: int = 0
    """Number of their tokens."""
    n_bytes: int = 0
    """Bytes of the input that have been read, in this run or an earlier one."""
    seconds: float = 0.0
    """Time since the input was opened."""
    resumed_from: int = 0
    """Number of records that an earlier run had read, or 0."""
    n_written_earlier: int = 0
    """Number of records in the output that an earlier run has written."""
    was_complete: bool = False
    """True if the output was complete already, and has been left unchanged."""


@dataclass
class FileSink:
    """Sink of one pass over an input: it writes to an open output, and counts."""

    plan: FilePlan
    embedder: RecordEmbedder
    writer: ActivationsWriter
    records: Records
    summary: Summary
    """Summary so far, without the time; see `summary_so_far`."""
    started: float
    """Time when the input was opened."""
    n_done: int = 0
    """Number of the last record of the input that was written."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reason for each skipped record, by its id or index."""
    n_empty: int = 0
    """Number of records without tokens, apart from skipped ones."""
    n_values: int = 0
    """Number of values that were written."""
    _has_logged_size: bool = field(default=False, init=False)
    """True after the first window, or from the start if the run resumes."""
    finite: FiniteCheck = field(init=False)

    def __post_init__(self) -> None:
        self.finite = FiniteCheck(
            output=self.plan.output_path,
            unit=self.plan.unit,
            dtype=self.plan.output_settings.dtype,
        )

    def resume_from(self, point: ResumePoint) -> None:
        """Continue the counts of an earlier run, and the state of its encoder."""
        self.embedder.engine.encoder.restore(dict(point.encoder_state))
        self.skipped = dict(point.skipped)
        self.n_empty = point.n_empty
        self.n_done = point.progress.n_records
        self.summary.resumed_from = point.progress.n_records
        self.summary.n_written_earlier = self.writer.n_records
        self._has_logged_size = True

    def write(self, embedded: EmbeddedRecord) -> None:
        """Write a record, or note why it is skipped."""
        record = embedded.record
        activations = embedded.activations
        if record.error is None:
            self.finite.add(activations, embedded.number)
            if not record.tokens:
                self.n_empty += 1
        else:
            self._note_skipped(record, embedded.number, record.error)
        # Only the packed layout has a row for a record without an id.
        is_packed = self.plan.output_settings.is_packed
        if record.id is not None or not self.records.has_ids or is_packed:
            self.writer.write(record, activations)
        self.n_done = embedded.number
        self.summary.n_records += 1
        self.summary.n_tokens += len(record.tokens)
        self.n_values += activations.size

    def checkpoint(self, progress: Progress) -> None:
        """Make a checkpoint, from which the same command resumes."""
        self.writer.checkpoint(self._point_at(progress))

    def finish(self, progress: Progress) -> None:
        """Complete the output; `progress` is that at the end of the input."""
        n_skipped = len(self.skipped)
        if n_skipped > _MAX_SHOWN_ERRORS:
            logger.warning(
                "Skipped %s in all",
                counted(n_skipped, self.plan.unit),
                extra=SAYS_ITS_KIND,
            )
        self._describe_example()
        has_ids = self.records.has_ids and self.plan.text_input.format.ids != "always"
        attributes = end_attributes(
            self.writer.n_records, progress, self.skipped, has_ids=has_ids
        )
        self.writer.finish(self._point_at(progress), attributes)

    def _point_at(self, progress: Progress) -> ResumePoint:
        return ResumePoint(
            progress=progress,
            encoder_state=self.embedder.engine.encoder.saved_state(),
            skipped=self.skipped,
            n_empty=self.n_empty,
        )

    def _describe_example(self) -> None:
        """Give a file without rows the columns and types of one token."""
        selection = self.embedder.selection
        values = self.embedder.engine.empty_activations(selection)
        if selection.pooling is None:
            # (..., 0, W) -> (..., 1, W)
            shape = list(values.shape)
            shape[-2] = 1
            values = np.zeros(shape, np.float32)
        self.writer.describe(self.records.example._replace(tokens=[""]), values)

    def summary_so_far(self) -> Summary:
        """Return the summary so far, with the time."""
        return replace(self.summary, seconds=time.monotonic() - self.started)

    def last_record(self) -> str:
        """Return the last record that was written, for a message."""
        return f"{self.plan.unit} {self.n_done:,}"

    def _note_skipped(self, record: Record, number: int, reason: str | Message) -> None:
        if record.id:
            name = record.id
        elif self.records.has_ids:
            name = f"{self.plan.unit} {number}"
        else:
            name = str(number - 1)
        self.skipped[name] = spelled_as_options(reason)
        if len(self.skipped) <= _MAX_SHOWN_ERRORS:
            logger.warning("Skipped: %s", reason, extra=SAYS_ITS_KIND)

    def log_size_once(self) -> None:
        """Log how large the output will be, by the first records that were written."""
        if self._has_logged_size:
            return
        self._has_logged_size = True
        plan = self.plan
        n_input = plan.text_input.source.size
        n_read = self.summary.n_bytes
        if not n_input or not n_read or str(plan.output_path) == STANDARD_OUTPUT:
            return
        n_written = (
            _value_bytes(plan) * self.n_values + _RECORD_BYTES * self.summary.n_records
        )
        n_bytes = n_written / n_read * n_input
        free = shutil.disk_usage(self.writer.path.parent).free
        sizes = f"about {size_text(n_bytes)} to be written, {size_text(free)} free"
        n_missing = n_bytes - n_written
        is_little = n_missing > free / 2
        logger.log(logging.INFO if is_little else logging.DEBUG, "Output: %s", sizes)
        if n_missing > free:
            remedy = (
                "Use {--layers average}, {--pooling mean} or {--dtype float16} to "
                "write less."
            )
            warning = Message(f"{self.writer.path}: {sizes}", remedy=remedy)
            logger.warning("%s", warning)


def _value_bytes(plan: FilePlan) -> int:
    """Return the bytes of a value in the output, about."""
    text_bytes = plan.output_settings.format.text_bytes
    if text_bytes is not None:
        return text_bytes
    return 4 if plan.output_settings.dtype == "float32" else 2


def log_empty(n_empty: int, unit: str, *, pooled: bool) -> None:
    """Log how many records have no text. Their pooled vectors are zeros."""
    if n_empty:
        zeros = ", whose vectors are zeros" if pooled else ""
        logger.warning("%s without text%s", counted(n_empty, unit), zeros)
