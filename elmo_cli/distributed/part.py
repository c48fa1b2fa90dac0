"""One part, by a worker that holds a model. Done twice, it is the same file."""

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from typing import IO, Final, NamedTuple

from elmo_cli.distributed.inputs import check_unchanged, decode_types, find_input_format, read_part
from elmo_cli.distributed.plan import CorpusSettings
from elmo_cli.embed_file import embed_windows
from elmo_cli.engine import Engine, load_engine
from elmo_cli.errors import (
    ComputationError,
    InputError,
    OtherInputError,
    OutputError,
    WeightsError,
)
from elmo_cli.inference.precision import Device
from elmo_cli.outputs.output_formats import KEYS, OutputFormat, as_dtype
from elmo_cli.outputs.parts import (
    PART,
    PLAN_SHA256,
    TEMPORARY,
    Folder,
    Part,
    Plan,
    has_part,
    part_name,
    read_plan_sha256,
)
from elmo_cli.outputs.vector_rows import ParquetWriter
from elmo_cli.outputs.writer import FiniteCheck, end_attributes
from elmo_cli.settings import DEFAULT_BATCH_SIZE, ModelSettings
from elmo_cli.text.input_formats import FASTA
from elmo_cli.text.records import ShardReader

MAX_SHOWN_SKIPPED: Final = 20
"""Maximum number of skipped records whose reasons are shown."""


class PlanKey(NamedTuple):
    """Hashes of a plan and the subfolder of its parts, which are all that a worker needs of it."""

    sha256: str
    model_sha256: str
    subfolder: str = ""
    """Subfolder of the parts while they are written; see `Plan.subfolder`."""
    has_ids: bool = False
    """True if the records of the inputs have ids."""
    column_types: str = ""
    """Types of columns; see `Plan.column_types`."""


class PartResult(NamedTuple):
    """Result of a part: a few hundred bytes for parts of any size."""

    number: int
    worker: str
    n_tokens: int = 0
    error: str | None = None
    """Reason why the part is missing; None if it is complete."""
    n_skipped: int = 0
    """Number of skipped records."""
    skipped: tuple[str, ...] = ()
    """Reasons of the first skipped records."""
    warning: str | None = None
    """Warning about its values."""


class _Written(NamedTuple):
    n_tokens: int
    skipped: dict[str, str]
    warning: str | None = None


def key_of(plan: Plan) -> PlanKey:
    """Return the key of a plan."""
    has_ids, model_sha256 = KEYS in plan.settings, plan.settings["model_sha256"]
    return PlanKey(plan.sha256, model_sha256, plan.subfolder, has_ids, plan.column_types)


@lru_cache(maxsize=1)
def load_for_worker(settings: ModelSettings) -> Engine:
    """Load the model of these settings, once per process."""
    return load_engine(settings)


def worker_name() -> str:
    """Return the name of this process in messages."""
    return f"{socket.gethostname()}-{os.getpid()}"


def embed_part(
    folder: str,
    key: PlanKey,
    settings: CorpusSettings,
    part: Part,
    device: Device = "cpu",
    on_tokens: Callable[[int], object] = lambda n_tokens: None,
) -> PartResult:
    """Embed a part to its file, unless the file is complete.

    Args:
        folder: Location of the folder.
        key: Key of its plan.
        settings: Settings of the plan.
        part: Part of the plan.
        device: Device that computes.
        on_tokens: Called with the number of tokens written so far, after each record.

    Returns:
        The result, with the error of the part's own records if there is one.

    Raises:
        ElmoError: An error that all parts would have.
    """
    worker, parts = worker_name(), Folder(folder)
    check_plan(parts, key)
    try:
        if has_part(parts, key.sha256, part.number):
            return PartResult(part.number, worker)
        engine = load_for_worker(replace(settings.model, device=str(device)))
        if engine.content_sha256 != key.model_sha256:
            raise WeightsError(
                f"{engine.files.weights} on {worker}: expected the weights of the plan, "
                f"SHA-256 {key.model_sha256[:12]}..., found {engine.content_sha256[:12]}..."
            )
        written = _publish(
            parts, key, part, partial(_write, key, part, settings, engine, on_tokens)
        )
    except OtherInputError:
        raise
    except (InputError, ComputationError) as error:
        check_unchanged(
            part.path, part.fingerprint
        )  # A changed input is an error of all its parts.
        return PartResult(part.number, worker, error=f"part {part.number}: {error}")
    first = tuple(written.skipped.values())[:MAX_SHOWN_SKIPPED]
    return PartResult(
        *(part.number, worker, written.n_tokens),
        n_skipped=len(written.skipped),
        skipped=first,
        warning=written.warning,
    )


