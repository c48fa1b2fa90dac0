"""What a model and a command expect of an input."""

from typing import Final, NamedTuple

from elmo_cli.model.token_limit import TokenLimit
from elmo_cli.pretrained.registry import published_model

PROTEINS: Final = "proteins"
"""Language of a model that was trained on proteins."""


class Expected(NamedTuple):
    """Input that a model and a command expect. The defaults describe unknown ones."""

    token_limit: TokenLimit | None = None
    model: str = ""
    language: str | None = None
    """Language of a published model's training, such as English, or `PROTEINS`."""
    may_have_regions: bool = False
    """True if the command measures regions, which `|` separates."""
    splits_regions: bool = False
    """True if the command splits each text into regions."""
    may_split_sentences: bool = True
    """True if the command can split texts into sentences."""
    may_be_empty: bool = False
    """True if an input without tokens is no error, because others have some."""
    may_lack_tokens: bool = False
    """True if a text without tokens has a result, such as the first word."""
    may_lack_rows: bool = True
    """True if a table with a header and no rows is no error, as in a pipeline."""


UNKNOWN: Final = Expected()


def expected_input(model: str, token_limit: TokenLimit | None) -> Expected:
    """Return the input that a model expects.

    Its language is known of published models only.
    """
    published = published_model(model)
    language = None if published is None else published.language
    return Expected(token_limit, model, language)
