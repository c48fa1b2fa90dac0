"""A text file to an output file: read, embed, write, checkpoint. See docs/architecture.md."""

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from elmo_cli.callbacks import ignore
from elmo_cli.engine import Engine
from elmo_cli.errors.checks import Sentence, check_type
from elmo_cli.errors.exceptions import (
    ComputationError,
    ElmoError,
    InputError,
    OtherInputError,
    OutputError,
    StoppedError,
)
from elmo_cli.errors.wording import counted, first_line, size_text
from elmo_cli.file_plan import FilePlan
from elmo_cli.files.outputs import check_not_read
from elmo_cli.inference.memory import is_out_of_memory
from elmo_cli.inference.selection import pool_record
from elmo_cli.model.options import ModelOptions
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.options.output import FORMATS_WITH_ROWS, STANDARD_OUTPUT
from elmo_cli.options.selection import Selection
from elmo_cli.options.shard import WHOLE
from elmo_cli.outputs.finite import FiniteCheck
from elmo_cli.outputs.format_writer import RecordFilter
from elmo_cli.outputs.output_formats import id_use
from elmo_cli.outputs.writer import ActivationsWriter, end_attributes
from elmo_cli.pretrained.registry import expected_input
from elmo_cli.records.open_records import open_records
from elmo_cli.records.progress import Progress, ReadRecord, ShardReader
from elmo_cli.records.record import Record

logger = logging.getLogger(__name__)

Array = NDArray[Any]

# maximum number of skipped records that are named in the log
_MAX_SHOWN_ERRORS: Final = 20
_RECORD_BYTES: Final = 400  # approximate bytes that HDF5 itself takes per dataset
# records of an earlier run between calls of `should_stop`
_PASSED_RECORDS: Final = 1 << 14


class EmbeddedRecord(NamedTuple):
    """A record, its number in the input from 1, and its activations, see `selected_arrays`.

    They may share memory with the activations of other records of their window.
    """

    record: Record
    number: int
    activations: Array


@dataclass
class Summary:
    """Summary of a run, so far or in total."""

    n_sentences: int = 0
    """Number of sentences that it has embedded."""
    n_tokens: int = 0
    """Number of their tokens."""
    n_bytes: int = 0
    """Bytes of the input that have been read, in this run or an earlier one."""
    seconds: float = 0.0
    """Time since the input was opened."""
    resumed_from: int = 0
    """Number of sentences that an earlier run had read, or 0."""
    was_complete: bool = False
    """True if the output was complete already, and has been left unchanged."""


