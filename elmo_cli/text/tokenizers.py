"""Raw text to tokens."""

from collections.abc import Callable
from typing import Final

from elmo_cli.text.lines import Sentence, tokens


def tokenize(text: str) -> Sentence:
    """Tokenize a sentence like ELMo's training text.

    By the Moses rules for English: punctuation is split off, "don't" becomes "don" and "'t",
    nothing is escaped.
    """
    from sacremoses import MosesTokenizer

    tokenized: Sentence = MosesTokenizer(lang="en").tokenize(text, escape=False)
    return tokenized


TOKENIZERS: Final[dict[str, Callable[[str], Sentence]]] = {"moses": tokenize, "whitespace": tokens}
"""Tokenizers of raw text, by name."""
