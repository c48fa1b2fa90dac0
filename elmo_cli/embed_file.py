"""A text file to an output file: read, embed, write, checkpoint.

docs/architecture.md explains checkpoints.
"""

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from elmo_cli.callbacks import ignore, never
from elmo_cli.engine import Engine
from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import (
    ComputationError,
    ElmoError,
    InputError,
    OtherInputError,
    OutputError,
    StoppedError,
)
from elmo_cli.errors.messages import Message, spelled_as_options
from elmo_cli.errors.wording import SAYS_ITS_KIND, counted, first_line, size_text
from elmo_cli.file_plan import FilePlan
from elmo_cli.files.output_checks import check_not_read
from elmo_cli.inference.memory import is_out_of_memory
from elmo_cli.model.architecture import ModelOptions
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.options.output import STANDARD_OUTPUT
from elmo_cli.options.shard import WHOLE
from elmo_cli.outputs.finite import FiniteCheck
from elmo_cli.outputs.output_formats import names_datasets_by_id, shows_repeated_ids
from elmo_cli.outputs.sentence_rows import SentenceRows
from elmo_cli.outputs.writer import ActivationsWriter, end_attributes
from elmo_cli.pipeline import EmbeddedRecord, RecordEmbedder, write_records
from elmo_cli.records.ids import IdChecker
from elmo_cli.records.open_records import Records, open_records
from elmo_cli.records.progress import Progress, ShardReader
from elmo_cli.records.record import Record
from elmo_cli.records.warnings.expected import expected_input

logger = logging.getLogger(__name__)

Array = NDArray[Any]

# maximum number of skipped records that are named in the log
_MAX_SHOWN_ERRORS: Final = 20
_RECORD_BYTES: Final = 400  # approximate bytes that HDF5 itself takes per dataset
# records of an earlier run between calls of `should_stop`
_PASSED_RECORDS: Final = 1 << 14


@dataclass
class Summary:
    """Summary of a run, so far or in total."""

    n_records: int = 0
    """Number of records, such as sentences, that it has embedded."""
    n_tokens: int = 0
    """Number of their tokens."""
    n_bytes: int = 0
    """Bytes of the input that have been read, in this run or an earlier one."""
    seconds: float = 0.0
    """Time since the input was opened."""
    resumed_from: int = 0
    """Number of records that an earlier run had read, or 0."""
    was_complete: bool = False
    """True if the output was complete already, and has been left unchanged."""

    @property
    def n_sentences(self) -> int:
        """Number of records, by an older name."""
        return self.n_records


class RunState(TypedDict):
    """State of a run at a checkpoint, from which the same command resumes."""

    place: Progress
    """Progress in the input, which is a list when it is read from JSON."""
    states: dict[str, str]
    """State of the encoder."""
    skipped: dict[str, str]
    """Reason for each skipped record, by its id or number."""
    n_empty: int
    """Number of records without tokens, apart from skipped ones."""


