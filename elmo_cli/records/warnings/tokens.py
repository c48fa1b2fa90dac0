"""Checks of tokens: whether the tokenizer and the model fit them."""

from itertools import pairwise
from typing import Final

from elmo_cli.errors.messages import Message
from elmo_cli.records.warnings.expected import PROTEINS
from elmo_cli.records.warnings.sample import Sample
from elmo_cli.text.scripts import find_unspaced_script


def no_tokens(sample: Sample) -> str | None:
    """Return a warning for an input without tokens where that is no error."""
    if sample.tokens:
        return None
    if sample.lines and sample.expected.may_lack_tokens:
        return None
    return f"{sample.source_name}: no tokens"


def unspaced_script(sample: Sample) -> Message | None:
    """Return a warning if white space splits a text without spaces between words."""
    if not sample.is_split_at_spaces:
        return None
    script = find_unspaced_script(sample.tokens)
    if script is None:
        return None
    remedy = "Separate its words by spaces first."
    if script.code is not None:
        remedy = f"Use {{--tokenizer spacy:{script.code}}}."
    return Message(
        f"the text is in {script.language} without spaces between words, "
        "so a whole phrase becomes one token",
        remedy=remedy,
    )


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
            f"the input seems to be proteins, but the model {model} was "
            f"trained on {language} text",
            remedy="{--model seqvec} was trained on proteins.",
        )
    return Message(
        f"the input seems to be text, but the model {model} was trained on proteins",
        remedy="{--model original} was trained on English text.",
    )


_MIN_REMOVED: Final = 0.9
"""Minimum share of `_` among the tokens of a treebank without its text."""


def removed_forms(sample: Sample) -> str | None:
    """Return a warning for a treebank whose words were removed."""
    if sample.is_text or len(sample.tokens) < 2:
        return None
    n_removed = sample.tokens.count("_")
    if n_removed < _MIN_REMOVED * len(sample.tokens):
        return None
    kind = "all" if n_removed == len(sample.tokens) else "almost all"
    return (
        f"{kind} words are _, because the text was removed. Such a treebank comes with "
        "a program that adds the text."
    )


_MIN_REPEATED: Final = 5
_MIN_REPEATED_SHARE: Final = 0.4


def repeated_words(sample: Sample) -> str | None:
    """Return a warning for texts of a row per word and subject."""
    if sample.is_text or sample.has_sequences or removed_forms(sample) is not None:
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