def embed_file(
    engine: Engine,
    plan: FilePlan,
    batch_size: int = DEFAULT_BATCH_SIZE,
    on_progress: Callable[[Summary], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
    record_filter: RecordFilter | None = None,
) -> Summary:
    """Embed a file, as far as a filter keeps its records: see `ElmoEmbedder.embed_file`."""
    check_not_read(plan.output, engine.files.paths)
    on_progress, should_stop = (
        on_progress or ignore,
        should_stop or ignore,
    )
    for name, function in (("on_progress", on_progress), ("should_stop", should_stop)):
        check_type(name, function, Callable, "a function")  # type: ignore[arg-type]
    record_filter = record_filter or RecordFilter()
    selection = plan.selection.for_model(engine.options.n_layers)
    if plan.text.splits_records and engine.state == "carry" and batch_size != 1:
        raise InputError(
            f"--state carry with --split-sentences of a table requires --batch-size 1, not "
            f"{batch_size}."
        )
    attributes = {
        **engine.attributes(selection, batch_size),
        "format": plan.text.format.name,
        **plan.text.tokenizer.to_attributes(),
        **record_filter.attributes,
    }
    if plan.shard is not None:
        attributes["shard"] = str(plan.shard)
    with ActivationsWriter(
        plan.output,
        plan.output_format,
        attributes,
        overwrite=plan.overwrite,
        writer_type=record_filter.writer_type,
        should_stop=should_stop,
    ) as writer:
        arguments = (engine, plan, writer, selection, batch_size, record_filter)
        try:
            return _Run(*arguments, on_progress, should_stop).embed()
        except OtherInputError:
            if not plan.overwrite:
                raise
            writer.clear()
            if (
                plan.text.source.size is None
            ):  # The beginning of a stream cannot be reread.
                raise
            return _Run(*arguments, on_progress, should_stop).embed()


class _Part(NamedTuple):
    item: ReadRecord
    tokens: Sentence
    is_last: bool = True


def _split_records(records: Iterable[ReadRecord]) -> Iterator[_Part]:
    for item in records:
        *others, last = item.record.split()
        yield from (_Part(item, tokens, is_last=False) for tokens in others)
        yield _Part(item, last)


def embed_windows(
    engine: Engine,
    records: Iterable[ReadRecord],
    selection: Selection,
    batch_size: int = DEFAULT_BATCH_SIZE,
    *,
    unit: str,
    skip_errors: bool = False,
    splits_records: bool = False,
    is_ready: Callable[[], bool] = lambda: True,
    finite: FiniteCheck | None = None,
) -> Iterator[tuple[Iterator[EmbeddedRecord], Progress | None]]:
    """Yield embedded records in windows, which are held in memory and computed together.

    Each, used before the next one, comes with the progress in the input if a checkpoint follows it.
    A window ends early there, and where the next record is not ready. With `splits_records`, the
    sentences of a record are computed by themselves, and pooled together. A record that does not
    fit into memory is a `ComputationError`, or with `skip_errors` a record with its error.
    With `finite`, activations may have its data type, and it notes the batches that are finite.
    """
    pools_later = splits_records and selection.pooling is not None
    computed = (
        replace(selection, pooling=None, normalize=False) if pools_later else selection
    )
    embed = partial(engine.embed_arrays, selection=computed)
    if finite is not None and not pools_later:
        embed = partial(embed, dtype=finite.dtype, on_batch=finite.add_batch)
    results_of_record: list[Array | ComputationError] = []

    def join(item: ReadRecord) -> EmbeddedRecord:
        results, results_of_record[:] = results_of_record[:], []
        error = next(
            (each for each in results if isinstance(each, ComputationError)),
            None,
        )
        if error is None:
            arrays = cast(list[Array], results)
            values = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-2)
            values = pool_record(selection, values) if pools_later else values
            return EmbeddedRecord(item.record, item.number, values)
        reason = f"{unit} {item.number:,}: {error}"
        if not skip_errors:
            raise ComputationError(f"{reason}. Shorten it, or use --skip-errors.")
        record = item.record._replace(tokens=[], sentences=(), words=(), error=reason)
        return EmbeddedRecord(record, item.number, engine.empty_activations(selection))

    def join_records(
        parts: list[_Part], results: Iterable[Array | ComputationError]
    ) -> Iterator[EmbeddedRecord]:
        for part, result in zip(parts, results, strict=True):
            results_of_record.append(result)
            if part.is_last:
                yield join(part.item)

    for parts, results in engine.run(
        _split_records(records),
        embed,
        sentence_of=lambda part: part.tokens,
        batch_size=batch_size,
        ends_window=lambda part: (
            part.is_last and (part.item.checkpoint is not None or not is_ready())
        ),
    ):
        last = parts[-1]
        yield (
            join_records(parts, results),
            last.item.checkpoint if last.is_last else None,
        )


def checkpoint_tokens(options: ModelOptions) -> int:
    """Return the number of tokens between two checkpoints, about 10 seconds' work on two cores.

    It is a multiple of the windows on a CPU and of the batches on a GPU. It depends on the model
    alone, because checkpoints change the bytes of a file, and all machines write equal bytes.
    """
    return 2**27 // max(options.lstm.dim, 1024)


def log_empty(n_empty: int, unit: str, *, pooled: bool) -> None:
    """Log how many records have no text. Their pooled vectors are zeros."""
    if n_empty:
        zeros = ", whose vectors are zeros" if pooled else ""
        logger.warning("Warning: %s without text%s", counted(n_empty, unit), zeros)


