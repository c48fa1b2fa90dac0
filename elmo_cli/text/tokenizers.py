"""Tokenizers: from raw text to tokens.

whitespace    for text that is already tokenized
residues      for proteins: every letter is a token, in upper case, without white space
moses         Moses' rules of a language; ELMo's training data was tokenized by them
spacy         spaCy's rules of a language (extra `spacy`); in Chinese every character is
              a token, unless a segmenter is named, as in spacy:zh:jieba

The last two normalize typographic marks first, as Moses' normalize-punctuation does:
see `MARKS`. A name that ends in `:verbatim` keeps them.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from elmo_cli.errors.checks import check_texts
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Message, Template, option_named
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line
from elmo_cli.options.tokenizer_names import (
    OWN_MARKS,
    VERBATIM,
    parse_tokenizer_name,
)
from elmo_cli.pretrained.registry import language_code
from elmo_cli.text.sentences import load_splitter, split_into_sentences
from elmo_cli.types import Sentence

if TYPE_CHECKING:
    from sacremoses import MosesTokenizer

logger = logging.getLogger(__name__)

_WITH_LETTERS: Final = ("cjk", "ja", "ko")
"""Languages whose letters Moses knows, without rules."""
_QUOTES: Final = {**dict.fromkeys("‘’‚´", "'"), **dict.fromkeys("“”„«»", '"')}
MARKS: Final = str.maketrans({**_QUOTES, "–": "-", "—": " -- ", "…": "..."})
"""Plain forms of quotes, apostrophes, dashes and the ellipsis.

