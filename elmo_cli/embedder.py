"""Sentences to activations: the whole way, in one place. Start reading here.

sentences -> windows, bounded in tokens          batching.windows
equal sentences of a window                      computed once
distinct tokens -> token vectors                 token_cache
sentences -> batches of like length, packed      batching
token vectors -> biLM layers                     inference
layers -> the layers asked for, order restored
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import elmo_cli
from elmo_cli.activations import ActivationsWriter
from elmo_cli.batching import batches_by_length, windows
from elmo_cli.bilm import BiLm
from elmo_cli.devices import choose_device
from elmo_cli.errors import InputError, ModelError
from elmo_cli.integrity import sha256
from elmo_cli.layers import LayerChoice, parse_layers
from elmo_cli.pretrained import ModelFiles, find_model, model_from_files
from elmo_cli.sentence_states import CarriedStates, FixedStart, SentenceEncoder
from elmo_cli.text import Sentence, open_lines, tokens
from elmo_cli.weights import load_bilm

DEFAULT_BATCH_SIZE = 64
BATCH_TOKENS = {"cpu": 2048, "cuda": 32_768}
"""Tokens in a batch: enough rows a step for the matrix products to run at full speed."""
WINDOW_BATCHES = 4
"""Batches in a window: enough sentences that those of a batch are of like length."""

State = Literal["zero", "carry", "warm"]
Precision = Literal["float32", "bfloat16", "float16"]
Array = NDArray[np.float32]


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
        state: State = "zero",
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
                the batch before ended, as AllenNLP and bilm-tf did.
            precision: of the arithmetic.
            batch_tokens: the most tokens that are computed at once.

        Raises:
            ElmoError: the model or the device is not there, or not as it should be.
        """
        _check_choice("state", state, get_args(State))
        _check_choice("precision", precision, get_args(Precision))
        if batch_tokens is not None and batch_tokens < 1:
            raise InputError(f"batch_tokens {batch_tokens}: expected 1 or more")
        device = choose_device(cuda_device)
        self.cuda_device = cuda_device
        self.files = _model_files(model, options_file, weight_file, vocabulary_file)
        self.state = state
        self.precision = precision
        self.batch_tokens = batch_tokens or BATCH_TOKENS[device.type]
        bilm = load_bilm(self.files)
        self.options = bilm.options
        encoder = SentenceEncoder(bilm, device, getattr(torch, precision))
        self._device = device
        self._states: FixedStart | CarriedStates
        if state == "carry":
            self._states = CarriedStates(encoder)
        else:
            self._states = FixedStart(encoder, warm=state == "warm")

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
        choice = LayerChoice("all")
        embedded = self._embed_window(list(batch), choice, self._device)
        longest = max((len(sentence) for sentence in batch), default=0)
        n_layers, width = self.options.n_layers, self.options.width
        activations = torch.zeros(
            len(batch), n_layers, longest, width, device=self._device
        )  # (B, L, T, W)
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
        window = self._embed_window(list(batch), LayerChoice("all"), torch.device("cpu"))
        return [_to_array(values) for values in window]

    def embed_sentences(
        self,
        sentences: Iterable[Sentence],
        batch_size: int = DEFAULT_BATCH_SIZE,
        *,
        layers: str = "all",
    ) -> Iterator[Array]:
        """Embed a stream of sentences, in its order.

        Args:
            sentences: each a list of tokens; read a window at a time.
            batch_size: sentences in a batch; it matters with carried state only.
            layers: `all`, `top`, `average`, `sum`, or numbers such as `0,2`.

        Yields:
            float32, shape (L, T, W), or (T, W) for one layer.
        """
        choice = parse_layers(layers, self.options.n_layers)
        for window in self._windows(sentences, batch_size):
            for values in self._embed_window(window, choice, torch.device("cpu")):
                yield _to_array(values)

    def embed_file(
        self,
        input_file: IO[str] | str | Path,
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
        *,
        dtype: str = "float32",
        overwrite: bool = True,
        on_progress: Callable[[int, int | None], object] = lambda n_bytes, n_tokens: None,
    ) -> None:
        """Embed a text file, a sentence a line, into an HDF5 file (see `activations`).

        Args:
            input_file: a path (`-` is standard input, `.gz` is decompressed) or an
                open text file.
            output_file_path: appears only when it is complete.
            output_format: the layers, as in `embed_sentences`.
            batch_size: as in `embed_sentences`.
            forget_sentences: leave `sentence_to_index` out.
            use_sentence_keys: name datasets by their sentence, not by number.
            dtype: of the values in the file, `float32` or `float16`.
            overwrite: replace an output file that is there.
            on_progress: told of bytes read; and of each sentence written, with its tokens.

        Raises:
            ElmoError: the input cannot be read or the output cannot be written.
        """
        layers = str(parse_layers(output_format, self.options.n_layers))
        with open_lines(input_file, lambda n_bytes: on_progress(n_bytes, None)) as lines:
            writer = ActivationsWriter(
                output_file_path,
                self._attributes(layers),
                dtype=dtype,
                forget_sentences=forget_sentences,
                use_sentence_keys=use_sentence_keys,
                overwrite=overwrite,
            )
            pending: deque[str] = deque()  # lines that are read and not yet written
            with writer:
                sentences = _split_lines(lines, pending)
                for values in self.embed_sentences(sentences, batch_size, layers=layers):
                    writer.write(pending.popleft(), values)
                    on_progress(0, values.shape[-2])

    def _windows(self, sentences: Iterable[Sentence], batch_size: int) -> Iterator[list[Sentence]]:
        if self.state != "carry":
            n_tokens = WINDOW_BATCHES * self.batch_tokens
            yield from windows(sentences, n_tokens, max_sentences=n_tokens)
            return
        stream = iter(sentences)
        while batch := list(islice(stream, batch_size)):
            yield batch

    @torch.inference_mode()
    def _embed_window(
        self, window: list[Sentence], choice: LayerChoice, device: torch.device
    ) -> list[Tensor]:
        """Embed the sentences of a window, or one batch with carried state.

        Returns:
            The chosen layers of each sentence, float32, shape (n, T, W) or (T, W), on
            `device`.
        """
        indices, distinct = list(range(len(window))), window
        if self.state != "carry":  # equal sentences are computed once
            places: dict[tuple[str, ...], int] = {}
            indices = [places.setdefault(tuple(s), len(places)) for s in window]
            distinct = [list(sentence) for sentence in places]
        embedded = [self._empty(choice, device)] * len(distinct)
        for batch in batches_by_length([len(s) for s in distinct], self.batch_tokens):
            sentences = [distinct[place] for place in batch]
            layers = self._states.run(sentences, slots=batch)  # (L, N, W)
            values = choice.apply(layers.float()).to(device)
            lengths = [len(sentence) for sentence in sentences]
            for place, part in zip(batch, torch.split(values, lengths, dim=-2), strict=True):
                embedded[place] = part
        return [embedded[index] for index in indices]

    def _empty(self, choice: LayerChoice, device: torch.device) -> Tensor:
        """The activations of a sentence without tokens."""
        return choice.apply(
            torch.empty(self.options.n_layers, 0, self.options.width, device=device)
        )

    def _attributes(self, layers: str) -> dict[str, str]:
        """What the output file says about its making."""
        return {
            "model": self.files.name,
            "weights_sha256": sha256(self.files.weights),
            "options": json.dumps(asdict(self.options)),
            "layers": layers,
            "state": self.state,
            "precision": self.precision,
            "elmo_cli_version": elmo_cli.__version__,
        }


def _model_files(
    model: str | Path | None,
    options_file: str | Path | None,
    weight_file: str | Path | None,
    vocabulary_file: str | Path | None,
) -> ModelFiles:
    if options_file is not None and weight_file is not None and model is None:
        return model_from_files(options_file, weight_file, vocabulary_file)
    if options_file is not None or weight_file is not None:
        raise ModelError("expected options_file and weight_file, or model, or none of them")
    files = find_model(model)
    return replace(files, vocabulary=Path(vocabulary_file)) if vocabulary_file else files


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f"{name} {value!r}: expected {' or '.join(choices)}")


def _split_lines(lines: Iterable[str], pending: deque[str]) -> Iterator[Sentence]:
    for line in lines:
        pending.append(line)
        yield tokens(line)


def _to_array(values: Tensor) -> Array:
    array: Array = values.numpy()
    return array.copy()  # of its own: neither shared with equal sentences nor part of a batch
