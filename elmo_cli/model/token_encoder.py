"""Token encoders, which turn each token into a vector, independent of its neighbours.

`CharacterEncoder` is the character CNN of Kim et al. (2016) with highway layers
(Srivastava et al., 2015), as in Jozefowicz et al. (2016). `WordEncoder` is the table
that word-level models have instead.
"""

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from elmo_cli.errors.checks import check_sentences
from elmo_cli.model.architecture import CharacterArchitecture
from elmo_cli.model.characters import N_CHARACTERS, character_ids
from elmo_cli.model.placement import autocast_dtype
from elmo_cli.model.vocabulary import BOUNDARIES, Vocabulary

CHUNK_TOKENS = 1024
"""Tokens that are encoded together, to limit memory."""
CONVOLVED_TOKENS = 128
"""Tokens of similar length that are convolved together."""
PADDING_INDEX: Final = 0
"""Index of "@@PADDING@@" in AllenNLP's vocabularies."""
UNKNOWN_WORD: Final = "@@UNKNOWN@@"
"""All unknown words in AllenNLP's vocabularies."""

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


class TokenEncoder(nn.Module):
    """Base of all token encoders: from tokens to ids, and from ids to token vectors."""

    boundaries: tuple[str, str] = BOUNDARIES
    """Tokens around every sentence."""

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """Return the ids of tokens, none of them 0: int64, shape (N, C), on the CPU."""
        raise NotImplementedError


def pad_ids(
    sentences: Sequence[Sequence[str]], token_ids: Callable[[Sequence[str]], Tensor]
) -> Tensor:
    """Return the ids of sentences, int64, shape (B, T, C), padded with 0."""
    ids = [token_ids(sentence) for sentence in check_sentences(sentences, "batch")]
    # pad_sequence needs at least one sequence. The additional empty one is removed
    # again.
    return pad_sequence([*ids, token_ids([])], batch_first=True)[:-1]


class CharacterFeatures(nn.Module):
    """Features of character ids: convolutions, maximum, highway layers."""

    def __init__(
        self, architecture: CharacterArchitecture, n_characters: int = N_CHARACTERS
    ) -> None:
        super().__init__()
        self.architecture = architecture
        # Row 0 stays zero: it means "no token here".
        self.char_embedding = nn.Embedding(
            1 + n_characters, architecture.embedding_dim, padding_idx=0
        )
        self.convolutions = nn.ModuleList(
            Convolution(architecture.embedding_dim, count, width)
            for width, count in architecture.filters
        )
        self.activation = _ACTIVATIONS[architecture.activation]()
        self.highways = nn.ModuleList(
            HighwayLayer(architecture.n_filters) for _ in range(architecture.n_highway)
        )

    def features(self, ids: Tensor) -> Tensor:
        """Compute the features of ids, int64, shape (N, 50): float, shape (N, F).

        Tokens of similar length are convolved together, in groups. All windows inside
        the padding have one value, so one of them is enough: a group ends one widest
        window after its longest token.
        """
        widest = max(width for width, _ in self.architecture.filters)
        lengths = _count_characters(ids)
        order = lengths.argsort()
        group_size = CONVOLVED_TOKENS if ids.device.type == "cpu" else CHUNK_TOKENS
        row_groups = torch.split(order, group_size)
        # One transfer for all groups, because it waits for a GPU. Sums are 0 without
        # tokens.
        longest = [lengths[rows[-1:]].sum() for rows in row_groups]
        n_characters = torch.stack(longest).tolist()
        groups = []
        for rows, n in zip(row_groups, n_characters, strict=True):
            embedded = self.char_embedding(ids[rows, : n + widest])
            groups.append(self.convolve(embedded))
        features = torch.cat(groups).index_select(0, order.argsort())  # (N, F)
        for highway in self.highways:
            features = highway(features)
        return features

    def convolve(self, embedded: Tensor) -> Tensor:
        """Compute the maximum of each filter over C characters: (N, C, E) to (N, F)."""
        # A lower precision is no faster: oneDNN compiles a product for each number of
        # windows.
        with torch.autocast(embedded.device.type, enabled=False):
            # (N, count) each
            features = [conv(embedded).amax(dim=1) for conv in self.convolutions]
        activated: Tensor = self.activation(torch.cat(features, dim=1))  # (N, F)
        return activated.to(autocast_dtype(activated))


def _count_characters(ids: Tensor) -> Tensor:
    """Return the number of ids in each row before the padding at its end: (N,).

    The last id of a row counts as padding.
    """
    columns = torch.arange(1, ids.shape[1] + 1, device=ids.device)
    is_character = ids != ids[:, -1:]
    return torch.where(is_character, columns, 0).amax(dim=1)


