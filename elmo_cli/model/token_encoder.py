"""Tokens to token vectors, each token by itself, whatever its neighbours.

`CharacterEncoder` is the character CNN of Kim et al. (2016) with highway layers
(Srivastava et al., 2015) as Jozefowicz et al. (2016) use it; `WordEncoder` is
the table that word-level models have in its place.
"""

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from elmo_cli.model.options import CharacterOptions
from elmo_cli.model.packed_lstm import autocast_dtype
from elmo_cli.model.vocabulary import (
    END_TOKEN,
    N_CHARACTERS,
    START_TOKEN,
    Vocabulary,
    character_ids,
)
from elmo_cli.text.records import check_sentence

CHUNK_TOKENS = 1024
"""Tokens encoded at once, so that little is in memory."""
LIKE_TOKENS = 128
"""Tokens of like length that are convolved at once."""
# AllenNLP's vocabularies have "@@PADDING@@" at 0, and this for all words they do not hold.
PADDING_INDEX: Final = 0
UNKNOWN_WORD: Final = "@@UNKNOWN@@"

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


class TokenEncoder(nn.Module):
    """Tokens to ids, and ids to token vectors: what a biLM asks of every kind."""

    boundaries: tuple[str, str] = (START_TOKEN, END_TOKEN)
    """The tokens before and after every sentence."""

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """The ids of tokens, none of them 0: int64, shape (N, C), on the CPU."""
        raise NotImplementedError


def pad_ids(
    sentences: Sequence[Sequence[str]], token_ids: Callable[[Sequence[str]], Tensor]
) -> Tensor:
    """The ids of the tokens of sentences, int64, shape (B, T, C); 0 where there is no token."""
    ids = [token_ids(check_sentence(sentence)) for sentence in sentences]
    return pad_sequence([*ids, token_ids([])], batch_first=True)[:-1]  # of no sentences too