They are those of Moses' normalize-punctuation, but for two rules of the 1 Billion Word
Benchmark: `'` is the only single quote, where Moses writes one that is not between two
letters as `"`, and a dash between words is `--`. Moses' other rules, for white space,
ASCII and the order of marks, are left out, so that each word is normalized by itself,
and ASCII stays as it is.
"""
_DASH_BETWEEN_WORDS: Final = re.compile(r"(?<!\S)–(?!\S)")
_NORMALIZATION: Final = "moses-2"
"""Name in outputs of the rules of `normalize`. `moses` wrote each dash as `-`."""


def normalize(text: str) -> str:
    """Replace the typographic marks of a text by their plain forms; see `MARKS`."""
    return _DASH_BETWEEN_WORDS.sub("—", text).translate(MARKS)


@dataclass(frozen=True)
class Tokenizer:
    """Tokenizer, and optionally a splitter of text into sentences."""

    name: str = "whitespace"
    """Name with the language, such as `moses:fr`."""
    tokenize: Callable[[str], list[str]] = str.split
    """Function that splits a sentence into tokens."""
    splits_by: str | None = None
    """Language whose rules split a text into sentences. None does not split."""
    normalization: str | None = None
    """`moses-2` if `MARKS` are normalized first."""
    clean: Callable[[str], str] | None = field(default=None, compare=False)
    """Function that removes marks, such as those of regions, before a text is split
    into sentences. `tokenize` removes them too."""
    choice: str = field(default="", compare=False)
    """What decided, if the user did not: `moses, because the text is raw`."""
    warning: Message | None = field(default=None, compare=False)
    """Warning that it or its language does not fit the model."""

    def to_attributes(self) -> dict[str, str]:
        """Return the attributes of an output file that name the tokenizer."""
        attributes: dict[str, str] = {}
        if self.name != "whitespace":
            attributes["tokenizer"] = self.name.removesuffix(f":{VERBATIM}")
        if self.normalization is not None:
            attributes["normalization"] = self.normalization
        if self.splits_by is not None:
            attributes["split_sentences"] = self.splits_by
        return attributes

    def split_sentences(self, text: str) -> list[str]:
        """Split a text into sentences; without `splits_by`, it is the only one."""
        if self.splits_by is None:
            return [text]
        if self.clean is not None:
            text = self.clean(text)
        return split_into_sentences(text, language=self.splits_by)

    def tokenize_sentences(self, text: str) -> list[list[str]]:
        """Split a text into sentences, and each sentence into tokens."""
        return [self.tokenize(sentence) for sentence in self.split_sentences(text)]


WHITESPACE: Final = Tokenizer()


@lru_cache(maxsize=8)  # spaCy is slow to load.
def make_tokenizer(
    name: str, language: str | None = None, *, split_sentences: bool = False
) -> Tokenizer:
    """Make a tokenizer from its name, such as `moses`, `spacy:de` or `spacy:zh:jieba`.

    Args:
        name: Kind of tokenizer, perhaps with a language.
        language: Language of a name that has none: its code, or its name if a published
            model is for it. None means English.
        split_sentences: Also split texts into sentences, by the rules of the language.
    """
    parts = parse_tokenizer_name(name)
    code = language_code(parts.language or language or "en")
    if not re.fullmatch("[a-z]{2,3}", code):
        raise SettingsError(
            "{--language}: expected a language such as fr or French, found {code}",
            remedy="`elmo models` lists the languages.",
            code=repr(code),
        )
    splits_by = None
    if split_sentences:
        load_splitter()
        splits_by = code
    if parts.kind == "whitespace":
        return Tokenizer(splits_by=splits_by)
    if parts.kind == "residues":
        return Tokenizer(parts.kind, split_residues, splits_by=splits_by)
    if parts.kind == "spacy":
        function = _load_spacy(code, segmenter=parts.segmenter)
    else:
        function = _find_moses(code)
    full_name = f"{parts.kind}:{code}"
    if parts.segmenter is not None:
        full_name = f"{full_name}:{parts.segmenter}"
    if code in OWN_MARKS:
        return Tokenizer(full_name, function, splits_by=splits_by)
    if parts.is_verbatim:
        return Tokenizer(f"{full_name}:{VERBATIM}", function, splits_by=splits_by)
    return Tokenizer(
        full_name,
        partial(_normalize_first, function),
        splits_by=splits_by,
        normalization=_NORMALIZATION,
    )


def _normalize_first(function: Callable[[str], list[str]], text: str) -> list[str]:
    return function(normalize(text))


def tokenize_texts(
    texts: Iterable[object], tokenize: Callable[[str], Sentence], name: str = "texts"
) -> Iterator[Sentence]:
    """Return the tokens of each text of a batch or stream.

    A text is a string or a list of tokens. The batch is checked now, and each text when
    it is read. `name` names the argument in messages.
    """
    return (
        tokenize(text) if isinstance(text, str) else text
        for text in check_texts(texts, name)
    )


def split_residues(sequence: str) -> list[str]:
    """Split a sequence into its residues, in upper case, as SeqVec does.

    White space is removed.
    """
    return list("".join(sequence.split()).upper())


def has_moses_rules(language: str) -> bool:
    """Return whether Moses knows the language of a code."""
    from sacremoses.corpus import NonbreakingPrefixes

    return language in (*NonbreakingPrefixes().available_langs, *_WITH_LETTERS)


def _find_moses(language: str) -> Callable[[str], list[str]]:
    if language != "en" and not has_moses_rules(language):
        problem = "Moses has no rules for this language, so those of English are used"
        remedy = f"Check the code, or use spacy:{language} if spaCy supports it."
        logger.warning("tokenizer moses:%s: %s. %s", language, problem, remedy)
    return partial(_tokenize_by_moses, language)


def _tokenize_by_moses(language: str, text: str) -> list[str]:
    tokens: list[str] = _load_moses(language).tokenize(text, escape=False)
    return tokens


@cache
def _load_moses(language: str) -> "MosesTokenizer":
    """Load the rules of Moses when the first text needs them: it takes 0.2 s."""
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang=language)


def _load_spacy(
    language: str, segmenter: str | None = None
) -> Callable[[str], list[str]]:
    spacy = load_extra(Message(Template("{--tokenizer spacy}")), "spacy", "spacy")
    config = {}
    if segmenter is not None:
        config = {"nlp": {"tokenizer": {"segmenter": segmenter}}}
    try:
        if segmenter == "jieba":
            # It logs to standard error.
            import_module("jieba").setLogLevel(logging.WARNING)
        make_doc = spacy.blank(language, config=config).make_doc
    except ImportError as error:
        # The language, or a package that it needs, is missing.
        reason = first_line(error)
        problem = f"spaCy cannot make it: {reason}"
        remedy = None
        if "E048" in reason:
            problem = "spaCy does not support this language"
            remedy = "Check the code, or use moses."
        elif segmenter is not None and isinstance(error, ModuleNotFoundError):
            remedy = f"Install it with `pip install {segmenter}`."
        message = Message(
            "{option}: {problem}",
            remedy=remedy,
            option=option_named(f"--tokenizer spacy:{language}"),
            problem=problem,
        )
        raise SettingsError(message) from None
    return lambda text: [token.text for token in make_doc(text) if not token.is_space]
