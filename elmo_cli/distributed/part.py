"""One part, by a worker that holds a model: done twice, it is the same file."""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import IO, NamedTuple

from elmo_cli.distributed.folder import Folder, process_name
from elmo_cli.distributed.inputs import Part, read_part
from elmo_cli.distributed.plan import Settings
from elmo_cli.embedder import DEFAULT_BATCH_SIZE, ElmoEmbedder
from elmo_cli.errors import ComputationError, ElmoError, InputError, StoppedError, WeightsError
from elmo_cli.inference.batching import sentence_windows
from elmo_cli.inference.device import Device
from elmo_cli.outputs.formats import OutputFormat
from elmo_cli.outputs.parquet import ParquetWriter
from elmo_cli.outputs.parts import part_name
from elmo_cli.outputs.writer import end_attributes
from elmo_cli.text.records import Place, hashed_text


class PartResult(NamedTuple):
    """What became of a part: some hundred bytes, however large it is."""

    number: int
    worker: str
    n_tokens: int = 0
    error: str | None = None
    """Why it is not there."""
    ends_run: bool = False
    """Whether the error would be that of every other part too."""


@lru_cache(maxsize=1)  # engines unpickle a worker for each part, in the same process
def load_embedder(settings: Settings, device: Device) -> ElmoEmbedder:
    """Load the model of these settings, once a process."""
    return ElmoEmbedder(
        *(settings.options_file, settings.weight_file),
        device=device,
        model=settings.model,
        vocabulary_file=settings.vocabulary_file,
        state=settings.state,
        precision=settings.precision,
        batch_tokens=settings.batch_tokens,
    )


class PartWorker:
    """Embeds parts of a folder; all its arguments are plain values."""

    def __init__(
        self,
        folder: str,
        model_sha256: str,
        settings: Settings,
        *,
        device: Device = "cpu",
        n_threads: int | None = None,
        attempts: int = 5,
        on_window: Callable[[int], object] = lambda n_tokens: None,
    ) -> None:
        """Note the arguments; the model is loaded for the first part.

        Args:
            folder: of the parts.
            model_sha256: of the model that the plan has.
            settings: the model, and what is written of it.
            device: as in `ElmoEmbedder`.
            n_threads: threads of torch; its default if not given.
            attempts: the number of workers that may begin a part and not end it.
            on_window: told of the tokens of each window.
        """
        self._folder, self._settings, self._sha256 = Folder(folder), settings, model_sha256
        self._device, self._n_threads, self._attempts = device, n_threads, attempts
        self._on_window = on_window
        self._embedder: ElmoEmbedder | None = None

    def __call__(self, part: Part) -> PartResult:
        """Embed a part, unless it is there."""
        worker = process_name()
        if self._folder.has(part_name(part.number)):
            return PartResult(part.number, worker)
        try:
            if self._folder.begin(part.number) >= self._attempts:
                error = f"{part}: ended {self._attempts} workers; it is left out"
                return PartResult(part.number, worker, error=error)
            n_tokens = self._embed(part)
        except (InputError, ComputationError) as error:
            self._folder.end(part.number)
            return PartResult(part.number, worker, error=f"part {part.number}: {error}")
        except StoppedError:
            raise
        except ElmoError as error:
            return PartResult(part.number, worker, error=str(error), ends_run=True)
        self._folder.end(part.number)
        return PartResult(part.number, worker, n_tokens)

    def _embed(self, part: Part) -> int:
        """Write a part; how many tokens it has."""
        embedder = self._embedder = self._embedder or self._loaded()
        n_tokens = 0

        def write(file: IO[bytes]) -> None:
            nonlocal n_tokens
            n_tokens = self._write(part, embedder, file)

        self._folder.publish(part_name(part.number), write)
        return n_tokens

    def _loaded(self) -> ElmoEmbedder:
        """Load the model, which has to be that of the plan."""
        import torch

        if self._n_threads is not None:
            torch.set_num_threads(self._n_threads)
        embedder = load_embedder(self._settings, self._device)
        if embedder.content_sha256 != self._sha256:
            raise WeightsError(
                f"{embedder.files.weights} on {process_name()}: expected the weights of the plan, "
                f"SHA-256 {self._sha256[:12]}..., found {embedder.content_sha256[:12]}..."
            )
        return embedder

    def _write(self, part: Part, embedder: ElmoEmbedder, file: IO[bytes]) -> int:
        settings = self._settings
        selection = settings.selection(embedder.options.n_layers)
        is_fasta = settings.columns.format_of(part.path) == "fasta"
        output_format = OutputFormat(
            *("parquet", "allennlp", "zstd", settings.dtype),
            pooled=settings.pooling is not None,
            forget_sentences=is_fasta,
        )
        attributes = embedder.attributes(selection, DEFAULT_BATCH_SIZE)
        attributes |= {"dtype": settings.dtype, "part": str(part.number), "first": str(part.first)}
        writer = ParquetWriter(file, output_format, attributes, with_tokens=True)
        has_keys = is_fasta or settings.key_column is not None
        digest, skipped = hashlib.sha256(), {}
        number, n_tokens = part.first, 0
        for window in sentence_windows(
            read_part(part, settings.columns),
            *(DEFAULT_BATCH_SIZE, embedder.batch_tokens),
            carried=False,
            length=lambda record: len(record.tokens),
        ):
            embedded = embedder.embed_window([record.tokens for record in window], selection)
            for record, values in zip(window, embedded, strict=True):
                if isinstance(values, ComputationError):
                    if not settings.skip_errors:
                        raise ComputationError(f"{part.path}, record {number:,}: {values}")
                    record = record._replace(tokens=[], error=str(values))
                    values = embedder.nothing(selection)
                if record.error is not None:
                    skipped[str(number)] = record.error
                if has_keys:
                    record = record._replace(key=record.key or "")
                writer.write(number, record, values.astype(settings.dtype, copy=False))
                digest.update(hashed_text(record.text))
                number, n_tokens = number + 1, n_tokens + len(record.tokens)
            self._on_window(sum(len(record.tokens) for record in window))
        n_records = number - part.first
        if n_records != part.n_records:
            raise InputError(
                f"{part.path}: expected {part.n_records:,} records, found {n_records:,}; it has "
                "changed since the plan"
            )
        end = end_attributes(n_records, Place(n_records, digest.hexdigest()), skipped)
        writer.finish({**end, "tokens": str(n_tokens)})
        return n_tokens