def embed_file(
    engine: Engine,
    plan: FilePlan,
    batch_size: int = DEFAULT_BATCH_SIZE,
    on_progress: Callable[[Summary], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Summary:
    """Embed a file, or the rest of it if a run was interrupted.

    `on_progress` and `should_stop` are called after each window.
    """

    def embed_and_finish(file_run: FileRun) -> None:
        progress = file_run.embed_rest_of_input()
        if progress is not None:
            file_run.finish(progress, warns_about_empty=True)

    return run_over_file(
        engine,
        plan,
        embed_and_finish,
        batch_size=batch_size,
        on_progress=on_progress,
        should_stop=should_stop,
    )


def run_over_file(
    engine: Engine,
    plan: FilePlan,
    act_on: Callable[["FileRun"], object],
    *,
    batch_size: int = DEFAULT_BATCH_SIZE,
    attributes: Mapping[str, str] = MappingProxyType({}),
    rows_type: type[SentenceRows] | None = None,
    on_progress: Callable[[Summary], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Summary:
    """Open the output and the input of a plan, and act on the run over them.

    Args:
        engine: Model.
        plan: Plan of the run.
        act_on: Function that calls `FileRun.embed_rest_of_input` and `FileRun.finish`.
            It is called once more if the run starts over, because the unfinished output
            is of another input.
        batch_size: Sentences per batch, of a carried state.
        attributes: Further attributes of the output. A run resumes only if they are
            equal.
        rows_type: Rows of Parquet that replace those of the plan.
        on_progress: Called after each window.
        should_stop: Called after each window.
    """
    settings = plan.output_settings
    check_not_read(plan.output_path, engine.files.paths)
    on_progress = on_progress or ignore
    should_stop = should_stop or never
    for name, function in (("on_progress", on_progress), ("should_stop", should_stop)):
        check_type(name, function, Callable, "a function")  # type: ignore[arg-type]
    selection = plan.selection.for_model(engine.options.n_layers)
    splits_records = plan.text.splits_records
    if splits_records and engine.state == "carry" and batch_size != 1:
        problem = (
            "{--state carry} with {--split-sentences} of a table requires "
            "{--batch-size 1}, not {batch_size}."
        )
        raise InputError(Message(problem, batch_size=batch_size))
    embedder = RecordEmbedder(
        engine=engine,
        selection=selection,
        unit=plan.unit,
        batch_size=batch_size,
        skip_errors=plan.text.settings.skip_errors,
        splits_records=splits_records,
    )
    all_attributes = {
        **engine.attributes(selection, batch_size),
        "format": plan.text.format.name,
        **plan.text.tokenizer.to_attributes(),
        **attributes,
    }
    if plan.shard is not None:
        all_attributes["shard"] = str(plan.shard)

    with ActivationsWriter(
        plan.output_path,
        settings,
        all_attributes,
        overwrite=plan.overwrite,
        rows_type=rows_type,
        should_stop=should_stop,
    ) as writer:

        def pass_over_input() -> Summary:
            started = time.monotonic()
            summary = Summary()

            def count_bytes(n_bytes: int) -> None:
                summary.n_bytes += n_bytes

            with open_records(
                plan.text,
                expected_input(engine.files.name, engine.options.token_limit),
                id_checker=IdChecker(name_datasets=names_datasets_by_id(settings)),
                numbers_repeated=shows_repeated_ids(settings),
                finds_integers=settings.format.has_rows,
                on_bytes=count_bytes,
                should_stop=should_stop,
            ) as records:
                file_run = FileRun(
                    plan=plan,
                    embedder=embedder,
                    writer=writer,
                    records=records,
                    on_progress=on_progress,
                    should_stop=should_stop,
                    started=started,
                    summary=summary,
                )
                act_on(file_run)
            return file_run.timed_summary()

        try:
            return pass_over_input()
        except OtherInputError:
            if not plan.overwrite:
                raise
            writer.clear()
            # The beginning of a stream cannot be reread.
            if plan.text.source.size is None:
                raise
            return pass_over_input()


def checkpoint_tokens(options: ModelOptions) -> int:
    """Return the number of tokens between two checkpoints.

    They take about 10 seconds on two cores. It is a multiple of the windows on a CPU
    and of the batches on a GPU. It depends on the model alone, because checkpoints
    change the bytes of a file, and all machines write equal bytes.
    """
    return 2**27 // max(options.lstm.dim, 1024)


def log_empty(n_empty: int, unit: str, *, pooled: bool) -> None:
    """Log how many records have no text. Their pooled vectors are zeros."""
    if n_empty:
        zeros = ", whose vectors are zeros" if pooled else ""
        logger.warning("%s without text%s", counted(n_empty, unit), zeros)


@dataclass
class FileRun:
    """One pass over an open input, and the sink of what it writes to an open output."""

    plan: FilePlan
    embedder: RecordEmbedder
    writer: ActivationsWriter
    records: Records
    on_progress: Callable[[Summary], object]
    should_stop: Callable[[], bool]

    started: float
    """Time when the input was opened."""
    summary: Summary
    """Summary so far, whose `seconds` are set by `timed_summary`."""
    n_done: int = 0
    """Number of the last record of the input that was written."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reason for each skipped record, by its id or number."""
    n_empty: int = 0
    """Number of records without tokens, apart from skipped ones."""
    n_values: int = 0
    has_progress: bool = False
    """True after the first window."""
    finite: FiniteCheck = field(init=False)

    def __post_init__(self) -> None:
        plan = self.plan
        self.finite = FiniteCheck(
            plan.output_path, plan.unit, plan.output_settings.dtype
        )

    def embed_rest_of_input(
        self,
        keep: Callable[[Record], Record] = lambda record: record,
        select: Callable[[EmbeddedRecord], EmbeddedRecord] | None = None,
    ) -> Progress | None:
        """Read the input; embed and write what the output does not contain yet.

        Args:
            keep: Function that gives what is embedded of each record.
            select: Function that gives what is written of each embedded record. By
                default, that is all of it.

        Returns:
            The progress at the end of the input. None if the output was complete
            already.
        """
        plan = self.plan
        reader = ShardReader(self.records.records, plan.shard or WHOLE, keep)
        self._resume(reader)
        if self.summary.was_complete:
            logger.info("%s is complete already", plan.output_path)
            return None
        try:
            self._embed_and_write(reader, select)
        except StoppedError:
            stopped = f"Stopped after {self._last_record()}{self._outlook()}"
            raise StoppedError(stopped) from None
        except Exception as error:
            is_of_cuda = isinstance(error, RuntimeError) and "CUDA" in str(error)
            is_expected = is_of_cuda or is_out_of_memory(error)
            if isinstance(error, ElmoError) or not is_expected:
                raise
            reason = first_line(error).rstrip(".")
            raise ComputationError(
                f"the computation failed after {self._last_record()}: {reason}"
                f"{self._outlook()}"
            ) from error
        return reader.progress

    def finish(self, progress: Progress, *, warns_about_empty: bool) -> None:
        """Complete the output, after the whole input."""
        plan = self.plan
        settings = plan.output_settings
        n_skipped = len(self.skipped)
        if n_skipped > _MAX_SHOWN_ERRORS:
            logger.warning(
                "Skipped %s in all",
                counted(n_skipped, plan.unit),
                extra=SAYS_ITS_KIND,
            )
        if warns_about_empty and (settings.pooled or settings.format.has_rows):
            log_empty(self.n_empty, plan.unit, pooled=settings.pooled)

        # A file without rows has the columns and types of an example with one token.
        selection = self.embedder.selection
        values = self.embedder.engine.empty_activations(selection)
        if selection.pooling is None:
            values = np.zeros((*values.shape[:-2], 1, values.shape[-1]), np.float32)
        self.writer.describe(self.records.example._replace(tokens=[""]), values)
        self.writer.finish(
            end_attributes(
                self.writer.n_records,
                progress,
                self.skipped,
                has_keys=self.records.has_ids and not plan.text.format.has_ids,
            )
        )

    def timed_summary(self) -> Summary:
        """Return the summary so far."""
        return replace(self.summary, seconds=time.monotonic() - self.started)

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
        # The packed layout keeps the row of a record without an id; elsewhere it has
        # none.
        is_packed = self.plan.output_settings.is_packed
        if record.id is not None or not self.records.has_ids or is_packed:
            self.writer.write(record, activations)
        self.n_done = embedded.number
        self.summary.n_records += 1
        self.summary.n_tokens += len(record.tokens)
        self.n_values += activations.size

    def checkpoint(self, progress: Progress) -> None:
        """Make a checkpoint, from which the same command resumes."""
        state = RunState(
            place=progress,
            states=self.embedder.engine.encoder.save(),
            skipped=self.skipped,
            n_empty=self.n_empty,
        )
        self.writer.checkpoint(state)

    def _resume(self, reader: ShardReader) -> None:
        """Read the records and the counts of an earlier run, if there was one."""
        writer = self.writer
        unit = self.plan.unit
        if not writer.run_state:
            return
        state = cast(RunState, writer.run_state)
        progress = Progress(*state["place"])
        for number, read in enumerate(reader.read(progress.n_records)):
            if not writer.is_complete:
                writer.skip(number, read.record)
            if number % _PASSED_RECORDS == _PASSED_RECORDS - 1 and self.should_stop():
                raise StoppedError(
                    f"Stopped after {unit} {number + 1:,}, which is embedded already."
                )
        if reader.error is not None:
            raise reader.error
        if reader.progress != progress:
            problem = (
                "{path} was written for a different input: its first {n} {unit}s differ"
            )
            raise OtherInputError(
                Message(
                    problem,
                    remedy="Use {--overwrite} to start over.",
                    path=writer.partial,
                    n=f"{progress.n_records:,}",
                    unit=unit,
                )
            )
        if writer.is_complete:
            self._check_complete(reader, progress)
            self.summary.was_complete = True
            return
        self.embedder.engine.encoder.restore(state["states"])
        self.skipped = dict(state["skipped"])
        self.n_empty = state["n_empty"]
        self.n_done = progress.n_records
        self.summary.resumed_from = progress.n_records
        logger.info("Resumed after %s", self._last_record())

    def _check_complete(self, reader: ShardReader, progress: Progress) -> None:
        """Raise an error if the input goes on after the end of a complete output."""
        following = next(reader.read(), None)
        if following is not None or reader.progress != progress:
            contents = "has no vectors"
            if progress.n_records:
                first = counted(progress.n_records, self.plan.unit)
                contents = f"contains only the first {first} of this input"
            raise OutputError(
                Message(
                    "{path} already exists, but {contents}",
                    remedy="Use {--overwrite} to replace it.",
                    path=self.writer.path,
                    contents=contents,
                )
            )
        if reader.error is not None:
            raise reader.error

    def _embed_and_write(
        self,
        reader: ShardReader,
        select: Callable[[EmbeddedRecord], EmbeddedRecord] | None,
    ) -> None:
        """Embed and write the rest of the records, up to one that cannot be read."""
        engine = self.embedder.engine
        # A checkpoint within a batch would split it where the state is carried over.
        is_carried = engine.state == "carry"
        rest = reader.read(
            checkpoint_tokens=checkpoint_tokens(engine.options),
            checkpoint_records=self.embedder.batch_size if is_carried else 1,
        )
        # Nobody waits for the lines of a file. Without `is_ready`, its windows and its
        # last bits are those of every run.
        is_printed = str(self.plan.output_path) == STANDARD_OUTPUT
        embedded = self.embedder.embed(
            rest,
            self.finite,
            is_ready=self.records.is_ready if is_printed else None,
            on_unfinished=self._report_unfinished,
        )
        if select is not None:
            embedded = map(select, embedded)
        write_records(
            embedded,
            self,
            on_window=self._report_progress,
            should_stop=self.should_stop,
        )
        if reader.error is not None:
            raise reader.error

    def _report_progress(self) -> None:
        if not self.has_progress and not self.summary.resumed_from:
            self._log_size()
        self.has_progress = True
        self.on_progress(self.timed_summary())

    def _report_unfinished(self) -> None:
        """Report progress, or stop, within a record that takes several windows."""
        self.on_progress(self.timed_summary())
        if self.should_stop():
            raise StoppedError

    def _outlook(self) -> str:
        """Return what the same command will do after a stop or an error."""
        if not self.plan.output_settings.can_resume:
            return ""
        if not self.writer.run_state:
            return ". The same command starts over."
        n_records = Progress(*self.writer.run_state["place"]).n_records
        return f". The same command resumes after {self.plan.unit} {n_records:,}."

    def _last_record(self) -> str:
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

    def _log_size(self) -> None:
        """Log how large the output will be, by what was written so far."""
        plan = self.plan
        done = self.summary
        n_input = plan.text.source.size
        if not n_input or not done.n_bytes or str(plan.output_path) == STANDARD_OUTPUT:
            return
        text_bytes = plan.output_settings.format.text_bytes
        if text_bytes is not None:
            value_bytes = text_bytes
        elif plan.output_settings.dtype == "float32":
            value_bytes = 4
        else:
            value_bytes = 2
        n_written = value_bytes * self.n_values + _RECORD_BYTES * done.n_records
        n_bytes = n_written / done.n_bytes * n_input
        free = shutil.disk_usage(self.writer.path.parent).free
        sizes = f"about {size_text(n_bytes)} to be written, {size_text(free)} free"
        logger.info("Output: %s", sizes)
        if n_bytes - n_written > free:
            remedy = (
                "Use {--layers average}, {--pooling mean} or {--dtype float16} to "
                "write less."
            )
            warning = Message(
                "{path}: {sizes}", remedy=remedy, path=self.writer.path, sizes=sizes
            )
            logger.warning("%s", warning)
