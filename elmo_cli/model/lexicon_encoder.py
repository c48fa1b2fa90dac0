"""Tokens to token vectors by lexicons of characters and words, as ELMoForManyLangs does."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_cli.model import many_langs
from elmo_cli.model.many_langs import Lexicons, ManyLangsOptions
from elmo_cli.model.token_encoder import CharacterFeatures, TokenEncoder


class LexiconEncoder(TokenEncoder):
    """A token's row of the words beside the features of its characters, projected."""

    boundaries = (many_langs.START_TOKEN, many_langs.END_TOKEN)

    def __init__(self, options: ManyLangsOptions, lexicons: Lexicons) -> None:
        super().__init__()
        self.lexicons = lexicons
        dim = 0
        # Row 0 stays zero: it stands for "no token here".
        self.words: nn.Embedding | None = None
        if lexicons.words is not None:
            self.words = nn.Embedding(1 + lexicons.words.n_rows, options.word_dim, padding_idx=0)
            dim += options.word_dim
        self.characters: CharacterFeatures | None = None
        if options.char_cnn is not None and lexicons.characters is not None:
            self.characters = CharacterFeatures(options.char_cnn, lexicons.characters.n_rows)
            dim += options.char_cnn.n_filters
        self.projection = nn.Linear(dim, options.lstm.projection_dim)

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """The ids of tokens, their word and their characters: int64, shape (N, 1 + C)."""
        return torch.from_numpy(self.lexicons.token_ids(tokens))

    def forward(self, ids: Tensor) -> Tensor:
        """Encode tokens.

        Args:
            ids: int64, shape (N, 1 + C): `token_ids`.

        Returns:
            float, shape (N, P).
        """
        parts = []
        if self.words is not None:
            parts.append(self.words(ids[:, 0]))  # (N, W)
        if self.characters is not None:
            parts.append(self.characters.features(ids[:, 1:]))  # (N, F)
        vectors: Tensor = self.projection(torch.cat(parts, dim=1))  # (N, P)
        return vectors
