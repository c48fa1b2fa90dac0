"""Token encoder of ELMoForManyLangs.

A model reads the Unicode characters of a token, the token as a word, or both, and has
one table for each.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from elmo_cli.model.lexicons import Lexicons
from elmo_cli.model.many_langs_config import ManyLangsArchitecture
from elmo_cli.model.token_encoder import CharacterFeatures, TokenEncoder

_PADDING: Final = "<pad>"
# The lexicons swap the two names, and the models were trained like this.
_WORD_START: Final = "<eow>"
_WORD_END: Final = "<bow>"


class LexiconEncoder(TokenEncoder):
    """Token encoder that projects a word's row and the features of its characters."""

    boundaries = ("<bos>", "<eos>")

    def __init__(self, architecture: ManyLangsArchitecture, lexicons: Lexicons) -> None:
        super().__init__()
        self.lexicons = lexicons
        dim = 0
        # Row 0 stays zero: it means "no token here".
        self.words: nn.Embedding | None = None
        if lexicons.words is not None:
            self.words = nn.Embedding(
                1 + lexicons.words.n_rows, architecture.word_dim, padding_idx=0
            )
            dim += architecture.word_dim
        self.characters: CharacterFeatures | None = None
        if architecture.char_cnn is not None and lexicons.characters is not None:
            self.characters = CharacterFeatures(
                architecture.char_cnn, lexicons.characters.n_rows
            )
            dim += architecture.char_cnn.n_filters
        self.projection = nn.Linear(dim, architecture.lstm.projection_dim)
        self._max_characters = architecture.max_characters_per_token

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """Return the ids of tokens: int64, shape (N, 1 + C).

        Column 0 has the id of the word, or 1 if the model reads no words. The C columns
        after it have the ids of the characters; C is 0 if the model reads none. An id
        is the row in its table plus one, because 0 means that there is no token.
        """
        characters = self.lexicons.characters
        words = self.lexicons.words
        n_characters = 0 if characters is None else self._max_characters
        ids = np.zeros((len(tokens), 1 + n_characters), dtype=np.int64)
        for row, token in zip(ids, tokens, strict=True):
            if token in self.boundaries:
                word = token
                symbols = [token]
            else:
                word = token[: self._max_characters - 2]
                symbols = list(word)
            if words is not None:
                row[0] = words.row(word)
            if characters is not None:
                symbols = [_WORD_START, *symbols, _WORD_END]
                symbols += [_PADDING] * (n_characters - len(symbols))
                row[1:] = [characters.row(symbol) for symbol in symbols]
        return torch.from_numpy(ids + 1)

    def forward(self, ids: Tensor) -> Tensor:
        """Encode ids of `token_ids`, int64, shape (N, 1 + C): float, shape (N, P)."""
        parts = []
        if self.words is not None:
            parts.append(self.words(ids[:, 0]))  # (N, W)
        if self.characters is not None:
            parts.append(self.characters.features(ids[:, 1:]))  # (N, F)
        vectors: Tensor = self.projection(torch.cat(parts, dim=1))  # (N, P)
        return vectors
