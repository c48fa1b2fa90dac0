"""`ElmoEmbedder`, the public class: AllenNLP's methods on an `Engine`.

"Inside a window" in docs/architecture.md shows the stages between sentences and
activations.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, overload

import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import FloatArray
from elmo_cli.engine import Engine, load_engine
from elmo_cli.errors.checks import (
    check_batch,
    check_sentence,
    check_sentences,
    check_type,
    list_texts,
)
from elmo_cli.errors.exceptions import ModelError, SettingsError
from elmo_cli.errors.messages import literal
from elmo_cli.errors.missing_attributes import missing_attribute_error
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.inference.memory import result_or_raise
from elmo_cli.inference.similarity import Similarity, compare_vectors, mean_of_tokens
from elmo_cli.inference.weights_version import WeightsVersion
from elmo_cli.model.architecture import Architecture
from elmo_cli.model.bilm import BiLm
from elmo_cli.options.encode_arguments import (
    ResultForm,
    check_one_device,
    check_unused_arguments,
    result_form,
    take_normalize,
    take_texts,
)
from elmo_cli.options.layers import (
    Layers,
    parse_mean_layers,
    without_token_layer,
)
from elmo_cli.options.model import (
    DEFAULT_BATCH_SIZE,
    InitialState,
    ModelSettings,
    Precision,
    check_device,
    is_device,
)
from elmo_cli.options.output import (
    Compression,
    Dtype,
    Layout,
    OutputSettings,
    RowKind,
)
from elmo_cli.options.output_format import FileFormat
from elmo_cli.options.selection import Pooling, SelectionSettings
from elmo_cli.options.text import (
    InputFormatName,
    Quotes,
    TextSettings,
)
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.pretrained.find_model import find_files_by_name
from elmo_cli.pretrained.hub import name_or_hub_name
from elmo_cli.pretrained.load_bilm import load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.runs.file_plan import plan_file, warn_about_suffix
from elmo_cli.runs.open_text_and_warn import open_text_and_warn
from elmo_cli.text.choose_tokenizer import (
    choose_tokenizer_of_strings,
    raw_or_all,
    strings_in,
)
from elmo_cli.text.occurrences import (
    OccurrencePair,
    check_pair,
    numbers_after,
    occurrence_of,
    tokens_around,
)
from elmo_cli.text.tokenizers import Tokenizer, tokenize_texts
from elmo_cli.types import Sentence, Text

if TYPE_CHECKING:
    from elmo_cli.runs.file_sink import Summary

logger = logging.getLogger(__name__)


_OTHER_DEVICE: Final = "Use ElmoEmbedder(model, device=...)."
_ADVICE: Final = {
    **dict.fromkeys(("to", "cuda", "cpu"), _OTHER_DEVICE),
    **dict.fromkeys(("embed", "encode_document", "encode_query"), "Use encode."),
    **dict.fromkeys(
        ("dim", "embedding_dim", "get_sentence_embedding_dimension"), "Use width."
    ),
    "predict": "Use elmo_cli.predict_words(LanguageModel(), text).",
}
"""What to use in place of methods that similar classes have."""


class ElmoEmbedder:
    """Embedder for texts, words, sentences and files, with AllenNLP's methods.

        embedder = ElmoEmbedder("original")  # without a name: the bundled model
        embedder.encode("We sat on the bank.")  # one vector per text: (1024,)
        embedder.embed_sentence(["We", "sat", "."])  # all layers: (3, 3, 1024)

    The vectors of a sentence do not depend on other sentences, unless `state` is
    "carry".

    Raises:
        ElmoError: Base class of all errors. Each method names its own.
        ComputationError: A sentence does not fit into memory, in any method.
    """

    _engine_version = WeightsVersion()
    """Version of the weights of `elmo_bilm` that the engine has."""

    @overload
    def __init__(
        self,
        model: str | Path | ModelFiles | None = None,
        *,
        device: Device = "cpu",
        state: InitialState | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
        vocabulary_file: str | Path | None = None,
        cuda_device: int = -1,
    ) -> None: ...

    @overload
    def __init__(
        self,
        options_file: str | Path,
        weight_file: str | Path,
        cuda_device: int = -1,
        *,
        device: Device = "cpu",
        state: InitialState | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
        vocabulary_file: str | Path | None = None,
    ) -> None: ...

    # As a keyword, AllenNLP's first argument has a name of its own.
    def __init__(  # type: ignore[misc]
        self,
        model: str | Path | ModelFiles | None = None,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        *,
        device: Device = "cpu",
        state: InitialState | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
        options_file: str | Path | None = None,
        vocabulary_file: str | Path | None = None,
    ) -> None:
        """Load a model.

        `ElmoEmbedder("original", device="cuda")` loads a model by its name, and
        `ElmoEmbedder("options.json", "weights.hdf5", 0)` from two files, as in
        AllenNLP.

        Args:
            model: Name of a model listed by `elmo models`, a folder, a zip file or
                `ModelFiles`. None means the default model. With `weight_file`, the
                path or URL of options.json.
            weight_file: Path or URL of weights.hdf5. `model` is then that of
                options.json.
            cuda_device: Number of a GPU; -1 is the CPU.
            device: `cpu`, `cuda`, `cuda:N`, `mps` or `auto` (a CUDA GPU if there is
                one). Any but `cpu` replaces `cuda_device`.
            state: Initial LSTM state of each sentence. "zero": the zero state. "warm":
                the state after a fixed text. "carry": the last state of the sentence in
                the same slot of the previous batch, as in AllenNLP and bilm-tf. None:
                "zero", or "warm" for a model whose options say that it was trained with
                carried state.
            precision: Precision of the computation: "float32", "bfloat16" or "float16",
                "int8" on a processor with VNNI, or "tf32" on an NVIDIA GPU.
            batch_tokens: Maximum number of tokens per batch. None means 8,192 on the
                CPU and 32,768 on a GPU.
            options_file: Path or URL of options.json, with `weight_file`.
            vocabulary_file: Words of a word-level model. None means vocab.txt next to
                the weights.

        Raises:
            ModelError: The model is missing or invalid.
            WeightsError: The weights cannot be read, or do not fit the model.
            DeviceError: The device is not available.
            SettingsError: Another argument has a wrong value.
            InputError: Another argument has a wrong type, or the device lacks the
                precision.
        """
        if weight_file is not None and is_device(weight_file):
            raise SettingsError(
                f"weight_file: expected a file, found the device {weight_file}",
                remedy=f"For a device, use device={literal(repr(str(weight_file)))}.",
            )
        has_one_file = weight_file is not None and options_file is None
        if has_one_file and not isinstance(model, ModelFiles):
            # In AllenNLP the first argument is the file with the options.
            options_file = model
            model = None
        if device == "cpu":
            device_name = str(choose_device(cuda_device, "cuda_device"))
        else:
            device_name = check_device(device)
        settings = ModelSettings(
            model=model,
            options_file=options_file,
            weight_file=weight_file,
            vocabulary_file=vocabulary_file,
            state=state,
            precision=precision,
            device=device_name,
            batch_tokens=batch_tokens,
        )
        self._engine = load_engine(settings)

    @classmethod
    def from_pretrained(
        cls, name: str | Path, revision: str | None = None, **options: Any
    ) -> "ElmoEmbedder":
        """Load a model by its name, or from a folder, a zip file or Hugging Face's hub.

            embedder = ElmoEmbedder.from_pretrained("original")

        Args:
            name: Name of a model listed by `elmo models`, a folder or a zip file, else
                `OWNER/NAME` on the hub.
            revision: Branch, tag or commit of a model of the hub. None means `main`.
            options: Keyword arguments of the constructor.

        Returns:
            An embedder with this model.

        Raises:
            ElmoError: See the constructor.
        """
        files = find_files_by_name(name_or_hub_name(name, revision))
        return cls(model=files, **options)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model as a folder for the hub, with config.json and README.md.

        Raises:
            OutputError: A file already exists, or the folder cannot be written.
            ModelError: The model cannot be written in this form.
        """
        from elmo_cli.pretrained.save import save_model

        if self.engine.changed is not None:
            raise ModelError(
                "elmo_bilm: its weights differ from the files that save_pretrained "
                "copies",
                remedy="Save elmo_bilm.state_dict() with torch instead.",
            )
        save_model(self.files, folder)

    def __repr__(self) -> str:
        return (
            f"ElmoEmbedder(model={self.files.name!r}, state={self.state!r}, "
            f"precision={self.precision!r}, device='{self.device}')"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute_error(self, name, _ADVICE)

    @property
    def engine(self) -> Engine:
        """Loaded model, with the current weights of `elmo_bilm`."""
        bilm: BiLm | None = vars(self).get("elmo_bilm")  # None before its first use
        if bilm is not None:
            version = WeightsVersion(bilm.parameters())
            if version.key != self._engine_version.key:
                self._engine = self._engine.with_weights(bilm)
                self._engine_version = version
        return self._engine

    @property
    def files(self) -> ModelFiles:
        """Files of the model."""
        return self._engine.files

    @property
    def architecture(self) -> Architecture:
        """Architecture of the model."""
        return self.engine.architecture

    @property
    def n_layers(self) -> int:
        """Number of layers, including the token layer."""
        return self.architecture.n_layers

    @property
    def width(self) -> int:
        """Width of a layer: the size of a vector."""
        return self.architecture.width

    @property
    def state(self) -> InitialState:
        """Initial state of the sentences."""
        return self._engine.state

    @property
    def precision(self) -> Precision:
        """Precision of the computation."""
        return self._engine.settings.precision

    @property
    def device(self) -> torch.device:
        """Device that the model is on."""
        return self._engine.device

    @property
    def cuda_device(self) -> int:
        """Number of the GPU that the model is on; -1 for the CPU."""
        return -1 if self.device.index is None else self.device.index

    @property
    def batch_tokens(self) -> int:
        """Maximum number of tokens per batch."""
        return self._engine.batch_tokens

    @property
    def content_sha256(self) -> str:
        """SHA-256 of everything that the model's numbers depend on."""
        return self.engine.content_sha256

    @cached_property
    def elmo_bilm(self) -> BiLm:
        """The biLM as a torch module, whose weights you may change.

        A change takes effect with the next method call.

        Operations in place, `load_state_dict`, an optimizer's step and new
        `weight.data` are noticed. Call `reload_weights` after a change that torch does
        not count: by `weight.data.add_()`, through NumPy, or by an optimizer with
        `fused=True`.
        """
        # The fast biLM keeps no copy, so that it is read from its files again.
        # Tensors of inference mode have no counter of changes.
        with torch.inference_mode(False):
            bilm = load_bilm(self.files).to(self.device)
        self._engine_version = WeightsVersion(bilm.parameters())
        return bilm

    def reload_weights(self) -> None:
        """Notice changes to weights that torch does not count; see `elmo_bilm`."""
        self._engine_version = WeightsVersion()

    def batch_to_embeddings(self, batch: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        """Embed sentences into one padded tensor.

            vectors, mask = embedder.batch_to_embeddings([["The", "cat"], ["A"]])
            vectors.shape, mask.shape  # (2, 3, 2, 1024), (2, 2)

        Returns:
            Activations, float32, shape (B, L, T, W), and their mask, int64, shape
            (B, T), both on the device.

        Raises:
            InputError: `batch` is not a list of lists of tokens.
        """
        embedded = self.embed_batch(batch)
        max_length = max((layers.shape[1] for layers in embedded), default=0)
        shape = (
            len(embedded),
            self.architecture.n_layers,
            max_length,
            self.architecture.width,
        )
        activations = np.zeros(shape, np.float32)
        mask = np.zeros((len(embedded), max_length), np.int64)
        for index, layers in enumerate(embedded):
            length = layers.shape[1]
            activations[index, :, :length] = layers
            mask[index, :length] = 1
        return (
            torch.from_numpy(activations).to(self.device),
            torch.from_numpy(mask).to(self.device),
        )

    def embed_sentence(self, sentence: Sentence) -> FloatArray:
        """Embed one sentence, a list of tokens.

            embedder.embed_sentence(["The", "cat"]).shape  # (3, 2, 1024)

        Returns:
            The layers of each token, float32, shape (L, T, W).

        Raises:
            InputError: `sentence` is not a list of tokens.
        """
        return self.embed_batch([check_sentence(sentence)])[0]

    def embed_batch(self, batch: Sequence[Sentence]) -> list[FloatArray]:
        """Embed sentences together, each a list of tokens.

            first, second = embedder.embed_batch([["The", "cat"], ["A", "dog", "ran"]])

        Returns:
            One array per sentence, float32, shape (L, T, W).

        Raises:
            InputError: `batch` is not a list of lists of tokens.
        """
        engine = self.engine
        window = list(check_sentences(batch, "batch"))
        results = engine.embed_window(window, engine.selection("all"))
        return [result_or_raise(result) for result in results]

    def embed_sentences(
        self,
        sentences: Iterable[Sentence],
        batch_size: int = DEFAULT_BATCH_SIZE,
        *,
        layers: Layers = "all",
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: Pooling | None = None,
        normalize: bool = False,
    ) -> Iterator[FloatArray]:
        """Embed a stream of sentences, in order.

            sentences = [["The", "cat"], ["A"]]
            for vectors in embedder.embed_sentences(sentences, layers="top"):
                print(vectors.shape)  # (2, 1024), then (1, 1024)

        Args:
            sentences: Lists of tokens; read one window at a time.
            batch_size: Sentences per batch; only matters with carried state.
            layers: "all", "top", "average", "sum", numbers such as 2, -1 or [0, 2],
                "word_emb" (the token layer once, W / 2 wide), or "lstm1", "lstm2".
            mix: In place of `layers`, the scalar parameters of a trained mix of all
                layers, before the softmax.
            gamma: Scale of the mix. None means 1.
            pooling: One vector per sentence: the "mean" or "max" over its tokens, its
                "first" or "last" token; zeros for a sentence without tokens. None keeps
                one vector per token.
            normalize: Scale every vector to length 1. Zeros stay zeros.

        Returns:
            An iterator over float32, shape (L, T, W), or (T, W) for one layer; pooled,
            (L, W) or (W,).

        Raises:
            InputError: A sentence is not a list of tokens, when it is read.
            SettingsError: The model lacks a layer, the pooling is unknown, or both
                `layers` and `mix` are given.
        """
        engine = self.engine
        selection = engine.selection(
            layers,
            mix=mix,
            gamma=gamma,
            pooling=pooling,
            normalize=normalize,
        )
        windows = engine.compute_windows(
            check_sentences(sentences),
            partial(engine.embed_window, selection=selection),
            sentence_of=lambda sentence: sentence,
            batch_size=batch_size,
        )
        return (result_or_raise(result) for _, results in windows for result in results)

    @overload
    def encode(
        self,
        texts: str | Iterable[Text],
        *,
        layers: Layers | None = None,
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: Pooling = "mean",
        tokenizer: str | None = AUTO,
        language: str | None = None,
        normalize: bool = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        show_progress_bar: bool | None = None,
        device: Device | None = None,
        output_value: Literal["sentence_embedding"] = "sentence_embedding",
        convert_to_numpy: Literal[True] = True,
        convert_to_tensor: Literal[False] = False,
        **others: Any,
    ) -> FloatArray: ...

    @overload
    def encode(
        self,
        texts: str | Iterable[Text],
        *,
        pooling: Pooling = "mean",
        convert_to_tensor: Literal[True],
        **options: Any,
    ) -> Tensor: ...

    @overload
    def encode(
        self,
        texts: str,
        *,
        pooling: None,
        convert_to_tensor: Literal[False] = False,
        **options: Any,
    ) -> FloatArray: ...

    @overload
    def encode(
        self,
        texts: Iterable[Text],
        *,
        pooling: None,
        convert_to_tensor: Literal[False] = False,
        **options: Any,
    ) -> list[FloatArray]: ...

    # Other arguments of sentence-transformers may return lists of tensors.
    @overload
    def encode(
        self,
        texts: str | Iterable[Text] | None = None,
        *,
        layers: Layers | None = None,
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: Pooling | None = "mean",
        device: Device | None = None,
        output_value: Literal["sentence_embedding", "token_embeddings"] = ...,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        **options: Any,
    ) -> Any: ...

    def encode(
        self,
        texts: str | Iterable[Text] | None = None,
        *,
        layers: Layers | None = None,
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: Pooling | None = "mean",
        tokenizer: str | None = AUTO,
        language: str | None = None,
        normalize: bool = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        show_progress_bar: bool | None = None,
        device: Device | None = None,
        output_value: str | None = "sentence_embedding",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        **others: Any,
    ) -> FloatArray | Tensor | list[FloatArray] | list[Tensor]:
        """Embed texts, by default into one vector each, as in sentence-transformers.

            embedder.encode(["We sat on the bank.", "A cat."])  # (2, 1024)
            embedder.encode("We sat on the bank.", pooling=None)  # (6, 1024)

        Args:
            texts: One raw text, or several: strings, which are tokenized, or lists of
                tokens.
            layers: "average", "all", "top", "sum", numbers such as 2, -1 or [0, 2],
                "word_emb" (the token layer once, W / 2 wide), or "lstm1", "lstm2". None
                is "average", or all layers with a `mix`.
            mix: In place of `layers`, the scalar parameters of a trained mix of all
                layers, before the softmax.
            gamma: Scale of the mix. None means 1.
            pooling: One vector per text: the "mean" or "max" over its tokens, its
                "first" or "last" token; zeros for a text without tokens. None keeps one
                vector per token.
            tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language
                may follow, as in "spacy:de". "auto" looks at the first 200 texts:
                tokenized ones are split at white space, and others are tokenized like
                the model's training text, else by "moses".
            language: Code of the language of the texts. None means the language of the
                model.
            normalize: Scale every vector to length 1.
            batch_size: Sentences per batch; only matters with carried state.
            show_progress_bar: Show a bar on standard error.
            device: Device in place of the embedder's; the model is loaded there for
                this call.

        Args: For sentence-transformers' callers
            output_value: "sentence_embedding"; or "token_embeddings" for one tensor of
                token vectors per text.
            convert_to_numpy: If False, return a list of tensors.
            convert_to_tensor: Return tensors on the device instead of arrays.
            others: `inputs` and `sentences` are other names of `texts`, and
                `normalize_embeddings` is another name of `normalize`. The arguments
                `prompt_name`, `prompt`, `precision`, `truncate_dim`, `pool` and
                `chunk_size` have no meaning here and may only have their defaults.

        Returns:
            float32. One vector per text: (W,) for one text, (n, W) for n texts. With
            `pooling=None`, (T, W) for one text, and a list of such arrays for several.
            Several layers come before the W, or before the T: (n, L, W), (L, T, W).

        Raises:
            InputError: A text is neither a string nor a list of tokens.
            SettingsError: The model lacks a layer, the pooling or the tokenizer is
                unknown, or an argument has no meaning here.
            DeviceError: `device` is not available.
        """
        texts = take_texts(texts, others)
        normalize = take_normalize(normalize, others)
        check_unused_arguments(others)
        form = result_form(
            pooling,
            output_value=output_value,
            convert_to_numpy=convert_to_numpy,
            convert_to_tensor=convert_to_tensor,
        )
        batch = list_texts(texts)
        check_one_device(device)
        sentences = self.tokenize(batch, tokenizer=tokenizer, language=language)
        if layers is None:
            layers = "average" if mix is None else "all"
        embedder = embedder_on(self.engine.on_device(device))
        embedded = embedder.embed_sentences(
            sentences or [[]],  # One empty sentence has the shape of the result.
            batch_size,
            layers=layers,
            mix=mix,
            gamma=gamma,
            pooling=form.pooling,
            normalize=normalize,
        )
        if show_progress_bar:
            from tqdm import tqdm

            embedded = tqdm(embedded, total=len(sentences), unit=" texts")
        result = _arrange(list(embedded), form, embedder.device)
        if isinstance(texts, str):
            return result[0]
        return result[: len(sentences)]

    @overload
    def tokenize(  # type: ignore[overload-overlap] # a string is one text
        self, texts: str, *, tokenizer: str | None = AUTO, language: str | None = None
    ) -> Sentence: ...

    @overload
    def tokenize(
        self,
        texts: Iterable[Text],
        *,
        tokenizer: str | None = AUTO,
        language: str | None = None,
    ) -> list[Sentence]: ...

    def tokenize(
        self,
        texts: str | Iterable[Text],
        *,
        tokenizer: str | None = AUTO,
        language: str | None = None,
    ) -> Sentence | list[Sentence]:
        """Split texts into tokens, as `encode` does before it embeds them.

        The arguments are those of `encode`.

        Returns:
            The tokens of the text: one list for a string, else a list of lists.

        Raises:
            InputError: A text is neither a string nor a list of tokens.
            SettingsError: The tokenizer is unknown.
        """
        batch = list_texts(texts)
        chosen = self._choose_tokenizer(batch, tokenizer, language)
        sentences = list(tokenize_texts(batch, chosen.tokenize))
        return sentences[0] if isinstance(texts, str) else sentences

    def word_vector(
        self,
        sentence: Text,
        word: str,
        *,
        layers: Layers | None = None,
        occurrence: int | None = None,
        tokenizer: str | None = AUTO,
        language: str | None = None,
    ) -> FloatArray:
        """Return the vector of a word in its sentence, one for all chosen layers.

            embedder.word_vector("We sat on the bank.", "bank", layers=2)  # (1024,)

        For the vector of each layer, use `embed_sentence`.

        Args:
            sentence: Raw sentence, which is tokenized, or a list of tokens.
            word: Token of the sentence, as it is written.
            layers: Layers to average: "all", "top", numbers such as 2, -1 or [1, 2],
                "word_emb" (the token layer), or "lstm1", "lstm2". None means all layers
                except the token layer, as in `find_neighbours`.
            occurrence: Which occurrence of the word, from 1; required if it occurs
                several times.
            tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language
                may follow, as in "spacy:de". "auto" splits a sentence that is tokenized
                at white space, and tokenizes others like the model's training text,
                else by "moses".
            language: Code of the language of the sentence. None means the model's.

        Returns:
            float32, shape (W,).

        Raises:
            InputError: The word does not occur, or several times without a number.
            SettingsError: The model lacks a layer, or the tokenizer is unknown.
        """
        n_layers = self.architecture.n_layers
        if layers is None:
            averaged = without_token_layer(range(n_layers))
        else:
            averaged = parse_mean_layers(layers, n_layers)
        chosen = self._choose_tokenizer([sentence], tokenizer, language)
        tokens = tokens_around(word, sentence, chosen, order="sentence")
        found = occurrence_of(
            word, tokens, occurrence, partial(numbers_after, "occurrence=")
        )
        activations = self.embed_sentence(tokens)  # (L, T, W)
        vector: FloatArray = activations[averaged, found.index].mean(axis=0)
        return vector

    def similarity(
        self,
        word: str,
        sentence1: Text,
        sentence2: Text,
        *,
        word2: str | None = None,
        layers: Layers = "all",
        occurrence1: int | None = None,
        occurrence2: int | None = None,
        tokenizer: str | None = AUTO,
        language: str | None = None,
    ) -> Similarity:
        """Compare a word in two sentences, like `elmo cosine`.

            river = "We sat on the bank of the river."
            money = "She opened an account at the bank."
            embedder.similarity("bank", river, money).layers  # one cosine per layer

        Args:
            word: Token of both sentences, as it is written.
            sentence1, sentence2: Raw sentences, or lists of tokens.
            word2: Word in the second sentence, if it differs.
            layers: Layers whose mean `average` compares: "all", "top", or numbers such
                as 2, -1 or [1, 2].
            occurrence1, occurrence2: Numbers of the word's occurrences, from 1;
                required if it occurs several times.
            tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language
                may follow, as in "spacy:de". "auto" splits tokenized sentences at white
                space. If one is raw, both are tokenized like the model's training text,
                else by "moses".
            language: Code of the language of the sentences. None means the model's.

        Returns:
            The cosine of each layer, and of the mean of `layers`.

        Raises:
            InputError: A word does not occur, or several times without a number.
            SettingsError: The model lacks a layer, or the tokenizer is unknown.
        """
        pair = self._find_pair(
            word=word,
            sentence1=sentence1,
            sentence2=sentence2,
            word2=word2,
            occurrence1=occurrence1,
            occurrence2=occurrence2,
            tokenizer=tokenizer,
            language=language,
        )
        return self.similarities([pair], layers=layers)[0]

    def _find_pair(
        self,
        *,
        word: str,
        sentence1: Text,
        sentence2: Text,
        word2: str | None = None,
        occurrence1: int | None = None,
        occurrence2: int | None = None,
        tokenizer: str | None = AUTO,
        language: str | None = None,
    ) -> OccurrencePair:
        """Find a word in two sentences; the arguments are those of `similarity`."""
        typed = raw_or_all(list(strings_in([sentence1, sentence2])))
        chosen = self._choose_tokenizer(typed, tokenizer, language)
        other_word = word if word2 is None else word2
        other_argument = "word" if word2 is None else "word2"
        one = tokens_around(word, sentence1, chosen, "sentence1", order="word")
        other = tokens_around(
            other_word,
            sentence2,
            chosen,
            "sentence2",
            order="word",
            word_name=other_argument,
        )
        first = occurrence_of(
            word,
            one,
            occurrence1,
            partial(numbers_after, "occurrence1="),
            argument="occurrence1",
        )
        second = occurrence_of(
            other_word,
            other,
            occurrence2,
            partial(numbers_after, "occurrence2="),
            argument="occurrence2",
        )
        return first, second

    def similarities(
        self,
        pairs: Iterable[OccurrencePair | tuple[str, Text, Text]],
        *,
        layers: Layers = "all",
    ) -> list[Similarity]:
        """Compare many pairs of words in their sentences, which are embedded together.

            embedder.similarities([("bank", river, money), ("bank", river, shore)])

        Args:
            pairs: A word and two sentences each, as in `similarity`, or two occurrences
                from `find_occurrence`.
            layers: Layers whose mean `average` compares: "all", "top", or numbers such
                as 2, -1 or [1, 2].

        Returns:
            The cosine of each layer and of the mean of `layers` for each pair.

        Raises:
            InputError: A word does not occur, or several times, or an item is not
                a pair.
            SettingsError: The model lacks a layer.
        """
        averaged = parse_mean_layers(layers, self.architecture.n_layers)
        found = []
        for index, pair in enumerate(check_batch(pairs, "pairs")):
            if isinstance(pair, tuple) and len(pair) == 3:
                word, sentence1, sentence2 = pair
                found.append(
                    self._find_pair(word=word, sentence1=sentence1, sentence2=sentence2)
                )
            else:
                check_pair(pair, f"pairs[{index}]")
                found.append(pair)
        sentences = (occurrence.sentence for pair in found for occurrence in pair)
        embedded = list(self.embed_sentences(sentences))
        results = []
        embedded_pairs = zip(embedded[::2], embedded[1::2], strict=True)
        for occurrences, activations in zip(found, embedded_pairs, strict=True):
            first, second = occurrences
            one = mean_of_tokens(activations[0], first)  # (L, W)
            other = mean_of_tokens(activations[1], second)
            results.append(compare_vectors(occurrences, one, other, averaged))
        return results

    def _choose_tokenizer(
        self, texts: Iterable[object], tokenizer: str | None, language: str | None
    ) -> Tokenizer:
        settings = TextSettings(tokenizer=tokenizer, language=language)
        return choose_tokenizer_of_strings(texts, settings, self.files)

    def embed_file(
        self,
        input_file: IO[str] | str | Path,
        output_file_path: str | Path,
        output_format: Layers = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
        *,
        layers: Layers | None = None,
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: Pooling | None = None,
        normalize: bool = False,
        text_settings: TextSettings | None = None,
        input_format: InputFormatName | None = None,
        tokenizer: str | None = None,
        language: str | None = None,
        split_sentences: bool = False,
        file_format: FileFormat | None = None,
        layout: Layout | None = None,
        compression: Compression | None = None,
        dtype: Dtype = "float32",
        shard: str | None = None,
        skip_errors: bool = False,
        delimiter: str | None = None,
        quotes: Quotes | None = None,
        no_header: bool = False,
        text_column: str | None = None,
        word_column: str | None = None,
        id_column: str | Sequence[str] | None = None,
        paragraphs: bool = False,
        rows: RowKind = "sentences",
        keep_columns: Sequence[str] = (),
        overwrite: bool = False,
        on_progress: "Callable[[Summary], object] | None" = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> "Summary":
        """Embed a text, a table or FASTA into HDF5 or another format.

            embedder.embed_file("sentences.txt", "vectors.hdf5")

        Call this again to resume an interrupted run from its last checkpoint. A
        finished output of the same input and options is left unchanged.

        Args:
            input_file: Path, also of a compressed file, or an open text file. `-`:
                standard input.
            output_file_path: The file appears once it is complete; `-` is standard
                output.
            output_format: AllenNLP's name for `layers`.
            batch_size: Sentences per batch; only matters with carried state.
            layers: "all", "top", "average", "sum", numbers such as 2, -1 or [0, 2],
                "word_emb" (the token layer once, W / 2 wide), or "lstm1", "lstm2". None
                means `output_format`.
            mix: In place of `layers`, the scalar parameters of a trained mix of all
                layers, before the softmax.
            gamma: Scale of the mix. None means 1.
            pooling: One vector per sentence: the "mean" or "max" over its tokens, its
                "first" or "last" token; zeros for a sentence without tokens. None keeps
                one vector per token.
            normalize: Scale every vector to length 1. Zeros stay zeros.
            overwrite: Replace an existing output, and an unfinished run that differs.
            on_progress: Called after each window with what has been done so far.
            should_stop: Called after each window. Return True to stop the run.

        Args: Input
            text_settings: How the text is read, in place of the arguments below.
            input_format: "text", "fasta", "conllu", "jsonl", "json", "csv", "tsv" or
                "parquet". None chooses it by the content and the suffix.
            tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language
                may follow, as in "spacy:de". None means the tokenizer of the model's
                training, else "moses" for a table and "whitespace" for other inputs, as
                in AllenNLP, with a warning if a file is raw.
            language: Language of the text, by its code or its name: "fr" or "French".
                None means the language of the model.
            split_sentences: Split each text into sentences, processed one by one.
            paragraphs: Join hard-wrapped lines up to the next blank line.
            shard: "3/16" embeds every 16th line, starting with the third. None means
                all lines.
            skip_errors: Skip records that are not UTF-8, otherwise invalid, or too long
                for memory. They get no tokens.
            text_column: Column with the text, or with a list of tokens. None means
                `text` or `tokens`.
            word_column: Column with one word per row, in place of `text_column`.
                Consecutive rows with the same id form one text.
            id_column: Column with the ids, or several columns that together identify a
                record. None means `id`, if there is one.
            keep_columns: Input columns to copy to Parquet or JSON lines; "all" means
                all others.
            delimiter: Character between the cells of CSV or TSV. None follows the
                header.
            quotes: "csv" if quotes in CSV or TSV enclose cells, "none" if they are
                text. None means "csv", but a cell of TSV ends in its line.
            no_header: The CSV or TSV has no header. Its columns are called "1", "2" and
                so on.

        Args: Output
            file_format: `hdf5`, `jsonl`, `npz`, `npy` or `parquet`. None: by suffix,
                else `hdf5`, with a warning for an unknown suffix.
            dtype: Data type of the stored values: `float32` or `float16`.
            rows: Rows of Parquet and JSON lines: `sentences`, or `tokens` for one row
                per token.
            layout: Layout of HDF5: `allennlp` or `packed`.
            compression: Compression of HDF5: `gzip` or `zstd`.
            forget_sentences: Omit `sentence_to_index`.
            use_sentence_keys: Name datasets by their sentence instead of their number.

        Returns:
            `Summary` with the numbers of sentences and tokens.

        Raises:
            InputError: The input cannot be read.
            SettingsError: An argument has a wrong value, or does not fit the others.
            OutputError: The output cannot be written, or another run has written it.
            StoppedError: `should_stop` returned True.
        """
        from elmo_cli.runs.embed_file import (
            embed_file,  # Importing the writers takes 30 ms.
        )

        keywords = TextSettings(
            input_format=input_format,
            tokenizer=tokenizer,
            language=language,
            split_sentences=split_sentences,
            shard=shard,
            skip_errors=skip_errors,
            delimiter=delimiter,
            quotes=quotes,
            no_header=no_header,
            text_column=text_column,
            word_column=word_column,
            id_column=id_column,
            paragraphs=paragraphs,
            keep_columns=keep_columns,
        )
        has_keywords = keywords != TextSettings(tokenizer=None)
        if text_settings is None:
            text_settings = keywords
        elif has_keywords:
            raise SettingsError(
                "text_settings: cannot be combined with other arguments for the input",
                remedy="Put them into text_settings.",
            )
        text_input = open_text_and_warn(
            input_file, text_settings, self.files, argument="input_file"
        )
        with text_input.source:
            layers_argument = "layers"
            if layers is None:
                layers = output_format
                layers_argument = "output_format"
            elif output_format != "all":
                raise SettingsError(
                    "layers: cannot be combined with output_format",
                    remedy="Remove one of them.",
                )
            selection = SelectionSettings.from_arguments(
                layers,
                mix=mix,
                gamma=gamma,
                pooling=pooling,
                normalize=normalize,
                layers_argument=layers_argument,
            )
            # A layer that the model lacks is an error before the output is looked at.
            selection.check_for_model(self.architecture.n_layers)
            output_settings = OutputSettings(
                file_format=file_format,
                layout=layout,
                compression=compression,
                dtype=dtype,
                forget_sentences=forget_sentences,
                use_sentence_keys=use_sentence_keys,
                overwrite=overwrite,
                rows=rows,
            )
            plan = plan_file(
                text_input,
                output_file_path,
                selection=selection,
                output_settings=output_settings,
                state=self.state,
                batch_size=batch_size,
            )
            if file_format is None:
                warn_about_suffix(plan)
            return embed_file(
                self.engine,
                plan,
                batch_size,
                on_progress=on_progress,
                should_stop=should_stop,
            )


def embedder_on(engine: Engine) -> ElmoEmbedder:
    """Return an embedder on a loaded model."""
    embedder = ElmoEmbedder.__new__(ElmoEmbedder)
    embedder._engine = engine
    return embedder


def _arrange(
    vectors: list[FloatArray], form: ResultForm, device: torch.device
) -> FloatArray | Tensor | list[FloatArray] | list[Tensor]:
    """Return the vectors of texts as an array, a tensor, or a list of one of them."""
    if not form.has_tensors:
        return np.stack(vectors) if form.is_stacked else vectors
    tensors = [torch.from_numpy(values).to(device) for values in vectors]
    return torch.stack(tensors) if form.is_stacked else tensors


def check_embedder(embedder: object) -> None:
    """Raise an `InputError` for an argument `embedder` that is none."""
    check_type(
        "embedder",
        embedder,
        ElmoEmbedder,
        "an ElmoEmbedder",
        remedy="Give the model first, such as ElmoEmbedder().",
    )
