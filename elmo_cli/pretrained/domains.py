"""Domains of models: text of a language, or proteins."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from elmo_cli.pretrained.registry import published_model
from elmo_cli.text.entries import ORIGINAL_ID
from elmo_cli.text.records import Record, Sentence

logger = logging.getLogger(__name__)

PROTEINS: Final = "proteins"
"""Language of `PublishedModel` for proteins."""
_RESIDUES: Final = frozenset("ABCDEFGHIKLMNOPQRSTUVWXYZ*-")
_MIN_TOKENS: Final = 20
_SAMPLE_TOKENS: Final = 1000
"""Number of tokens at the beginning of an input that `warn_about_domain` checks."""
_MIN_SHARE: Final = 0.9
"""Minimum share of residues among the tokens of proteins."""


def warn_about_domain(records: Iterable[Record], model: str) -> Iterator[Record]:
    """Yield the records. Log a warning for proteins with a model of text, or the reverse.

    The domain is known of published models only.
    """
    published = published_model(model)
    tokens: Sentence = []
    is_fasta = False
    records = iter(records)
    for record in records if published else ():
        yield record
        tokens += record.tokens
        is_fasta |= ORIGINAL_ID in record.attributes
        if len(tokens) >= _SAMPLE_TOKENS:
            break
    if published and tokens and (is_fasta or len(tokens) >= _MIN_TOKENS):
        _warn(tokens, model, published.language)
    yield from records


def _warn(tokens: Sentence, model: str, language: str) -> None:
    is_proteins = sum(token in _RESIDUES for token in tokens) >= _MIN_SHARE * len(tokens)
    if is_proteins and language != PROTEINS:
        logger.warning(
            "Warning: the input seems to be proteins, but the model %s was trained on %s text. "
            "--model seqvec was trained on proteins.",
            *(model, language),
        )
    elif language == PROTEINS and not is_proteins:
        logger.warning(
            "Warning: the input seems to be text, but the model %s was trained on proteins. "
            "--model original was trained on English text.",
            model,
        )
