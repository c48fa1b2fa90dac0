"""Raw text to tokens, and running text to sentences.

whitespace    what white space separates: for text that is tokenized already
moses         the Moses rules of a language, as ELMo's training text was tokenized
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
from elmo_cli.text.lines import Record, Sentence, open_lines

logger = logging.getLogger(__name__)

TOKENIZERS: Final = ("whitespace", "moses", "spacy")
DEFAULT_LANGUAGE: Final = "en"
"""Where neither the caller nor the model names one."""

_MARKS: Final = tuple('.,;:!?"')
_SAMPLE_TOKENS: Final = 1000
"""Tokens at the beginning of a text that `watched` looks at."""
_MAX_ATTACHED: Final = 0.05
"""Share of them that may end in such a mark: abbreviations do."""
_MAX_SHOWN: Final = 3


@dataclass(frozen=True)
class Tokenizer:
    """Cuts a text into sentences, and a sentence into tokens; see `make_tokenizer`."""

    name: str = "whitespace"
    """With its language, such as `moses:fr`."""
    cut: Callable[[str], Sentence] = str.split
    splits_by: str | None = None
    """The language by whose rules texts are split into sentences; None does not split them."""

    def settings(self) -> dict[str, str]:
        """The attributes of an output that name it; none where white space separates tokens."""
        return {
            **({} if self.name == "whitespace" else {"tokenizer": self.name}),
            **({"split_sentences": self.splits_by} if self.splits_by else {}),
        }

    def sentences(self, text: str) -> list[str]:
        """The sentences of a text without white space at their ends; not split, the text alone."""
        if self.splits_by is None:
            return [text]
        found = (sentence.strip() for sentence in _load_sentencex().segment(self.splits_by, text))
        return [sentence for sentence in found if sentence]

    def cut_all(self, text: str) -> list[Sentence]:
        """The tokens of each sentence of a text."""
        return list(map(self.cut, self.sentences(text)))


WHITESPACE: Final = Tokenizer()


@lru_cache(maxsize=8)  # spaCy takes a while
def make_tokenizer(
    name: str, language: str | None = None, *, split_sentences: bool = False
) -> Tokenizer:
    """Make a tokenizer.

    Args:
        name: one of `TOKENIZERS`; `:` and the code of a language may follow, as in `spacy:de`.
        language: the code, where the name has none; English if not given either.
        split_sentences: split texts into sentences, by the rules of that language.
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
    cut = _moses(code) if kind == "moses" else _spacy(code)
    return Tokenizer(f"{kind}:{code}", cut, splits_by)


def tokenize(text: str, tokenizer: str = "moses", language: str | None = None) -> Sentence:
    """Tokenize a sentence: `don't` becomes `don` and `'t`, nothing is escaped.

    Args:
        text: the sentence.
        tokenizer: `moses`, `spacy` or `whitespace`.
        language: the code of its language; English if not given.

    Raises:
        ElmoError: there is no such tokenizer, or it is not installed.
    """
    return make_tokenizer(tokenizer, language).cut(text)


def _moses(language: str) -> Callable[[str], Sentence]:
    from sacremoses import MosesTokenizer

    return partial(MosesTokenizer(lang=language).tokenize, escape=False)


def _spacy(language: str) -> Callable[[str], Sentence]:
    spacy = load_extra("tokenizer spacy", "spacy", "spacy")
    try:
        make_doc = spacy.blank(language).make_doc
    except ImportError as error:  # of the language, or of a package that it takes
        reason = first_line(error)
        raise InputError(f"tokenizer spacy:{language}: spaCy cannot make it: {reason}") from None
    return lambda text: [token.text for token in make_doc(text) if not token.is_space]


def _load_sentencex() -> Any:
    return load_extra("--split-sentences", "sentencex", "sentences")


def read_sentences(path: str | Path, tokenizer: Tokenizer = WHITESPACE) -> Iterator[Sentence]:
    """The sentences of a text file, as lists of tokens; see `read_lines`."""
    with open_lines(path) as (lines, _):
        for line in lines:
            yield from tokenizer.cut_all(line)


def watched(records: Iterable[Record]) -> Iterator[Record]:
    """The same records; one warning where white space seems to be the wrong tokenizer."""
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
            " ".join(attached[:_MAX_SHOWN]),
        )
    yield from records
