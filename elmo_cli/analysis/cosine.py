"""Cosine similarity of a word's vectors in two sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors import InputError
from elmo_cli.text.records import Sentence


@dataclass(frozen=True)
class Occurrence:
    """A token of a sentence."""

    sentence: Sentence
    index: int
    """From 0."""

    @property
    def token(self) -> str:
        """The token itself."""
        return self.sentence[self.index]

    @property
    def marked(self) -> str:
        """The sentence with the token in brackets."""
        before, after = self.sentence[: self.index], self.sentence[self.index + 1 :]
        return " ".join([*before, f"[{self.token}]", *after])


@dataclass(frozen=True)
class Similarity:
    """Cosine similarities of the vectors of two occurrences."""

    first: Occurrence
    second: Occurrence
    layers: list[float]
    """The cosine of each layer, from the token layer up."""
    average: float
    """The cosine of the averages of all layers."""


def find_occurrence(
    sentence: Sentence, word: str, number: int | None = None, *, option: str = "a number"
) -> Occurrence:
    """Find a word, exactly, among the tokens of a sentence.

    Where it occurs several times, `number` says which, from 1; `option` is its name in messages.
    """
    found = [index for index, token in enumerate(sentence) if token == word]
    tokens = " ".join(sentence) or "an empty sentence"
    if not found:
        raise InputError(f"{word!r} is not a token of: {tokens}{_near_miss(sentence, word)}")
    if number is None and len(found) > 1:
        raise InputError(
            f"{word!r} occurs {len(found)} times in: {tokens}; choose one with {option}, "
            f"1 to {len(found)}"
        )
    if number is not None and not 1 <= number <= len(found):
        times = "once" if len(found) == 1 else f"{len(found)} times"
        raise InputError(f"{word!r} occurs {times}, not {number} times, in: {tokens}")
    return Occurrence(sentence, found[(number or 1) - 1])


def find_pair(
    sentences: Sequence[str],
    cut: Callable[[str], Sentence],
    word: str,
    word2: str | None = None,
    occurrence1: int | None = None,
    occurrence2: int | None = None,
) -> tuple[Occurrence, Occurrence]:
    """Find the words to compare in two sentences, raw text; `word` in both without a `word2`."""
    if len(sentences) != 2:
        raise InputError(f"expected two sentences with a tab between, found {len(sentences)}")
    first, second = map(cut, sentences)
    return (
        find_occurrence(first, word, occurrence1, option="--occurrence1"),
        find_occurrence(second, word2 or word, occurrence2, option="--occurrence2"),
    )


def _near_miss(sentence: Sentence, word: str) -> str:
    folded = {token.casefold(): token for token in reversed(sentence)}
    near = get_close_matches(word.casefold(), folded, n=1)
    return f"; is {folded[near[0]]!r} meant?" if near else ""


def similarities(
    embedder: ElmoEmbedder, pairs: Sequence[tuple[Occurrence, Occurrence]]
) -> list[Similarity]:
    """Compare pairs of occurrences; all sentences are embedded together."""
    occurrences = [occurrence for pair in pairs for occurrence in pair]
    embedded = embedder.embed_sentences(occurrence.sentence for occurrence in occurrences)
    vectors = [
        activations[:, occurrence.index]  # (L, W)
        for activations, occurrence in zip(embedded, occurrences, strict=True)
    ]
    return [
        Similarity(
            first,
            second,
            [cosine(*layer) for layer in zip(one, other, strict=True)],
            cosine(one.mean(axis=0), other.mean(axis=0)),
        )
        for (first, second), one, other in zip(pairs, vectors[::2], vectors[1::2], strict=True)
    ]


def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Compute the cosine of two vectors, shape (W,); 0 if one of them is zero."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / norms) if norms else 0.0