@dataclass
class _Run:
    """One pass over an input, with its progress and the skipped records."""

    engine: Engine
    plan: FilePlan
    writer: ActivationsWriter
    selection: Selection
    batch_size: int
    record_filter: RecordFilter
    on_progress: Callable[[Summary], object]
    should_stop: Callable[[], bool]

    has_ids: bool = False
    summary: Summary = field(default_factory=Summary)
    started: float = field(default_factory=time.monotonic)
    n_done: int = 0  # number of the last record of the input that was written
    skipped: dict[str, str] = field(default_factory=dict)
    n_empty: int = 0  # number of records without tokens, apart from skipped ones
    n_values: int = 0
    finite: FiniteCheck = field(init=False)

    def __post_init__(self) -> None:
        plan = self.plan
        self.finite = FiniteCheck(plan.output, plan.unit, plan.output_format.dtype)

    def embed(self) -> Summary:
        """Read the input; embed and write what the output does not contain yet."""
        plan = self.plan
        files, output_format = self.engine.files, plan.output_format
        with open_records(
            plan.text,
            expected_input(files.name, self.engine.options.token_limit),
            ids=id_use(output_format),
            finds_integers=output_format.name in FORMATS_WITH_ROWS,
            on_bytes=self._count_bytes,
            should_stop=self.should_stop,
        ) as read:
            self.has_ids = read.has_ids
            self.record_filter.begin()
            records = ShardReader(
                read.records, plan.shard or WHOLE, self.record_filter.prepare
            )
            self._resume(records)
            if self.summary.was_complete:
                logger.info("%s is complete already", plan.output)
                return self._timed_summary()
            # Nobody waits for the lines of a file. Its windows, and its last bits, repeat.
            is_ready = (
                read.is_ready if str(plan.output) == STANDARD_OUTPUT else lambda: True
            )
            try:
                self._write_windows(records, is_ready)
            except StoppedError:
                message = f"Stopped after {self._last_record()}{self._outlook()}"
                raise StoppedError(message) from None
            except Exception as error:
                is_of_cuda = isinstance(error, RuntimeError) and "CUDA" in str(error)
                is_expected = is_of_cuda or is_out_of_memory(error)
                if isinstance(error, ElmoError) or not is_expected:
                    raise  # Not an expected error: let it propagate.
                raise ComputationError(
                    f"the computation failed after {self._last_record()}: "
                    f"{first_line(error).rstrip('.')}{self._outlook()}"
                ) from error
            self._finish(records.progress, read.example)
        return self._timed_summary()

    def _write_windows(
        self, records: ShardReader, is_ready: Callable[[], bool]
    ) -> None:
        """Embed and write the rest of the records, up to one that cannot be read."""
        plan, n_tokens = self.plan, checkpoint_tokens(self.engine.options)
        # A checkpoint within a batch would split it where the state is carried over.
        n_records = self.batch_size if self.engine.state == "carry" else 1
        is_first = not self.summary.resumed_from
        # Other filters see float32.
        sees_all = type(self.record_filter) is RecordFilter
        for embedded_records, checkpoint in embed_windows(
            self.engine,
            records.read(None, n_tokens, n_records),
            self.selection,
            self.batch_size,
            unit=plan.unit,
            skip_errors=plan.text.settings.skip_errors,
            splits_records=plan.text.splits_records,
            is_ready=is_ready,
            finite=self.finite if sees_all else None,
        ):
            for embedded in embedded_records:
                self._write(embedded)
                del (
                    embedded
                )  # It would keep its batch in memory during the next window.
            if is_first:
                self._log_size()
                is_first = False
            self.on_progress(self._timed_summary())
            if checkpoint is not None:
                states = self.engine.encoder.save()
                run_state = {
                    "place": checkpoint,
                    "states": states,
                    "skipped": self.skipped,
                }
                self.writer.checkpoint({**run_state, "n_empty": self.n_empty})
            if self.should_stop():
                raise StoppedError
        if records.error is not None:
            raise records.error

    def _outlook(self) -> str:
        """Return what the same command will do after a stop or an error."""
        if not self.plan.output_format.can_resume:
            return ""
        if not self.writer.run_state:
            return ". The same command starts over."
        n_records = Progress(*self.writer.run_state["place"]).n_records
        return f". The same command resumes after {self.plan.unit} {n_records:,}."

    def _count_bytes(self, n_bytes: int) -> None:
        self.summary.n_bytes += n_bytes

    def _timed_summary(self) -> Summary:
        return replace(self.summary, seconds=time.monotonic() - self.started)

    def _resume(self, records: ShardReader) -> None:
        writer, unit = self.writer, self.plan.unit
        if not writer.run_state:
            return
        progress = Progress(*writer.run_state["place"])
        for number, read in enumerate(records.read(progress.n_records)):
            if not writer.is_complete:
                writer.skip(number, read.record)
            if number % _PASSED_RECORDS == _PASSED_RECORDS - 1 and self.should_stop():
                raise StoppedError(
                    f"Stopped after {unit} {number + 1:,}, which is embedded already."
                )
        if records.error is not None:
            raise records.error
        if records.progress != progress:
            raise OtherInputError(
                f"{writer.partial} was written for a different input: its first "
                f"{progress.n_records:,} {unit}s differ. Use --overwrite to start over."
            )
        if writer.is_complete:
            if next(records.read(), None) is not None or records.progress != progress:
                first = f"contains only the first {counted(progress.n_records, unit)}"
                contains = (
                    f"{first} of this input" if progress.n_records else "has no vectors"
                )
                problem = f"{writer.path} already exists, but {contains}"
                raise OutputError(f"{problem}. Use --overwrite to replace it.")
            if records.error is not None:
                raise records.error
            self.summary.was_complete = True
            return
        self.engine.encoder.restore(writer.run_state["states"])
        self.skipped = dict(writer.run_state["skipped"])
        self.n_empty = writer.run_state["n_empty"]
        self.n_done = self.summary.resumed_from = progress.n_records
        logger.info("Resumed after %s", self._last_record())

    def _write(self, embedded: EmbeddedRecord) -> None:
        record, activations = embedded.record, embedded.activations
        if record.error is None:
            activations = self.record_filter.select(record, activations)
            self.finite.add(activations, embedded.number)
            self.n_empty += not record.tokens
        else:
            self._skip(record, embedded.number, record.error)
        # The packed layout keeps the row of a record without an id; elsewhere it has none.
        is_packed = self.plan.output_format.layout == "packed"
        if record.id is not None or not self.has_ids or is_packed:
            self.writer.write(record, activations)
        self.n_done = embedded.number
        self.summary.n_sentences += 1
        self.summary.n_tokens += len(record.tokens)
        self.n_values += activations.size

    def _skip(self, record: Record, number: int, reason: str) -> None:
        name = f"{self.plan.unit} {number}" if self.has_ids else str(number - 1)
        self.skipped[record.id or name] = reason
        if len(self.skipped) <= _MAX_SHOWN_ERRORS:
            logger.warning("Skipped: %s", reason)

    def _last_record(self) -> str:
        return f"{self.plan.unit} {self.n_done:,}"

    def _finish(self, progress: Progress, example: Record) -> None:
        try:
            self.record_filter.finish()
        except ElmoError:
            self.writer.clear()
            raise
        n_skipped = len(self.skipped)
        if n_skipped > _MAX_SHOWN_ERRORS:
            logger.warning("Skipped %s in all", counted(n_skipped, self.plan.unit))
        written = self.plan.output_format
        is_shown = written.pooled or written.name in FORMATS_WITH_ROWS
        if (
            is_shown and not self.record_filter.attributes
        ):  # A filter empties records with a text.
            log_empty(self.n_empty, self.plan.unit, pooled=written.pooled)
        has_keys = self.has_ids and not self.plan.text.format.has_ids
        n_records = self.writer.n_records
        values = self.engine.empty_activations(self.selection)
        if self.selection.pooling is None:  # The example has one token.
            values = np.zeros((*values.shape[:-2], 1, values.shape[-1]), np.float32)
        self.writer.describe(example._replace(tokens=[""]), values)
        self.writer.finish(
            end_attributes(n_records, progress, self.skipped, has_keys=has_keys)
        )

    def _log_size(self) -> None:
        done, output_format = self.summary, self.plan.output_format
        n_input = self.plan.text.source.size
        if not n_input or not done.n_bytes or str(self.plan.output) == STANDARD_OUTPUT:
            return
        binary_bytes = 4 if output_format.dtype == "float32" else 2
        value_bytes = 14 if output_format.name == "jsonl" else binary_bytes
        n_written = value_bytes * self.n_values + _RECORD_BYTES * done.n_sentences
        n_bytes = n_written / done.n_bytes * n_input
        free = shutil.disk_usage(self.writer.path.parent).free
        text = f"about {size_text(n_bytes)} to be written, {size_text(free)} free"
        logger.info("Output: %s", text)
        if n_bytes - n_written > free:
            remedy = (
                "Use --layers average, --pooling mean or --dtype float16 to write less."
            )
            logger.warning("Warning: %s: %s. %s", self.writer.path, text, remedy)
