"""One part, by a worker that holds a model: done twice, it is the same file."""

import os
import socket
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from typing import IO, NamedTuple

from elmo_cli.distributed.inputs import Part, read_part
from elmo_cli.distributed.plan import Settings
from elmo_cli.embed_file import embed_windows
from elmo_cli.embedder import DEFAULT_BATCH_SIZE, ElmoEmbedder
from elmo_cli.errors import ComputationError, InputError, WeightsError
from elmo_cli.inference.device import Device
from elmo_cli.outputs.formats import OutputFormat, as_dtype
from elmo_cli.outputs.parts import Folder, part_name
from elmo_cli.outputs.streams import ParquetWriter
from elmo_cli.outputs.writer import end_attributes
from elmo_cli.text.shards import ShardReader


class PartResult(NamedTuple):
    """What became of a part: some hundred bytes, however large it is."""

    number: int
    worker: str
    n_tokens: int = 0
    error: str | None = None
    """Why it is not there."""


@lru_cache(maxsize=1)
def load_embedder(settings: Settings, device: Device) -> ElmoEmbedder:
    """Load the model of these settings, once a process."""
    return ElmoEmbedder(
        settings.options_file,
        settings.weight_file,
        device=device,
        model=settings.model,
        vocabulary_file=settings.vocabulary_file,
        state=settings.state,
        precision=settings.precision,
        batch_tokens=settings.batch_tokens,
    )


def worker_name() -> str:
    """What messages call this process."""
    return f"{socket.gethostname()}-{os.getpid()}"


def embed_part(
    folder: str,
    model_sha256: str,
    settings: Settings,
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
            embedder = load_embedder(settings, device)
            if embedder.content_sha256 != model_sha256:
                raise WeightsError(
                    f"{embedder.files.weights} on {worker}: expected the weights of the plan, "
                    f"SHA-256 {model_sha256[:12]}..., found {embedder.content_sha256[:12]}..."
                )
            n_tokens = there.publish(name, partial(_write, part, settings, embedder, on_tokens))
    except (InputError, ComputationError) as error:
        return PartResult(part.number, worker, error=f"part {part.number}: {error}")
    return PartResult(part.number, worker, n_tokens)


def _write(
    part: Part,
    settings: Settings,
    embedder: ElmoEmbedder,
    on_tokens: Callable[[int], object],
    file: IO[bytes],
) -> int:
    """Write a part; how many tokens it has."""
    selection = settings.selection(embedder.options.n_layers)
    is_fasta = settings.format_of(part.path) == "fasta"
    has_keys = is_fasta or settings.key_column is not None
    output_format = OutputFormat(
        "parquet",
        compression="zstd",
        dtype=settings.dtype,
        pooled=settings.pooling is not None,
        forget_sentences=is_fasta,
    )
    attributes = embedder.attributes(selection, DEFAULT_BATCH_SIZE) | {"dtype": settings.dtype}
    writer = ParquetWriter(file, output_format, attributes)
    writer.keeps_tokens = True
    records = ShardReader(read_part(part, settings))
    skipped: dict[str, str] = {}
    n_tokens = 0
    unit, skip_errors = f"{part.path}, record", settings.skip_errors
    windows = embed_windows(embedder, records.read(), selection, unit=unit, skip_errors=skip_errors)
    for record, place, values in chain.from_iterable(windows):
        number = part.first + place.n_records - 1
        if record.error is not None:
            skipped[str(number)] = record.error
        if has_keys:
            record = record._replace(id=record.id or "")
        writer.write(number, record, as_dtype(values, settings.dtype))
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
