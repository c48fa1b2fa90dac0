"""Engine of Ray, which places workers, restarts them, and repeats the parts of dead workers.

A worker is an actor and not a task, because an actor keeps its process, its model and its GPU.

`EmbedBatch` adds a column of activations to the batches of other pipelines: Ray Data, Spark, Dask.
"""

import logging
import math
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from multiprocessing import TimeoutError
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from elmo_cli.distributed.inputs import Part
from elmo_cli.distributed.part import PartResult, load_for_worker
from elmo_cli.distributed.plan import CorpusSettings
from elmo_cli.distributed.workers import EmbedPart
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors.exceptions import DeviceError, ElmoError
from elmo_cli.errors.optional_imports import install_command, load_extra
from elmo_cli.errors.wording import counted, first_line
from elmo_cli.inference.device import Device
from elmo_cli.options.model import InitialState, ModelSettings, Precision
from elmo_cli.options.resources import Resources
from elmo_cli.options.selection import Layers, Selection, layers_text
from elmo_cli.options.text import text_settings
from elmo_cli.outputs.arrow_arrays import nested_array
from elmo_cli.outputs.output_formats import as_dtype
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.records.columns import choose_columns, named_columns
from elmo_cli.text.choose_tokenizer import choose_tokenizer
from elmo_cli.text.tokenizers import tokenize_texts

logger = logging.getLogger(__name__)

_MIN_RAY: Final = (2, 51)
_CONNECT_SECONDS: Final = 30.0  # longer than Ray tries a token
# seconds without a worker after which a warning is logged
_SILENT_SECONDS: Final = 25.0
_NO_WORKER: Final = (
    "Warning: no worker runs: no node has %g CPUs and %g GPUs free. Waiting."
)


class _Worker:
    """Actor of Ray, whose process holds a model."""

    def __init__(self, embed: EmbedPart, resources: Resources) -> None:
        self._embed, self._n_threads = embed, max(1, int(resources.cpus_per_worker))
        # Ray hides other GPUs.
        self._device = "cuda" if resources.gpus_per_worker else "cpu"

    def start(self) -> None:
        """Return when the worker runs."""

    def embed(self, part: Part) -> PartResult:
        torch.set_num_threads(self._n_threads)
        return self._embed(part, device=self._device)


def embed_on_ray(
    parts: Sequence[Part], embed: EmbedPart, resources: Resources
) -> Iterator[PartResult | None]:
    """Embed parts by workers of Ray; see `workers.Workers`."""
    ray, address = load_ray(), resources.address or os.environ.get("RAY_ADDRESS")
    name = "--address" if resources.address else "RAY_ADDRESS"
    # Ray prints which workers died. Its processes end with the thread that has started them.
    with redirect_stdout(sys.stderr), ThreadPool(1) as starter:
        _connect(ray, name, address, starter)
        try:
            n_workers = min(resources.workers or len(parts), len(parts))
            if (
                address is None or resources.workers is None
            ):  # Otherwise nodes may join later.
                n_workers = min(
                    n_workers, _max_workers(ray.cluster_resources(), resources)
                )
            actor = ray.remote(_Worker).options(
                num_cpus=resources.cpus_per_worker,
                num_gpus=resources.gpus_per_worker,
                max_restarts=-1,
                max_task_retries=-1,
            )
            workers = [actor.remote(embed, resources) for _ in range(n_workers)]
            yield from _results(ray, workers, list(parts), resources)
        except ray.exceptions.RayError as error:
            raise ElmoError(f"Ray ended the run: {first_line(error)}") from None
        finally:
            ray.shutdown()


