"""Where sentences start: the zero state, a warm one, or where an earlier sentence ended.

`FixedStart` and `CarriedStates` do the same job: sentences in, layers out.
"""

import base64
import os
from collections.abc import Sequence
from io import BytesIO
from threading import Lock
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from elmo_cli.errors import check_choice, first_line
from elmo_cli.inference.batching import index_tokens
from elmo_cli.inference.fast_bilm import BOTH, FastBiLm
from elmo_cli.inference.fast_token_encoder import prepare_token_encoder
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.token_cache import TokenCache
from elmo_cli.model.bilm import BiLm, BiLmState, map_state, select_state, state_tensors
from elmo_cli.text.lines import Sentence

State = Literal["zero", "carry", "warm"]
CACHED_TOKENS = 32_768

_one_at_a_time = Lock()
"""Threads share the cache of an encoder, and all encoders how many threads torch has."""


_has_started_threads = False
"""Whether this process, or one that it was forked from, has prepared a model."""
_lacks_threads = False
"""Whether this process was forked from one whose OpenMP has threads: here they are missing."""


def _after_fork() -> None:
    """Have a forked process not wait for a thread that it does not have."""
    global _one_at_a_time, _lacks_threads
    _one_at_a_time = Lock()
    _lacks_threads = _has_started_threads


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def _use_threads_there_are() -> None:
    """In a forked process, compute on one thread: OpenMP would wait for the others for ever."""
    if _lacks_threads and torch.get_num_threads() > 1:
        torch.set_num_threads(1)


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
        global _has_started_threads
        _use_threads_there_are()
        _has_started_threads = True
        self.device = types.device
        self._values = types.values
        self._token_encoder = prepare_token_encoder(bilm.token_encoder, types)
        self.boundaries = bilm.token_encoder.boundaries
        self._bilm = FastBiLm(bilm, types)
        self._cache = TokenCache(self._encode_tokens, cached_tokens)

    def initial_state(self, n_sentences: int) -> BiLmState:
        """The zero state for `n_sentences` sentences."""
        return self._bilm.initial_state(n_sentences)

    def run(
        self, sentences: Sequence[Sentence], state: BiLmState, directions: Sequence[int] = BOTH
    ) -> tuple[Tensor, BiLmState]:
        """Run sentences as they are; boundaries are tokens like any other.

        Args:
            sentences: B sentences, none empty, N tokens together.
            state: where each starts, or a single row where all start; left as it is.
            directions: those to run, D of them.

        Returns:
            Layers, float, shape (L, N, D P), sentence after sentence, and where each
            sentence ended.
        """
        tokens, rows = index_tokens(sentences)
        with _one_at_a_time:
            _use_threads_there_are()
            return self._bilm.contextualize(self._cache.vectors(tokens), rows, state, directions)

    def _encode_tokens(self, tokens: Sequence[str]) -> Tensor:
        ids = self._token_encoder.token_ids(tokens).to(self.device)
        vectors: Tensor = self._token_encoder(ids)
        return vectors.to(self._values)


class FixedStart:
    """Every sentence starts from the same state, so that it depends on no other."""

    def __init__(self, encoder: SentenceEncoder, *, warm: bool) -> None:
        """Find the state.

        Args:
            encoder: what runs the sentences.
            warm: start from the state in which `WARM_TEXT` ends, not from zero.
        """
        self.encoder = encoder
        state = encoder.initial_state(1)
        if warm:
            for line in WARM_TEXT.splitlines():
                bounded = with_boundaries(line.split(), encoder.boundaries)
                _, state = encoder.run([bounded], state)
        self.start: BiLmState = state
        """Before the first boundary of every sentence: a single row."""
        # The first step of every sentence, <S> forward and </S> backward, is the same for
        # all: it is done here. That of the boundary at the other end feeds no token.
        start, end = encoder.boundaries
        _, after_start = encoder.run([[start]], state)
        _, after_end = encoder.run([[end]], state)
        self._state = [
            ahead._replace(backward=behind.backward)
            for ahead, behind in zip(after_start, after_end, strict=True)
        ]

    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """Run sentences, none empty.

        Returns:
            float, shape (L, N, W), sentence after sentence, without boundaries.
        """
        return self.encoder.run(sentences, self._state)[0]

    def run_bounded(
        self, sentences: Sequence[Sentence], slots: Sequence[int], directions: Sequence[int] = BOTH
    ) -> Tensor:
        """The same with the boundaries of each sentence, in some directions."""
        bounded = [with_boundaries(sentence, self.encoder.boundaries) for sentence in sentences]
        return self.encoder.run(bounded, self.start, directions)[0]

    def save(self) -> dict[str, str]:
        """Nothing: the state never changes."""
        return {}

    def restore(self, saved: dict[str, str]) -> None:
        """Nothing, likewise."""


