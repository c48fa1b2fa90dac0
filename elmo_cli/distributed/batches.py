"""Column of activations for the batches of other pipelines: Ray Data, Spark, Dask."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from elmo_cli.distributed.part import load_for_worker
from elmo_cli.distributed.plan import CorpusSettings
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors import InputError
from elmo_cli.inference.device import Device
from elmo_cli.outputs.formats import as_dtype
from elmo_cli.outputs.streams import nested_array
from elmo_cli.settings import ModelSettings, Selection, TextSettings, settings_from
from elmo_cli.text.records import check_sentence
from elmo_cli.text.tables import TableError, choose_columns


class EmbedBatch:
    """Function that adds a column to a batch: a table of pyarrow or pandas, or a dict of arrays.

        dataset.map_batches(
            EmbedBatch,
            fn_constructor_kwargs={"layers": "average", "pooling": "mean"},
            batch_format="pyarrow",
            batch_size=2048,
            compute=ray.data.ActorPoolStrategy(size=8),
        )

    The activations go through the memory of the pipeline, so that pooled vectors suit best: all
    layers take 12 KiB per token. `elmo distribute` writes them where they are computed.
    """

    def __init__(
        self, *, column: str = "activations", device: Device = "cpu", **options: Any
    ) -> None:
        """Keep plain values. The first batch loads the model.

        Args:
            column: Name of the new column.
            device: Device that computes, as in `ElmoEmbedder`.
            options: Fields of `ModelSettings`, `TextSettings` and `Selection`, such as `model`,
                `layers`, `pooling` and `text_column`, and `dtype`.

        Raises:
            InputError: An option is unknown, or its value is invalid.
        """
        self._column = column
        self._text = settings_from(TextSettings, options)
        self._settings = CorpusSettings(
            replace(settings_from(ModelSettings, options), device=str(device)),
            self._text,
            settings_from(Selection, options),
            options.get("dtype", "float32"),
        )
        option_names = {
            *("dtype", *ModelSettings.__dataclass_fields__),
            *(*TextSettings.__dataclass_fields__, *Selection.__dataclass_fields__),
        }
        if unknown := sorted(options.keys() - option_names):
            raise InputError(f"{', '.join(unknown)}: unknown option of EmbedBatch.")

    def __call__(self, batch: Any) -> Any:
        """Return the batch with the column; its texts are strings, lists of tokens or None."""
        settings, is_table = self._settings, hasattr(batch, "append_column")
        try:
            names = batch.column_names if is_table else list(batch)
            name = choose_columns(names, self._text.read_options().fields).text[0]
        except TableError as error:
            raise InputError(f"the batch: {error}") from None
        texts = batch[name]
        tokenize = self._text.make_tokenizer().tokenize
        sentences = [
            tokenize(text or "")
            if text is None or isinstance(text, str)
            else check_sentence(text, f"{name}[{index}]", "a string or a list of tokens")
            for index, text in enumerate(texts.to_pylist() if is_table else texts)
        ]
        embedder = ElmoEmbedder.from_engine(load_for_worker(settings.model))
        embedded = embedder.embed_sentences(sentences, **asdict(settings.selection))
        values = [as_dtype(each, settings.dtype) for each in embedded]
        is_pooled = settings.selection.pooling is not None
        if is_table:
            return batch.append_column(self._column, nested_array(values, pooled=is_pooled))
        if not isinstance(batch, dict):
            return batch.assign(**{self._column: [value.tolist() for value in values]})
        column = np.empty(len(values), object)
        column[:] = values
        return {**batch, self._column: np.stack(values) if is_pooled else column}