def _results(
    ray: Any, workers: list[Any], parts: list[Part], resources: Resources
) -> Iterator[PartResult | None]:
    # A worker gets a part once it runs, so that no part waits for a worker without resources.
    starting = {worker.start.remote(): worker for worker in workers}
    at_work: dict[Any, tuple[Any, Part]] = {}
    deaths, heard = Counter[int](), time.monotonic()
    parts.reverse()
    while parts or at_work:
        for call in ray.wait([*starting, *at_work], timeout=1.0)[0]:
            heard = time.monotonic()
            if call in starting:
                worker = starting.pop(call)
                ray.get(call)
            else:
                worker, part = at_work.pop(call)
                try:
                    yield ray.get(call)
                except ray.exceptions.RayTaskError as error:  # An error of our code.
                    raise error.cause from None
                except ray.exceptions.RayError:  # The worker or its node has died.
                    starting[worker.start.remote()] = worker
                    deaths[part.number] += 1
                    if deaths[part.number] < resources.attempts:
                        parts.append(part)
                    else:
                        ended = counted(resources.attempts, "worker")
                        reason = f"{part}: ended {ended}. It is given up."
                        yield PartResult(part.number, "none", error=reason)
                    continue
            if parts:
                part = parts.pop()
                # A lost node would use up Ray's own retries before Ray notices it.
                at_work[worker.embed.options(max_task_retries=0).remote(part)] = (
                    worker,
                    part,
                )
            else:
                ray.kill(worker)  # Other workers may wait for its resources.
        yield None
        if not at_work and time.monotonic() - heard > _SILENT_SECONDS:
            logger.warning(
                _NO_WORKER, resources.cpus_per_worker, resources.gpus_per_worker
            )
            heard = math.inf  # One warning is enough, until there is a result.


