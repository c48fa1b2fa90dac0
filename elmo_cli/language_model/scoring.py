"""Scores of texts: log probabilities of tokens by a biLM with its softmax, and perplexity.

The forward direction predicts every token and `</S>`, each from the tokens before it. The
backward direction predicts every token and `<S>`, each from the tokens after it. A token that is
not in the vocabulary counts as the word `<UNK>`.

The perplexity is exp of the mean negative log probability of all predictions: each token, and one
boundary per sentence. `<UNK>` counts as a word, so perplexities of different vocabularies cannot be
compared.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.engine import Engine, load_engine
from elmo_cli.errors.checks import Sentence, Text, check_sentences, check_type
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.inference.device import Device
from elmo_cli.inference.encoder import FixedStateEncoder, SentenceEncoder
from elmo_cli.inference.fast_bilm import BACKWARD, BOTH, FORWARD
from elmo_cli.inference.memory import result_or_raise
from elmo_cli.language_model.softmax import FullSoftmax
from elmo_cli.model.bilm import BiLmState
from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN, UNKNOWN_TOKEN
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.settings import DEFAULT_BATCH_SIZE, InitialState, ModelSettings, Precision
from elmo_cli.text.input_formats import Records
from elmo_cli.text.parsers import LINE
from elmo_cli.text.records import Record, id_value
from elmo_cli.text.tokenizers import Tokenizer, tokenize_texts

_Result = TypeVar("_Result")

SENTENCE_COLUMNS: Final = (
    *("tokens", "unknown", "log_p_forward", "log_p_backward"),
    *("forward", "backward", "average"),
)
"""Columns of `sentence_row`; the last three are perplexities."""


class SentenceScore(NamedTuple):
    """Natural log probabilities of one sentence of T tokens. Without tokens, arrays are empty."""

    tokens: Sentence
    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    forward: NDArray[np.float64]
    """Log probability of each token and of `</S>`, given the tokens before; shape (T + 1,)."""
    backward: NDArray[np.float64]
    """Log probability of `<S>` and of each token, given the tokens after; shape (T + 1,)."""


class LanguageModel:
    """A biLM with its softmax, which predicts the words of its `vocabulary`.

        model = LanguageModel()  # the bundled model
        [score] = model.score(["The keys are here."])
        score.forward  # natural log probability of each token and of the end

    Functions such as `measure_surprisal` and `predict_words` take it as their first argument.
    """

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        device: Device = "cpu",
        *,
        model: str | Path | ModelFiles | None = None,
        vocabulary_file: str | Path | None = None,
        softmax_file: str | Path | None = None,
        state: InitialState | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
    ) -> None:
        """Load a model with its softmax and vocabulary.

        Args:
            options_file, weight_file, device, model, state, batch_tokens: As in
                `ElmoEmbedder`.
            vocabulary_file, softmax_file: Words and weights of the softmax. None is vocab.txt and
                softmax.hdf5 next to the weights.
            precision: Precision of the biLM. The softmax is float32, or bfloat16 too with AMX.

        Raises:
            ElmoError: The model, its softmax or the device is missing or invalid.
        """
        files = model, options_file, weight_file, vocabulary_file, softmax_file
        settings = ModelSettings(*files, state, precision, str(device), batch_tokens)
        self._set_up(load_engine(settings, settings.find_files(with_softmax=True)))

    @classmethod
    def from_engine(cls, engine: Engine) -> "LanguageModel":
        """Return a language model on a loaded model, whose files include a softmax."""
        model = cls.__new__(cls)
        model._set_up(engine)
        return model

    def _set_up(self, engine: Engine) -> None:
        files = engine.files
        assert files.vocabulary is not None
        assert files.softmax is not None
        self.engine = engine
        self.vocabulary = read_vocabulary(files.vocabulary)
        dim = engine.options.lstm.projection_dim
        precision = engine.settings.precision
        self.softmax = FullSoftmax(
            files.softmax, len(self.vocabulary), dim, engine.device, precision
        )
        self._unknown = int(self.vocabulary.indices([UNKNOWN_TOKEN])[0])

    def __repr__(self) -> str:
        return (
            f"LanguageModel(model={self.files.name!r}, state={self.state!r}, "
            f"precision={self.engine.settings.precision!r}, device='{self.engine.device}')"
        )

    @property
    def files(self) -> ModelFiles:
        """Files of the model."""
        return self.engine.files

    @property
    def state(self) -> InitialState:
        """Initial state of the sentences."""
        return self.engine.state

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of raw texts: the training's if it is known, else moses."""
        return self.files.make_tokenizer()

    def tokenize(self, text: str) -> Sentence:
        """Split a raw text into tokens, as the methods do that take raw texts."""
        return self.tokenizer.tokenize(text)

    def score(
        self, sentences: Iterable[Text], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[SentenceScore]:
        """Score a stream of sentences, in its order.

        Args:
            sentences: Raw texts or lists of tokens, without boundaries; read one window at a time.
            batch_size: Sentences per batch; it has an effect with carried state only.

        Returns:
            An iterator over one score per sentence.
        """
        return self.score_ready(sentences, batch_size)

    def score_ready(
        self,
        sentences: Iterable[Text],
        batch_size: int,
        is_ready: Callable[[], bool] | None = None,
    ) -> Iterator[SentenceScore]:
        """Score a stream of sentences as `score`; see `compute_batches` for `is_ready`."""

        def compute(batch: list[Sentence], top: Tensor) -> list[SentenceScore]:
            scores = zip(batch, self.score_batch(batch, top), strict=True)
            return [
                SentenceScore(sentence, known, forward[0], backward[0])
                for sentence, (known, [forward, backward]) in scores
            ]

        empty = SentenceScore([], np.empty(0, bool), np.empty(0), np.empty(0))
        return self.compute_batches(
            sentences, compute, empty, batch_size=batch_size, is_ready=is_ready
        )

    def compute_batches(
        self,
        sentences: Iterable[Text],
        compute: Callable[[list[Sentence], Tensor], Sequence[_Result]],
        empty: _Result,
        *,
        directions: Sequence[int] = BOTH,
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] | None = None,
    ) -> Iterator[_Result]:
        """Compute one result per sentence of a stream, in its order, from the top layer.

        Args:
            compute: Function of the sentences of a batch, none empty, and their top layer with
                boundaries, float, shape (N, D P). It returns one result per sentence.
            empty: Result of a sentence without tokens.
            directions: Directions to run, D in number: 0 is forward, 1 is backward.
            is_ready: Return whether the next sentence can be read without blocking. If not, the
                sentences so far are computed, unless the state is carried over.
        """

        def compute_batch(
            encoder: SentenceEncoder, batch: list[Sentence], slots: Sequence[int]
        ) -> Sequence[_Result]:
            layers = encoder.run_bounded(batch, slots=slots, directions=directions)
            return compute(batch, layers[-1].to(self.engine.device))

        windows = self.engine.run(
            tokenize_texts(sentences, self.tokenize, "sentences"),
            partial(self.engine.compute, compute=compute_batch, empty=empty),
            sentence_of=lambda sentence: sentence,
            batch_size=batch_size,
            ends_window=lambda sentence: is_ready is not None and not is_ready(),
        )
        return (result_or_raise(result) for _, results in windows for result in results)

    def score_batch(
        self,
        sentences: list[Sentence],
        top: Tensor,
        directions: Sequence[int] = BOTH,
        *,
        with_entropy: bool = False,
    ) -> Iterator[tuple[NDArray[np.bool_], list[NDArray[np.float64]]]]:
        """Score the sentences of a batch; see `compute_batches`.

        Yields:
            Whether each token is known, shape (T,), and for each direction the log
            probabilities, shape (1, T + 1), or with the entropies below them, (2, T + 1).
        """
        tokens = [
            token
            for sentence in sentences
            for token in (START_TOKEN, *sentence, END_TOKEN)
        ]
        bounded = self.vocabulary.indices(tokens)  # (N,)
        ends = np.cumsum([len(sentence) + 2 for sentence in sentences])
        before_last = np.delete(np.arange(len(bounded)), ends - 1)
        contexts, targets = [], []
        for direction, values in zip(
            directions, top.chunk(len(directions), dim=1), strict=True
        ):
            # The forward direction predicts the next row from all rows but the last of a
            # sentence, the backward direction the previous row from all but the first.
            contexts.append(
                values[torch.from_numpy(before_last + direction).to(top.device)]
            )
            targets.append(torch.from_numpy(bounded[before_last + 1 - direction]))
        scores = self.softmax.of_targets(
            torch.cat(contexts), torch.cat(targets), with_entropy=with_entropy
        ).numpy()
        lengths = [len(sentence) + 1 for sentence in sentences]
        parts = np.split(scores, np.cumsum(lengths * len(directions))[:-1], axis=1)
        for index, known in enumerate(np.split(bounded != self._unknown, ends[:-1])):
            yield known[1:-1], parts[index :: len(sentences)]

    @torch.inference_mode()
    def read(
        self,
        texts: Sequence[Sentence],
        *,
        backward: bool,
        state: BiLmState | None = None,
    ) -> tuple[Tensor, BiLmState]:
        """Read texts in one direction, to predict the next word.

        Args:
            state: Initial state of each text. No text may be empty then. None starts each text
                at the boundary of a sentence. Only the state of the direction is used.

        Returns:
            Contexts of the next word, float, shape (B, P), and the state at the end of each text.
        """
        if not isinstance(self.engine.encoder, FixedStateEncoder):
            raise SettingsError("--state 'carry': predictions start from zero or warm")
        texts = list(check_sentences(texts, "texts"))
        if state is None:
            state = self.engine.encoder.start_state
            first, last = self.engine.encoder.boundaries
            texts = [[*text, last] if backward else [first, *text] for text in texts]
        directions = BACKWARD if backward else FORWARD
        layers, ended = self.engine.encoder.run_from(texts, state, directions)
        lengths = torch.tensor([len(text) for text in texts], device=layers.device)
        ends = lengths.cumsum(dim=0)
        return layers[-1, ends - lengths if backward else ends - 1], ended


