"""A text file to an output file: read, embed, write, checkpoint. See docs/architecture.md."""

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import (
    ComputationError,
    ElmoError,
    InputError,
    OtherInputError,
    OutputError,
    StoppedError,
    counted,
    first_line,
    size_text,
)
from elmo_cli.file_plan import FilePlan
from elmo_cli.inference.batching import DEFAULT_BATCH_SIZE, sentence_windows
from elmo_cli.inference.device import is_out_of_memory
from elmo_cli.inference.selection import Selection
from elmo_cli.inference.sentence_encoder import Encoder
from elmo_cli.model.options import ModelOptions
from elmo_cli.outputs.formats import STANDARD_OUTPUT
from elmo_cli.outputs.writer import ActivationsWriter, end_attributes
from elmo_cli.pretrained.domains import warn_about_domain
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.input_formats import open_records
from elmo_cli.text.lines import size_in_bytes
from elmo_cli.text.read_options import ReadOptions
from elmo_cli.text.records import Progress, Record, Sentence
from elmo_cli.text.shards import WHOLE, ShardReader
from elmo_cli.text.target_words import target_positions, target_record

logger = logging.getLogger(__name__)

_MAX_SHOWN_ERRORS: Final = 20
"""Records that are skipped are named in the log, up to so many."""
_RECORD_BYTES: Final = 400
"""About what HDF5 itself takes for a dataset."""


class _Embedder(Protocol):
    """What a run needs of `ElmoEmbedder`, which has a method for runs and so imports this."""

    batch_tokens: int
    encoder: Encoder
    options: ModelOptions
    files: ModelFiles

    @property
    def state(self) -> str: ...
    def attributes(self, selection: Selection, batch_size: int) -> dict[str, str]: ...
    def embed_window(
        self, window: list[Sentence], selection: Selection
    ) -> Iterator[NDArray[np.float32] | ComputationError]: ...
    def nothing(self, selection: Selection) -> NDArray[np.float32]: ...


Embedded = tuple[Record, Progress, NDArray[np.float32]]
"""A record, the place in the input where it ends, and its activations."""


@dataclass
class Summary:
    """What a run has done, so far or in all."""

    n_sentences: int = 0
    """Sentences that it has embedded."""
    n_tokens: int = 0
    """Their tokens."""
    n_bytes: int = 0
    """Bytes of the input that are read, with those of an earlier run."""
    seconds: float = 0.0
    """Time since the input was opened."""
    resumed_from: int = 0
    """Sentences that an earlier run had read; 0 where there was none."""
    was_complete: bool = False
    """Whether the output was complete already, and is left as it was."""


