"""A text file to an output file: read, embed, write, checkpoint.

docs/architecture.md explains checkpoints.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from elmo_cli.callbacks import ignore, never
from elmo_cli.engine import Engine
from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import (
    ComputationError,
    ElmoError,
    OtherInputError,
    OutputError,
    StoppedError,
)
from elmo_cli.errors.wording import counted, first_line
from elmo_cli.files.output_checks import check_not_read
from elmo_cli.inference.memory import is_out_of_memory
from elmo_cli.model.architecture import Architecture
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.options.output import STANDARD_OUTPUT
from elmo_cli.options.shard import WHOLE
from elmo_cli.outputs.saved_output import ResumePoint
from elmo_cli.outputs.sentence_rows import SentenceRows
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.records.ids import IdRules
from elmo_cli.records.open_records import Records, open_records
from elmo_cli.records.progress import Progress, ShardReader
from elmo_cli.records.record import Record
from elmo_cli.records.warnings.expected import expected_input
from elmo_cli.runs.file_plan import FilePlan, check_carried_batches
from elmo_cli.runs.file_sink import FileSink, Summary, log_empty
from elmo_cli.runs.pipeline import EmbeddedRecord, RecordEmbedder, write_records

logger = logging.getLogger(__name__)

_STOP_CHECK_RECORDS: Final = 1 << 14
"""Records of an earlier run that are skipped between calls of `should_stop`."""


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
    with open_run(
        engine,
        plan,
        batch_size=batch_size,
        on_progress=on_progress,
        should_stop=should_stop,
    ) as file_run:
        embedded = file_run.embed_input()
        sink = embedded.sink
        if not embedded.was_complete:
            settings = plan.output_settings
            if settings.pooled or settings.format.has_rows:
                log_empty(sink.n_empty, plan.unit, pooled=settings.pooled)
            sink.finish(embedded.progress)
        return sink.summary_so_far()


@contextmanager
def open_run(
    engine: Engine,
    plan: FilePlan,
    *,
    batch_size: int = DEFAULT_BATCH_SIZE,
    attributes: Mapping[str, str] = MappingProxyType({}),
    rows_type: type[SentenceRows] | None = None,
    on_progress: Callable[[Summary], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Iterator["FileRun"]:
    """Open the output of a plan for a run, after checking the plan for the model.

    Args:
        engine: Model.
        plan: Plan of the run.
        batch_size: Sentences per batch, of a carried state.
        attributes: Further attributes of the output. A run resumes only if they are
            equal.
        rows_type: Rows of Parquet that replace those of the plan.
        on_progress: Called after each window.
        should_stop: Called after each window.
    """
    check_not_read(plan.output_path, engine.files.paths)
    on_progress = on_progress or ignore
    should_stop = should_stop or never
    for name, function in (("on_progress", on_progress), ("should_stop", should_stop)):
        check_type(name, function, Callable, "a function")  # type: ignore[arg-type]
    embedder = _make_embedder(engine, plan, batch_size)
    with ActivationsWriter(
        plan.output_path,
        plan.output_settings,
        _attributes(embedder, plan, attributes),
        rows_type=rows_type,
        should_stop=should_stop,
    ) as writer:
        yield FileRun(
            plan=plan,
            embedder=embedder,
            writer=writer,
            on_progress=on_progress,
            should_stop=should_stop,
        )


def _make_embedder(engine: Engine, plan: FilePlan, batch_size: int) -> RecordEmbedder:
    """Make the embedder of a plan; raise a `SettingsError` if they do not fit."""
    selection = plan.selection.for_model(engine.architecture.n_layers)
    splits_records = plan.text_input.splits_records
    check_carried_batches(plan.text_input, engine.state, batch_size)
    return RecordEmbedder(
        engine=engine,
        selection=selection,
        unit=plan.unit,
        batch_size=batch_size,
        skip_errors=plan.text_input.settings.skip_errors,
        splits_records=splits_records,
    )


def _attributes(
    embedder: RecordEmbedder, plan: FilePlan, others: Mapping[str, str]
) -> dict[str, str]:
    """Return the attributes of an output: how it is computed, and others."""
    attributes = embedder.engine.attributes(embedder.selection, embedder.batch_size)
    attributes["format"] = plan.text_input.format.name
    attributes.update(plan.text_input.settings.column_attributes)
    attributes.update(plan.text_input.tokenizer.to_attributes())
    attributes.update(others)
    if plan.shard is not None:
        attributes["shard"] = str(plan.shard)
    return attributes


def checkpoint_tokens(architecture: Architecture) -> int:
    """Return the number of tokens between two checkpoints.

    They take about 10 seconds on two cores. It is a multiple of the windows on a CPU
    and of the batches on a GPU. It depends on the model alone, because checkpoints
    change the bytes of a file, and all machines write equal bytes.
    """
    return 2**27 // max(architecture.lstm.dim, 1024)


class EmbeddedInput(NamedTuple):
    """Input that a run has read to its end."""

    sink: FileSink
    """Sink of what was written. Call its `finish`, unless `was_complete`."""
    progress: Progress
    """Progress at the end of the input."""

    @property
    def was_complete(self) -> bool:
        """True if the output was complete before the run."""
        return self.sink.summary.was_complete


@dataclass(frozen=True)
class FileRun:
    """Run over a file, whose output is open: new, unfinished, or complete already."""

    plan: FilePlan
    embedder: RecordEmbedder
    writer: ActivationsWriter
    on_progress: Callable[[Summary], object]
    should_stop: Callable[[], bool]

    def embed_input(
        self,
        keep: Callable[[Record], Record] | None = None,
        select: Callable[[EmbeddedRecord], EmbeddedRecord] | None = None,
        on_restart: Callable[[], object] = ignore,
        *,
        reads_lemmas: bool = False,
    ) -> EmbeddedInput:
        """Read the input; embed and write what the output does not contain yet.

        With `overwrite`, an unfinished output of another input is written again.

        Args:
            keep: Function that gives what is embedded of each record. By default, that
                is all of it.
            select: Function that gives what is written of each embedded record. By
                default, that is all of it.
            on_restart: Called before the input is read again from its start.
            reads_lemmas: True if `keep` depends on lemmas. A run resumes only if they
                are equal.
        """
        try:
            embedded = self._embed_once(keep, select, reads_lemmas=reads_lemmas)
        except OtherInputError:
            if not self.plan.output_settings.overwrite:
                raise
            self.writer.clear()
            # The beginning of a stream cannot be read again. The next run with this
            # stream starts over.
            if not self.plan.text_input.source.is_file:
                raise
            on_restart()
            embedded = self._embed_once(keep, select, reads_lemmas=reads_lemmas)
        self._warn_of_empty_shard(embedded.progress)
        return embedded

    def _warn_of_empty_shard(self, progress: Progress) -> None:
        """Log a warning if the input ends before the first record of the shard."""
        shard = self.plan.shard
        if shard is None or progress.n_records >= shard.number:
            return
        unit = self.plan.unit
        logger.warning(
            "%s: shard %s is empty, because the input has only %s",
            self.plan.output_path,
            shard,
            counted(progress.n_records, unit),
        )

    def _embed_once(
        self,
        keep: Callable[[Record], Record] | None,
        select: Callable[[EmbeddedRecord], EmbeddedRecord] | None,
        *,
        reads_lemmas: bool,
    ) -> EmbeddedInput:
        """Read the input once, from its start to its end, and write what is missing."""
        started = time.monotonic()
        summary = Summary()
        with self._open_input(summary) as records:
            sink = FileSink(
                plan=self.plan,
                embedder=self.embedder,
                writer=self.writer,
                records=records,
                summary=summary,
                started=started,
            )
            reader = ShardReader(
                records.records,
                self.plan.shard or WHOLE,
                keep,
                hashes_lemmas=reads_lemmas,
            )
            point = self.writer.resume_point
            if point is not None:
                self._skip_written(reader, point)
                if self.writer.is_complete:
                    self._check_complete(reader, point.progress)
                    self.writer.publish()
                    summary.was_complete = True
                    logger.info("%s is complete already", self.plan.output_path)
                    return EmbeddedInput(sink, point.progress)
                sink.resume_from(point)
                logger.info("Resumed after %s", sink.last_record())
            self._embed_rest(reader, sink, select)
            return EmbeddedInput(sink, reader.progress)

    @contextmanager
    def _open_input(self, summary: Summary) -> Iterator[Records]:
        """Open the records of the input, whose bytes are counted."""
        settings = self.plan.output_settings
        engine = self.embedder.engine

        def count_bytes(n_bytes: int) -> None:
            summary.n_bytes += n_bytes

        with open_records(
            self.plan.text_input,
            expected_input(engine.files.name, engine.architecture.token_limit),
            id_rules=IdRules(
                ids_name_datasets=settings.ids_name_datasets,
                find_integers=settings.format.has_rows,
            ),
            on_bytes=count_bytes,
            should_stop=self.should_stop,
        ) as records:
            yield records

    def _skip_written(self, reader: ShardReader, point: ResumePoint) -> None:
        """Skip the records that an earlier run has written.

        Raise an `OtherInputError` if it has read other ones.
        """
        writer = self.writer
        unit = self.plan.unit
        for index, read in enumerate(reader.read(point.progress.n_records)):
            writer.skip_written(index, read.record)
            n_skipped = index + 1
            if n_skipped % _STOP_CHECK_RECORDS == 0 and self.should_stop():
                raise StoppedError(
                    f"Stopped after {unit} {n_skipped:,}, which is embedded already"
                )
        if reader.error is not None:
            raise reader.error
        if not reader.progress.has_same_records(point.progress):
            n_records = point.progress.n_records
            first = f"{n_records:,} {unit}s differ"
            their = "their"
            if n_records == 1:
                first = f"{unit} differs"
                their = "its"
            problem = "{path}: made from another input, whose first {first}"
            if reader.progress.has_same_texts(point.progress):
                problem += f" in {their} ids, tokens or sentences"
            raise OtherInputError(
                problem,
                remedy=(
                    "Use {--overwrite True} to start over, or choose another output."
                ),
                path=writer.partial,
                first=first,
            )

    def _check_complete(self, reader: ShardReader, progress: Progress) -> None:
        """Raise an error if the input goes on after the end of a complete output."""
        following = next(reader.read(), None)
        if following is not None or reader.progress.n_records != progress.n_records:
            contents = "has no vectors"
            if progress.n_records:
                first = counted(progress.n_records, self.plan.unit)
                contents = f"contains only the first {first} of this input"
            raise OutputError(
                "{path}: already exists, but {contents}",
                remedy="Use {--overwrite True} to replace it.",
                path=self.writer.partial,
                contents=contents,
            )
        if reader.error is not None:
            raise reader.error

    def _embed_rest(
        self,
        reader: ShardReader,
        sink: FileSink,
        select: Callable[[EmbeddedRecord], EmbeddedRecord] | None,
    ) -> None:
        """Embed and write the rest of the records. An error says how far that was."""
        try:
            self._embed_and_write(reader, sink, select)
        except StoppedError:
            stopped = f"Stopped after {sink.last_record()}{self._outlook()}"
            raise StoppedError(stopped) from None
        except Exception as error:
            is_of_cuda = isinstance(error, RuntimeError) and "CUDA" in str(error)
            is_expected = is_of_cuda or is_out_of_memory(error)
            if isinstance(error, ElmoError) or not is_expected:
                raise
            reason = first_line(error).rstrip(".")
            raise ComputationError(
                f"the computation failed after {sink.last_record()}: {reason}"
                f"{self._outlook()}"
            ) from error

    def _embed_and_write(
        self,
        reader: ShardReader,
        sink: FileSink,
        select: Callable[[EmbeddedRecord], EmbeddedRecord] | None,
    ) -> None:
        """Embed and write the rest of the records, up to one that cannot be read."""
        engine = self.embedder.engine
        # A checkpoint within a batch would split it where the state is carried over.
        is_carried = engine.state == "carry"
        rest = reader.read(
            checkpoint_tokens=checkpoint_tokens(engine.architecture),
            checkpoint_records=self.embedder.batch_size if is_carried else 1,
        )
        # Only standard output needs early windows, so that waiting readers get each
        # line at once. A file must not have them: its bits would depend on the timing.
        is_printed = str(self.plan.output_path) == STANDARD_OUTPUT
        embedded = self.embedder.embed_records(
            rest,
            sink.finite,
            is_ready=sink.records.is_ready if is_printed else None,
            on_unfinished=partial(self._report_unfinished, sink),
        )
        if select is not None:
            embedded = map(select, embedded)
        write_records(
            embedded,
            sink,
            on_window=partial(self._report_progress, sink),
            should_stop=self.should_stop,
        )
        if reader.error is not None:
            raise reader.error

    def _report_progress(self, sink: FileSink) -> None:
        sink.log_size_once()
        self.on_progress(sink.summary_so_far())

    def _report_unfinished(self, sink: FileSink) -> None:
        """Report progress, or stop, within a record that takes several windows."""
        self.on_progress(sink.summary_so_far())
        if self.should_stop():
            raise StoppedError

    def _outlook(self) -> str:
        """Return what the same command will do after a stop or an error."""
        if not self.plan.output_settings.can_resume:
            return ""
        point = self.writer.resume_point
        if point is None:
            n_tokens = checkpoint_tokens(self.embedder.engine.architecture)
            first = f"before the first checkpoint, which is made at {n_tokens:,} tokens"
            return f", {first}. The same command starts over."
        n_records = point.progress.n_records
        return f". The same command resumes after {self.plan.unit} {n_records:,}."
