"""Tokens to token vectors, each distinct token computed once and kept for the next."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from elmo_cli.model.token_encoder import encode_by_length

MAX_CHARACTERS = 1000
"""Of a token that is kept, so that capacity bounds the memory of the tokens too."""


class TokenCache:
    """The vectors of the tokens that were used last.

    Tokens among which one is longer than `MAX_CHARACTERS` are not kept.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Tensor], capacity: int) -> None:
        """Start empty.

        Args:
            encode: tokens to token vectors, float, shape (N, P).
            capacity: tokens kept.
        """
        self.capacity = capacity
        self._encode = encode
        self._slots: OrderedDict[str, int] = OrderedDict()  # from the least to the most recent
        self._vectors = torch.empty(0)

    def vectors(self, tokens: Sequence[str]) -> Tensor:
        """The vectors of distinct tokens: float, shape (N, P)."""
        if len(tokens) > self.capacity or max(map(len, tokens), default=0) > MAX_CHARACTERS:
            return encode_by_length(self._encode, tokens)
        slots = self._slots
        for token in tokens:
            if token in slots:
                slots.move_to_end(token)  # now the most recently used
        if missing := [token for token in tokens if token not in slots]:
            self._add(missing)
        rows = torch.tensor([slots[token] for token in tokens], dtype=torch.int64)
        return self._vectors[rows.to(self._vectors.device)]

    def _add(self, tokens: list[str]) -> None:
        vectors = encode_by_length(self._encode, tokens)
        if not len(self._vectors):
            self._vectors = vectors.new_empty(self.capacity, vectors.shape[1])
        n_used = len(self._slots)
        free = list(range(n_used, min(self.capacity, n_used + len(tokens))))
        try:
            while len(free) < len(tokens):
                free.append(self._slots.popitem(last=False)[1])
            self._vectors[torch.tensor(free, device=vectors.device)] = vectors
            self._slots.update(zip(tokens, free, strict=True))
        except BaseException:  # Ctrl-C, or want of memory: slots in use may have other vectors
            self._slots.clear()
            raise