def embed_file(
    embedder: _Embedder,
    plan: FilePlan,
    selection: Selection,
    batch_size: int = DEFAULT_BATCH_SIZE,
    on_progress: Callable[[Summary], object] = lambda summary: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Summary:
    """Embed a file into an output file: see `ElmoEmbedder.embed_file`."""
    attributes = {
        **embedder.attributes(selection, batch_size),
        "format": plan.input_format.name,
        **plan.tokenizer.to_attributes(),
    }
    if plan.words is not None:
        attributes["words"] = json.dumps(plan.words, ensure_ascii=False)
    if plan.shard is not None:
        attributes["shard"] = str(plan.shard)
    with ActivationsWriter(
        plan.output, plan.output_format, attributes, overwrite=plan.overwrite
    ) as writer:
        arguments = (embedder, plan, writer, selection, batch_size, on_progress, should_stop)
        try:
            return _Run(*arguments).embed()
        except OtherInputError:
            if not plan.overwrite:
                raise
            writer.clear()
            if size_in_bytes(plan.source) is None:  # the beginning of a stream is gone
                raise
            return _Run(*arguments).embed()


def embed_windows(
    embedder: _Embedder,
    records: Iterable[tuple[Record, Progress]],
    selection: Selection,
    batch_size: int = DEFAULT_BATCH_SIZE,
    *,
    unit: str,
    skip_errors: bool = False,
    is_ready: Callable[[], bool] = lambda: True,
) -> Iterator[Iterator[Embedded]]:
    """Embed records, a window at a time; errors call a record by its `unit`, such as `line`.

    With `skip_errors`, a record that memory does not suffice for has no tokens, and its `error`.
    A window ends before a record that is not ready, or cannot be read.

    Yields:
        The records of a window with their activations, computed as they are taken: to be used
        up before the next window.
    """
    errors: list[InputError] = []

    def readable() -> Iterator[tuple[Record, Progress]]:
        try:
            yield from records
        except InputError as error:
            errors.append(error)

    def embed(window: list[tuple[Record, Progress]]) -> Iterator[Embedded]:
        embedded = embedder.embed_window([record.tokens for record, _ in window], selection)
        for (record, place), values in zip(window, embedded, strict=True):
            if not isinstance(values, ComputationError):
                yield record, place, values
                continue
            reason = f"{unit} {place.n_records:,}: {values}"
            if not skip_errors:
                raise ComputationError(reason)
            yield record._replace(tokens=[], error=reason), place, embedder.nothing(selection)

    for window in sentence_windows(
        readable(),
        *(batch_size, embedder.batch_tokens),
        carried=embedder.state == "carry",
        length=lambda pair: len(pair[0].tokens),
        is_ready=is_ready,
    ):
        yield embed(window)
    if errors:
        raise errors[0]


def checkpoint_tokens(options: ModelOptions) -> int:
    """How many tokens lie between two checkpoints: those of some 10 seconds on two cores.

    A multiple of the windows on a CPU and of the batches on a GPU, so that none is cut short. By
    the model alone: checkpoints change the bytes of a file, which is the same on every machine.
    """
    return 2**27 // max(options.lstm.dim, 1024)


class _Checkpoints:
    """Records on their way into windows, and whether a checkpoint is due after the last of them."""

    def __init__(
        self, records: Iterable[tuple[Record, Progress]], n_tokens: int, n_records: int
    ) -> None:
        """One is due after so many tokens, at the end of the next batch of so many records."""
        self._records, self._n_tokens, self._n_records = records, n_tokens, n_records
        self.due: Progress | None = None
        """Where the last record that was given ends, if a checkpoint is due there."""

    def __iter__(self) -> Iterator[tuple[Record, Progress]]:
        n_tokens = n_records = 0  # since the last checkpoint
        for record, place in self._records:
            n_tokens += max(1, len(record.tokens))
            n_records += 1
            is_due = n_tokens >= self._n_tokens and n_records % self._n_records == 0
            self.due = place if is_due else None
            yield record, place
            if is_due:
                n_tokens = n_records = 0


@dataclass
class _Run:
    """One run over an input: how far it is, and what it keeps of that."""

    embedder: _Embedder
    plan: FilePlan
    writer: ActivationsWriter
    selection: Selection
    batch_size: int
    on_progress: Callable[[Summary], object]
    should_stop: Callable[[], bool]

    has_keys: bool = False  # whether records have names of their own
    summary: Summary = field(default_factory=Summary)
    started: float = field(default_factory=time.monotonic)
    place: Progress | None = None  # where the record ends that was written last
    skipped: dict[str, str] = field(default_factory=dict)
    n_values: int = 0

    def embed(self) -> Summary:
        """Read the input, and embed and write what the output does not have yet."""
        plan = self.plan
        with open_records(
            *(plan.source, plan.input_format, self._count_bytes),
            tokenizer=plan.tokenizer,
            skip_errors=plan.skip_errors,
            should_stop=self.should_stop,
            options=ReadOptions(token_limit=self.embedder.options.token_limit),
        ) as read:
            self.has_keys = read.has_ids
            prepare = [] if plan.words is None else [partial(target_record, words=plan.words)]
            checked = warn_about_domain(read.records, self.embedder.files.name)
            records = ShardReader(checked, plan.shard or WHOLE, *prepare)
            rest = self._resume(records)
            if self.summary.was_complete:
                logger.info("%s is complete already", plan.output)
                return self._told()
            # Nobody waits for the lines of a file: its windows, and so its last bits, repeat.
            is_ready = read.is_ready if str(plan.output) == STANDARD_OUTPUT else lambda: True
            try:
                self._write_windows(rest, is_ready)
            except StoppedError:
                message = f"Stopped after {self._last_record()}{self._outlook()}"
                raise StoppedError(message) from None
            except Exception as error:
                is_of_cuda = isinstance(error, RuntimeError) and "CUDA" in str(error)
                if isinstance(error, ElmoError) or not (is_of_cuda or is_out_of_memory(error)):
                    raise  # a bug, perhaps
                raise ComputationError(
                    f"the computation failed after {self._last_record()}: {first_line(error)}"
                    f"{self._outlook()}"
                ) from error
            self._finish(records.progress)
        return self._told()

    def _write_windows(
        self, records: Iterable[tuple[Record, Progress]], is_ready: Callable[[], bool]
    ) -> None:
        """Embed and write records, with checkpoints between windows."""
        n_tokens = checkpoint_tokens(self.embedder.options)
        is_carried = self.embedder.state == "carry"  # a checkpoint within a batch would cut it
        checkpoints = _Checkpoints(records, n_tokens, self.batch_size if is_carried else 1)
        windows = embed_windows(
            *(self.embedder, checkpoints, self.selection, self.batch_size),
            unit=self.plan.input_format.unit,
            skip_errors=self.plan.skip_errors,
            is_ready=lambda: checkpoints.due is None and is_ready(),
        )
        for number, window in enumerate(windows):
            self._write(window)
            if number == 0 and not self.summary.resumed_from:
                self._tell_size()
            self.on_progress(self._told())
            if checkpoints.due is not None:
                self.writer.checkpoint(self._state(checkpoints.due))
            if self.should_stop():
                raise StoppedError

    def _outlook(self) -> str:
        """What the same command does after a stop or an error."""
        if not self.plan.output_format.can_resume:
            return ""
        if not self.writer.run_state:
            return "; the same command starts anew"
        n_records = Progress(*self.writer.run_state["place"]).n_records
        return f"; the same command resumes after {self.plan.input_format.unit} {n_records:,}"

    def _count_bytes(self, n_bytes: int) -> None:
        self.summary.n_bytes += n_bytes

    def _told(self) -> Summary:
        return replace(self.summary, seconds=time.monotonic() - self.started)

    def _resume(self, records: ShardReader) -> Iterable[tuple[Record, Progress]]:
        """Resume an earlier run, if there is one; the records that the output does not have."""
        writer, unit = self.writer, self.plan.input_format.unit
        if not writer.run_state:
            return records.read()
        place = Progress(*writer.run_state["place"])
        for number, (record, _) in enumerate(records.read(place.n_records)):
            if not writer.is_complete:
                writer.skip(number, record)
        if records.progress != place:
            raise OtherInputError(
                f"{writer.path if writer.is_complete else writer.partial} is of another input: "
                f"its first {place.n_records:,} {unit}s are not those of this one; --overwrite "
                "starts anew"
            )
        if writer.is_complete:
            if next(records.read(), None) is not None or records.progress != place:
                raise OutputError(
                    f"{writer.path} exists already, of the first {counted(place.n_records, unit)} "
                    "of this input; --overwrite replaces it"
                )
            self.summary.was_complete = True
            return ()
        self.embedder.encoder.restore(writer.run_state["states"])
        self.skipped = dict(writer.run_state["skipped"])
        self.place = place
        self.summary.resumed_from = place.n_records
        logger.info("Resumed after %s", self._last_record())
        return records.read()

    def _write(self, window: Iterator[Embedded]) -> None:
        for record, place, values in window:
            if record.error is not None:
                self._skip(record, place, record.error)
            if self.plan.words is not None:
                values = values[..., target_positions(record), :]
            # The packed layout keeps the place of one without a name; elsewhere it has none.
            is_packed = self.plan.output_format.layout == "packed"
            if record.id is not None or not self.has_keys or is_packed:
                self.writer.write(record, values)
            self.place = place
            self.summary.n_sentences += 1
            self.summary.n_tokens += len(record.tokens)
            self.n_values += values.size

    def _skip(self, record: Record, place: Progress, reason: str) -> None:
        """Note what is wrong with a record that is skipped."""
        unit, number = self.plan.input_format.unit, place.n_records
        name = f"{unit} {number}" if self.has_keys else str(number - 1)
        self.skipped[record.id or name] = reason
        if len(self.skipped) <= _MAX_SHOWN_ERRORS:
            logger.warning("Skipped: %s", reason)

    def _last_record(self) -> str:
        """The record that was written last, as messages call it: `line 6`."""
        return f"{self.plan.input_format.unit} {self.place.n_records if self.place else 0:,}"

    def _finish(self, place: Progress) -> None:
        n_skipped = len(self.skipped)
        if n_skipped > _MAX_SHOWN_ERRORS:
            logger.warning("Skipped %s in all", counted(n_skipped, self.plan.input_format.unit))
        has_keys = self.has_keys and not self.plan.input_format.has_ids
        attributes = end_attributes(self.writer.n_records, place, self.skipped, has_keys=has_keys)
        self.writer.finish(attributes)

    def _state(self, place: Progress) -> dict[str, Any]:
        """What a run has to know to resume from a place."""
        states = self.embedder.encoder.save()
        return {"place": place, "states": states, "skipped": self.skipped}

    def _tell_size(self) -> None:
        """Say how large the output will be, by what is written, and warn if there is no room."""
        done, output_format = self.summary, self.plan.output_format
        n_input = size_in_bytes(self.plan.source)
        if not n_input or not done.n_bytes or str(self.plan.output) == STANDARD_OUTPUT:
            return
        value_bytes = 4 if output_format.dtype == "float32" else 2
        if output_format.name == "jsonl":
            value_bytes = 14
        n_written = value_bytes * self.n_values + _RECORD_BYTES * done.n_sentences
        n_bytes = n_written / done.n_bytes * n_input
        free = shutil.disk_usage(self.writer.path.parent).free
        text = f"about {size_text(n_bytes)} to be written, {size_text(free)} free"
        logger.info("Output: %s", text)
        if n_bytes - n_written > free:
            logger.warning(
                "Warning: %s: %s; --layers average, --pooling mean or --dtype float16 write less",
                *(self.writer.path, text),
            )
