"""A column of activations for the batches of a pipeline of one's own: Ray Data, Spark, Dask."""

from typing import Any

import numpy as np

from elmo_cli.distributed.part import load_embedder
from elmo_cli.distributed.plan import Settings
from elmo_cli.inference.device import Device
from elmo_cli.outputs.formats import as_dtype
from elmo_cli.outputs.streams import nested_array
from elmo_cli.text.records import check_sentence
from elmo_cli.text.tokenizers import make_tokenizer


class EmbedBatch:
    """Adds a column to a batch: a `pyarrow.Table`, a `pandas.DataFrame` or a dict of arrays.

        dataset.map_batches(
            EmbedBatch,
            fn_constructor_kwargs={"layers": "average", "pooling": "mean"},
            batch_format="pyarrow",
            batch_size=2048,
            compute=ray.data.ActorPoolStrategy(size=8),
        )

    The activations go through the engine's memory: meant for pooled vectors. All layers of all
    tokens are 12 KiB a token; `elmo distribute` writes them where they are computed.
    """

    def __init__(
        self, *, column: str = "activations", device: Device = "cpu", **settings: Any
    ) -> None:
        """Note plain values; the model is loaded for the first batch.

        Args:
            column: the name of the new column.
            device: as in `ElmoEmbedder`.
            settings: those of `Settings`, such as `model`, `layers`, `pooling` and `text_column`.
        """
        self._column, self._device, self._settings = column, device, Settings(**settings)

    def __call__(self, batch: Any) -> Any:
        """The batch with the column; its texts are strings or lists of tokens, or None."""
        settings, is_table = self._settings, hasattr(batch, "append_column")
        texts, cut = batch[settings.text_column], make_tokenizer(settings.tokenizer).tokenize
        sentences = [
            cut(text or "") if text is None or isinstance(text, str) else check_sentence(text)
            for text in (texts.to_pylist() if is_table else texts)
        ]
        embedded = load_embedder(settings, self._device).embed_sentences(
            map(list, sentences),
            layers=settings.layers,
            mix=settings.mix,
            gamma=settings.gamma,
            pooling=settings.pooling,
        )
        values = [as_dtype(each, settings.dtype) for each in embedded]
        is_pooled = settings.pooling is not None
        if is_table:
            return batch.append_column(self._column, nested_array(values, pooled=is_pooled))
        if not isinstance(batch, dict):
            return batch.assign(**{self._column: [value.tolist() for value in values]})
        column = np.empty(len(values), object)
        column[:] = values
        return {**batch, self._column: np.stack(values) if is_pooled else column}
