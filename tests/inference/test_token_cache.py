"""Vectors of tokens that were computed before."""

import zlib
from collections import OrderedDict
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmo_cli.inference.encoder import MAX_CACHED_CHARACTERS, TokenCache


def vectors_of(tokens: Sequence[str]) -> Tensor:
    """Return a vector per token that no other token has."""
    rows = [(len(token), zlib.crc32(token.encode()) % 100_003) for token in tokens]
    return torch.tensor(rows, dtype=torch.float32)


@given(
    capacity=st.integers(1, 6),
    requests=st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True), min_size=1),
)
def test_a_cache_of_any_size_gives_every_token_its_vector(
    capacity: int, requests: list[list[str]]
) -> None:
    encoded = list[str]()

    def encode(tokens: Sequence[str]) -> Tensor:
        encoded.extend(tokens)
        return vectors_of(tokens)

    cache = TokenCache(encode, capacity)
    cached: OrderedDict[str, None] = OrderedDict()  # by a model as plain as can be
    for tokens in filter(None, requests):
        encoded.clear()
        assert torch.equal(cache.vectors(tokens), vectors_of(tokens))
        if len(tokens) > capacity:
            assert sorted(encoded) == sorted(tokens)
            continue
        assert sorted(encoded) == sorted(set(tokens) - set(cached))
        for token in sorted(tokens, key=lambda token: token not in cached):  # hits first
            cached[token] = None
            cached.move_to_end(token)
        while len(cached) > capacity:
            cached.popitem(last=False)


def test_cache_does_not_keep_very_long_tokens() -> None:
    cache = TokenCache(vectors_of, capacity=4)
    tokens = ["a", "b" * (MAX_CACHED_CHARACTERS + 1)]
    assert torch.equal(cache.vectors(tokens), vectors_of(tokens))
    assert not cache._rows


class Interrupted:
    """Vectors whose rows are written in part, when Ctrl-C comes."""

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors

    def __len__(self) -> int:
        return len(self.vectors)

    def __setitem__(self, rows: Tensor, values: Tensor) -> None:
        self.vectors[rows[:1]] = values[:1]
        raise KeyboardInterrupt


def test_an_interrupted_cache_returns_the_right_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = TokenCache(vectors_of, capacity=4)
    cache.vectors(["a", "b", "c", "d"])
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_vectors", Interrupted(cache._vectors))
        with pytest.raises(KeyboardInterrupt):
            cache.vectors(["e", "f"])
    for tokens in (["c", "d", "g", "h"], ["a", "b", "e", "c"], ["d", "f"]):
        assert torch.equal(cache.vectors(tokens), vectors_of(tokens))
