"""`LanguageModel`: log probabilities of tokens by a biLM with its softmax.

The forward direction predicts every token and `</S>`, each from the tokens before it. The
backward direction predicts every token and `<S>`, each from the tokens after it. A token that is
not in the vocabulary counts as the word `<UNK>`.

Softmax over the whole vocabulary: its file, and log probabilities of words in contexts.

softmax.hdf5 has one vector and one bias per word that a biLM predicts:

    softmax/W    (V, P)    float32 or float16; V words, P the projection_dim
    softmax/b    (V,)

The published models have this file next to their weights, for both directions. Safetensors have
these names too. The rows are in the order of the vocabulary.

A vocabulary has up to 800,000 words. Neither its vectors nor the logits of many predictions are in
memory together: both are split, and sums of exponentials are added up.

Records of an input, each with what a language model computes for it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo_cli.engine import Engine, load_engine
from elmo_cli.errors import InputError, WeightsError
from elmo_cli.inference.encoder import FixedStateEncoder, SentenceEncoder
from elmo_cli.inference.fast_bilm import BACKWARD, BOTH, FORWARD
from elmo_cli.inference.precision import Device, result_or_raise
from elmo_cli.model.bilm import BiLmState
from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN, UNKNOWN_TOKEN, read_vocabulary
from elmo_cli.model.weights import SOFTMAX, open_tensors, write_tensors
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.settings import DEFAULT_BATCH_SIZE, InitialState, ModelSettings, Precision
from elmo_cli.text.parsers import LINE
from elmo_cli.text.records import Record, Sentence, check_sentences, id_value

Array = NDArray[np.float32]

WEIGHT: Final = "softmax/W"
BIAS: Final = "softmax/b"
ROWS: Final = 8192
"""Number of words that are read together: 16 MiB of vectors of 512 values."""
PREDICTIONS: Final = 1024
"""Number of predictions that are computed together: 32 MiB of logits."""
LOGITS: Final = 2**23
"""Number of logits of all words in some contexts that are computed together: 64 MiB."""
HELD_BYTES: Final = 512 * 2**20
"""Maximum size of a softmax, in float32, that is read once; a larger one is read per batch."""


# The file.


Rows = tuple[int, Tensor, Tensor]
"""Softmax of R consecutive words of the vocabulary: index of the first word, vectors and biases,
float32, shapes (R, P) and (R,)."""


def check_softmax(path: str | Path, n_words: int, dim: int) -> None:
    """Raise a `WeightsError` unless a softmax has the shapes for a vocabulary and a biLM."""
    with open_tensors(path) as file:
        file.check_kind(SOFTMAX)
        file.check_shapes(
            {WEIGHT: (n_words, dim), BIAS: (n_words,)},
            f"a vocabulary of {n_words:,} words and a projection_dim of {dim}",
        )


def read_rows(path: str | Path, n_rows: int) -> Iterator[Rows]:
    """Read a checked softmax, `n_rows` words at a time, to limit memory."""
    with open_tensors(path) as file:
        biases = torch.from_numpy(file.read(BIAS))
        for first in range(0, len(biases), n_rows):
            bias = biases[first : first + n_rows]
            last = first + len(bias)
            weight = torch.from_numpy(file.read(WEIGHT, slice(first, last)))
            if not (weight.isfinite().all() and bias.isfinite().all()):
                raise WeightsError(
                    f"{path}: values that are not finite (NaN or infinity) in the rows "
                    f"{first} to {last - 1}"
                )
            yield first, weight, bias


def read_word_vectors(path: str | Path, words: NDArray[np.int64]) -> Array:
    """Read the vectors, shape (N, P), of words by their indices, from a checked softmax."""
    runs = np.split(words, np.flatnonzero(np.diff(words) != 1) + 1)  # each is read together
    with open_tensors(path) as file:
        return np.concatenate([file.read(WEIGHT, slice(run[0], run[-1] + 1)) for run in runs])


def write_softmax(path: str | Path, weight: Array, bias: Array, dtype: str = "float32") -> None:
    """Write a softmax, shapes (V, P) and (V,), to a file; see `write_tensors`."""
    write_tensors(path, [(WEIGHT, weight), (BIAS, bias)], dtype)


# What it computes.


class FullSoftmax:
    """Softmax of a file. Logits are float32, and sums are float64."""

    def __init__(self, path: Path, n_words: int, dim: int, device: torch.device) -> None:
        """Check the file; on a GPU, load the whole softmax."""
        check_softmax(path, n_words, dim)
        self._n_words, self._path, self._device = n_words, path, device
        self._held: list[Rows] = []
        if device.type != "cpu" or 4 * n_words * dim <= HELD_BYTES:
            self._held = list(self._rows())

    def of_targets(
        self, contexts: Tensor, targets: Tensor, *, with_entropy: bool = False
    ) -> Tensor:
        """Compute the log probability of one word in each context.

        Args:
            contexts: float, shape (N, P), on the device.
            targets: int64, shape (N,): vocabulary indices.
            with_entropy: Compute the entropy of the distribution over all words too.

        Returns:
            float64, shape (1, N), natural logarithms, on the CPU; (2, N) with the entropies.
        """
        contexts, targets = contexts.float(), targets.to(self._device)
        logs = torch.full((len(targets),), float("-inf"), dtype=torch.float64, device=self._device)
        target_logits, means = torch.zeros_like(logs), torch.zeros_like(logs)
        for first, weight, bias in self._rows():
            for start in range(0, len(targets), PREDICTIONS):
                piece = slice(start, start + PREDICTIONS)
                logits = functional.linear(contexts[piece], weight, bias)  # (n, R)
                columns = targets[piece] - first
                here = ((columns >= 0) & (columns < len(bias))).nonzero()[:, 0]
                target_logits[start + here] = logits[here, columns[here]].double()
                mean = torch.linalg.vecdot(logits.softmax(dim=1), logits) if with_entropy else None
                before, added = logs[piece], _log_sum_exp_(logits).double()
                after = torch.logaddexp(before, added)
                if mean is not None:
                    means[piece] *= (before - after).exp()
                    means[piece] += mean * (added - after).exp()
                logs[piece] = after
        scores = [target_logits - logs, logs - means][: 1 + with_entropy]
        return torch.stack(scores).cpu()

    def of_words(self, contexts: Tensor) -> Iterator[Tensor]:
        """Yield the log probability of every word in each context.

        Args:
            contexts: float, shape (N, P), on the device.

        Yields:
            For each context float64, shape (V,), natural logarithms, on the CPU.
        """
        for piece in torch.split(contexts.float(), max(1, LOGITS // self._n_words)):
            shape = len(piece), self._n_words
            logits = torch.empty(shape, dtype=torch.float64, device="cpu")
            for first, weight, bias in self._rows():
                logits[:, first : first + len(bias)] = functional.linear(piece, weight, bias)
            yield from logits.log_softmax(dim=1)

    def _rows(self) -> Iterator[Rows]:
        yield from self._held
        if not self._held:
            for first, weight, bias in read_rows(self._path, ROWS):
                yield first, weight.to(self._device), bias.to(self._device)


def _log_sum_exp_(logits: Tensor) -> Tensor:
    """Compute `logits.logsumexp(dim=1)` in place of the logits, without a copy."""
    largest = logits.amax(dim=1, keepdim=True)  # (n, 1)
    return logits.sub_(largest).exp_().sum(dim=1).log_().add_(largest[:, 0])


_Key = TypeVar("_Key")
_Score = TypeVar("_Score")
Score = Callable[[Iterator[Sentence]], Iterator[_Score]]
"""Function that yields one result per sentence of a stream, in its order."""


@dataclass(frozen=True)
class ScoredRecord(Generic[_Score]):
    """Record with its result."""

    names: tuple[str | int, ...]
    """Values of the columns that name it: see `name_columns`."""
    record: Record
    result: _Score

    @property
    def kept_columns(self) -> Mapping[str, object]:
        """Other columns of the input."""
        return self.record.columns


def name_columns(*, has_ids: bool, is_split: bool) -> tuple[str, ...]:
    """Return the columns that name a record in a table: `id`, or else `line`, from 1.

    Sentences that were split from lines have the line of the file, and the number of the sentence.
    """
    return ("id",) if has_ids else ("line", "sentence_number") if is_split else ("line",)


def record_names(number: int, record: Record) -> tuple[str | int, ...]:
    """Return the values of `name_columns` for a record, whose number counts from 1."""
    identifier = id_value(record.id)
    if identifier is not None:
        return (identifier,)
    line = record.attributes.get(LINE)
    return (number,) if line is None else (int(str(line)) + 1, number)


def score_records(
    records: Iterable[Record], score: Score[_Score]
) -> Iterator[ScoredRecord[_Score]]:
    """Yield each record with the result for its tokens."""
    keyed = ((numbered, numbered[1].tokens) for numbered in enumerate(records, start=1))
    for (number, record), result in score_keyed(keyed, score):
        yield ScoredRecord(record_names(number, record), record, result)


def score_keyed(
    sentences: Iterable[tuple[_Key, Sentence]], score: Score[_Score]
) -> Iterator[tuple[_Key, _Score]]:
    """Yield the key of each sentence with its result."""
    waiting: deque[_Key] = deque()

    def tokens() -> Iterator[Sentence]:
        for key, sentence in sentences:
            waiting.append(key)
            yield sentence

    for result in score(tokens()):
        yield waiting.popleft(), result


_Result = TypeVar("_Result")


class SentenceScore(NamedTuple):
    """Log probabilities of one sentence of T tokens, natural logarithms.

    A sentence without tokens has no boundaries either, so all arrays are empty.
    """

    tokens: Sentence
    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    forward: NDArray[np.float64]
    """Log probability of each token and of `</S>`, given the tokens before; shape (T + 1,)."""
    backward: NDArray[np.float64]
    """Log probability of `<S>` and of each token, given the tokens after; shape (T + 1,)."""


class LanguageModel:
    """A biLM with its softmax, which predicts the words of its `vocabulary`."""

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
            vocabulary_file, softmax_file: As in `choose_model`.
            precision: Precision of the biLM; the softmax is computed in float32.

        Raises:
            ElmoError: The model, its softmax or the device is missing or invalid.
        """
        settings = ModelSettings(
            *(model, options_file, weight_file, vocabulary_file, softmax_file),
            state=state,
            precision=precision,
            device=str(device),
            batch_tokens=batch_tokens,
        )
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
        """The loaded model."""
        self.vocabulary = read_vocabulary(files.vocabulary)
        dim = engine.options.lstm.projection_dim
        self.softmax = FullSoftmax(files.softmax, len(self.vocabulary), dim, engine.device)
        self._unknown = int(self.vocabulary.indices([UNKNOWN_TOKEN])[0])

    @property
    def files(self) -> ModelFiles:
        """Files of the model."""
        return self.engine.files

    @property
    def state(self) -> InitialState:
        """Initial state of the sentences."""
        return self.engine.state

    def score(
        self,
        sentences: Iterable[Sentence],
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[SentenceScore]:
        """Score a stream of sentences, in its order.

        Args:
            sentences: Lists of tokens, without boundaries; read one window at a time.
            batch_size: Sentences per batch; it has an effect with carried state only.
            is_ready: Return whether the next sentence can be read without blocking. If not, the
                sentences so far are scored, unless the state is carried over.
        """

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
        sentences: Iterable[Sentence],
        compute: Callable[[list[Sentence], Tensor], Sequence[_Result]],
        empty: _Result,
        *,
        directions: Sequence[int] = BOTH,
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[_Result]:
        """Compute one result per sentence of a stream, in its order, from the top layer.

        Args:
            sentences, batch_size, is_ready: As in `score`.
            compute: Function of the sentences of a batch, none empty, and their top layer with
                boundaries, float, shape (N, D P). It returns one result per sentence.
            empty: Result of a sentence without tokens.
            directions: Directions to run, D in number: 0 is forward, 1 is backward.
        """

        def compute_batch(
            encoder: SentenceEncoder, batch: list[Sentence], slots: Sequence[int]
        ) -> Sequence[_Result]:
            layers = encoder.run_bounded(batch, slots=slots, directions=directions)
            return compute(batch, layers[-1].to(self.engine.device))

        windows = self.engine.run(
            check_sentences(sentences),
            partial(self.engine.compute, compute=compute_batch, empty=empty),
            sentence_of=lambda sentence: sentence,
            batch_size=batch_size,
            ends_window=lambda sentence: not is_ready(),
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
        tokens = [token for sentence in sentences for token in (START_TOKEN, *sentence, END_TOKEN)]
        bounded = self.vocabulary.indices(tokens)  # (N,)
        ends = np.cumsum([len(sentence) + 2 for sentence in sentences])
        before_last = np.delete(np.arange(len(bounded)), ends - 1)
        contexts, targets = [], []
        for direction, values in zip(directions, top.chunk(len(directions), dim=1), strict=True):
            # The forward direction predicts the next row from all rows but the last of a
            # sentence, the backward direction the previous row from all but the first.
            contexts.append(values[torch.from_numpy(before_last + direction).to(top.device)])
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
        self, texts: Sequence[Sentence], *, backward: bool, state: BiLmState | None = None
    ) -> tuple[Tensor, BiLmState]:
        """Read texts in one direction, to predict the next word.

        Args:
            texts: Lists of tokens.
            backward: Read from the last token to the first.
            state: Initial state of each text. No text may be empty then. None starts each text
                at the boundary of a sentence. Only the state of the direction is used.

        Returns:
            Contexts of the next word, float, shape (B, P), and the state at the end of each text.
        """
        if not isinstance(self.engine.encoder, FixedStateEncoder):
            raise InputError("state 'carry': predictions start from zero or warm")
        if state is None:
            state = self.engine.encoder.start_state
            first, last = self.engine.encoder.boundaries
            texts = [[*text, last] if backward else [first, *text] for text in texts]
        directions = BACKWARD if backward else FORWARD
        layers, ended = self.engine.encoder.run_from(texts, state, directions)
        lengths = torch.tensor([len(text) for text in texts], device=layers.device)
        ends = lengths.cumsum(dim=0)
        return layers[-1, ends - lengths if backward else ends - 1], ended
