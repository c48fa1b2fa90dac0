"""Cache of token vectors."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from elmo_cli.model.token_encoder import encode_in_chunks

CACHED_TOKENS = 32_768
"""Maximum number of cached tokens."""
MAX_CACHED_CHARACTERS: Final = 1000
"""Maximum length of a cached token, so that the number of tokens limits the memory."""


class TokenCache:
    """Vectors of the most recently used tokens.

    Copies and pickles of a cache are empty.
    """

    def __init__(
        self, encode: Callable[[Sequence[str]], Tensor], capacity: int
    ) -> None:
        """Make a cache for `capacity` tokens, which `encode` turns into vectors."""
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
        missing = []
        for token in tokens:
            if token in self._rows:
                self._rows.move_to_end(token)
            else:
                missing.append(token)
        if missing:
            self._add(missing)
        rows = [self._rows[token] for token in tokens]
        device = self._vectors.device
        return self._vectors[torch.tensor(rows, dtype=torch.int64, device=device)]

    def _add(self, tokens: list[str]) -> None:
        """Encode tokens, and let their vectors replace the least recently used ones."""
        vectors = encode_in_chunks(self._encode, tokens)
        if len(self._vectors) == 0:
            self._vectors = vectors.new_empty(self.capacity, vectors.shape[1])
        n_used = len(self._rows)
        free = list(range(n_used, min(self.capacity, n_used + len(tokens))))
        try:
            while len(free) < len(tokens):
                _, row = self._rows.popitem(last=False)
                free.append(row)
            self._vectors[torch.tensor(free, device=vectors.device)] = vectors
            self._rows.update(zip(tokens, free, strict=True))
        except BaseException:
            # After Ctrl-C or out of memory, rows may have wrong vectors.
            self._rows.clear()
            raise
