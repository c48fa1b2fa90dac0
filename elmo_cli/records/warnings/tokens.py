"""Checks of tokens: whether the tokenizer and the model fit them."""

import re
from itertools import pairwise
from typing import Final, NamedTuple

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.messages import Message
from elmo_cli.records.warnings.expected import PROTEINS
from elmo_cli.records.warnings.sample import Sample

_MAX_ATTACHED: Final = 0.05
"""Share of the tokens that may end in punctuation, because of abbreviations."""
_MARKS: Final = tuple('.,;:!?"')


def no_tokens(sample: Sample) -> str | None:
    """Return a warning for an input without tokens."""
    return None if sample.tokens else "the input has no tokens"


def attached_punctuation(sample: Sample) -> Message | None:
    """Return a warning if whitespace seems to be the wrong tokenizer."""
    if not sample.is_split_at_spaces:
        return None
    tokens = sample.tokens
    warning = _unspaced_language(tokens)
    if warning is not None:
        return warning
    attached = [token for token in tokens if token[:-1] and token.endswith(_MARKS)]
    if len(attached) <= _MAX_ATTACHED * len(tokens):
        return None
    return Message(
        "{n_attached} of the first {n_tokens} tokens end in punctuation ({examples}), "
        "which becomes part of the word",
        remedy="Use {--tokenizer moses} to split it off.",
        n_attached=f"{len(attached):,}",
        n_tokens=f"{len(tokens):,}",
        examples=" ".join(attached[:3]),
    )


class _Script(NamedTuple):
    """Script that is written without spaces between words."""

    language: str
    characters: str
    """Regular expression of one character."""
    max_length: int
    """Length of a word, above which it is probably a phrase."""
    min_share: float
    """Minimum share of the characters in a phrase."""
    advice: str


_BY_HAND: Final = "Separate its words by spaces first."
_SCRIPTS: Final = (
    # Kana come first: Japanese has Chinese characters too.
    _Script("Japanese", "[\u3040-\u30ff]", 12, 0.2, "Use {--tokenizer spacy:ja}."),
    _Script(
        "Chinese", "[\u3400-\u4dbf\u4e00-\u9fff]", 8, 0.5, "Use {--tokenizer spacy:zh}."
    ),
    _Script("Thai", "[\u0e00-\u0e7f]", 20, 0.5, "Use {--tokenizer spacy:th}."),
    _Script("Lao", "[\u0e80-\u0eff]", 20, 0.5, _BY_HAND),
    _Script("Burmese", "[\u1000-\u109f]", 20, 0.5, _BY_HAND),
    _Script("Khmer", "[\u1780-\u17ff]", 20, 0.5, _BY_HAND),
)


def _unspaced_language(tokens: Sentence) -> Message | None:
    """Return a warning for tokens that are phrases in a script without spaces."""
    words = [token for token in tokens if not token.isascii()]
    for script in _SCRIPTS:
        n_phrases = 0
        for word in words:
            if len(word) > script.max_length:
                n_found = len(re.findall(script.characters, word))
                if n_found > script.min_share * len(word):
                    n_phrases += 1
        if n_phrases > _MAX_ATTACHED * len(tokens):
            return Message(
                "the text is in {language} without spaces between words, so a whole "
                "phrase becomes one token",
                remedy=script.advice,
                language=script.language,
            )
    return None


_RESIDUES: Final = frozenset("ABCDEFGHIKLMNOPQRSTUVWXYZ*-")
MIN_RESIDUES: Final = 0.9
"""Minimum share of residues among the tokens of proteins."""
_MIN_TOKENS: Final = 20
"""Number of tokens, other than of FASTA, from which the domain is guessed."""


def other_domain(sample: Sample) -> Message | None:
    """Return a warning for proteins with a published model of text, or the reverse."""
    tokens = sample.tokens
    language = sample.expected.language
    if language is None or not tokens:
        return None
    if len(tokens) < _MIN_TOKENS and not sample.has_sequences:
        return None
    n_residues = sum(token in _RESIDUES for token in tokens)
    seems_proteins = n_residues >= MIN_RESIDUES * len(tokens)
    if seems_proteins == (language == PROTEINS):
        return None
    model = sample.expected.model
    if seems_proteins:
        return Message(
            "the input seems to be proteins, but the model {model} was trained on "
            "{language} text",
            remedy="{--model seqvec} was trained on proteins.",
            model=model,
            language=language,
        )
    return Message(
        "the input seems to be text, but the model {model} was trained on proteins",
        remedy="{--model original} was trained on English text.",
        model=model,
    )


_MIN_REPEATED: Final = 5
_MIN_REPEATED_SHARE: Final = 0.4


def repeated_words(sample: Sample) -> str | None:
    """Return a warning for texts of a row per word and subject."""
    if sample.is_text or sample.has_sequences:
        return None
    n_pairs = 0
    repeated: list[str] = []
    for text in sample.texts:
        for word, following in pairwise(text.split()):
            n_pairs += 1
            if word == following:
                repeated.append(word)
    if len(repeated) < max(_MIN_REPEATED, _MIN_REPEATED_SHARE * n_pairs):
        return None
    remedy = "If the table has a row per word and subject, keep one row per word."
    example = f"{repeated[0]} {repeated[0]}"
    return f"most words repeat the one before ({example}). {remedy}"