class CarriedStates:
    """A sentence starts where the one in its slot ended, as in AllenNLP and bilm-tf.

    A slot is a place in a batch. Slots that a batch does not have, or has an empty
    sentence in, keep their state; new ones start at zero.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        self._state = encoder.initial_state(0)

    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """Run sentences, none empty, from the state of their slots, and keep where they end.

        Returns:
            float, shape (L, N, W), sentence after sentence, without boundaries.
        """
        layers = self.run_bounded(sentences, slots)
        lengths = [len(sentence) for sentence in sentences]
        inner = [0 < index <= length for length in lengths for index in range(length + 2)]
        return layers[:, torch.tensor(inner, device=layers.device)]

    def run_bounded(
        self, sentences: Sequence[Sentence], slots: Sequence[int], directions: Sequence[int] = BOTH
    ) -> Tensor:
        """The same with the boundaries of each sentence, in some directions."""
        self._grow(1 + max(slots))
        rows = torch.tensor(slots, device=self.encoder.device)
        bounded = [with_boundaries(sentence, self.encoder.boundaries) for sentence in sentences]
        starts = select_state(self._state, rows)
        layers, ended = self.encoder.run(bounded, starts, directions)
        for kept_layer, ended_layer in zip(self._state, ended, strict=True):
            for kept, new in zip(kept_layer, ended_layer, strict=True):
                kept.hidden[rows] = new.hidden
                kept.cell[rows] = new.cell
        return layers

    def save(self) -> dict[str, str]:
        """The states of all slots, as JSON takes them: NumPy's format in base64."""
        buffer = BytesIO()
        np.savez(buffer, *(values.float().cpu().numpy() for values in state_tensors(self._state)))
        return {"npz": base64.b64encode(buffer.getvalue()).decode()}

    def restore(self, saved: dict[str, str]) -> None:
        """Resume from what `save` gave.

        Raises:
            ValueError: it is something else.
        """
        try:
            content = BytesIO(base64.b64decode(saved["npz"], validate=True))
            with np.load(content, allow_pickle=False) as arrays:
                found = [torch.from_numpy(arrays[name]) for name in arrays.files]
        except Exception as error:  # zipfile, zlib and numpy have no common root
            raise ValueError(first_line(error)) from None
        widths = [values.shape[1:] for values in state_tensors(self._state)]
        n_slots = {values.shape[:1] for values in found}
        if [values.shape[1:] for values in found] != widths or len(n_slots) != 1:
            raise ValueError("states of another model")
        kept = iter(found)
        self._state = map_state(self._state, lambda values: next(kept).to(values))

    def _grow(self, n_slots: int) -> None:
        found = len(self._state[0].forward.hidden)
        if n_slots > found:
            self._state = map_state(
                self._state,
                lambda values: torch.cat(
                    [values, values.new_zeros(n_slots - found, values.shape[1])]
                ),
            )


Encoder = FixedStart | CarriedStates


def make_encoder(bilm: BiLm, types: ComputeTypes, state: State) -> Encoder:
    """Prepare a biLM for inference, each sentence from the initial state that is named.

    Takes ownership: the LSTMs are moved out of `bilm`, which must not be used afterwards.
    """
    if state == "carry":
        # States let rounding errors grow. Without a cache, the rounding of a batch does not
        # depend on the batches before, and a resumed run gets the same bits.
        return CarriedStates(SentenceEncoder(bilm, types, cached_tokens=0))
    return FixedStart(SentenceEncoder(bilm, types, CACHED_TOKENS), warm=state == "warm")


def check_state(state: str | None) -> None:
    """Raise an `InputError` for an initial state that does not exist; None is not given."""
    if state is not None:
        check_choice("state", state, get_args(State))


def with_boundaries(sentence: Sentence, boundaries: tuple[str, str]) -> Sentence:
    """A sentence between its boundaries."""
    start, end = boundaries
    return [start, *sentence, end]
