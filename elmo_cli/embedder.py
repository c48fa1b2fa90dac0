"""Sentences to activations: the whole way, in one place. Start reading here.

sentences -> windows, bounded in tokens          batching.windows
equal sentences of a window                      computed once
distinct tokens -> token vectors                 token_cache
sentences -> batches of like length, packed      batching
token vectors -> biLM layers                     inference
layers -> the selection asked for                selection
order restored
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import elmo_cli
from elmo_cli import embed_file as file_run
from elmo_cli.errors import ComputationError
from elmo_cli.file_settings import FileSettings
from elmo_cli.inference.batching import (
    BATCH_SENTENCES,
    DEFAULT_BATCH_SIZE,
    batches_by_length,
    distinct_sentences,
    sentence_windows,
    tokens_per_batch,
)
from elmo_cli.inference.device import choose_device, result_or_raise, retry_in_halves
from elmo_cli.inference.precision import Precision, compute_types
from elmo_cli.inference.selection import Selection, select
from elmo_cli.inference.sentence_encoder import Encoder, State, check_state, make_encoder
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options import start_of_sentences
from elmo_cli.pretrained.loading import choose_model, load_bilm
from elmo_cli.pretrained.model_files import sha256
from elmo_cli.text.lines import Sentence, checked_sentence

logger = logging.getLogger(__name__)

__all__ = ["DEFAULT_BATCH_SIZE", "ElmoEmbedder", "State"]

Array = NDArray[np.float32]
CPU = torch.device("cpu")


class ElmoEmbedder:
    """Turns sentences into activations, as AllenNLP's class of that name did.

    Nothing a sentence gets depends on its neighbours, its batch or what came before,
    unless `state` is "carry".
    """

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        *,
        model: str | Path | None = None,
        vocabulary_file: str | Path | None = None,
        state: State | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
    ) -> None:
        """Load a model.

        Args:
            options_file: options.json, a path or URL; with `weight_file`.
            weight_file: weights.hdf5, a path or URL.
            cuda_device: the number of a GPU; -1 is the CPU.
            model: a name or folder, in place of the two files; the default model
                if none is given.
            vocabulary_file: the words of a word-level model; vocab.txt beside the
                weights if not given.
            state: where sentences start. "zero": the zero state. "warm": the state
                after a fixed text. "carry": where the sentence in the same place of
                the batch before ended, as AllenNLP and bilm-tf did. Not given: "zero", or
                "warm" for a model that says it was trained with carried state.
            precision: of the arithmetic; "int8" needs a processor with AVX-512 VNNI.
            batch_tokens: the most tokens that are computed at once.

        Raises:
            ElmoError: the model or the device is not there, or not as it should be.
        """
        check_state(state)
        types = compute_types(precision, choose_device(cuda_device))
        self._device, self.cuda_device = types.device, cuda_device
        self.batch_tokens = tokens_per_batch(batch_tokens, types.device.type)
        self.files = choose_model(model, options_file, weight_file, vocabulary_file)
        self.state: State = state or start_of_sentences(self.files.options)
        self.precision = precision
        with ThreadPoolExecutor(1) as beside:  # loading has one core busy
            checksum = beside.submit(sha256, self.files.weights)
            bilm = load_bilm(self.files)
            self._states = make_encoder(bilm, types, self.state)
        self._weights_sha256 = checksum.result()
        self.options = bilm.options

    @cached_property
    def _states_on_cpu(self) -> Encoder:
        """The model once more, for sentences that are too long for the memory of a GPU."""
        logger.warning(
            "Out of memory on %s for one sentence; such are computed on the CPU", self._device
        )
        return make_encoder(load_bilm(self.files), compute_types(self.precision, CPU), self.state)

    @cached_property
    def elmo_bilm(self) -> BiLm:
        """The readable biLM, read from its files once more: the fast one keeps no copy."""
        return load_bilm(self.files).to(self._device)

    def batch_to_embeddings(self, batch: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Embed sentences into one padded tensor.

        Args:
            batch: sentences, each a list of tokens.

        Returns:
            Activations, float32, shape (B, L, T, W), and their mask, int64, shape
            (B, T), both on the device.
        """
        batch = list(map(checked_sentence, batch))
        embedded = map(result_or_raise, self._embed_window(batch, Selection(), self._device))
        longest = max((len(sentence) for sentence in batch), default=0)
        shape = len(batch), self.options.n_layers, longest, self.options.width
        activations = torch.zeros(shape, device=self._device)  # (B, L, T, W)
        mask = torch.zeros(len(batch), longest, dtype=torch.int64, device=self._device)
        for row, row_mask, values in zip(activations, mask, embedded, strict=True):
            row[:, : values.shape[1]] = values
            row_mask[: values.shape[1]] = 1
        return activations, mask

    def embed_sentence(self, sentence: Sentence) -> Array:
        """Embed one sentence: float32, shape (L, T, W)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sentence]) -> list[Array]:
        """Embed sentences: float32, shape (L, T, W) each."""
        window = list(map(checked_sentence, batch))
        embedded = self._embed_window(window, Selection(), CPU)
        return [_to_array(result_or_raise(values)) for values in embedded]

    def embed_sentences(
        self,
        sentences: Iterable[Sentence],
        batch_size: int = DEFAULT_BATCH_SIZE,
        *,
        layers: str = "all",
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: str | None = None,
    ) -> Iterator[Array]:
        """Embed a stream of sentences, in its order.

        Args:
            sentences: each a list of tokens; read a window at a time.
            batch_size: sentences in a batch; it matters with carried state only.
            layers: `all`, `top`, `average`, `sum`, numbers such as `0,2`, `word_emb` (the
                token layer once, W / 2 wide), or `lstm1`, `lstm2`, ...
            mix: in place of `layers`, the scalar parameters of a trained mix of all layers,
                before the softmax.
            gamma: the gamma of the mix; 1 if not given.
            pooling: one vector a sentence: the `mean` or `max` over its tokens, its `first`
                or `last` token; zeros where it has none.

        Returns:
            An iterator over float32, shape (L, T, W), or (T, W) for one layer; pooled, (L, W)
            or (W,).

        Raises:
            InputError: there is no such layer or pooling, or both `layers` and `mix` are given.
        """
        selection = select(self.options.n_layers, layers, mix, gamma, pooling)
        stream = self._stream(map(checked_sentence, sentences), batch_size, selection)
        return map(result_or_raise, stream)

    def embed_file(
        self,
        input_file: IO[str] | str | Path,
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
        *,
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: str | None = None,
        on_progress: Callable[[int, int | None], object] = lambda n_bytes, n_tokens: None,
        should_stop: Callable[[], bool] = lambda: False,
        **settings: Any,
    ) -> None:
        """Embed a text file, a sentence a line, or FASTA into HDF5 (see `activations`).

        Args:
            input_file: a path (`-` is standard input, `.gz` is decompressed) or an
                open text file.
            output_file_path: appears only when it is complete.
            output_format: the layers, as in `embed_sentences`.
            batch_size: as in `embed_sentences`.
            forget_sentences: leave `sentence_to_index` out.
            use_sentence_keys: name datasets by their sentence, not by number.
            mix, gamma, pooling: as in `embed_sentences`.
            on_progress: told of bytes read; and of each sentence written, with its tokens.
            should_stop: asked after each sentence; True stops the run, which can go on.
            settings: the other fields of `FileSettings`: `layout`, `dtype`, `overwrite`, ...

        Raises:
            ElmoError: the input cannot be read or the output cannot be written.
        """
        selection = select(self.options.n_layers, output_format, mix, gamma, pooling)
        embed = file_run.Embed(
            lambda sentences: self._stream(sentences, batch_size, selection),
            self._nothing(selection, CPU).numpy(),
            lambda n: None if self.state == "carry" and n % batch_size else self._states.save(),
            self._states.restore,
        )
        settings |= {"forget_sentences": forget_sentences, "use_sentence_keys": use_sentence_keys}
        file_run.embed_file(
            *(embed, input_file, output_file_path),
            self._attributes(selection, batch_size),
            FileSettings(**settings),
            on_progress,
            should_stop,
        )

    def _stream(
        self, sentences: Iterable[Sentence], batch_size: int, selection: Selection
    ) -> Iterator[Array | ComputationError]:
        for window in sentence_windows(
            sentences, batch_size, self.batch_tokens, carried=self.state == "carry"
        ):
            # No variable that would hold the last batch while the next window is computed.
            yield from (
                values if isinstance(values, ComputationError) else _to_array(values)
                for values in self._embed_window(window, selection, CPU)
            )

    @torch.inference_mode()
    def _embed_window(
        self, window: list[Sentence], selection: Selection, device: torch.device
    ) -> list[Tensor | ComputationError]:
        """Embed the sentences of a window, or one batch with carried state.

        Returns:
            What is selected for each sentence, on `device`: see `Selection.apply`.
            An error for a sentence that memory does not suffice for.
        """
        carry = self.state == "carry"
        # Equal sentences are computed once.
        distinct, places = (window, range(len(window))) if carry else distinct_sentences(window)
        embedded: dict[int, Tensor | ComputationError] = {}

        def compute(batch: Sequence[int], *, on_cpu: bool = False) -> Sequence[Tensor]:
            sentences = [distinct[place] for place in batch]
            states = self._states_on_cpu if on_cpu else self._states
            layers = states.run(sentences, slots=batch)  # (L, N, W)
            return selection.apply(layers, [len(s) for s in sentences], device)

        elsewhere = None if self._device.type == "cpu" else partial(compute, on_cpu=True)
        lengths, rows = list(map(len, distinct)), BATCH_SENTENCES[self._device.type]
        for batch in batches_by_length(lengths, self.batch_tokens, rows):
            if carry:  # the states may have moved on when memory runs out: no second try
                embedded.update(zip(batch, compute(batch), strict=True))
            else:
                embedded.update(retry_in_halves(compute, batch, elsewhere))
        nothing = self._nothing(selection, device)
        return [embedded.get(place, nothing) for place in places]

    def _nothing(self, selection: Selection, device: torch.device) -> Tensor:
        return selection.empty(self.options.n_layers, self.options.width, device)

    def _attributes(self, selection: Selection, batch_size: int) -> dict[str, str]:
        """What the output file says about its making."""
        return {
            "model": self.files.name,
            "weights_sha256": self._weights_sha256,
            "options": json.dumps(asdict(self.options)),
            **selection.attributes(),
            "state": self.state,
            "precision": self.precision,
            "elmo_cli_version": elmo_cli.__version__,
            **({"batch_size": str(batch_size)} if self.state == "carry" else {}),
        }


def _to_array(values: Tensor) -> Array:
    array: Array = values.numpy()
    return array.copy()  # of its own: neither shared with equal sentences nor part of a batch
