"""One part, by a worker that holds a model: done twice, it is the same file."""

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from typing import IO, NamedTuple

from elmo_cli.distributed.inputs import Part, format_name, read_part
from elmo_cli.distributed.plan import CorpusSettings
from elmo_cli.embed_file import ReadRecord, embed_windows
from elmo_cli.engine import Engine, load_engine
from elmo_cli.errors import ComputationError, InputError, WeightsError
from elmo_cli.inference.device import Device
from elmo_cli.outputs.formats import OutputFormat, as_dtype
from elmo_cli.outputs.parts import Folder, part_name
from elmo_cli.outputs.streams import ParquetWriter
from elmo_cli.outputs.writer import end_attributes
from elmo_cli.settings import DEFAULT_BATCH_SIZE, ModelSettings
from elmo_cli.text.shards import ShardReader


class PartResult(NamedTuple):
    """What became of a part: some hundred bytes, however large it is."""

    number: int
    worker: str
    n_tokens: int = 0
    error: str | None = None
    """Why it is not there."""


@lru_cache(maxsize=1)
def load_for_worker(settings: ModelSettings) -> Engine:
    """Load the model of these settings, once per process."""
    return load_engine(settings)


def worker_name() -> str:
    """What messages call this process."""
    return f"{socket.gethostname()}-{os.getpid()}"


def embed_part(
    folder: str,
    model_sha256: str,
    settings: CorpusSettings,
    part: Part,
    device: Device = "cpu",
    on_tokens: Callable[[int], object] = lambda n_tokens: None,
) -> PartResult:
    """Embed a part to its file, unless that is there; an error of its own records is returned.

    `on_tokens` is told how many tokens are written.
    """
    worker, name = worker_name(), part_name(part.number)
    there, n_tokens = Folder(folder), 0
    try:
        if not there.has(name):
            engine = load_for_worker(replace(settings.model, device=str(device)))
            if engine.content_sha256 != model_sha256:
                raise WeightsError(
                    f"{engine.files.weights} on {worker}: expected the weights of the plan, "
                    f"SHA-256 {model_sha256[:12]}..., found {engine.content_sha256[:12]}..."
                )
            n_tokens = there.publish(name, partial(_write, part, settings, engine, on_tokens))
    except (InputError, ComputationError) as error:
        return PartResult(part.number, worker, error=f"part {part.number}: {error}")
    return PartResult(part.number, worker, n_tokens)


def _write(
    part: Part,
    settings: CorpusSettings,
    engine: Engine,
    on_tokens: Callable[[int], object],
    file: IO[bytes],
) -> int:
    """Write a part; how many tokens it has."""
    selection = settings.selection.for_model(engine.options.n_layers)
    is_fasta = format_name(settings.text, part.path) == "fasta"
    has_keys = is_fasta or settings.text.id_column is not None
    output_format = OutputFormat(
        "parquet",
        compression="zstd",
        dtype=settings.dtype,
        pooled=selection.pooling is not None,
        forget_sentences=is_fasta,
    )
    attributes = engine.attributes(selection, DEFAULT_BATCH_SIZE) | {"dtype": settings.dtype}
    writer = ParquetWriter(file, output_format, attributes)
    writer.keeps_tokens = True
    records = ShardReader(read_part(part, settings.text))
    skipped: dict[str, str] = {}
    n_tokens = 0
    windows = embed_windows(
        engine,
        (ReadRecord(record, progress) for record, progress in records.read()),
        selection,
        unit=f"{part.path}, record",
        skip_errors=settings.text.skip_errors,
    )
    for embedded in chain.from_iterable(window.records for window in windows):
        record, number = embedded.record, part.first + embedded.progress.n_records - 1
        if record.error is not None:
            skipped[str(number)] = record.error
        if has_keys:
            record = record._replace(id=record.id or "")
        writer.write(number, record, as_dtype(embedded.activations, settings.dtype))
        n_tokens += len(record.tokens)
        on_tokens(n_tokens)
    if records.progress.n_records != part.n_records:
        raise InputError(
            f"{part.path}: expected {part.n_records:,} records, found "
            f"{records.progress.n_records:,}; it has changed since the plan"
        )
    end = end_attributes(part.n_records, records.progress, skipped)
    writer.finish({**end, "tokens": str(n_tokens)})
    return n_tokens
