"""Encoders from sentences to the layers of a biLM.

`FixedStateEncoder` starts every sentence from the zero or the warm state,
`CarriedStateEncoder` from the state in which an earlier one ended. Both keep the
vectors of tokens in a `TokenCache`.
"""

import base64
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from io import BytesIO

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.inference.exact_products import exact_products
from elmo_cli.inference.fast_bilm import FastBiLm
from elmo_cli.inference.fast_token_encoder import encode_tokens, prepare_token_encoder
from elmo_cli.inference.one_thread import one_thread_at_a_time
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.prepared_linear import round_weights
from elmo_cli.inference.token_cache import CACHED_TOKENS, TokenCache
from elmo_cli.inference.trie import index_tokens
from elmo_cli.model.bilm import (
    BiLm,
    BiLmState,
    map_state,
    select_state,
    state_from,
    state_tensors,
)
from elmo_cli.options.model import InitialState
from elmo_cli.types import READING_DIRECTIONS, ReadingDirection, Sentence

WARM_TEXT = """\
The committee met on Monday to discuss the report , and most of its members agreed \
with it .
" I have never seen such a thing , " she said , looking out at the rain .
In 1997 , the company sold 2.5 million units in Europe , up from 800,000 the year \
before .
"""
"""Text that is read before a warm start. Another text would change every warm
result."""


