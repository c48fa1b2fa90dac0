"""Sentences to activations: the whole way, in one place. Start reading here.

"Inside a window" in docs/architecture.md shows the stages.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.encode import encode
from elmo_cli.errors import ComputationError
from elmo_cli.inference.batching import (
    DEFAULT_BATCH_SIZE,
    compute_window,
    distinct_sentences,
    sentence_windows,
    tokens_per_batch,
)
from elmo_cli.inference.device import (
    Device,
    Precision,
    choose_device,
    compute_types,
    result_or_raise,
)
from elmo_cli.inference.selection import Selection, select
from elmo_cli.inference.sentence_encoder import Encoder, State, check_state, make_encoder
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options import start_of_sentences
from elmo_cli.pretrained.loading import choose_model, find_pretrained, load_bilm
from elmo_cli.pretrained.model_files import ModelFiles, content_sha256
from elmo_cli.text.lines import Sentence, checked_sentence
from elmo_cli.text.tokenizers import make_tokenizer
from elmo_cli.version import __version__

if TYPE_CHECKING:
    from elmo_cli.embed_file import Summary

logger = logging.getLogger(__name__)

__all__ = ["DEFAULT_BATCH_SIZE", "ElmoEmbedder", "State"]

Array = NDArray[np.float32]
CPU = torch.device("cpu")


class ElmoEmbedder:
    """Turns sentences into activations, as AllenNLP's class of that name did.

    The vectors of a sentence do not depend on other sentences, unless `state` is "carry".
    """

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        *,
        model: str | Path | ModelFiles | None = None,
        vocabulary_file: str | Path | None = None,
        state: State | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
        device: Device | None = None,
    ) -> None:
        """Load a model.

        Args:
            options_file: options.json, a path or URL; with `weight_file`.
            weight_file: weights.hdf5, a path or URL.
            cuda_device: the number of a GPU; -1 is the CPU.
            model: a name, a folder or the files of a model, in place of the two files; the
                default model if none is given.
            vocabulary_file: the words of a word-level model; vocab.txt beside the
                weights if not given.
            state: the initial LSTM state of each sentence. "zero": the zero state. "warm": the
                state after a fixed text. "carry": the last state of the sentence in the same
                place of the batch before, as in AllenNLP and bilm-tf. Not given: "zero", or
                "warm" for a model that says it was trained with carried state.
            precision: of the computation; "int8" needs a processor with AVX-512 VNNI.
            batch_tokens: the maximum number of tokens that are computed at once.
            device: in place of `cuda_device`, `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.

        Raises:
            ElmoError: the model or the device is not there, or not as it should be.
        """
        check_state(state)
        types = compute_types(precision, choose_device(cuda_device if device is None else device))
        self.device = types.device
        self.cuda_device = -1 if types.device.index is None else types.device.index
        self._given_batch_tokens = batch_tokens  # each kind of device has a default of its own
        self.batch_tokens = tokens_per_batch(batch_tokens, types.device.type)
        self.files = choose_model(model, options_file, weight_file, vocabulary_file)
        self.state: State = state or start_of_sentences(self.files.options)
        self.precision = precision
        bilm = load_bilm(self.files)
        self.options = bilm.options
        self.encoder: Encoder = make_encoder(bilm, types, self.state)

    def __repr__(self) -> str:
        return (
            f"ElmoEmbedder(model={self.files.name!r}, state={self.state!r}, "
            f"precision={self.precision!r}, device='{self.device}')"
        )

    encode = encode

    def on_device(self, device: Device | None) -> "ElmoEmbedder":
        """The same model on another device, loaded there once more; None is its own."""
        if device is None or choose_device(device) == self.device:
            return self
        return ElmoEmbedder(
            model=self.files,
            state=self.state,
            precision=self.precision,
            batch_tokens=self._given_batch_tokens,
            device=device,
        )

    @classmethod
    def from_pretrained(
        cls, name: str | Path, revision: str | None = None, **options: Any
    ) -> "ElmoEmbedder":
        """Load a model by the name that it has here, on this disk or on the Hugging Face hub.

        Args:
            name: a name of `elmo models`, a folder or a zip, else `OWNER/NAME` on the hub.
            revision: a branch, a tag or a commit of a model of the hub; `main` if not given.
            options: as in the constructor.

        Raises:
            ElmoError: see the constructor.
        """
        return cls(model=find_pretrained(name, revision), **options)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model as folders of the hub are: config.json, model.safetensors, words.

        Raises:
            ElmoError: a file is there already, or the model has no such form.
        """
        from elmo_cli.pretrained.convert_weights import save_model

        save_model(self.files, folder)

    @cached_property
    def content_sha256(self) -> str:
        """The SHA-256 of all that the numbers of the model depend on; read on first use."""
        return content_sha256(self.files)

    @cached_property
    def _encoder_on_cpu(self) -> Encoder:
        """The model once more, for sentences that are too long for the memory of a GPU."""
        logger.warning(
            "Out of memory on %s for one sentence; such are computed on the CPU", self.device
        )
        return make_encoder(load_bilm(self.files), compute_types(self.precision, CPU), self.state)

    @cached_property
    def elmo_bilm(self) -> BiLm:
        """The readable biLM, read from its files once more: the fast one keeps no copy."""
        return load_bilm(self.files).to(self.device)

    def batch_to_embeddings(self, batch: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Embed sentences into one padded tensor.

        Returns:
            Activations, float32, shape (B, L, T, W), and their mask, int64, shape
            (B, T), both on the device.
        """
        batch = list(map(checked_sentence, batch))
        embedded = map(result_or_raise, self._embedded(batch, Selection(), self.device))
        longest = max((len(sentence) for sentence in batch), default=0)
        shape = len(batch), self.options.n_layers, longest, self.options.width
        activations = torch.zeros(shape, device=self.device)  # (B, L, T, W)
        mask = torch.zeros(len(batch), longest, dtype=torch.int64, device=self.device)
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
        return list(map(result_or_raise, self.embed_window(window, Selection())))

    def embed_sentences(
        self,
        sentences: Iterable[Sentence],
        batch_size: int = DEFAULT_BATCH_SIZE,
        *,
        layers: str = "all",
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: str | None = None,
        normalize: bool = False,
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
            normalize: scale every vector to length 1; zeros stay as they are.

        Returns:
            An iterator over float32, shape (L, T, W), or (T, W) for one layer; pooled, (L, W)
            or (W,).

        Raises:
            InputError: there is no such layer or pooling, or both `layers` and `mix` are given.
        """
        selection = select(self.options.n_layers, layers, mix, gamma, pooling, normalize=normalize)
        windows = sentence_windows(
            map(checked_sentence, sentences),
            batch_size,
            self.batch_tokens,
            carried=self.state == "carry",
        )
        return (
            result_or_raise(values)
            for window in windows
            for values in self.embed_window(window, selection)
        )

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
        normalize: bool = False,
        input_format: str | None = None,
        tokenizer: str = "whitespace",
        language: str | None = None,
        split_sentences: bool = False,
        words: Mapping[str, str] | None = None,
        file_format: str | None = None,
        layout: str | None = None,
        compression: str | None = None,
        dtype: str = "float32",
        shard: str | None = None,
        skip_errors: bool = False,
        overwrite: bool = False,
        on_progress: "Callable[[Summary], object]" = lambda summary: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> "Summary":
        """Embed a text file, a sentence a line, or FASTA into HDF5 or another format.

        A run that was interrupted resumes from its last checkpoint when it is called again. A
        finished output of the same input and settings is left as it is.

        Args:
            input_file: a path (`-` is standard input, `.gz` is decompressed) or an open text file.
            output_file_path: appears only when it is complete; `-` is standard output.
            output_format: the layers; these, `batch_size`, `mix`, `gamma`, `pooling` and
                `normalize` are as in `embed_sentences`.
            forget_sentences: leave `sentence_to_index` out.
            use_sentence_keys: name datasets by their sentence, not by number.
            input_format: `text`, `fasta`, `conllu` or `jsonl`; by the suffix if not given.
            tokenizer: of text: `whitespace`, `moses` or `spacy`.
            language: the code of the language of the text; that of the model if not given.
            split_sentences: split lines into sentences, which are numbered in place of lines.
            words: write the uses of these words alone, and compute only sentences that have one:
                the forms of each, as `read_targets` gives them. npz has a matrix a word.
            file_format: `hdf5`, `jsonl`, `npz`, `npy` or `parquet`; by the suffix if not given,
                else HDF5.
            layout, compression: of HDF5: `allennlp` or `packed`; `gzip`, `lzf` or `zstd`.
            dtype: of the stored values, `float32` or `float16`.
            shard: `3/16` embeds every 16th sentence from the third.
            skip_errors: give sentences that cannot be read, or are too long for memory, an empty
                dataset, and name them in the attribute `skipped`.
            overwrite: replace an output that is there, and an unfinished run that differs.
            on_progress: told what was done so far, after each window of sentences.
            should_stop: asked after each window; True stops the run.

        Raises:
            ElmoError: the input cannot be read or the output cannot be written.
            StoppedError: it was told to stop.
        """
        from elmo_cli.embed_file import embed_file
        from elmo_cli.file_plan import FilePlan

        selection = select(
            self.options.n_layers, output_format, mix, gamma, pooling, normalize=normalize
        )
        plan = FilePlan(
            input_file,
            output_file_path,
            input_format=input_format,
            tokenizer=make_tokenizer(
                tokenizer, language or self.files.language, split_sentences=split_sentences
            ),
            words=words,
            file_format=file_format,
            layout=layout,
            compression=compression,
            dtype=dtype,
            pooling=pooling,
            state=self.state,
            forget_sentences=forget_sentences,
            use_sentence_keys=use_sentence_keys,
            shard=shard,
            skip_errors=skip_errors,
            overwrite=overwrite,
        )
        return embed_file(self, plan, selection, batch_size, on_progress, should_stop)

    def embed_window(
        self, window: list[Sentence], selection: Selection
    ) -> Iterator[Array | ComputationError]:
        """Embed the sentences of a window, or one batch with carried state.

        Returns:
            What is selected for each, float32: see `Selection.apply`; or an error of memory.
        """
        # Copied one by one, while they are taken: the copies of a window are never all there.
        return (
            values if isinstance(values, ComputationError) else values.numpy().copy()
            for values in self._embedded(window, selection, CPU)
        )

    def nothing(self, selection: Selection) -> Array:
        """The value of a sentence without tokens, float32."""
        return np.asarray(selection.empty(self.options.n_layers, self.options.width, CPU))

    @torch.inference_mode()
    def _embedded(
        self, window: list[Sentence], selection: Selection, device: torch.device
    ) -> list[Tensor | ComputationError]:
        """The same on a device, as tensors that may share their memory."""
        carry = self.state == "carry"
        # Equal sentences are computed once.
        distinct, places = (window, range(len(window))) if carry else distinct_sentences(window)

        def compute(batch: Sequence[int], *, on_cpu: bool = False) -> Sequence[Tensor]:
            sentences = [distinct[place] for place in batch]
            encoder = self._encoder_on_cpu if on_cpu else self.encoder
            layers = encoder.run(sentences, slots=batch)  # (L, N, W)
            return selection.apply(layers, [len(s) for s in sentences], device)

        elsewhere = None if self.device.type == "cpu" else partial(compute, on_cpu=True)
        embedded = compute_window(
            compute,
            list(map(len, distinct)),
            self.batch_tokens,
            self.device.type,
            carried=carry,
            compute_on_cpu=elsewhere,
        )
        empty = selection.empty(self.options.n_layers, self.options.width, device)
        return [embedded.get(place, empty) for place in places]

    def attributes(self, selection: Selection, batch_size: int) -> dict[str, str]:
        """What the output file says about its making."""
        return {
            "model": self.files.name,
            "model_sha256": self.content_sha256,
            "options": json.dumps(asdict(self.options)),
            **selection.attributes(),
            "state": self.state,
            "precision": self.precision,
            "elmo_cli_version": __version__,
            **({"batch_size": str(batch_size)} if self.state == "carry" else {}),
        }
