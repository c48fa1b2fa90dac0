"""Sentences in the tokens of ELMo's training text."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_QUOTES = {"``": '"', "''": '"', "`": "'", "-LRB-": "(", "-RRB-": ")"}
_BEFORE_APOSTROPHE = re.compile(r"(?<=\w)(?='\w)")


class Embedder(Protocol):
    """The part of `ElmoEmbedder` that the tests use."""

    def embed_sentences(
        self, sentences: Iterable[list[str]], /
    ) -> Iterable[NDArray[np.float32]]:
        """Yield the activations of each sentence, shape (L, T, W)."""


def to_tokens(words: Iterable[str]) -> tuple[list[str], list[range]]:
    """Split words as the Moses tokenizer does.

    `can't` and the two words `ca`, `n't` both become `can`, `'t`. A word of several
    parts, separated by spaces, becomes a token per part. Quotes of the Penn Treebank
    become `"`.

    Returns:
        The tokens, and for each word the positions of its tokens.
    """
    tokens: list[str] = []
    positions: list[range] = []
    for word in words:
        start = len(tokens)
        if word.lower() == "n't" and tokens:
            tokens[-1] += word[0]
            word = word[1:]
        for part in word.split():
            tokens.extend(_BEFORE_APOSTROPHE.split(_QUOTES.get(part, part)))
        positions.append(range(start, len(tokens)))
    return tokens, positions


def read_sentences(path: Path) -> Iterator[list[str]]:
    """Yield the tokens of each line of a tokenized text."""
    with open(path, encoding="utf-8") as file:
        yield from map(str.split, file)
