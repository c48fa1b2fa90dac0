"""Sentences: splitting of running text by the rules of a language."""

from typing import Any

from elmo_cli.errors.messages import Message, Template
from elmo_cli.errors.optional_imports import load_extra


def load_splitter() -> Any:
    """Import the package that splits sentences, or raise an `ElmoError`."""
    return load_extra(
        Message(Template("{--split-sentences True}")), "sentencex", "sentences"
    )


def split_into_sentences(text: str, language: str) -> list[str]:
    """Split a text into its sentences, without the white space between them."""
    sentences = (
        sentence.strip() for sentence in load_splitter().segment(language, text)
    )
    return [sentence for sentence in sentences if sentence]
