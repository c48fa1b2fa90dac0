"""A text as a person types it to tokens."""

from collections.abc import Callable
from typing import Final

from elmo_cli.text.lines import Sentence, tokens


def tokenize(text: str) -> Sentence:
    """The tokens of a sentence as a person types it, in the form of ELMo's training text.

    Moses rules for English: punctuation apart, "don't" to "don" and "'t", nothing escaped.
    """
    from sacremoses import MosesTokenizer

    tokenized: Sentence = MosesTokenizer(lang="en").tokenize(text, escape=False)
    return tokenized


TOKENIZERS: Final[dict[str, Callable[[str], Sentence]]] = {"moses": tokenize, "whitespace": tokens}
"""How a text that is not tokenized yet can be cut into tokens, by name."""