def load_ray() -> Any:
    """Import Ray, unless it is too old."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = load_extra("--engine ray", "ray", "ray")
    if tuple(map(int, ray.__version__.split(".")[:2])) < _MIN_RAY:
        raise ElmoError(
            f"--engine ray requires Ray 2.51 or newer, and Ray {ray.__version__} is installed. "
            f"Use {install_command('ray')}."
        )
    return ray


def _connect(ray: Any, name: str, address: str | None, starter: ThreadPool) -> None:
    """Connect to a cluster, or start one here, in a thread without handlers of signals."""
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None:
            starter.apply(
                ray.init, ("local",), {"include_dashboard": False, **settings}
            )
        else:
            starter.apply_async(ray.init, (address,), settings).get(_CONNECT_SECONDS)
    except Exception as error:
        reason = getattr(error, "strerror", None) or first_line(error).removesuffix(".")
        if address is None:
            remedy = "Give the same command again, or use --engine none."
            raise ElmoError(f"cannot start Ray here: {reason}. {remedy}") from None
        if isinstance(error, TimeoutError):
            reason = f"no answer for {_CONNECT_SECONDS:.0f} seconds"
        remedy = f"Without {name}, the run starts its own."
        if "authentication" in f"{error} {error.__cause__}".lower():
            reason = "the token is missing or wrong"
            remedy = (
                "Set RAY_AUTH_MODE=token, and copy the cluster's ~/.ray/auth_token."
            )
        problem = f"{name} {address}: cannot connect to a Ray cluster: {reason}"
        raise ElmoError(f"{problem}. {remedy}") from None
    if threading.current_thread() is threading.main_thread():
        # Ray's core prints a stack trace at SIGTERM before it calls Python's handler.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def _max_workers(cluster: dict[str, float], resources: Resources) -> int:
    """Return the maximum number of workers of a cluster that has no other users."""
    sizes = {"CPU": resources.cpus_per_worker, "GPU": resources.gpus_per_worker}
    for name, size in sizes.items():
        if cluster.get(name, 0) < size:
            problem = (
                f"the cluster has {counted(int(cluster.get(name, 0)), name)} in all"
            )
            option = f"--{name.lower()}s-per-worker {size:g}"
            raise DeviceError(f"{option}: {problem}. Ask for fewer.")
    return min(int(cluster[name] / size) for name, size in sizes.items() if size)


class EmbedBatch:
    """Function that adds a column to a batch.

    A batch is a table of pyarrow or pandas, or a dict of arrays:

        dataset.map_batches(
            EmbedBatch,
            fn_constructor_kwargs={"layers": "average", "pooling": "mean"},
            batch_format="pyarrow",
            batch_size=2048,
            compute=ray.data.ActorPoolStrategy(size=8),
        )

    The activations go through the memory of the pipeline, so that pooled vectors suit
    best: all layers take 12 KiB per token. `elmo distribute` writes them where they are
    computed.
    """

    def __init__(
        self,
        *,
        column: str = "activations",
        device: Device = "cpu",
        model: str | Path | ModelFiles | None = None,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        vocabulary_file: str | Path | None = None,
        state: InitialState | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
        layers: Layers = "all",
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: str | None = None,
        normalize: bool = False,
        input_format: str | None = None,
        tokenizer: str | None = None,
        language: str | None = None,
        split_sentences: bool = False,
        dtype: str = "float32",
        shard: str | None = None,
        skip_errors: bool = False,
        delimiter: str | None = None,
        quotes: str | None = None,
        text_column: str | None = None,
        word_column: str | None = None,
        id_column: str | None = None,
        paragraphs: bool = False,
        keep_columns: Sequence[str] = (),
    ) -> None:
        """Keep plain values. The first batch loads the model.

        Args:
            column: Name of the new column.
            device: Device that computes. It, `model`, `options_file`, `weight_file`,
                `vocabulary_file`, `state`, `precision` and `batch_tokens` are as in
                `ElmoEmbedder`.
            layers, mix, gamma, pooling, normalize: As in
                `ElmoEmbedder.embed_sentences`.
            text_column: Column with the texts: strings, lists of tokens or None. By
                default it is `text` or `tokens`.
            tokenizer, language, split_sentences: As in `ElmoEmbedder.embed_file`.
            dtype: Data type of the values: `float32` or `float16`.
            input_format, shard, skip_errors, delimiter, quotes, word_column, id_column,
                paragraphs, keep_columns: As in `ElmoEmbedder.embed_file`, without a use
                here, where a batch is read already. Columns that they name must exist.

        Raises:
            InputError: The value of an option is invalid.
        """
        self._settings = CorpusSettings(
            model=ModelSettings(
                model=model,
                options_file=options_file,
                weight_file=weight_file,
                vocabulary_file=vocabulary_file,
                state=state,
                precision=precision,
                device=str(device),
                batch_tokens=batch_tokens,
            ),
            text=text_settings(
                input_format=input_format,
                tokenizer=tokenizer,
                language=language,
                split_sentences=split_sentences,
                shard=shard,
                skip_errors=skip_errors,
                delimiter=delimiter,
                quotes=quotes,
                text_column=text_column,
                word_column=word_column,
                id_column=id_column,
                paragraphs=paragraphs,
                keep_columns=keep_columns,
            ),
            selection=Selection(
                layers=layers_text(layers),
                mix=None if mix is None else tuple(mix),
                gamma=gamma,
                pooling=pooling,
                normalize=normalize,
            ),
            dtype=dtype,
        )
        self._column = column

    def __call__(self, batch: Any) -> Any:
        """Return the batch with the column."""
        settings = self._settings
        is_table = hasattr(batch, "append_column")
        names = batch.column_names if is_table else list(batch)
        columns = choose_columns(named_columns(settings.text), names, table="the batch")
        name = columns.texts[0]
        column = batch[name].to_pylist() if is_table else batch[name]
        texts = ["" if text is None else text for text in column]
        tokenizer = choose_tokenizer(settings.text, "raw")
        sentences = tokenize_texts(texts, tokenizer.tokenize, name)
        embedder = ElmoEmbedder.from_engine(load_for_worker(settings.model))
        selection = settings.selection
        embedded = embedder.embed_sentences(
            sentences,
            layers=selection.layers,
            mix=selection.mix,
            gamma=selection.gamma,
            pooling=selection.pooling,
            normalize=selection.normalize,
        )
        values = [as_dtype(each, settings.dtype) for each in embedded]
        is_pooled = selection.pooling is not None
        if is_table:
            arrays = nested_array(values, pooled=is_pooled)
            return batch.append_column(self._column, arrays)
        if not isinstance(batch, dict):
            return batch.assign(**{self._column: [value.tolist() for value in values]})
        if is_pooled:
            new = np.stack(values)
        else:
            new = np.empty(len(values), object)
            new[:] = values
        return {**batch, self._column: new}
