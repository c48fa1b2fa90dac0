"""Cosine similarity of the vectors of a word in two sentences."""

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
    """Token of a sentence."""

    sentence: Sentence
    index: int
    """Position of the token, from 0."""

    @property
    def token(self) -> str:
        """Text of the token."""
        return self.sentence[self.index]

    @property
    def marked(self) -> str:
        """Text of the sentence, with the token in brackets."""
        before, after = self.sentence[: self.index], self.sentence[self.index + 1 :]
        return " ".join([*before, f"[{self.token}]", *after])


@dataclass(frozen=True)
class Similarity:
    """Cosine similarities of two occurrences."""

    first: Occurrence
    second: Occurrence
    layers: list[float]
    """Cosine of each layer, from the token layer up."""
    average: float
    """Cosine of the averages of all layers."""


def find_occurrence(
    sentence: Sentence, word: str, number: int | None = None, *, option: str = "a number"
) -> Occurrence:
    """Find a word among the tokens of a sentence. Upper and lower case differ.

    Args:
        sentence: Tokens.
        word: Word to find.
        number: Number of the occurrence, from 1; required if the word occurs several times.
        option: Name of `number` in messages.

    Raises:
        InputError: The word or this occurrence is missing in the sentence, or the word occurs
            several times and `number` is None.
    """
    positions = [index for index, token in enumerate(sentence) if token == word]
    text = repr(" ".join(sentence)) if sentence else "an empty sentence"
    if not positions:
        raise InputError(f"{word!r} is not a token of {text}{_suggest_token(sentence, word)}")
    if number is None and len(positions) > 1:
        raise InputError(
            f"{word!r} occurs {len(positions)} times in {text}. Choose one with {option}, "
            f"1 to {len(positions)}."
        )
    if number is not None and not 1 <= number <= len(positions):
        times = "once" if len(positions) == 1 else f"{len(positions)} times"
        raise InputError(f"{word!r} occurs {times} in {text}, not {number} times.")
    return Occurrence(sentence, positions[(number or 1) - 1])


def find_pair(
    sentences: Sequence[str],
    tokenize: Callable[[str], Sentence],
    word: str,
    word2: str | None = None,
    occurrence1: int | None = None,
    occurrence2: int | None = None,
) -> tuple[Occurrence, Occurrence]:
    """Find the words to compare in two sentences of raw text.

    Args:
        sentences: Two texts.
        tokenize: Function that splits a text into tokens.
        word: Word in the first sentence.
        word2: Word in the second sentence. None is `word`.
        occurrence1, occurrence2: Number of the occurrence in each sentence, from 1.

    Raises:
        InputError: There are not two sentences, or `find_occurrence` raises it.
    """
    if len(sentences) != 2:
        raise InputError(f"expected two sentences separated by a tab, found {len(sentences)}")
    first, second = map(tokenize, sentences)
    return (
        find_occurrence(first, word, occurrence1, option="--occurrence1"),
        find_occurrence(second, word2 or word, occurrence2, option="--occurrence2"),
    )


def _suggest_token(sentence: Sentence, word: str) -> str:
    """Return a question that names a similar token, or "" without one."""
    folded = {token.casefold(): token for token in reversed(sentence)}
    similar = get_close_matches(word.casefold(), folded, n=1)
    return f". Did you mean {folded[similar[0]]!r}?" if similar else ""


def similarities(
    embedder: ElmoEmbedder, pairs: Sequence[tuple[Occurrence, Occurrence]]
) -> list[Similarity]:
    """Compare pairs of occurrences. All sentences are embedded together."""
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
    """Return the cosine of two vectors, shape (W,); 0 if one of them is zero."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / norms) if norms else 0.0
