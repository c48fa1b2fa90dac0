"""One part, embedded by a worker that holds a model. Embedded twice, it is the same file."""

import os
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import IO, Final, NamedTuple

from elmo_cli.distributed.inputs import Part, changed_error, read_part
from elmo_cli.distributed.plan import (
    CorpusSettings,
    Plan,
    open_writer,
    read_column_types,
)
from elmo_cli.embed_file import embed_windows
from elmo_cli.engine import Engine, load_engine
from elmo_cli.errors.exceptions import (
    ComputationError,
    InputError,
    OtherInputError,
    OutputError,
    WeightsError,
)
from elmo_cli.files.folder import Folder
from elmo_cli.inference.device import Device
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.outputs.finite import FiniteCheck
from elmo_cli.outputs.output_formats import as_dtype
from elmo_cli.outputs.parquet import ParquetWriter
from elmo_cli.outputs.parts import PART, PARTS, PLAN_SHA256, part_name, read_footer
from elmo_cli.outputs.writer import end_attributes
from elmo_cli.records.progress import ShardReader

# maximum number of skipped records whose reasons are shown
MAX_SHOWN_SKIPPED: Final = 20


class PlanKey(NamedTuple):
    """All that a worker needs of a plan in addition to its part."""

    sha256: str
    n_parts: int
    attributes: dict[
        str, str
    ]  # settings of the plan, which become attributes of the part


class PartResult(NamedTuple):
    """Result of a part: a few hundred bytes for parts of any size."""

    number: int
    worker: str
    n_tokens: int = 0
    error: str | None = None  # reason why the part is missing; None if it is complete
    n_skipped: int = 0
    skipped: tuple[str, ...] = ()  # reasons of the first skipped records
    warning: str | None = None  # warning about its values
    n_empty: int = 0  # number of records without text, apart from skipped ones


def key_of(plan: Plan) -> PlanKey:
    """Return the key of a plan."""
    return PlanKey(plan.sha256, len(plan.parts), plan.settings)


load_for_worker = lru_cache(maxsize=1)(
    load_engine
)  # function that loads a model once per process


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

    An error of the part's own records is in the result; one that all parts would have is raised.
    `on_tokens` is called after each record with the number of tokens written so far.
    """
    parts, there = Folder(folder), PartResult(part.number, worker_name())
    if _is_there(parts, key, part):
        return there
    engine = load_for_worker(replace(settings.model, device=str(device)))
    try:
        column_types = read_column_types(parts, key.sha256)
        expected = key.attributes["model_sha256"]
        if engine.content_sha256 != expected:
            raise WeightsError(
                f"{engine.files.weights} on {there.worker}: not the weights of the plan (SHA-256 "
                f"{expected[:12]}..., not {engine.content_sha256[:12]}...). Copy them there."
            )
        selection = settings.selection.for_model(engine.options.n_layers)
        attributes = {
            **key.attributes,
            **engine.attributes(selection, DEFAULT_BATCH_SIZE),
            **{
                PLAN_SHA256: key.sha256,
                PARTS: str(key.n_parts),
                PART: str(part.number),
            },
        }

        def write(file: IO[bytes]) -> PartResult:
            writer = open_writer(file, settings, part.path, column_types, attributes)
            has_ids = "id" in column_types
            with closing(writer):
                return _write(
                    writer, part, settings, engine, on_tokens, has_ids=has_ids
                )

        return parts.publish(part_name(part.number), write)
    except OtherInputError:
        raise
    except (InputError, ComputationError) as error:
        return there._replace(error=f"part {part.number}: {error}")
    except OutputError:
        if _is_there(
            parts, key, part
        ):  # An equal run has completed the folder meanwhile.
            return there
        raise


def _is_there(folder: Folder, key: PlanKey, part: Part) -> bool:
    return (read_footer(folder, part.number) or ())[:2] == (key.sha256, part.number)


def _write(
    writer: ParquetWriter,
    part: Part,
    settings: CorpusSettings,
    engine: Engine,
    on_tokens: Callable[[int], object],
    *,
    has_ids: bool,
) -> PartResult:
    selection, text = (
        settings.selection.for_model(engine.options.n_layers),
        settings.text,
    )
    records = ShardReader(read_part(part, text, has_ids=has_ids))
    skipped, warnings, n_tokens, n_empty = dict[str, str](), list[str](), 0, 0
    finite = FiniteCheck(part.path, "record", settings.dtype, warnings.append)
    windows = embed_windows(
        engine,
        records.read(),
        selection,
        unit=f"{part.path}, record",
        skip_errors=text.skip_errors,
        splits_records=text.split_sentences,
        finite=finite,
    )
    for embedded in chain.from_iterable(
        embedded_records for embedded_records, _ in windows
    ):
        record, number = embedded.record, part.first + embedded.number - 1
        if record.error is not None:
            skipped[str(number)] = record.error
        n_empty += record.error is None and not record.tokens
        finite.add(embedded.activations, number + 1)
        writer.write(number, record, as_dtype(embedded.activations, settings.dtype))
        n_tokens += len(record.tokens)
        on_tokens(n_tokens)
        del embedded  # It would keep its batch in memory during the next window.
    if records.error or records.progress.n_records != part.n_records:
        raise records.error or changed_error(part.path)
    end = end_attributes(part.n_records, records.progress, skipped, has_keys=has_ids)
    writer.finish({**end, "tokens": str(n_tokens)})
    shown, warning = (
        tuple(skipped.values())[:MAX_SHOWN_SKIPPED],
        next(iter(warnings), None),
    )
    there = PartResult(
        part.number, worker_name(), n_tokens, None, len(skipped), shown, warning
    )
    return there._replace(n_empty=n_empty)