class CharacterEncoder(CharacterFeatures, TokenEncoder):
    """Token encoder that reads characters: their features, projected."""

    def __init__(
        self,
        architecture: CharacterArchitecture,
        projection_dim: int,
        *,
        projects: bool = True,
    ) -> None:
        super().__init__(architecture)
        self.projection: nn.Linear | None = None
        if projects:
            self.projection = nn.Linear(architecture.n_filters, projection_dim)

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """Return the character ids of tokens: int64, shape (N, 50), on the CPU."""
        return torch.from_numpy(
            character_ids(tokens, self.architecture.max_characters_per_token)
        )

    def forward(self, ids: Tensor) -> Tensor:
        """Encode `character_ids`, int64, shape (N, 50): float, shape (N, P)."""
        vectors = self.features(ids)  # (N, F)
        if self.projection is not None:
            vectors = self.projection(vectors)  # (N, P)
        return vectors


class Convolution(nn.Conv1d):
    """Convolution over characters by one product.

    For few channels it takes half the time of torch's convolution.
    """

    def forward(self, embedded: Tensor) -> Tensor:
        """Convolve a float tensor, shape (N, C, E): shape (N, C - width + 1, count)."""
        return functional.linear(
            self.windows(embedded), self.weight.flatten(1), self.bias
        )

    def windows(self, embedded: Tensor) -> Tensor:
        """Return all windows of (N, C, E), shape (N, C - width + 1, E * width)."""
        return embedded.unfold(1, self.kernel_size[0], 1).flatten(2)


class HighwayLayer(nn.Module):
    """Highway layer.

    g = sigmoid(x W_c + b_c)
    y = g * relu(x W_t + b_t) + (1 - g) * x
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.carry = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)
        # Training starts by passing features on.
        nn.init.constant_(self.carry.bias, -2.0)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer to a float tensor, shape (N, F)."""
        gate = torch.sigmoid(self.carry(inputs))
        return torch.lerp(inputs, functional.relu(self.transform(inputs)), gate)


class WordEncoder(TokenEncoder):
    """Token encoder that reads words: a table with one row per word."""

    def __init__(self, vocabulary: Vocabulary, projection_dim: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        # Row 0 stays zero: it means "no token here".
        self.embedding = nn.Embedding(
            1 + len(vocabulary), projection_dim, padding_idx=0
        )

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """Return the word ids of tokens, from 1: int64, shape (N, 1), on the CPU."""
        return torch.from_numpy(self.vocabulary.indices(tokens) + 1)[:, None]

    def forward(self, ids: Tensor) -> Tensor:
        """Look up the rows of word ids, int64, shape (N, 1): float, shape (N, P)."""
        vectors: Tensor = self.embedding(ids[:, 0])  # (N, P)
        return vectors


def encode_in_chunks(
    encode: Callable[[Sequence[str]], Tensor], tokens: Sequence[str]
) -> Tensor:
    """Encode N tokens in chunks: shape (N, P)."""
    starts = range(0, len(tokens), CHUNK_TOKENS)
    return torch.cat([encode(tokens[start : start + CHUNK_TOKENS]) for start in starts])


class TokenTable(nn.Module):
    """Token vectors of a vocabulary and of both boundaries, computed once."""

    vectors: Tensor
    """Float, (V + 2, P)."""

    def __init__(self, words: Sequence[str], encoder: TokenEncoder) -> None:
        super().__init__()
        self.words = list(words)
        self._unknown = -1
        if UNKNOWN_WORD in self.words:
            self._unknown = self.words.index(UNKNOWN_WORD)
        # The table is not in the state dict, because it follows from the weights.
        self.register_buffer("vectors", torch.empty(0, device="cpu"), persistent=False)
        self.fill(encoder)

    @torch.no_grad()
    def fill(self, encoder: TokenEncoder) -> None:
        """Compute all vectors, on the device and in the precision of the encoder."""
        device = next(encoder.parameters()).device
        self.vectors = encode_in_chunks(
            lambda tokens: encoder(encoder.token_ids(tokens).to(device)),
            [*self.words, *encoder.boundaries],
        )

    def find_rows(self, word_inputs: Tensor, has_ids: Tensor) -> Tensor:
        """Return the rows of `vectors` for word indices, int64, (B, T), or -1.

        The vector of `UNKNOWN_WORD` serves tokens that have no ids, bool, (B, T), as in
        AllenNLP.
        """
        in_list = (word_inputs > PADDING_INDEX) & (word_inputs < len(self.words))
        has_vector = (word_inputs != self._unknown) | ~has_ids
        return word_inputs.long().where(in_list & has_vector, -1)

    def with_boundaries(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Add the rows of the boundaries to those of words: (B, T) to (B, T + 2)."""
        bounded = functional.pad(rows, (1, 1), value=len(self.words))
        ends = mask.sum(dim=1, keepdim=True) - 1  # (B, 1)
        return bounded.scatter(1, ends, len(self.words) + 1)

    def forward(self, rows: Tensor, ids: Tensor, encoder: TokenEncoder) -> Tensor:
        """Look up rows, int64, (N,), or encode ids, int64, (N, 50), where it is -1.

        Return float, shape (N, P).
        """
        vectors = self.vectors[rows.clamp(min=0)]  # (N, P)
        missing = (rows < 0).nonzero()[:, 0]
        if len(missing):
            vectors[missing] = encoder(ids[missing]).to(vectors.dtype)
        return vectors
