"""The class `LanguageModel`: log probabilities of tokens, by a biLM with its softmax.

The forward direction predicts every token and `</S>`, each from the tokens before it.
The backward direction predicts every token and `<S>`, each from the tokens after it. A
model that only reads forward lacks it. A token that is not in the vocabulary counts as
the word `<UNK>`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.engine import Engine, load_engine
from elmo_cli.errors.checks import (
    check_batch,
    check_sentences,
    check_type,
    list_texts,
)
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Template
from elmo_cli.errors.missing_attributes import missing_attribute_error
from elmo_cli.inference.device import CPU, Device
from elmo_cli.inference.encoder import FixedStateEncoder, SentenceEncoder
from elmo_cli.inference.memory import result_or_raise
from elmo_cli.inference.trie import build_trie, index_tokens
from elmo_cli.language_model.softmax import FullSoftmax
from elmo_cli.model.bilm import BiLmState
from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN, UNKNOWN_TOKEN
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.options.model import (
    DEFAULT_BATCH_SIZE,
    InitialState,
    ModelSettings,
    Precision,
    check_device,
)
from elmo_cli.options.text import DEFAULT_TEXT_SETTINGS, TextSettings
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.pretrained.find_model import find_files_by_settings
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.require_directions import require_directions
from elmo_cli.pretrained.require_softmax import require_softmax
from elmo_cli.text.choose_tokenizer import (
    choose_tokenizer_of_strings,
    peek_strings,
)
from elmo_cli.text.tokenizers import tokenize_texts
from elmo_cli.types import READING_DIRECTIONS, ReadingDirection, Sentence, Text

_Result = TypeVar("_Result")


class SentenceScore(NamedTuple):
    """Natural log probabilities of a sentence of T tokens; empty without tokens."""

    tokens: Sentence
    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    forward: NDArray[np.float64]
    """Of each token and of `</S>`, given the tokens before; shape (T + 1,)."""
    backward: NDArray[np.float64] | None
    """Of `<S>` and of each token, given the tokens after; shape (T + 1,). None for a
    model that only reads forward."""


class Predictions(NamedTuple):
    """Predictions of the T tokens of a sentence and a boundary, in K directions."""

    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    log_p: NDArray[np.float64]
    """Natural log probabilities, shape (K, T + 1).

    The forward direction ends with the one of `</S>`, the backward direction begins
    with the one of `<S>`.
    """
    entropy: NDArray[np.float64] | None
    """Entropy of each prediction, shape (K, T + 1); None unless it was requested."""


_OTHER_DEVICE: Final = "Use LanguageModel(model, device=...)."
_ADVICE: Final = {
    **dict.fromkeys(("to", "cuda", "cpu"), _OTHER_DEVICE),
    **dict.fromkeys(
        ("generate", "sample"), "Use elmo_cli.sample_sentences(model, text)."
    ),
    "perplexity": "Use elmo_cli.measure_perplexity(model, texts).",
    "predict": "Use elmo_cli.predict_words(model, texts).",
    "substitutes": "Use elmo_cli.find_substitutes(model, texts).",
    "surprisal": "Use elmo_cli.measure_surprisal(model, texts).",
}
"""What to use in place of methods that similar classes have."""


class LanguageModel:
    """A biLM with its softmax, which predicts the words of its `vocabulary`.

        model = LanguageModel()  # the bundled model
        score = model.score("The keys are here.")
        score.forward  # natural log probability of each token and of the end

    Functions such as `measure_surprisal` and `predict_words` take it as their first
    argument.

    Raises:
        ElmoError: Base class of all errors. Each method names its own.
        ComputationError: A sentence does not fit into memory, in any method.
    """

    def __init__(
        self,
        model: str | Path | ModelFiles | None = None,
        *,
        device: Device = "cpu",
        state: InitialState | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        vocabulary_file: str | Path | None = None,
        softmax_file: str | Path | None = None,
    ) -> None:
        """Load a model with its softmax and vocabulary.

        Args:
            model: Name of a model listed by `elmo models`, a folder, a zip file or
                `ModelFiles`. None means the default model.
            device: `cpu`, `cuda`, `cuda:N`, `mps` or `auto` (a CUDA GPU if there is
                one).
            state: Initial LSTM state of each sentence: "zero", "warm" (after a fixed
                text) or "carry" (from the previous batch). None: "zero", or "warm" for
                a model that says that it was trained with carried state.
            precision: Precision of the biLM: "float32", "bfloat16" or "float16", "int8"
                on a processor with VNNI, or "tf32" on an NVIDIA GPU. The softmax is
                float32. For "bfloat16" and "int8" it is int16 with VNNI or AVX2, and
                for "bfloat16" bfloat16 with AMX.
            batch_tokens: Maximum number of tokens per batch. None means 8,192 on the
                CPU and 32,768 on a GPU.
            options_file, weight_file: Paths or URLs of options.json and weights.hdf5,
                in place of `model`.
            vocabulary_file, softmax_file: Words and weights of the softmax. None is
                vocab.txt and softmax.hdf5 next to the weights.

        Raises:
            ModelError: The model or its softmax is missing or invalid.
            WeightsError: A file of weights cannot be read, or does not fit the model.
            DeviceError: The device is not available.
            SettingsError: Another argument has a wrong value.
            InputError: Another argument has a wrong type, or the device lacks the
                precision.
        """
        settings = ModelSettings(
            model=model,
            options_file=options_file,
            weight_file=weight_file,
            vocabulary_file=vocabulary_file,
            softmax_file=softmax_file,
            state=state,
            precision=precision,
            device=check_device(device),
            batch_tokens=batch_tokens,
        )
        files = find_files_by_settings(settings, with_softmax=True)
        self._set_up(load_engine(settings, files))

    def _set_up(self, engine: Engine) -> None:
        files = require_softmax(engine.files)
        assert files.softmax is not None
        assert files.vocabulary is not None
        self.engine = engine
        self.vocabulary = read_vocabulary(files.vocabulary)
        self.softmax = FullSoftmax(
            path=files.softmax,
            n_words=len(self.vocabulary),
            dim=engine.architecture.lstm.projection_dim,
            device=engine.device,
            precision=engine.settings.precision,
        )
        self._unknown = int(self.vocabulary.indices([UNKNOWN_TOKEN])[0])

    def __repr__(self) -> str:
        return (
            f"LanguageModel(model={self.files.name!r}, state={self.state!r}, "
            f"precision={self.engine.settings.precision!r}, "
            f"device='{self.engine.device}')"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute_error(self, name, _ADVICE)

    @property
    def files(self) -> ModelFiles:
        """Files of the model."""
        return self.engine.files

    @property
    def state(self) -> InitialState:
        """Initial state of the sentences."""
        return self.engine.state

    @property
    def directions(self) -> tuple[ReadingDirection, ...]:
        """Directions in which the model reads: `forward`, and usually `backward`."""
        return self.engine.architecture.directions

    def tokenize(self, text: str) -> Sentence:
        """Split a text into tokens, like the methods that take texts.

        Raises:
            InputError: The text is not a string.
        """
        check_type("text", text, str, "a string")
        chosen = choose_tokenizer_of_strings([text], DEFAULT_TEXT_SETTINGS, self.files)
        return chosen.tokenize(text)

    def _tokenize_stream(
        self, texts: Iterable[Text], tokenizer: str | None, language: str | None
    ) -> Iterator[Sentence]:
        settings = TextSettings(tokenizer=tokenizer, language=language)
        strings, texts = peek_strings(texts)
        chosen = choose_tokenizer_of_strings(strings, settings, self.files)
        return tokenize_texts(texts, chosen.tokenize)

    @overload
    def score(  # type: ignore[overload-overlap] # a string is one text
        self,
        texts: str,
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        tokenizer: str | None = AUTO,
        language: str | None = None,
    ) -> SentenceScore: ...

    @overload
    def score(
        self,
        texts: Iterable[Text],
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        tokenizer: str | None = AUTO,
        language: str | None = None,
    ) -> list[SentenceScore]: ...

    def score(
        self,
        texts: str | Iterable[Text],
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        tokenizer: str | None = AUTO,
        language: str | None = None,
    ) -> SentenceScore | list[SentenceScore]:
        """Compute the log probabilities of the tokens of texts, each as one sentence.

            model.score("The cat sat.").forward.sum()  # -28.56, a natural logarithm

        Args:
            texts: One raw text, or several: strings or lists of tokens, without
                boundaries.
            batch_size: Sentences per batch; only matters with carried state.
            tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language
                may follow, as in "spacy:de". "auto" looks at the first 200 texts:
                tokenized ones are split at white space, and others are tokenized like
                the model's training text, else by "moses".
            language: Code of the language of the texts. None means the model's.

        Returns:
            The score of the text: one for a string, else a list.

        Raises:
            InputError: A text is neither a string nor a list of tokens.
            SettingsError: The tokenizer is unknown, or `batch_size` is below 1.
        """
        scores = list(
            self.iter_scores(
                list_texts(texts),
                batch_size=batch_size,
                tokenizer=tokenizer,
                language=language,
            )
        )
        return scores[0] if isinstance(texts, str) else scores

    def iter_scores(
        self,
        texts: Iterable[Text],
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        tokenizer: str | None = AUTO,
        language: str | None = None,
        is_ready: Callable[[], bool] | None = None,
    ) -> Iterator[SentenceScore]:
        """Score a stream of texts, in order, one window at a time.

            with open("texts.txt") as texts:
                for score in model.iter_scores(texts):
                    print(score.forward.sum())

        Args:
            texts: Strings or lists of tokens, read as they are needed.
            batch_size: Sentences per batch; only matters with carried state.
            tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language
                may follow, as in "spacy:de". "auto" looks at the first text: a
                tokenized one means that all are split at white space, and otherwise
                they are tokenized like the model's training text, else by "moses".
            language: Code of the language of the texts. None means the model's.
            is_ready: Return whether the next sentence can be read without waiting. If
                it returns False, the sentences so far are computed first, unless the
                state is carried over. By default, windows are always filled.

        Returns:
            An iterator over one score per sentence.

        Raises:
            InputError: A text is neither a string nor a list of tokens, when it is
                read.
            SettingsError: The tokenizer is unknown, or `batch_size` is below 1.
        """

        def compute(batch: list[Sentence], top: Tensor) -> list[SentenceScore]:
            scores = []
            predictions = self.predict_batch(batch, top, self.directions)
            for sentence, (known, log_p, _) in zip(batch, predictions, strict=True):
                forward = log_p[0]
                backward = log_p[1] if len(self.directions) > 1 else None
                scores.append(
                    SentenceScore(
                        tokens=sentence, known=known, forward=forward, backward=backward
                    )
                )
            return scores

        empty = SentenceScore(
            tokens=[],
            known=np.empty(0, bool),
            forward=np.empty(0),
            backward=np.empty(0) if len(self.directions) > 1 else None,
        )
        return self.compute_batches(
            texts,
            compute,
            empty,
            directions=self.directions,
            batch_size=batch_size,
            tokenizer=tokenizer,
            language=language,
            is_ready=is_ready,
        )

    def compute_batches(
        self,
        texts: Iterable[Text],
        compute: Callable[[list[Sentence], Tensor], Sequence[_Result]],
        empty: _Result,
        *,
        directions: Sequence[ReadingDirection] = READING_DIRECTIONS,
        batch_size: int = DEFAULT_BATCH_SIZE,
        tokenizer: str | None = AUTO,
        language: str | None = None,
        is_ready: Callable[[], bool] | None = None,
    ) -> Iterator[_Result]:
        """Compute one result per text of a stream from the top layer, in order.

        Args:
            texts, batch_size, tokenizer, language, is_ready: As in `iter_scores`.
            compute: Function of the sentences of a batch, none empty, and their top
                layer with boundaries, float, shape (n, K P): n is the number of tokens
                and boundaries, K of directions, and P is W / 2. It returns one result
                per sentence.
            empty: Result of a sentence without tokens.
            directions: `forward`, `backward` or both, in this order.

        Raises:
            ModelError: The model lacks a direction.
        """
        require_directions(self.files, directions)

        def compute_sentences(
            encoder: SentenceEncoder, batch: list[Sentence], slots: Sequence[int]
        ) -> Sequence[_Result]:
            layers = encoder.run_bounded(batch, slots=slots, directions=directions)
            return compute(batch, layers[-1].to(self.engine.device))

        windows = self.engine.compute_windows(
            self._tokenize_stream(
                check_batch(texts, "texts"), tokenizer=tokenizer, language=language
            ),
            partial(
                self.engine.compute_window,
                compute_sentences=compute_sentences,
                empty=empty,
            ),
            sentence_of=lambda sentence: sentence,
            batch_size=batch_size,
            ends_window=lambda sentence: is_ready is not None and not is_ready(),
        )
        return (result_or_raise(result) for _, results in windows for result in results)

    def predict_batch(
        self,
        sentences: list[Sentence],
        top: Tensor,
        directions: Sequence[ReadingDirection] = READING_DIRECTIONS,
        *,
        with_entropy: bool = False,
    ) -> Iterator[Predictions]:
        """Predict the tokens of each sentence of a batch from its top layer.

        The B sentences have N tokens, and so N + 2 B words with their boundaries. In
        each direction, all words but one per sentence predict the next one. For two
        sentences:

            words      <S> the cat </S> <S> it </S>
            rows        0   1   2   3    4   5   6
            forward     0   1   2        4   5       predict
                        1   2   3        5   6
            backward        1   2   3        5   6   predict
                        0   1   2        4   5

        Equal beginnings, here `<S>`, are one context: the softmax adds up its words
        once.

        Args:
            sentences, top, directions: As `compute_batches` has them.
            with_entropy: Compute the entropy of each prediction too.
        """
        bounded = [[START_TOKEN, *sentence, END_TOKEN] for sentence in sentences]
        words = self.vocabulary.indices(list(chain(*bounded)))  # (N + 2 B,)
        is_known = words != self._unknown
        last_rows = np.cumsum([len(sentence) for sentence in bounded]) - 1
        without_last = np.delete(np.arange(len(words)), last_rows)  # (N + B,)
        without_first = without_last + 1
        _, numbers = index_tokens(bounded)
        roots = np.zeros(len(sentences), np.int64)
        if self.state == "carry":  # From other states, equal tokens lead elsewhere.
            roots = np.arange(len(sentences))
        contexts: list[Tensor] = []
        rows_in_contexts = []
        targets = []
        n_contexts = 0
        layers = top.chunk(len(directions), dim=1)
        for direction, layer in zip(directions, layers, strict=True):
            is_backward = direction == "backward"
            context_rows = without_first if is_backward else without_last
            target_rows = without_last if is_backward else without_first
            trie = build_trie(numbers, roots, CPU, backward=is_backward)
            nodes = trie.nodes.numpy()[context_rows]
            _, first, context_of = np.unique(
                nodes, return_index=True, return_inverse=True
            )
            distinct_rows = torch.from_numpy(context_rows[first])
            contexts.append(layer[distinct_rows.to(top.device)])
            rows_in_contexts.append(torch.from_numpy(n_contexts + context_of))
            targets.append(torch.from_numpy(words[target_rows]))
            n_contexts += len(first)
        scores = self.softmax.of_targets(
            torch.cat(contexts),
            targets=torch.cat(targets),
            rows=torch.cat(rows_in_contexts),
            with_entropy=with_entropy,
        )
        by_direction = scores.view(len(scores), len(directions), -1).numpy()
        log_p = by_direction[0]  # (K, N + B)
        entropies = by_direction[1] if with_entropy else None  # (K, N + B)
        row = 0  # of the sentence's first word, which is a boundary
        start = 0  # of the sentence's predictions
        for sentence in sentences:
            end = start + len(sentence) + 1
            yield Predictions(
                known=is_known[row + 1 : row + 1 + len(sentence)],
                log_p=log_p[:, start:end],
                entropy=None if entropies is None else entropies[:, start:end],
            )
            row += len(sentence) + 2
            start = end

    @torch.inference_mode()
    def read(
        self,
        texts: Sequence[Sentence],
        *,
        direction: ReadingDirection,
        state: BiLmState | None = None,
    ) -> tuple[Tensor, BiLmState]:
        """Read texts in one direction, to predict the next word of each.

        Args:
            texts: B lists of tokens.
            direction: "forward", or "backward" to read from the last token to the first
                and predict the word before.
            state: State to start each text from; only the one of the direction is used,
                and no text may be empty. None starts each text at the boundary of a
                sentence.

        Returns:
            Contexts of the next word, float, shape (B, W / 2), and the state at the end
            of each text.

        Raises:
            ModelError: The model lacks the direction.
            SettingsError: The state is carried over.
            InputError: `texts` is not a list of lists of tokens.
        """
        require_directions(self.files, [direction])
        if not isinstance(self.engine.encoder, FixedStateEncoder):
            raise SettingsError(
                Template("{--state carry}: predictions start from zero or warm")
            )
        texts = list(check_sentences(texts, "texts"))
        is_backward = direction == "backward"
        if state is None:
            state = self.engine.encoder.start_state
            first, last = self.engine.encoder.boundaries
            if is_backward:
                texts = [[*text, last] for text in texts]
            else:
                texts = [[first, *text] for text in texts]
        layers, ended = self.engine.encoder.run_from(texts, state, [direction])
        lengths = torch.tensor([len(text) for text in texts], device=layers.device)
        ends = lengths.cumsum(dim=0)
        # The backward direction comes to the first token of each text last.
        rows = ends - lengths if is_backward else ends - 1
        return layers[-1, rows], ended


def language_model_on(engine: Engine) -> LanguageModel:
    """Return a language model on a loaded model, whose files include a softmax."""
    model = LanguageModel.__new__(LanguageModel)
    model._set_up(engine)
    return model


def check_language_model(model: object) -> None:
    """Raise an `InputError` for an argument `model` that is none."""
    check_type(
        "model",
        model,
        LanguageModel,
        "a LanguageModel",
        remedy="Give the model first, such as LanguageModel().",
    )
