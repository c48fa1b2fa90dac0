"""Encoders from tokens to token vectors, and from sentences to layers.

`prepare_token_encoder` replaces the parts of a token encoder by faster ones, and a `TokenCache`
keeps the vectors. With compiled kernels, the bits of a vector do not depend on the tokens that are
encoded with it. A sentence encoder adds the LSTMs: `FixedStateEncoder` starts every sentence from
the zero or the warm state, `CarriedStateEncoder` from the state in which an earlier one ended.
"""

import base64
import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.compiled.kernels import find_kernel
from elmo_cli.inference.batching import index_tokens
from elmo_cli.inference.fast_bilm import BOTH, FastBiLm
from elmo_cli.inference.precision import ComputeTypes, exact_products, prepare_linear
from elmo_cli.model.bilm import BiLm, BiLmState, map_state, select_state, state_tensors
from elmo_cli.model.token_encoder import (
    Convolution,
    Highway,
    TokenEncoder,
    encode_in_chunks,
)
from elmo_cli.settings import InitialState
from elmo_cli.text.records import Sentence

_FLOAT = torch.float32


def prepare_token_encoder(encoder: TokenEncoder, types: ComputeTypes) -> TokenEncoder:
    """Move an encoder to the device, and replace the modules for which there are faster ones."""
    encoder = encoder.to(types.device)
    for module in list(encoder.modules()):
        for name, child in list(module.named_children()):
            if replacement := _make_faster(child, types):
                setattr(module, name, replacement)
    return encoder


def _make_faster(module: nn.Module, types: ComputeTypes) -> nn.Module | None:
    """Return a faster module that computes what `module` does, or None."""
    if isinstance(module, nn.Linear):
        return FastLinear(module, types)
    if isinstance(module, Convolution):
        return FastConvolution(module)
    if isinstance(module, Highway) and types.device.type == "cpu":
        return FastHighway(module)
    return (
        FastTanh()
        if isinstance(module, nn.Tanh) and types.device.type == "cpu"
        else None
    )


class FastLinear(nn.Module):
    """Linear layer in a precision, with inputs and outputs in float32."""

    def __init__(self, linear: nn.Linear, types: ComputeTypes) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        self._layer = prepare_linear(
            linear.weight.detach(), bias, types.weights, _FLOAT
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Multiply float32, shape (N, in), to float32, shape (N, out)."""
        return self._layer(inputs)


class FastConvolution(nn.Module):
    """Convolution by one product, in float32 in every precision."""

    def __init__(self, convolution: Convolution) -> None:
        super().__init__()
        assert convolution.bias is not None
        weight, bias = convolution.weight.detach().flatten(1), convolution.bias.detach()
        self._convolution = convolution
        self._layer = prepare_linear(weight, bias, _FLOAT, _FLOAT)

    def forward(self, embedded: Tensor) -> Tensor:
        """Convolve; see `Convolution.forward`."""
        windows = self._convolution.windows(embedded)
        return self._layer(windows.flatten(0, 1)).view(*windows.shape[:2], -1)


class FastHighway(nn.Module):
    """Highway with its elementwise part in C, if the kernel was compiled."""

    def __init__(self, highway: Highway) -> None:
        super().__init__()
        self._highway = highway

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer to float32, shape (N, F); see `Highway.forward`."""
        kernel = find_kernel("highway", int, int, _FLOAT, _FLOAT, _FLOAT, _FLOAT)
        if kernel is None:
            return self._highway.forward(inputs)
        out = torch.empty_like(inputs)
        carry, transform = self._highway.carry(inputs), self._highway.transform(inputs)
        kernel(*inputs.shape, inputs, carry, transform, out)
        return out


class FastTanh(nn.Module):
    """Hyperbolic tangent, in C if the kernel was compiled."""

    def forward(self, values: Tensor) -> Tensor:
        """Overwrite float32, shape (N, F), by its hyperbolic tangent."""
        kernel = find_kernel("tanh_float32", int, int, _FLOAT)
        if kernel is None:
            return values.tanh_()
        kernel(*values.shape, values)
        return values


def _encode(
    encoder: TokenEncoder, types: ComputeTypes, tokens: Sequence[str]
) -> Tensor:
    """Encode N tokens by a prepared encoder: float, shape (N, P)."""
    vectors: Tensor = encoder(encoder.token_ids(tokens).to(types.device))
    return vectors.to(types.values)


MAX_CACHED_CHARACTERS: Final = 1000  # per token, so that `capacity` limits the memory


class TokenCache:
    """Vectors of the most recently used tokens. Copies and pickles of a cache are empty."""

    def __init__(
        self, encode: Callable[[Sequence[str]], Tensor], capacity: int
    ) -> None:
        self.capacity = capacity
        self._encode = encode
        # Row of each token in `_vectors`. The most recently used token is last.
        self._rows: OrderedDict[str, int] = OrderedDict()
        self._vectors = torch.empty(0, device="cpu")

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[object, int]]:
        return TokenCache, (self._encode, self.capacity)

    def vectors(self, tokens: Sequence[str]) -> Tensor:
        """Return the vectors of distinct tokens: float, shape (N, P)."""
        longest = max(map(len, tokens), default=0)
        if len(tokens) > self.capacity or longest > MAX_CACHED_CHARACTERS:
            return encode_in_chunks(self._encode, tokens)
        for token in filter(self._rows.__contains__, tokens):
            self._rows.move_to_end(token)
        if missing := [token for token in tokens if token not in self._rows]:
            self._add(missing)
        rows = [self._rows[token] for token in tokens]
        return self._vectors[
            torch.tensor(rows, dtype=torch.int64, device=self._vectors.device)
        ]

    def _add(self, tokens: list[str]) -> None:
        """Encode tokens and store their vectors in place of the least recently used ones."""
        vectors = encode_in_chunks(self._encode, tokens)
        if not len(self._vectors):
            self._vectors = vectors.new_empty(self.capacity, vectors.shape[1])
        n_used = len(self._rows)
        free = list(range(n_used, min(self.capacity, n_used + len(tokens))))
        try:
            while len(free) < len(tokens):
                free.append(self._rows.popitem(last=False)[1])
            self._vectors[torch.tensor(free, device=vectors.device)] = vectors
            self._rows.update(zip(tokens, free, strict=True))
        except (
            BaseException
        ):  # After Ctrl-C or out of memory, rows may have wrong vectors.
            self._rows.clear()
            raise


