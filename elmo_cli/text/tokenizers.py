"""Tokenizers: from raw text to tokens, and from running text to sentences.

whitespace    for text that is already tokenized
moses         the Moses rules of a language; ELMo's training data was tokenized by them
spacy         spaCy's rules of a language (extra `spacy`); in Chinese every character is a token,
              unless a segmenter is named, as in spacy:zh:jieba
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, Final

from elmo_cli.errors import SettingsError, first_line, load_extra

TOKENIZERS: Final = ("whitespace", "moses", "spacy")
_SEGMENTERS: Final = (["char"], ["jieba"])
"""Segmenters of Chinese that may follow `spacy:zh:`."""


@dataclass(frozen=True)
class Tokenizer:
    """Tokenizer, and optionally a splitter of text into sentences: see `make_tokenizer`."""

    name: str = "whitespace"
    """Name with the language, such as `moses:fr`."""
    tokenize: Callable[[str], list[str]] = str.split
    """Function that splits a sentence into tokens."""
    splits_by: str | None = None
    """Language whose rules split a text into sentences."""

    def to_attributes(self) -> dict[str, str]:
        """Return the attributes of an output file that name the tokenizer."""
        attributes = {} if self.name == "whitespace" else {"tokenizer": self.name}
        return attributes | ({"split_sentences": self.splits_by} if self.splits_by else {})

    def split_sentences(self, text: str) -> list[str]:
        """Split a text into sentences; without `splits_by`, it is the only one."""
        if self.splits_by is None:
            return [text]
        return list(filter(None, map(str.strip, _load_sentencex().segment(self.splits_by, text))))

    def tokenize_sentences(self, text: str) -> list[list[str]]:
        """Split a text into sentences, and each sentence into tokens."""
        return list(map(self.tokenize, self.split_sentences(text)))


WHITESPACE: Final = Tokenizer()


@lru_cache(maxsize=8)  # spaCy is slow to load.
def make_tokenizer(
    name: str, language: str | None = None, *, split_sentences: bool = False
) -> Tokenizer:
    """Make a tokenizer from its name, such as `moses`, `spacy:de` or `spacy:zh:jieba`.

    `language` is a code for names without one, English by default. Its rules split sentences.
    """
    kind, *codes = name.split(":")
    is_segmented = kind == "spacy" and codes[:1] == ["zh"] and codes[1:] in _SEGMENTERS
    if kind not in TOKENIZERS or len(codes) > (kind != "whitespace") + is_segmented:
        raise SettingsError(
            f"tokenizer {name!r}: expected {', '.join(TOKENIZERS)}, or a language with one of the "
            "last two, such as spacy:de, or spacy:zh with a segmenter, such as spacy:zh:jieba"
        )
    code = (codes[0] if codes else "") or language or "en"
    if not re.fullmatch("[a-z]{2,3}", code):
        raise SettingsError(f"language {code!r}: expected its code in ISO 639, such as fr")
    if split_sentences:
        _load_sentencex()
    splits_by = code if split_sentences else None
    if kind == "whitespace":
        return Tokenizer(splits_by=splits_by)
    if kind == "spacy":
        return Tokenizer(":".join([kind, code, *codes[1:]]), _spacy(code, *codes[1:]), splits_by)
    from sacremoses import MosesTokenizer

    function = partial(MosesTokenizer(lang=code).tokenize, escape=False)
    return Tokenizer(f"{kind}:{code}", function, splits_by)


def tokenize(text: str, tokenizer: str = "moses", language: str | None = None) -> list[str]:
    """Tokenize a sentence: `don't` becomes `don` and `'t`. Nothing is escaped.

    Args:
        text: list[str].
        tokenizer: `moses`, `spacy` or `whitespace`.
        language: Language code of the sentence; English by default.

    Raises:
        ElmoError: the tokenizer is unknown or not installed.
    """
    return make_tokenizer(tokenizer, language).tokenize(text)


def _spacy(language: str, segmenter: str | None = None) -> Callable[[str], list[str]]:
    spacy = load_extra("tokenizer spacy", "spacy", "spacy")
    settings = {"nlp": {"tokenizer": {"segmenter": segmenter}}} if segmenter else {}
    try:
        if segmenter == "jieba":
            import_module("jieba").setLogLevel(logging.WARNING)  # It logs to standard error.
        make_doc = spacy.blank(language, config=settings).make_doc
    except ImportError as error:  # The language, or a package that it needs, is missing.
        reason = first_line(error)
        if segmenter is not None and isinstance(error, ModuleNotFoundError):
            reason += f". Install it with `pip install {segmenter}`."
        raise SettingsError(f"tokenizer spacy:{language}: spaCy cannot make it: {reason}") from None
    return lambda text: [token.text for token in make_doc(text) if not token.is_space]


def _load_sentencex() -> Any:
    return load_extra("--split-sentences", "sentencex", "sentences")
