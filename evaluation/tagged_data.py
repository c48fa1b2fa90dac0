"""Corpora with parts of speech: the Brown corpus and treebanks in CoNLL-U."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evaluation.token_style import to_tokens

TRAIN_TOKENS = 100_000
TEST_TOKENS = 50_000
TEST_SHARE = 0.2
"""Share of the Brown corpus's documents that are for testing."""
STRETCH = 100
"""Lines per document, where one file holds the whole corpus."""


class Tagged(NamedTuple):
    """A sentence and the tags of some of its tokens."""

    tokens: list[str]
    positions: list[int]
    """Positions of the tokens that have a tag."""
    tags: list[str]


class Split(NamedTuple):
    """Sentences to train and to test a classifier with."""

    train: list[Tagged]
    test: list[Tagged]


def read_brown(paths: Sequence[Path]) -> Split:
    """Read the Brown corpus, tagged, and split it by its documents.

    Args:
        paths: The 500 documents, `ca01` to `cr09`; or one file of the whole corpus,
            whose stretches of 100 lines count as documents.
    """
    documents = []
    for path in sorted(paths):
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        sentences = [parse_brown(line) for line in lines if line.strip()]
        size = STRETCH if len(paths) == 1 else max(1, len(sentences))
        documents += [sentences[i : i + size] for i in range(0, len(sentences), size)]
    draw = random.Random(0)
    draw.shuffle(documents)
    n_test = max(1, round(TEST_SHARE * len(documents)))
    train = _draw(documents[n_test:], TRAIN_TOKENS, draw)
    test = _draw(documents[:n_test], TEST_TOKENS, draw)
    return Split(train, test)


def _draw(
    documents: list[list[Tagged]], n_tokens: int, draw: random.Random
) -> list[Tagged]:
    sentences = [sentence for document in documents for sentence in document]
    draw.shuffle(sentences)
    return _take(sentences, n_tokens)


def _take(sentences: list[Tagged], n_tokens: int) -> list[Tagged]:
    """Return as many sentences as it takes to have `n_tokens` tags."""
    ends = np.cumsum([len(sentence.tags) for sentence in sentences])
    return sentences[: int(np.searchsorted(ends, n_tokens)) + 1]


def parse_brown(line: str) -> Tagged:
    """Parse `word/tag word/tag`.

    The first token of a word has its tag. Of a compound tag (`ppss+bem`) the first
    counts, without the marks of titles, headlines, foreign and negated words.
    """
    words = []
    tags = []
    for field in line.split():
        word, _, tag = field.rpartition("/")
        tag = re.sub(r"-(tl|hl|nc)", "", tag.lower()).removeprefix("fw-").split("+")[0]
        words.append(word)
        tags.append(tag if tag == "*" else tag.removesuffix("*"))
    tokens, positions = to_tokens(words)
    tagged = Tagged(tokens, positions=[], tags=[])
    for indices, tag in zip(positions, tags, strict=True):
        if indices:
            tagged.positions.append(indices[0])
            tagged.tags.append(tag)
    return tagged


def read_treebank(train: Path, test: Path) -> Split:
    """Read the universal parts of speech of a treebank's two CoNLL-U files.

    The words of the treebank are the tokens.
    """
    return Split(
        _take(list(_read_conllu(train)), TRAIN_TOKENS),
        _take(list(_read_conllu(test)), TEST_TOKENS),
    )


def _read_conllu(path: Path) -> Iterator[Tagged]:
    words: list[str] = []
    tags: list[str] = []
    for line in _with_end(path.read_text(encoding="utf-8").split("\n")):
        fields = line.split("\t")
        if not line.strip() and words:
            yield Tagged(words, list(range(len(words))), tags)
            words = []
            tags = []
        elif fields[0].isdigit():  # Ranges (1-2) and empty nodes (1.1) are no words.
            words.append(fields[1].replace(" ", "_"))
            tags.append(fields[3])


def _with_end(lines: Iterable[str]) -> Iterator[str]:
    yield from lines
    yield ""