@dataclass(frozen=True)
class Directions:
    """Perplexity of each direction, and of both together."""

    forward: float
    backward: float
    average: float
    """Geometric mean of both perplexities."""


@dataclass(frozen=True)
class Perplexity:
    """Perplexity of a text, with the numbers of sentences, tokens and predictions."""

    sentences: int
    """Number of sentences with tokens; the others are not predicted."""
    tokens: int
    predictions: int
    """Number of predictions per direction: every token, and one boundary per sentence."""
    unknown: float
    """Share of the tokens that are not in the vocabulary."""
    all_words: Directions
    """Perplexity of all predictions, with `<UNK>` as a word."""
    known_words: Directions
    """Perplexity of the words of the vocabulary, including boundaries."""


def measure_perplexity(
    model: LanguageModel,
    sentences: Iterable[Text],
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> Perplexity:
    """Measure the perplexity of a stream of sentences.

    Args:
        model: Language model.
        sentences, batch_size: As in `LanguageModel.score`.

    Returns:
        Perplexity of each direction, with and without unknown words, and the numbers of tokens.

    Raises:
        InputError: There is no token.
    """
    check_type("model", model, LanguageModel, "a LanguageModel")
    return perplexity_of_scores(model.score(sentences, batch_size))


def perplexity_of_scores(
    scores: Iterable[SentenceScore], name: str = "the text"
) -> Perplexity:
    """Compute the perplexity from the scores of sentences; see `measure_perplexity`."""
    n_sentences = n_tokens = n_unknown = 0
    log_p, of_unknown = np.zeros(2), np.zeros(2)  # forward, backward
    for score in scores:
        unknown = ~score.known
        n_sentences += len(score.tokens) > 0
        n_tokens += len(score.tokens)
        n_unknown += int(unknown.sum())
        log_p += score.forward.sum(), score.backward.sum()
        of_unknown += (
            score.forward[:-1][unknown].sum(),
            score.backward[1:][unknown].sum(),
        )
    if n_tokens == 0:
        raise InputError(f"{name} has no tokens")
    n = n_tokens + n_sentences
    return Perplexity(
        sentences=n_sentences,
        tokens=n_tokens,
        predictions=n,
        unknown=n_unknown / n_tokens,
        all_words=_directions(log_p, n),
        known_words=_directions(log_p - of_unknown, n - n_unknown),
    )


def _directions(log_p: NDArray[np.float64], n_predictions: int) -> Directions:
    """Turn the sums of both directions' log probabilities, shape (2,), into perplexities."""
    means = np.append(log_p, log_p.mean()) / n_predictions
    with np.errstate(over="ignore"):
        return Directions(*np.exp(-means).tolist())


def sentence_row(scores: Sequence[SentenceScore]) -> list[object]:
    """Return the row of a record, of one or more sentences. Without tokens it has no perplexity."""
    n_tokens = sum(len(score.tokens) for score in scores)
    perplexities = (
        astuple(perplexity_of_scores(scores).all_words) if n_tokens else [None] * 3
    )
    n_unknown = sum(int((~score.known).sum()) for score in scores)
    forward = float(sum(score.forward.sum() for score in scores))
    backward = float(sum(score.backward.sum() for score in scores))
    return [n_tokens, n_unknown, forward, backward, *perplexities]


@dataclass(frozen=True)
class ScoredRecord(Generic[_Result]):
    """Record with its result."""

    names: tuple[str | int, ...]  # values of `name_columns`
    record: Record
    result: _Result


def name_columns(read: Records, *, is_split: bool) -> tuple[str, ...]:
    """Return the columns that name a record: `id`, and `line` if ids may repeat, or else `line`."""
    if read.has_ids:
        return ("id", "line") if read.is_numbered else ("id",)
    return ("line", "sentence_number") if is_split else ("line",)


def record_names(number: int, record: Record) -> tuple[str | int, ...]:
    """Return the values of `name_columns` for a record, whose number counts from 1."""
    identifier, line = id_value(record.id), record.attributes.get(LINE)
    lines = () if line is None else (int(str(line)) + 1,)
    return (*lines, number) if identifier is None else (identifier, *lines)


def score_records(
    records: Iterable[Record], score: Callable[[Iterator[Sentence]], Iterator[_Result]]
) -> Iterator[ScoredRecord[list[_Result]]]:
    """Yield each record with the results for its sentences; `score` keeps their order."""
    waiting: deque[Record] = deque()

    def sentences() -> Iterator[Sentence]:
        for record in records:
            waiting.append(record)
            yield from record.split()

    results = score(sentences())
    for number, first in enumerate(results, start=1):
        record = waiting.popleft()
        others = islice(results, max(len(record.sentences) - 1, 0))
        yield ScoredRecord(record_names(number, record), record, [first, *others])