CACHED_TOKENS = 32_768  # at most

WARM_TEXT = """\
The committee met on Monday to discuss the report , and most of its members agreed with it .
" I have never seen such a thing , " she said , looking out at the rain .
In 1997 , the company sold 2.5 million units in Europe , up from 800,000 the year before .
"""
"""Text that is read before a warm start. Another text would change every warm result."""


class SentenceEncoder(ABC):
    """Base of the encoders from sentences to layers. They can be pickled and deep-copied."""

    def __init__(self, bilm: BiLm, types: ComputeTypes, cached_tokens: int) -> None:
        """Prepare a biLM, which must not be used afterwards: its LSTMs are removed."""
        self.boundaries = bilm.token_encoder.boundaries
        token_encoder = prepare_token_encoder(bilm.token_encoder, types)
        self._cache = TokenCache(partial(_encode, token_encoder, types), cached_tokens)
        self._bilm = FastBiLm(bilm, types)
        self._tf32 = types.tf32
        self.fitting_tokens = (
            sys.maxsize
        )  # maximum per batch, after some did not fit into memory

    def run_from(
        self,
        sentences: Sequence[Sentence],
        state: BiLmState,
        directions: Sequence[int] = BOTH,
    ) -> tuple[Tensor, BiLmState]:
        """Run sentences, none empty, in D directions. Their tokens include any boundaries to run.

        The state has a row per sentence, or one row for all. Return layers, float, (L, N, D P), and
        the states at the ends, or at the start in a direction that was not run.
        """
        tokens, rows = index_tokens(sentences)
        with exact_products(tf32=self._tf32):  # One thread at a time uses the cache.
            return self._bilm.contextualize(
                self._cache.vectors(tokens), rows, state, directions
            )

    @abstractmethod
    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """Run B sentences of N tokens, none empty, between boundaries; return (L, N, W).

        `slots` are the indices of the sentences in their window. They select a carried state.
        """

    @abstractmethod
    def run_bounded(
        self,
        sentences: Sequence[Sentence],
        slots: Sequence[int],
        directions: Sequence[int] = BOTH,
    ) -> Tensor:
        """Run sentences in D directions, and include boundaries: float, (L, N + 2 B, D P)."""

    def _add_boundaries(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        start, end = self.boundaries
        return [[start, *sentence, end] for sentence in sentences]

    def save(self) -> dict[str, str]:
        """Return the carried state for the checkpoint of a run, in a form for JSON."""
        return {}

    def restore(self, saved: dict[str, str]) -> None:  # noqa: B027
        """Continue from the state that `save` returned, in a run with an equal model."""


class FixedStateEncoder(SentenceEncoder):
    """Encoder that starts every sentence from one state, so that sentences are independent."""

    def __init__(
        self, bilm: BiLm, types: ComputeTypes, cached_tokens: int, *, warm: bool
    ) -> None:
        """Prepare a biLM. If `warm`, start from the state in which `WARM_TEXT` ends."""
        super().__init__(bilm, types, cached_tokens)
        self.start_state = self._bilm.zero_state(1)  # state before the first boundary
        for line in WARM_TEXT.splitlines() if warm else ():
            bounded = self._add_boundaries([line.split()])
            self.start_state = self.run_from(bounded, self.start_state)[1]
        # Every sentence begins with <S> forward and </S> backward. No token depends on its end.
        start, end = self.boundaries
        _, after_start = self.run_from([[start]], self.start_state)
        _, after_end = self.run_from([[end]], self.start_state)
        self._inner_state = [
            forward._replace(backward=backward.backward)
            for forward, backward in zip(after_start, after_end, strict=True)
        ]

    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """Run sentences; see `SentenceEncoder.run`. The slots have no effect."""
        return self.run_from(sentences, self._inner_state)[0]

    def run_bounded(
        self,
        sentences: Sequence[Sentence],
        slots: Sequence[int],
        directions: Sequence[int] = BOTH,
    ) -> Tensor:
        """Run sentences; see `SentenceEncoder.run_bounded`."""
        return self.run_from(
            self._add_boundaries(sentences), self.start_state, directions
        )[0]


class CarriedStateEncoder(SentenceEncoder):
    """Encoder that carries the state of each slot from batch to batch, as AllenNLP and bilm-tf do.

    A slot that is missing in a batch keeps its state. `run` runs the boundaries of empty sentences.
    """

    def __init__(self, bilm: BiLm, types: ComputeTypes) -> None:
        # Rounding errors grow from sentence to sentence. Without a cache, the rounding of a batch
        # does not depend on earlier batches, so that a resumed run computes equal bits.
        super().__init__(bilm, types, cached_tokens=0)
        self._state = self._bilm.zero_state(0)

    def run(self, sentences: Sequence[Sentence], slots: Sequence[int]) -> Tensor:
        """Run sentences from the states of their slots; see `SentenceEncoder.run`."""
        layers = self.run_bounded(sentences, slots)
        lengths = [len(sentence) for sentence in sentences]
        inner = [
            0 < index <= length for length in lengths for index in range(length + 2)
        ]
        return layers[:, torch.tensor(inner, device=layers.device)]

    def run_bounded(
        self,
        sentences: Sequence[Sentence],
        slots: Sequence[int],
        directions: Sequence[int] = BOTH,
    ) -> Tensor:
        """Run sentences from the states of their slots; see `SentenceEncoder.run_bounded`."""
        hidden = self._state[0].forward.hidden
        if (missing := 1 + max(slots) - len(hidden)) > 0:
            pad = partial(functional.pad, pad=(0, 0, 0, missing))
            self._state = map_state(self._state, pad)
        rows = torch.tensor(slots, device=hidden.device)
        starts = select_state(self._state, rows)
        layers, ended = self.run_from(
            self._add_boundaries(sentences), starts, directions
        )
        for stored, new in zip(
            state_tensors(self._state), state_tensors(ended), strict=True
        ):
            stored[rows] = new
        return layers

    def save(self) -> dict[str, str]:
        """Return the states of all slots, as npz in base64."""
        buffer = BytesIO()
        np.savez(
            buffer,
            *(values.float().cpu().numpy() for values in state_tensors(self._state)),
        )
        return {"npz": base64.b64encode(buffer.getvalue()).decode()}

    def restore(self, saved: dict[str, str]) -> None:
        """Restore the states of all slots; see `SentenceEncoder.restore`."""
        with np.load(BytesIO(base64.b64decode(saved["npz"]))) as arrays:
            saved_tensors = (torch.from_numpy(arrays[name]) for name in arrays.files)
            self._state = map_state(
                self._state, lambda values: next(saved_tensors).to(values)
            )


def make_encoder(
    bilm: BiLm, types: ComputeTypes, initial_state: InitialState
) -> SentenceEncoder:
    """Create the encoder for an initial state. `bilm` must not be used afterwards."""
    if initial_state == "carry":
        return CarriedStateEncoder(bilm, types)
    return FixedStateEncoder(bilm, types, CACHED_TOKENS, warm=initial_state == "warm")
