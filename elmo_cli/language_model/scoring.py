"""Sentences to log probabilities: what a biLM with its softmax says of each token.

The forward direction predicts every token and `</S>`, each from what is before it; the
backward direction every token and `<S>`, each from what comes after it. A token that is
not in the vocabulary counts as the word `<UNK>`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.errors import InputError
from elmo_cli.inference.batching import (
    DEFAULT_BATCH_SIZE,
    compute_window,
    sentence_windows,
    tokens_per_batch,
)
from elmo_cli.inference.device import choose_device, result_or_raise
from elmo_cli.inference.precision import Precision, compute_types
from elmo_cli.inference.sentence_encoder import (
    CarriedStates,
    FixedStart,
    SentenceEncoder,
    State,
    check_state,
)
from elmo_cli.language_model.softmax import FullSoftmax
from elmo_cli.model.bilm import BiLmState
from elmo_cli.model.characters import END_TOKEN, START_TOKEN
from elmo_cli.model.options import start_of_sentences
from elmo_cli.model.vocabulary import UNKNOWN_TOKEN, read_vocabulary
from elmo_cli.pretrained.loading import choose_language_model, load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.lines import Sentence, checked_sentence


class SentenceScore(NamedTuple):
    """The log probabilities of one sentence of T tokens, natural logarithms.

    A sentence without tokens has no boundaries either, and nothing is predicted.
    """

    tokens: Sentence
    known: NDArray[np.bool_]
    """Whether each token is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    forward: NDArray[np.float64]
    """Of each token and of `</S>`, given what is before; shape (T + 1,)."""
    backward: NDArray[np.float64]
    """Of `<S>` and of each token, given what comes after; shape (T + 1,)."""


class LanguageModel:
    """A biLM with its softmax, which says how probable words are.

    Attributes:
        files: where it was read from.
        vocabulary: the words it predicts.
    """

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        cuda_device: int = -1,
        *,
        model: str | Path | ModelFiles | None = None,
        vocabulary_file: str | Path | None = None,
        softmax_file: str | Path | None = None,
        state: State | None = None,
        precision: Precision = "float32",
        batch_tokens: int | None = None,
    ) -> None:
        """Load a model with its softmax and vocabulary.

        Args:
            options_file, weight_file, cuda_device, model, state, batch_tokens: as in
                `ElmoEmbedder`.
            vocabulary_file: the words of the softmax; vocab.txt beside the weights, else
                beside the softmax, if not given.
            softmax_file: softmax.hdf5, a path or URL; that of the model if not given.
            precision: of the biLM's computation; the softmax is computed in float32.

        Raises:
            ElmoError: the model, its softmax or the device is not there, or not as it
                should be.
        """
        check_state(state)
        self._device = choose_device(cuda_device)
        types = compute_types(precision, self._device)
        self._batch_tokens = tokens_per_batch(batch_tokens, self._device.type)
        self.files = choose_language_model(
            model, options_file, weight_file, vocabulary_file, softmax_file
        )
        assert self.files.vocabulary is not None
        assert self.files.softmax is not None
        self.vocabulary = read_vocabulary(self.files.vocabulary)
        bilm = load_bilm(self.files)
        self.state: State = state or start_of_sentences(self.files.options)
        self.softmax = FullSoftmax(
            self.files.softmax, len(self.vocabulary), bilm.options.lstm.projection_dim, self._device
        )
        self._encoder = SentenceEncoder(bilm, types)
        self._start = FixedStart(self._encoder, warm=self.state == "warm")
        self._states = CarriedStates(self._encoder) if self.state == "carry" else self._start
        self._unknown = int(self.vocabulary.indices([UNKNOWN_TOKEN])[0])
        self._boundaries = self.vocabulary.indices([START_TOKEN, END_TOKEN])

    def score(
        self,
        sentences: Iterable[Sentence],
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[SentenceScore]:
        """Score a stream of sentences, in its order.

        Args:
            sentences: each a list of tokens, without boundaries; read a window at a time.
            batch_size: sentences in a batch; it matters with carried state only.
            is_ready: whether the next sentence is there; where it is not, those before it are
                scored, unless states are carried over.
        """
        for window in sentence_windows(
            map(checked_sentence, sentences),
            *(batch_size, self._batch_tokens),
            carried=self.state == "carry",
            is_ready=is_ready,
        ):
            yield from self._score_window(window)

    @torch.inference_mode()
    def _score_window(self, window: list[Sentence]) -> list[SentenceScore]:
        def compute(batch: Sequence[int]) -> Sequence[SentenceScore]:
            sentences = [window[place] for place in batch]
            top = self._states.run_bounded(sentences, slots=batch)[-1]  # (N, 2 P)
            return list(self._score_batch(sentences, top))

        scores = compute_window(
            *(compute, [len(sentence) for sentence in window]),
            *(self._batch_tokens, self._device.type),
            carried=self.state == "carry",
        )
        nothing = SentenceScore([], np.empty(0, bool), np.empty(0), np.empty(0))
        return [result_or_raise(scores.get(place, nothing)) for place in range(len(window))]

    def _score_batch(self, sentences: list[Sentence], top: Tensor) -> Iterator[SentenceScore]:
        """Score sentences by their top layer, boundaries included."""
        first, last = self._boundaries[:1], self._boundaries[1:]
        words = [self.vocabulary.indices(sentence) for sentence in sentences]
        bounded = np.concatenate([part for ids in words for part in (first, ids, last)])  # (N,)
        ends = np.cumsum([len(ids) + 2 for ids in words])
        # The forward direction predicts from all rows but the last of a sentence, what is in
        # the row after; the backward direction from all but the first, what is in that before.
        before_last = torch.from_numpy(np.delete(np.arange(len(bounded)), ends - 1))
        targets = torch.from_numpy(bounded)
        dim = top.shape[1] // 2
        ahead, behind = top[before_last.to(top.device), :dim], top[before_last.to(top.device) + 1]
        log_p = self.softmax.of_targets(
            torch.cat([ahead, behind[:, dim:]]),
            torch.cat([targets[before_last + 1], targets[before_last]]),
        ).numpy()
        parts = np.split(log_p, np.cumsum([len(ids) + 1 for ids in words] * 2)[:-1])
        for index, (sentence, ids) in enumerate(zip(sentences, words, strict=True)):
            known = ids != self._unknown
            yield SentenceScore(sentence, known, parts[index], parts[len(words) + index])

    @torch.inference_mode()
    def read(
        self, texts: Sequence[Sentence], *, backward: bool, state: BiLmState | None = None
    ) -> tuple[Tensor, BiLmState]:
        """Read texts in one direction, to say what follows.

        Args:
            texts: tokens, none empty; boundaries are tokens like any other.
            backward: read from the last token to the first.
            state: where each starts; the model's start if not given. Only the part of
                the direction counts.

        Returns:
            The contexts of the next word, float, shape (B, P), and where each text ended.
        """
        if self.state == "carry":
            raise InputError("state 'carry': predictions start from zero or warm")
        start = self._start.start(len(texts)) if state is None else state
        layers, ended = self._encoder.run(texts, start)
        lengths = torch.tensor([len(text) for text in texts], device=layers.device)
        ends = lengths.cumsum(dim=0)
        dim = layers.shape[2] // 2
        if backward:
            return layers[-1, ends - lengths, dim:], ended
        return layers[-1, ends - 1, :dim], ended

    @property
    def boundaries(self) -> tuple[str, str]:
        """The tokens before and after every sentence, as the biLM reads them."""
        return self._encoder.boundaries