class SentenceEncoder(ABC):
    """Base of the encoders from sentences to layers.

    They can be pickled and deep-copied.
    """

    def __init__(self, bilm: BiLm, types: ComputeTypes, cached_tokens: int) -> None:
        """Prepare a biLM, which must not be used afterwards: its LSTMs are removed."""
        self.boundaries = bilm.token_encoder.boundaries
        if types.rounds_weights:
            round_weights(bilm)
        token_encoder = prepare_token_encoder(bilm.token_encoder, types)
        encode = partial(encode_tokens, token_encoder, types)
        self._cache = TokenCache(encode, cached_tokens)
        self._bilm = FastBiLm(bilm, types)
        self._tf32 = types.tf32

    def run_from(
        self,
        sentences: Sequence[Sentence],
        state: BiLmState,
        directions: Sequence[ReadingDirection] = READING_DIRECTIONS,
    ) -> tuple[Tensor, BiLmState]:
        """Run sentences, none empty, in K directions.

        Args:
            sentences: B sentences of N tokens, with any boundaries to run.
            state: State with a row per sentence, or one row for all.
            directions: `forward`, `backward` or both, in this order.

        Returns:
            Layers, float, shape (L, N, K P), and the states at the ends, or at the
            start in a direction that was not run.
        """
        tokens, rows = index_tokens(sentences)
        # The cache is for one thread at a time.
        with one_thread_at_a_time(), exact_products(tf32=self._tf32):
            vectors = self._cache.vectors(tokens)
            return self._bilm.run(vectors, rows, state=state, directions=directions)

    @abstractmethod
    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """Run B sentences of N tokens, none empty, between boundaries: (L, N, W).

        `slots` are the indices of the sentences in their window. They select a carried
        state.
        """

    @abstractmethod
    def run_bounded(
        self,
        sentences: Sequence[Sentence],
        slots: Sequence[int],
        directions: Sequence[ReadingDirection] = READING_DIRECTIONS,
    ) -> Tensor:
        """Run B sentences of N tokens with their boundaries, in K directions.

        Args:
            sentences: Sentences, of which some may be empty.
            slots: Index of each sentence in its window.
            directions: `forward`, `backward` or both, in this order.

        Returns:
            Layers, float, shape (L, N + 2 B, K P).
        """

    def _add_boundaries(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        start, end = self.boundaries
        return [[start, *sentence, end] for sentence in sentences]

    def saved_state(self) -> dict[str, str]:
        """Return the carried state for the checkpoint of a run, in a form for JSON.

        Without a carried state, return an empty dictionary.
        """
        return {}

    def restore(self, saved: dict[str, str]) -> None:  # noqa: B027
        """Continue from the state that `saved_state` returned, with an equal model."""


class FixedStateEncoder(SentenceEncoder):
    """Encoder that starts every sentence from one state: sentences are independent."""

    def __init__(
        self, bilm: BiLm, types: ComputeTypes, cached_tokens: int, *, warm: bool
    ) -> None:
        """Prepare a biLM. If `warm`, start from the state in which `WARM_TEXT` ends."""
        super().__init__(bilm, types, cached_tokens)
        self.start_state = self._bilm.zero_state(1)  # state before the first boundary
        if warm:
            for line in WARM_TEXT.splitlines():
                bounded = self._add_boundaries([line.split()])
                _, self.start_state = self.run_from(bounded, self.start_state)
        # Forward, every sentence begins with <S>, and backward with </S>. The state
        # after it is the same for all. The boundary at the end changes no token.
        start, end = self.boundaries
        _, state = self.run_from([[start]], self.start_state, ["forward"])
        _, self._inner_state = self.run_from([[end]], state, ["backward"])

    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """Run sentences; see `SentenceEncoder.run`. The slots have no effect."""
        layers, _ = self.run_from(sentences, self._inner_state)
        return layers

    def run_bounded(
        self,
        sentences: Sequence[Sentence],
        slots: Sequence[int],
        directions: Sequence[ReadingDirection] = READING_DIRECTIONS,
    ) -> Tensor:
        """Run sentences; see `SentenceEncoder.run_bounded`.

        The slots have no effect.
        """
        bounded = self._add_boundaries(sentences)
        layers, _ = self.run_from(bounded, self.start_state, directions)
        return layers


class CarriedStateEncoder(SentenceEncoder):
    """Encoder that carries the state of each slot from batch to batch.

    AllenNLP and bilm-tf do that. A slot that is missing in a batch keeps its state.
    `run` runs the boundaries of empty sentences.
    """

    def __init__(self, bilm: BiLm, types: ComputeTypes) -> None:
        # Rounding errors grow from sentence to sentence. Without a cache, the rounding
        # of a batch does not depend on earlier batches, so that a resumed run computes
        # equal bits.
        super().__init__(bilm, types, cached_tokens=0)
        self._state = self._bilm.zero_state(0)

    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """Run sentences from the states of their slots; see `SentenceEncoder.run`."""
        layers = self.run_bounded(sentences, slots)
        is_inner: list[bool] = []
        for sentence in sentences:
            is_inner += [False, *[True] * len(sentence), False]
        return layers[:, torch.tensor(is_inner, device=layers.device)]

    def run_bounded(
        self,
        sentences: Sequence[Sentence],
        slots: Sequence[int],
        directions: Sequence[ReadingDirection] = READING_DIRECTIONS,
    ) -> Tensor:
        """Run sentences from the states of slots; see `SentenceEncoder.run_bounded`."""
        self._add_slots(1 + max(slots))
        rows = torch.tensor(slots, device=self._state[0].forward.hidden.device)
        start = select_state(self._state, rows)
        bounded = self._add_boundaries(sentences)
        layers, ended = self.run_from(bounded, start, directions)
        if "backward" not in self._bilm.architecture.directions:
            # One <eos> stands between two sentences in the training text of such a
            # model. The next sentence reads it, as its <S>.
            without_end = [sentence[:-1] for sentence in bounded]
            _, ended = self.run_from(without_end, start, directions)
        carried = state_tensors(self._state)
        for values, new_values in zip(carried, state_tensors(ended), strict=True):
            values[rows] = new_values
        return layers

    def _add_slots(self, n_slots: int) -> None:
        """Add zero states, so that there are at least `n_slots`."""
        n_missing = n_slots - len(self._state[0].forward.hidden)
        if n_missing > 0:
            add_rows = partial(functional.pad, pad=(0, 0, 0, n_missing))
            self._state = map_state(self._state, add_rows)

    def saved_state(self) -> dict[str, str]:
        """Return the states of all slots, as npz in base64."""
        arrays = [values.float().cpu().numpy() for values in state_tensors(self._state)]
        buffer = BytesIO()
        np.savez(buffer, *arrays)
        return {"npz": base64.b64encode(buffer.getvalue()).decode()}

    def restore(self, saved: dict[str, str]) -> None:
        """Restore the states of all slots; see `SentenceEncoder.restore`."""
        with np.load(BytesIO(base64.b64decode(saved["npz"]))) as arrays:
            tensors = [torch.from_numpy(arrays[name]) for name in arrays.files]
        current = state_tensors(self._state)
        self._state = state_from(
            values.to(own) for values, own in zip(tensors, current, strict=True)
        )


def make_encoder(
    bilm: BiLm, types: ComputeTypes, initial_state: InitialState
) -> SentenceEncoder:
    """Create the encoder for an initial state. `bilm` must not be used afterwards."""
    if initial_state == "carry":
        return CarriedStateEncoder(bilm, types)
    return FixedStateEncoder(bilm, types, CACHED_TOKENS, warm=initial_state == "warm")