def check_plan(folder: Folder, key: PlanKey) -> None:
    """Raise an `OutputError` if another run has replaced the plan of the folder.

    A next plan has a folder of its own, where no other plan has parts.
    """
    if not key.subfolder and read_plan_sha256(folder) != key.sha256:
        raise OutputError(
            f"{folder.location}: another run has replaced the plan of this run. Give the command "
            "of this run again, with --overwrite to replace what the other run has written."
        )


def _publish(
    folder: Folder, key: PlanKey, part: Part, write: Callable[[IO[bytes]], _Written]
) -> _Written:
    """Write the file of a part, unless another run has done so meanwhile.

    A file of that name which is no part of the plan is replaced, if the plan still holds.
    """
    name, empty = part_name(part.number, key.subfolder), _Written(0, {})
    temporary = f"{key.subfolder}/tmp" if key.subfolder else TEMPORARY
    replaces = folder.has(name)

    def write_and_check(file: IO[bytes]) -> _Written:
        written = write(file)
        check_plan(folder, key)
        return written

    try:
        written = folder.publish(name, write_and_check, temporary=temporary, replaces=replaces)
    except FileNotFoundError:  # A run that ended has removed the temporary files.
        check_plan(folder, key)
        if has_part(folder, key.sha256, part.number):
            return empty
        raise OutputError(
            f"{folder.location}: another process has removed the temporary file of {part}. Give "
            "the same command again."
        ) from None
    if written is None and not has_part(folder, key.sha256, part.number):
        check_plan(folder, key)
        raise OutputError(
            f"{folder.location}/{name}: another process has written another file. Give the same "
            "command again."
        )
    return written or empty


def _write(
    key: PlanKey,
    part: Part,
    settings: CorpusSettings,
    engine: Engine,
    on_tokens: Callable[[int], object],
    file: IO[bytes],
) -> _Written:
    """Write a part to an open file."""
    check_unchanged(part.path, part.fingerprint)
    selection = settings.selection.for_model(engine.options.n_layers)
    writer = _open_writer(key, part, settings, engine, file)
    records = ShardReader(read_part(part, settings.text, has_ids=key.has_ids))
    skipped: dict[str, str] = {}
    warnings: list[str] = []
    finite = FiniteCheck(part.path, "record", settings.dtype, warnings.append)
    n_tokens = 0
    windows = embed_windows(
        engine,
        records.read(),
        selection,
        unit=f"{part.path}, record",
        skip_errors=settings.text.skip_errors,
    )
    for embedded in chain.from_iterable(window.records for window in windows):
        record, number = embedded.record, part.first + embedded.number - 1
        if record.error is not None:
            skipped[str(number)] = record.error
        finite.add(embedded.activations, number + 1)
        writer.write(number, record, as_dtype(embedded.activations, settings.dtype))
        n_tokens += len(record.tokens)
        on_tokens(n_tokens)
    if records.error is not None:
        raise records.error
    check_unchanged(part.path, part.fingerprint)
    if records.progress.n_records != part.n_records:
        raise OtherInputError(
            f"{part.path}: expected {part.n_records:,} records in {part}, found "
            f"{records.progress.n_records:,}. Use --overwrite to start over."
        )
    end = end_attributes(part.n_records, records.progress, skipped)
    writer.finish({**end, "tokens": str(n_tokens)})
    return _Written(n_tokens, skipped, next(iter(warnings), None))


def _open_writer(
    key: PlanKey, part: Part, settings: CorpusSettings, engine: Engine, file: IO[bytes]
) -> ParquetWriter:
    """Open the writer of a part; its metadata names the plan and the number of the part."""
    selection = settings.selection.for_model(engine.options.n_layers)
    output_format = OutputFormat(
        "parquet",
        compression="zstd",
        dtype=settings.dtype,
        pooled=selection.pooling is not None,
        forget_sentences=find_input_format(settings.text, part.path).name == FASTA.name,
    )
    attributes = engine.attributes(selection, DEFAULT_BATCH_SIZE) | {
        "dtype": settings.dtype,
        PLAN_SHA256: key.sha256,
        PART: str(part.number),
    }
    writer = ParquetWriter(file, output_format, attributes)
    writer.keeps_tokens = True
    writer.fix_columns(decode_types(key.column_types))
    return writer
