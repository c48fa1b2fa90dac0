"""A column of activations for the batches of other pipelines.

These are Ray Data, Spark, Dask, or a table in memory.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.distributed.part import load_for_worker
from elmo_cli.distributed.plan import CorpusSettings
from elmo_cli.embedder import embedder_on
from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Template
from elmo_cli.inference.device import Device
from elmo_cli.options.layers import Layers
from elmo_cli.options.model import (
    InitialState,
    ModelSettings,
    Precision,
    check_device,
)
from elmo_cli.options.output import Dtype
from elmo_cli.options.selection import Pooling, SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.options.tokenizer_names import AUTO, parse_tokenizer_name
from elmo_cli.outputs.arrow_arrays import nested_array
from elmo_cli.outputs.convert_dtype import as_dtype
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.records.columns import choose_columns, named_columns
from elmo_cli.text.choose_tokenizer import choose_tokenizer
from elmo_cli.text.tokenizers import tokenize_texts


class EmbedBatch:
    """Function that adds a column of vectors to a batch, for pandas, Ray or Spark.

        embed = EmbedBatch("original", layers="average", pooling="mean")
        frame = embed(frame)  # a pandas.DataFrame with a column text

    A batch is a table of pyarrow or pandas, or a dict of arrays, and the result is one
    too. The vectors go through the memory of the pipeline, so pooled ones suit best:
    all layers take 12 KiB per token. `elmo distribute` writes them where they are
    computed.
    """

    def __init__(
        self,
        model: str | Path | ModelFiles | None = None,
        *,
        layers: Layers = "all",
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: Pooling | None = None,
        normalize: bool = False,
        text_column: str | None = None,
        tokenizer: str | None = None,
        language: str | None = None,
        column: str = "activations",
        dtype: Dtype = "float32",
        device: Device = "cpu",
        state: InitialState | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
    ) -> None:
        """Check the arguments. The first batch loads the model.

        Args:
            model: Name of a model listed by `elmo models`, a folder, a zip file or
                `ModelFiles`. None means the default model.
            layers: "all", "top", "average", "sum", numbers such as 2, -1 or [0, 2],
                "word_emb" (the token layer once, W / 2 wide), or "lstm1", "lstm2".
            mix: In place of `layers`, the scalar parameters of a trained mix of all
                layers, before the softmax.
            gamma: Scale of the mix. None means 1.
            pooling: One vector per text: the "mean" or "max" over its tokens, its
                "first" or "last" token; zeros for a text without tokens. None keeps one
                vector per token.
            normalize: Scale every vector to length 1.
            text_column: Column with the texts: strings, lists of tokens or None. By
                default it is `text` or `tokens`.
            tokenizer: "whitespace", "moses", "spacy" or "residues". None is the
                tokenizer of the model's training, else "moses".
            language: Code of the language of the texts. None means the model's.
            column: Name of the new column.
            dtype: Data type of the values: "float32" or "float16".
            device: "cpu", "cuda", "cuda:N", "mps" or "auto".
            state: Initial LSTM state of each text: "zero" or "warm". None means "zero",
                or "warm" for a model that was trained with carried state.
            precision: Precision of the computation: "float32", "bfloat16" or "float16",
                "int8" on a processor with VNNI, or "tf32" on an NVIDIA GPU.
            batch_tokens: Maximum number of tokens that are computed together. None
                means 8,192 on the CPU and 32,768 on a GPU.

        Raises:
            SettingsError: A value is not one of the choices, options contradict
                each other, or the tokenizer is "auto", which one batch cannot decide
                for all.
        """
        if tokenizer == AUTO:
            raise SettingsError(
                Template(
                    "{--tokenizer auto} has no effect on a batch, because batches may "
                    "differ"
                ),
                remedy="Name the tokenizer of the whole data set, such as moses.",
            )
        check_type("column", column, str, "a name")
        if text_column is not None:
            check_type("text_column", text_column, str, "a name")
        if tokenizer is not None:
            check_type("tokenizer", tokenizer, str, "a name")
            parse_tokenizer_name(tokenizer)
        self._settings = CorpusSettings(
            model=ModelSettings(
                model=model,
                state=state,
                precision=precision,
                device=check_device(device),
                batch_tokens=batch_tokens,
            ),
            text=TextSettings(
                text_column=text_column, tokenizer=tokenizer, language=language
            ),
            selection=SelectionSettings.from_arguments(
                layers, mix=mix, gamma=gamma, pooling=pooling, normalize=normalize
            ),
            dtype=dtype,
        )
        self._column = column

    def __repr__(self) -> str:
        model = self._settings.model.model
        selection = self._settings.selection
        return (
            f"EmbedBatch(model={model!r}, layers={selection.layers!r}, "
            f"pooling={selection.pooling!r}, column={self._column!r})"
        )

    def __call__(self, batch: Any) -> Any:
        """Return the batch with the column.

        Raises:
            InputError: The batch lacks the column of texts, or a text is neither a
                string nor a list of tokens.
            ElmoError: The model is missing or invalid, or a text does not fit into
                memory.
        """
        settings = self._settings
        is_table = hasattr(batch, "append_column")
        if not is_table and not hasattr(batch, "assign"):
            check_type("batch", batch, Mapping, "a table or a dict of arrays")
        names = batch.column_names if is_table else list(batch)
        columns = choose_columns(named_columns(settings.text), names, table="the batch")
        name = columns.texts[0]
        column = batch[name].to_pylist() if is_table else batch[name]
        if hasattr(column, "notna"):
            # pandas has several values for a missing text.
            column = column.astype(object).where(column.notna(), None)
        texts = ["" if text is None else text for text in column]
        embedder = embedder_on(load_for_worker(settings.model))
        tokenizer = choose_tokenizer(
            settings.text,
            "texts",
            trained=embedder.files.tokenizer,
            model_language=embedder.files.language,
        )
        sentences = tokenize_texts(texts, tokenizer.tokenize, name)
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
