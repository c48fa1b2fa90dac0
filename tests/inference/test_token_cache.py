import zlib
from collections import OrderedDict
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import odd_tokens
from torch import Tensor

from elmo_cli.inference.encoder import MAX_CACHED_CHARACTERS, TokenCache
from elmo_cli.model import token_encoder
from elmo_cli.model.token_encoder import encode_in_chunks


class Encoder:
    """Encodes a token as a vector that no other token has, and keeps count."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, tokens: Sequence[str]) -> Tensor:
        self.calls.append(list(tokens))
        return torch.stack([vector(token) for token in tokens])

    @property
    def encoded(self) -> list[str]:
        return [token for call in self.calls for token in call]


def vector(token: str) -> Tensor:
    return torch.tensor([float(len(token)), float(zlib.crc32(token.encode()) % 100_003)])


def expected(tokens: Sequence[str]) -> Tensor:
    return torch.stack([vector(token) for token in tokens])


def test_cache_does_not_keep_very_long_tokens() -> None:
    cache = TokenCache(Encoder(), capacity=4)
    tokens = ["a", "b" * (MAX_CACHED_CHARACTERS + 1)]
    assert torch.equal(cache.vectors(tokens), expected(tokens))
    assert not cache._rows


@given(
    capacity=st.integers(1, 6),
    requests=st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True), min_size=1),
)
def test_a_cache_of_any_size_gives_every_token_its_vector(
    capacity: int, requests: list[list[str]]
) -> None:
    encode = Encoder()
    cache = TokenCache(encode, capacity)
    cached: OrderedDict[str, None] = OrderedDict()  # by a model as plain as can be
    for tokens in filter(None, requests):
        encode.calls.clear()
        assert torch.equal(cache.vectors(tokens), expected(tokens))
        if len(tokens) > capacity:
            assert sorted(encode.encoded) == sorted(tokens)
            continue
        assert sorted(encode.encoded) == sorted(set(tokens) - set(cached))
        hits = [token for token in tokens if token in cached]
        for token in [*hits, *(token for token in tokens if token not in cached)]:
            cached[token] = None
            cached.move_to_end(token)
        while len(cached) > capacity:
            cached.popitem(last=False)


@pytest.mark.parametrize("chunk_tokens", [1, 3, 1024])
@given(tokens=st.lists(odd_tokens, min_size=1, max_size=12, unique=True))
def test_chunks_are_encoded_one_by_one(chunk_tokens: int, tokens: list[str]) -> None:
    encode = Encoder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_encoder, "CHUNK_TOKENS", chunk_tokens)
        assert torch.equal(encode_in_chunks(encode, tokens), expected(tokens))
    assert all(len(call) <= chunk_tokens for call in encode.calls)
    assert encode.encoded == tokens


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
    cache = TokenCache(Encoder(), capacity=4)
    cache.vectors(["a", "b", "c", "d"])
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_vectors", Interrupted(cache._vectors))
        with pytest.raises(KeyboardInterrupt):
            cache.vectors(["e", "f"])
    for tokens in (["c", "d", "g", "h"], ["a", "b", "e", "c"], ["d", "f"]):
        assert torch.equal(cache.vectors(tokens), expected(tokens))
