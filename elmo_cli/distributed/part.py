"""One part, embedded by a worker that holds a model.

A part that is embedded twice becomes the same file.
"""

import os
import socket
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import IO, Any, Final, NamedTuple

from elmo_cli.distributed.input_files import changed_error
from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.plan import (
    CorpusSettings,
    Plan,
    open_writer,
    read_column_types,
)
from elmo_cli.distributed.read_part import read_part
from elmo_cli.engine import Engine, load_engine
from elmo_cli.errors.exceptions import (
    ComputationError,
    DeviceError,
    InputError,
    OtherInputError,
    OutputError,
    WeightsError,
)
from elmo_cli.errors.messages import Message, spelled_as_options
from elmo_cli.files.shared_folder import Folder
from elmo_cli.inference.device import Device
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.outputs.convert_dtype import as_dtype
from elmo_cli.outputs.finite import FiniteCheck
from elmo_cli.outputs.parquet_writer import ParquetWriter
from elmo_cli.outputs.part_files import PART, PARTS, PLAN_SHA256, part_name, read_footer
from elmo_cli.outputs.saved_output import end_attributes
from elmo_cli.records.progress import Progress, ShardReader
from elmo_cli.runs.pipeline import EmbeddedRecord, RecordEmbedder, write_records

MAX_SHOWN_SKIPPED: Final = 20
"""Maximum number of skipped records whose reasons are shown."""


class PlanSummary(NamedTuple):
    """All that a worker needs of a plan in addition to its part."""

    sha256: str
    n_parts: int
    attributes: dict[str, str]
    """Settings of the plan, which become attributes of the part."""


class PartResult(NamedTuple):
    """Result of a part: a few hundred bytes for parts of any size."""

    number: int
    worker: str
    n_tokens: int = 0
    error: str | Message | None = None
    """Reason why the part is missing. None if it is complete."""
    n_skipped: int = 0
    skipped: tuple[str | Message, ...] = ()
    """Reasons of the first skipped records."""
    warning: Message | None = None
    """Warning about its values."""
    n_empty: int = 0
    """Number of records without text, apart from skipped ones."""


def summarize(plan: Plan) -> PlanSummary:
    """Return what a worker needs of a plan in addition to its part."""
    return PlanSummary(
        sha256=plan.sha256, n_parts=len(plan.parts), attributes=plan.settings
    )


load_for_worker = lru_cache(maxsize=1)(load_engine)
"""Function that loads a model once per process."""


def worker_name() -> str:
    """Return the name of this process in messages."""
    return f"{socket.gethostname()}-{os.getpid()}"


def embed_part(
    folder: str,
    plan: PlanSummary,
    settings: CorpusSettings,
    part: Part,
    device: Device = "cpu",
    on_tokens: Callable[[int], object] = lambda n_tokens: None,
    damaged: Collection[int] = (),
) -> PartResult:
    """Embed a part to its file, unless the file is complete and not `damaged`.

    An error of the part's own records is in the result; one that all parts would have
    is raised. `on_tokens` is called after each window with the number of tokens written
    so far.
    """
    parts = Folder(folder)
    complete = PartResult(number=part.number, worker=worker_name())
    if part.number not in damaged and _is_complete(parts, plan, part):
        return complete
    engine = load_for_worker(replace(settings.model, device=str(device)))
    try:
        column_types = read_column_types(parts, plan.sha256)
        _check_weights(engine, plan, complete.worker)
        _check_arithmetic(engine, plan, worker=complete.worker, folder=parts.location)
        write = partial(
            _write_part,
            engine=engine,
            plan=plan,
            settings=settings,
            part=part,
            column_types=column_types,
            on_tokens=on_tokens,
        )
        return parts.publish(part_name(part.number), write)
    except OtherInputError:
        # The input has changed, so all parts would fail.
        raise
    except (InputError, ComputationError) as error:
        reason = Message("part {number}: {error}", number=part.number, error=error)
        return PartResult(number=part.number, worker=worker_name(), error=reason)
    except OutputError:
        # An equal run may have completed the folder meanwhile.
        if _is_complete(parts, plan, part):
            return complete
        raise


