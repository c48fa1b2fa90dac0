"""Tokens to token vectors, each distinct token computed once and kept for the next."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from elmo_cli.model.token_encoder import encode_by_length

MAX_CHARACTERS = 1 << 24
"""Characters of all tokens that are kept, up to 4 bytes each. Ordinary tokens are far from it."""


class TokenCache:
    """The vectors of the tokens that were used last."""

    def __init__(self, encode: Callable[[Sequence[str]], Tensor], capacity: int) -> None:
        """Start empty.

        Args:
            encode: tokens to token vectors, float, shape (N, P).
            capacity: tokens kept.
        """
        self.capacity = capacity
        self._encode = encode
        self._slots: OrderedDict[str, int] = OrderedDict()  # from the least to the most recent
        self._n_characters = 0
        self._vectors: Tensor | None = None

    def vectors(self, tokens: Sequence[str]) -> Tensor:
        """The vectors of distinct tokens: float, shape (N, P)."""
        n_characters = sum(map(len, tokens))
        if len(tokens) > self.capacity or n_characters > MAX_CHARACTERS:
            return encode_by_length(self._encode, tokens)
        if self._n_characters + n_characters > MAX_CHARACTERS:
            self._clear()
        slots = self._slots
        for token in tokens:
            if token in slots:
                slots.move_to_end(token)  # now the most recently used
        self._add([token for token in tokens if token not in slots])
        assert self._vectors is not None or not tokens
        if self._vectors is None:
            return self._encode(tokens)
        rows = torch.tensor([slots[token] for token in tokens], dtype=torch.int64)
        return self._vectors[rows.to(self._vectors.device)]

    def _add(self, tokens: list[str]) -> None:
        if not tokens:
            return
        vectors = encode_by_length(self._encode, tokens)
        if self._vectors is None:
            self._vectors = vectors.new_empty(self.capacity, vectors.shape[1])
        n_used = len(self._slots)
        free = list(range(n_used, min(self.capacity, n_used + len(tokens))))
        try:
            while len(free) < len(tokens):
                token, slot = self._slots.popitem(last=False)
                self._n_characters -= len(token)
                free.append(slot)
            self._vectors[torch.tensor(free, device=vectors.device)] = vectors
            self._slots.update(zip(tokens, free, strict=True))
            self._n_characters += sum(map(len, tokens))
        except BaseException:  # Ctrl-C, or want of memory: slots in use may have other vectors
            self._clear()
            raise

    def _clear(self) -> None:
        self._slots.clear()
        self._n_characters = 0
