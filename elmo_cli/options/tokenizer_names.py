"""Names of tokenizers, as options take them and as files and models record them.

A name is a kind, perhaps with the code of a language: `moses`, `spacy:de`. Chinese may
have a segmenter, as in `spacy:zh:jieba`. The ending `:verbatim` keeps typographic
marks, which `moses` and `spacy` otherwise normalize. `auto` is no tokenizer: it says
that the text decides.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.wording import listed

AUTO: Final = "auto"
"""Name for the tokenizer that the marks in a text ask for."""
TOKENIZERS: Final = ("whitespace", "moses", "spacy", "residues")
WITH_LANGUAGE: Final = ("moses", "spacy")
"""Tokenizers that have the rules of a language, and normalize marks."""
OWN_MARKS: Final = ("ja", "zh")
"""Languages in which some of the normalized marks are marks of their own."""
VERBATIM: Final = "verbatim"
_SEGMENTERS: Final = ("char", "jieba")
"""Segmenters of Chinese, which spaCy has."""


class TokenizerName(NamedTuple):
    """Name of a tokenizer in its parts."""

    kind: str
    language: str | None = None
    segmenter: str | None = None
    is_verbatim: bool = False


def parse_tokenizer_name(name: str) -> TokenizerName:
    """Split a name into its parts; raise a `SettingsError` if it is unknown."""
    kind, *codes = name.split(":")
    is_verbatim = kind != "whitespace" and codes[-1:] == [VERBATIM]
    if is_verbatim:
        codes.pop()
    segmenter = None
    is_chinese = kind == "spacy" and codes[:1] == ["zh"]
    if is_chinese and len(codes) == 2 and codes[1] in _SEGMENTERS:
        segmenter = codes.pop()
    max_codes = 1 if kind in WITH_LANGUAGE else 0
    if kind not in TOKENIZERS or len(codes) > max_codes:
        raise SettingsError(
            "{--tokenizer}: expected {names}, found {name}",
            remedy="moses and spacy may have a language, such as spacy:de, and "
            "spacy:zh a segmenter, such as spacy:zh:jieba.",
            name=repr(name),
            names=listed([AUTO, *TOKENIZERS], "or"),
        )
    language = codes[0] if codes else None
    return TokenizerName(
        kind, language=language or None, segmenter=segmenter, is_verbatim=is_verbatim
    )


def recorded_tokenizer(attributes: Mapping[str, object]) -> str | None:
    """Return the name of the tokenizer in the attributes of a file or model, if any.

    Older versions normalized no marks, and recorded no normalization.
    """
    name = attributes.get("tokenizer")
    if not isinstance(name, str):
        return None
    kind, *codes = name.split(":")
    never_normalizes = kind not in WITH_LANGUAGE or any(
        code in OWN_MARKS for code in codes
    )
    if never_normalizes or "normalization" in attributes:
        return name
    return f"{name}:{VERBATIM}"