def _write_part(
    file: IO[bytes],
    *,
    engine: Engine,
    plan: PlanSummary,
    settings: CorpusSettings,
    part: Part,
    column_types: dict[str, Any],
    on_tokens: Callable[[int], object],
) -> PartResult:
    """Embed the records of a part, and write them to its open file."""
    selection = settings.selection.for_model(engine.architecture.n_layers)
    embedder = RecordEmbedder(
        engine=engine,
        selection=selection,
        unit=f"{part.path}, record",
        skip_errors=settings.text.skip_errors,
        splits_records=settings.text.split_sentences,
    )
    attributes = {
        **plan.attributes,
        **engine.attributes(selection, DEFAULT_BATCH_SIZE),
        PLAN_SHA256: plan.sha256,
        PARTS: str(plan.n_parts),
        PART: str(part.number),
    }
    has_ids = "id" in column_types
    records = ShardReader(read_part(part, settings.text, has_ids=has_ids))
    writer = open_writer(
        file=file,
        settings=settings,
        path=part.path,
        column_types=column_types,
        attributes=attributes,
    )
    with closing(writer):
        sink = _PartSink(writer=writer, part=part, dtype=settings.dtype)

        def report() -> None:
            on_tokens(sink.n_tokens)

        embedded = embedder.embed_records(
            records.read(), sink.finite, on_unfinished=report
        )
        write_records(embedded, sink, on_window=report)
        if records.error is not None:
            raise records.error
        if records.progress.n_records != part.n_records:
            raise changed_error(part.path)
        return sink.finish(records.progress, has_ids=has_ids)


def _is_complete(folder: Folder, plan: PlanSummary, part: Part) -> bool:
    footer = read_footer(folder, part.number)
    return footer is not None and footer.is_of(plan.sha256, part.number)


def _check_weights(engine: Engine, plan: PlanSummary, worker: str) -> None:
    expected = plan.attributes["model_sha256"]
    if engine.content_sha256 != expected:
        raise WeightsError(
            f"{engine.files.weights} on {worker}: not the weights of the plan "
            f"(SHA-256 {expected[:12]}..., not {engine.content_sha256[:12]}...)",
            remedy="Copy them there.",
        )


def _check_arithmetic(
    engine: Engine, plan: PlanSummary, *, worker: str, folder: str
) -> None:
    expected = plan.attributes["precision"]
    if engine.arithmetic != expected:
        raise DeviceError(
            "{folder}: its parts are {expected}, and {worker} would compute {found}",
            remedy="Use workers with one kind of processor.",
            folder=folder,
            expected=expected,
            worker=worker,
            found=engine.arithmetic,
        )


@dataclass
class _PartSink:
    """Sink of the records of a part."""

    writer: ParquetWriter
    part: Part
    dtype: str

    n_tokens: int = 0
    n_empty: int = 0
    skipped: dict[str, str | Message] = field(default_factory=dict)
    """Reason for each skipped record, by its index in all inputs."""
    warnings: list[Message] = field(default_factory=list)
    finite: FiniteCheck = field(init=False)

    def __post_init__(self) -> None:
        self.finite = FiniteCheck(
            output=self.part.path,
            unit="record",
            dtype=self.dtype,
            report=self.warnings.append,
        )

    def write(self, embedded: EmbeddedRecord) -> None:
        record = embedded.record
        index = self.part.first + embedded.number - 1
        if record.error is not None:
            self.skipped[str(index)] = record.error
        elif not record.tokens:
            self.n_empty += 1
        self.finite.add(embedded.activations, index + 1)
        self.writer.write(index, record, as_dtype(embedded.activations, self.dtype))
        self.n_tokens += len(record.tokens)

    def checkpoint(self, progress: Progress) -> None:
        """Do nothing: a part is written again from its start."""

    def finish(self, progress: Progress, *, has_ids: bool) -> PartResult:
        """Complete the file."""
        skipped = {
            index: spelled_as_options(reason) for index, reason in self.skipped.items()
        }
        attributes = end_attributes(
            self.part.n_records, progress, skipped, has_ids=has_ids
        )
        self.writer.finish({**attributes, "tokens": str(self.n_tokens)})
        return PartResult(
            number=self.part.number,
            worker=worker_name(),
            n_tokens=self.n_tokens,
            n_skipped=len(self.skipped),
            skipped=tuple(self.skipped.values())[:MAX_SHOWN_SKIPPED],
            warning=next(iter(self.warnings), None),
            n_empty=self.n_empty,
        )
