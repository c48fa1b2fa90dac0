"""Tokenizers: from raw text to tokens, and from running text to sentences.

whitespace    for text that is already tokenized
moses         the Moses rules of a language; ELMo's training data was tokenized by them
spacy         spaCy's rules of a language (extra `spacy`)
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from elmo_cli.errors import InputError, first_line, load_extra
from elmo_cli.text.lines import open_lines
from elmo_cli.text.records import Record, Sentence

logger = logging.getLogger(__name__)

TOKENIZERS: Final = ("whitespace", "moses", "spacy")
DEFAULT_LANGUAGE: Final = "en"
"""Language if neither the caller nor the model names one."""

_MARKS: Final = tuple('.,;:!?"')
_SAMPLE_TOKENS: Final = 1000
"""Number of tokens at the beginning of a text that `warn_about_tokenizer` checks."""
_MAX_ATTACHED: Final = 0.05
"""Share of these tokens that may end in a mark, as abbreviations do."""
_MAX_EXAMPLES: Final = 3


@dataclass(frozen=True)
class Tokenizer:
    """Tokenizer, and optionally a splitter of text into sentences: see `make_tokenizer`."""

    name: str = "whitespace"
    """Name with the language, such as `moses:fr`."""
    tokenize: Callable[[str], Sentence] = str.split
    """Function that splits a sentence into tokens."""
    splits_by: str | None = None
    """Language whose rules split a text into sentences; None does not split it."""

    def to_attributes(self) -> dict[str, str]:
        """Return the attributes of an output file that name the tokenizer."""
        return {
            **({} if self.name == "whitespace" else {"tokenizer": self.name}),
            **({"split_sentences": self.splits_by} if self.splits_by else {}),
        }

    def split_sentences(self, text: str) -> list[str]:
        """Split a text into sentences without whitespace at their ends.

        Without `splits_by`, the text is the only sentence.
        """
        if self.splits_by is None:
            return [text]
        found = (sentence.strip() for sentence in _load_sentencex().segment(self.splits_by, text))
        return [sentence for sentence in found if sentence]

    def tokenize_sentences(self, text: str) -> list[Sentence]:
        """Split a text into sentences, and each sentence into tokens."""
        return list(map(self.tokenize, self.split_sentences(text)))


WHITESPACE: Final = Tokenizer()


@lru_cache(maxsize=8)  # spaCy is slow to load.
def make_tokenizer(
    name: str, language: str | None = None, *, split_sentences: bool = False
) -> Tokenizer:
    """Make a tokenizer.

    Args:
        name: One of `TOKENIZERS`. Append a language code to the last two, as in `spacy:de`.
        language: Language code if the name has none; English by default.
        split_sentences: Split texts into sentences by the rules of that language.
    """
    kind, _, code = name.partition(":")
    if kind not in TOKENIZERS or name.startswith("whitespace:"):
        raise InputError(
            f"tokenizer {name!r}: expected {', '.join(TOKENIZERS)}, or a language with one of the "
            "last two, such as spacy:de"
        )
    code = code or language or DEFAULT_LANGUAGE
    if not re.fullmatch("[a-z]{2,3}", code):
        raise InputError(f"language {code!r}: expected its code in ISO 639, such as fr")
    if split_sentences:
        _load_sentencex()
    splits_by = code if split_sentences else None
    if kind == "whitespace":
        return Tokenizer(splits_by=splits_by)
    function = _moses(code) if kind == "moses" else _spacy(code)
    return Tokenizer(f"{kind}:{code}", function, splits_by)


def tokenize(text: str, tokenizer: str = "moses", language: str | None = None) -> Sentence:
    """Tokenize a sentence: `don't` becomes `don` and `'t`. Nothing is escaped.

    Args:
        text: Sentence.
        tokenizer: `moses`, `spacy` or `whitespace`.
        language: Language code of the sentence; English by default.

    Raises:
        ElmoError: the tokenizer is unknown or not installed.
    """
    return make_tokenizer(tokenizer, language).tokenize(text)


def _moses(language: str) -> Callable[[str], Sentence]:
    from sacremoses import MosesTokenizer

    return partial(MosesTokenizer(lang=language).tokenize, escape=False)


def _spacy(language: str) -> Callable[[str], Sentence]:
    spacy = load_extra("tokenizer spacy", "spacy", "spacy")
    try:
        make_doc = spacy.blank(language).make_doc
    except ImportError as error:  # The language, or a package that it needs, is missing.
        reason = first_line(error)
        raise InputError(f"tokenizer spacy:{language}: spaCy cannot make it: {reason}") from None
    return lambda text: [token.text for token in make_doc(text) if not token.is_space]


def _load_sentencex() -> Any:
    return load_extra("--split-sentences", "sentencex", "sentences")


def read_sentences(path: str | Path, tokenizer: Tokenizer = WHITESPACE) -> Iterator[Sentence]:
    """Yield the sentences of a text file as lists of tokens: see `read_lines`."""
    with open_lines(path) as (lines, _):
        for line in lines:
            yield from tokenizer.tokenize_sentences(line)


def warn_about_tokenizer(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records. Log a warning if whitespace seems to be the wrong tokenizer."""
    n_tokens, attached = 0, list[str]()
    records = iter(records)
    for record in records:
        yield record
        n_tokens += len(record.tokens)
        attached += [token for token in record.tokens if token[:-1] and token.endswith(_MARKS)]
        if n_tokens >= _SAMPLE_TOKENS:
            break
    if len(attached) > _MAX_ATTACHED * n_tokens:
        logger.warning(
            "Warning: %s of the first %s tokens end in punctuation (%s), which becomes part of the "
            "word; --tokenizer moses splits it off",
            f"{len(attached):,}",
            f"{n_tokens:,}",
            " ".join(attached[:_MAX_EXAMPLES]),
        )
    yield from records
