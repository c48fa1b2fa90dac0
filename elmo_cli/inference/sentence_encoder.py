"""Where sentences start: the zero state, a warm one, or where an earlier sentence ended.

`FixedStart` and `CarriedStates` do the same job: sentences in, layers out.
"""

import base64
import os
from collections.abc import Sequence
from io import BytesIO
from threading import Lock

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.inference.batching import index_tokens
from elmo_cli.inference.device import ComputeTypes
from elmo_cli.inference.fast_bilm import BOTH, FastBiLm
from elmo_cli.inference.fast_token_encoder import TokenCache, prepare_token_encoder
from elmo_cli.model.bilm import BiLm, BiLmState, map_state, select_state, state_tensors
from elmo_cli.settings import InitialState
from elmo_cli.text.records import Sentence

CACHED_TOKENS = 32_768

_one_at_a_time = Lock()
"""Threads share the cache of an encoder, and the cores."""


def _unlock() -> None:
    global _one_at_a_time
    _one_at_a_time = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_unlock)  # a thread that is not there may hold it

WARM_TEXT = """\
The committee met on Monday to discuss the report , and most of its members agreed with it .
" I have never seen such a thing , " she said , looking out at the rain .
In 1997 , the company sold 2.5 million units in Europe , up from 800,000 the year before .
"""
"""What a warm start has read, once. Changing it changes every result with a warm start."""


class SentenceEncoder:
    """Sentences to layers, from states that are given."""

    def __init__(self, bilm: BiLm, types: ComputeTypes, cached_tokens: int) -> None:
        """Prepare a biLM for inference on a device, in a precision, with a cache of tokens.

        Takes ownership: the LSTMs are moved out of `bilm`, which must not be used afterwards.
        """
        self.boundaries = bilm.token_encoder.boundaries
        token_encoder = prepare_token_encoder(bilm.token_encoder, types)

        def encode(tokens: Sequence[str]) -> Tensor:
            vectors: Tensor = token_encoder(token_encoder.token_ids(tokens).to(types.device))
            return vectors.to(types.values)

        self._cache = TokenCache(encode, cached_tokens)
        self._bilm = FastBiLm(bilm, types)

    def run_from(
        self, sentences: Sequence[Sentence], state: BiLmState, directions: Sequence[int] = BOTH
    ) -> tuple[Tensor, BiLmState]:
        """Run sentences as they are; boundaries are tokens like any other.

        Args:
            sentences: B sentences, none empty, N tokens together.
            state: where each starts, or a single row where all start; left as it is.
            directions: those to run, 0 forward and 1 backward; D of them.

        Returns:
            Layers, float, shape (L, N, D P), sentence after sentence, and where each
            sentence ended; in a direction that was not run, where it started.
        """
        tokens, rows = index_tokens(sentences)
        with _one_at_a_time:
            return self._bilm.contextualize(self._cache.vectors(tokens), rows, state, directions)

    def bounded(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Sentences between their boundaries."""
        start, end = self.boundaries
        return [[start, *sentence, end] for sentence in sentences]

    def save(self) -> dict[str, str]:
        """What a run has to know to resume, as JSON takes it."""
        return {}

    def restore(self, saved: dict[str, str]) -> None:
        """Resume from what `save` gave, in a run with the same model."""


class FixedStart(SentenceEncoder):
    """Every sentence starts from the same state, so that it depends on no other."""

    def __init__(self, bilm: BiLm, types: ComputeTypes, cached_tokens: int, *, warm: bool) -> None:
        """Prepare a biLM; `warm`: to start from where `WARM_TEXT` ends, not from zero."""
        super().__init__(bilm, types, cached_tokens)
        self.start = self._bilm.initial_state(1)
        """Before the first boundary of every sentence: a single row."""
        for line in WARM_TEXT.splitlines() if warm else ():
            self.start = self.run_from(self.bounded([line.split()]), self.start)[1]
        # The first step of every sentence, <S> forward and </S> backward, is the same for
        # all: it is done here. That of the boundary at the other end feeds no token.
        start, end = self.boundaries
        _, after_start = self.run_from([[start]], self.start)
        _, after_end = self.run_from([[end]], self.start)
        self._state = [
            ahead._replace(backward=behind.backward)
            for ahead, behind in zip(after_start, after_end, strict=True)
        ]

    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """Run sentences, none empty: float, shape (L, N, W), without boundaries."""
        return self.run_from(sentences, self._state)[0]

    def run_bounded(
        self, sentences: Sequence[Sentence], slots: Sequence[int], directions: Sequence[int] = BOTH
    ) -> Tensor:
        """The same with the boundaries of each sentence, in some directions."""
        return self.run_from(self.bounded(sentences), self.start, directions)[0]


class CarriedStates(SentenceEncoder):
    """A sentence starts where the one in its slot ended, as in AllenNLP and bilm-tf.

    A slot is a place in a batch. Slots that a batch does not have, or has an empty
    sentence in, keep their state; new ones start at zero.
    """

    def __init__(self, bilm: BiLm, types: ComputeTypes) -> None:
        # States let rounding errors grow. Without a cache, the rounding of a batch does not
        # depend on the batches before, and a resumed run gets the same bits.
        super().__init__(bilm, types, cached_tokens=0)
        self._state = self._bilm.initial_state(0)

    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """The same from the state of their slots, and keep where they end."""
        layers = self.run_bounded(sentences, slots)
        lengths = [len(sentence) for sentence in sentences]
        inner = [0 < index <= length for length in lengths for index in range(length + 2)]
        return layers[:, torch.tensor(inner, device=layers.device)]

    def run_bounded(
        self, sentences: Sequence[Sentence], slots: Sequence[int], directions: Sequence[int] = BOTH
    ) -> Tensor:
        """The same with the boundaries of each sentence, in some directions."""
        hidden = self._state[0].forward.hidden
        missing = 1 + max(slots) - len(hidden)
        if missing > 0:
            self._state = map_state(
                self._state, lambda values: functional.pad(values, (0, 0, 0, missing))
            )
        rows = torch.tensor(slots, device=hidden.device)
        starts = select_state(self._state, rows)
        layers, ended = self.run_from(self.bounded(sentences), starts, directions)
        for kept, new in zip(state_tensors(self._state), state_tensors(ended), strict=True):
            kept[rows] = new
        return layers

    def save(self) -> dict[str, str]:
        """The states of all slots: NumPy's format in base64."""
        buffer = BytesIO()
        np.savez(buffer, *(values.float().cpu().numpy() for values in state_tensors(self._state)))
        return {"npz": base64.b64encode(buffer.getvalue()).decode()}

    def restore(self, saved: dict[str, str]) -> None:
        """See `SentenceEncoder.restore`."""
        with np.load(BytesIO(base64.b64decode(saved["npz"]))) as arrays:
            kept = (torch.from_numpy(arrays[name]) for name in arrays.files)
            self._state = map_state(self._state, lambda values: next(kept).to(values))


Encoder = FixedStart | CarriedStates


def make_encoder(bilm: BiLm, types: ComputeTypes, state: InitialState) -> Encoder:
    """Prepare a biLM, which is used up, for sentences that start from the state that is named."""
    if state == "carry":
        return CarriedStates(bilm, types)
    return FixedStart(bilm, types, CACHED_TOKENS, warm=state == "warm")