class CharacterFeatures(nn.Module):
    """Character ids to features: convolutions, maximum, highways."""

    def __init__(self, options: CharacterOptions, n_characters: int = N_CHARACTERS) -> None:
        super().__init__()
        self.options = options
        # Row 0 stays zero: it stands for "no token here".
        self.char_embedding = nn.Embedding(1 + n_characters, options.embedding_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(
            Convolution(options.embedding_dim, count, width) for width, count in options.filters
        )
        self.activation = _ACTIVATIONS[options.activation]()
        self.highways = nn.ModuleList(Highway(options.n_filters) for _ in range(options.n_highway))

    def features(self, ids: Tensor) -> Tensor:
        """Int64, shape (N, 50), to what the highways give: float, shape (N, F)."""
        features = self._convolve_by_length(ids)
        for highway in self.highways:
            features = highway(features)
        return features

    def convolve(self, embedded: Tensor) -> Tensor:
        """The largest value of each filter over K characters: float, (N, K, C) to (N, F)."""
        # Lower precision gains nothing here: oneDNN compiles a product for each number of windows.
        with torch.autocast(embedded.device.type, enabled=False):
            features = [conv(embedded).amax(dim=1) for conv in self.convolutions]  # (N, count)
        activated: Tensor = self.activation(torch.cat(features, dim=1))  # (N, F)
        return activated.to(autocast_dtype(activated))

    def _convolve_by_length(self, ids: Tensor) -> Tensor:
        """The same for ids, (N, 50), with little of their padding: tokens of like length together.

        Windows wholly inside the padding all give the same value, so one of them is enough: the
        longest token of a chunk and one window of the widest filter.
        """
        columns = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        lengths = ((ids != ids[:, -1:]) * columns).amax(dim=1)  # (N,)
        order = lengths.argsort()
        widest = max(width for width, _ in self.options.filters)
        features = []
        for rows in torch.split(order, LIKE_TOKENS):
            longest = int(lengths[rows[-1:]].sum())  # 0 of no tokens
            features.append(self.convolve(self.char_embedding(ids[rows, : longest + widest])))
        return torch.cat(features).index_select(0, order.argsort())  # (N, F)


class CharacterEncoder(CharacterFeatures, TokenEncoder):
    """Character ids to token vectors: the features, projected."""

    def __init__(self, options: CharacterOptions, projection_dim: int) -> None:
        super().__init__(options)
        self.projection = nn.Linear(options.n_filters, projection_dim)

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """The character ids of tokens: int64, shape (N, 50), on the CPU."""
        return torch.from_numpy(character_ids(tokens, self.options.max_characters_per_token))

    def forward(self, ids: Tensor) -> Tensor:
        """Int64, shape (N, 50): `character_ids`, to float, shape (N, P)."""
        vectors: Tensor = self.projection(self.features(ids))  # (N, P)
        return vectors


class Convolution(nn.Conv1d):
    """Filters over the positions of tokens: one product of all windows with all filters.

    It takes half the time of torch's own convolution of so few channels, and oneDNN
    keeps nothing of each shape that it meets (`docs/performance.md`).
    """

    def forward(self, embedded: Tensor) -> Tensor:
        """Float, shape (N, K, C), to float, shape (N, K - width + 1, count)."""
        return functional.linear(self.windows(embedded), self.weight.flatten(1), self.bias)

    def windows(self, embedded: Tensor) -> Tensor:
        """Float, shape (N, K, C), to float, shape (N, K - width + 1, C * width)."""
        return embedded.unfold(1, self.kernel_size[0], 1).flatten(2)


class Highway(nn.Module):
    """g = sigmoid(x W_c + b_c);  y = g * relu(x W_t + b_t) + (1 - g) * x."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.carry = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)
        nn.init.constant_(self.carry.bias, -2.0)  # training starts by letting features pass

    def forward(self, inputs: Tensor) -> Tensor:
        """Float, shape (N, F), to the same shape."""
        gate = torch.sigmoid(self.carry(inputs))
        return torch.lerp(inputs, functional.relu(self.transform(inputs)), gate)


class WordEncoder(TokenEncoder):
    """Word ids to token vectors: a table with a row a word of the vocabulary."""

    def __init__(self, vocabulary: Vocabulary, projection_dim: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        # Row 0 stays zero: it stands for "no token here".
        self.embedding = nn.Embedding(1 + len(vocabulary), projection_dim, padding_idx=0)

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """The word ids of tokens, from 1: int64, shape (N, 1), on the CPU."""
        return torch.from_numpy(self.vocabulary.indices(tokens) + 1)[:, None]

    def forward(self, ids: Tensor) -> Tensor:
        """Int64, shape (N, 1): the word's row; float, shape (N, P)."""
        vectors: Tensor = self.embedding(ids[:, 0])  # (N, P)
        return vectors


def encode_in_chunks(encode: Callable[[Sequence[str]], Tensor], tokens: Sequence[str]) -> Tensor:
    """Encode N tokens, some at a time: (N, P)."""
    starts = range(0, len(tokens), CHUNK_TOKENS)
    return torch.cat([encode(tokens[start : start + CHUNK_TOKENS]) for start in starts])


class TokenTable(nn.Module):
    """The token vectors of a vocabulary and of both boundaries, computed once."""

    vectors: Tensor
    """Float, shape (V + 2, P)."""

    def __init__(self, words: Sequence[str], encoder: TokenEncoder) -> None:
        super().__init__()
        self.words = list(words)
        self._unknown = self.words.index(UNKNOWN_WORD) if UNKNOWN_WORD in self.words else -1
        # Not in the state dict: the weights say it all.
        self.register_buffer("vectors", torch.empty(0), persistent=False)
        self.fill(encoder)

    @torch.no_grad()
    def fill(self, encoder: TokenEncoder) -> None:
        """Compute all vectors, where the encoder is and in its precision."""
        device = next(encoder.parameters()).device
        self.vectors = encode_in_chunks(
            lambda tokens: encoder(encoder.token_ids(tokens).to(device)),
            [*self.words, *encoder.boundaries],
        )

    def slots(self, word_inputs: Tensor, mask: Tensor) -> Tensor:
        """Indices into the words, int64, shape (B, T), to rows of `vectors`, shape (B, T + 2).

        -1 stands for a word that is not held. The boundaries are added, as in the mask.
        """
        n_words = len(self.words)
        held = (word_inputs > PADDING_INDEX) & (word_inputs < n_words)
        held &= word_inputs != self._unknown  # -1 if there is none
        slots = functional.pad(word_inputs.long().where(held, -1), (1, 1), value=n_words)
        ends = (mask.sum(dim=1, keepdim=True) - 1).clamp(min=0)  # (B, 1)
        return slots.scatter(1, ends, n_words + 1)

    def forward(self, slots: Tensor, ids: Tensor, encoder: TokenEncoder) -> Tensor:
        """Look up slots, int64, shape (N,): the token vectors, float, shape (N, P).

        Tokens that are not held are encoded from their ids, int64, shape (N, 50).
        """
        vectors = self.vectors[slots.clamp(min=0)]  # (N, P)
        missing = (slots < 0).nonzero()[:, 0]
        if len(missing):
            vectors[missing] = encoder(ids[missing]).to(vectors.dtype)
        return vectors
