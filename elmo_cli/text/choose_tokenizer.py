"""Choice of a tokenizer: the only way from options and texts to a tokenizer."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Literal, TypeVar, overload

from elmo_cli.errors.checks import check_batch, check_type
from elmo_cli.errors.messages import Message
from elmo_cli.options.text import TextSettings
from elmo_cli.options.tokenizer_names import AUTO, parse_tokenizer_name
from elmo_cli.pretrained.registry import language_code, language_name
from elmo_cli.text.evidence import EVIDENCE_LINES, Evidence, find_evidence
from elmo_cli.text.tokenizers import (
    WHITESPACE,
    Tokenizer,
    has_moses_rules,
    make_tokenizer,
)
from elmo_cli.types import Sentence

if TYPE_CHECKING:  # `elmo --help` starts faster without numpy.
    from elmo_cli.pretrained.model_files import ModelFiles

logger = logging.getLogger(__name__)

_Text = TypeVar("_Text")
Content = Literal["tokens", "lines", "texts", "strings"]
"""What is tokenized:

tokens    tokens of CoNLL-U and FASTA, and those in a column `tokens`
lines     lines of a text file
texts     texts in tables, texts that were typed, and lines whose words are measured
strings   strings that Python code passes
"""

_MANY_LANGUAGES: Final = "xx"
"""Code of spaCy for rules of no language."""


def choose_tokenizer(
    settings: TextSettings,
    content: Content,
    texts: Iterable[str] = (),
    *,
    trained: str | None = None,
    model_language: str | None = None,
) -> Tokenizer:
    """Return the tokenizer of a text, with what decided, and perhaps a warning.

    The first rule that applies decides:

    1. The tokenizer that the user names.
    2. Tokens are never changed: white space.
    3. With `auto`, the evidence in the first texts: white space if they are tokenized,
       and if they are raw, the tokenizer of the model's training, else moses.
    4. Lines: that of the model's training, else white space. Texts and strings: that
       of the model's training, else moses.

    If the user names a language, the tokenizer of the training is only used for
    strings. A tokenizer whose name has no language gets that of the settings, or else
    of the model, or else English.

    Args:
        settings: Options of the text, of which the tokenizer, the language and
            `split_sentences` count.
        content: What is tokenized.
        texts: First lines or texts of the input, of which `EVIDENCE_LINES` are read.
        trained: Name of the tokenizer of the model's training. None if it is not known.
        model_language: Code of the model's language. None if it is not known.
    """
    evidence: Evidence | None = None
    if settings.tokenizer == AUTO and content != "tokens":
        evidence = find_evidence(islice(texts, EVIDENCE_LINES))
    name = _choose_name(settings, content, evidence=evidence, trained=trained)
    tokenizer = make_tokenizer(
        name,
        language=settings.language or model_language,
        split_sentences=settings.split_sentences,
    )
    choice = ""
    if not settings.names_tokenizer:
        choice = _reason_of_choice(tokenizer, evidence, trained)
    if evidence != "tokenized" and _differs_from_training(tokenizer, settings, trained):
        warning: Message | None = Message(
            "the model was trained with {--tokenizer} {trained}, not {name}",
            trained=trained,
            name=tokenizer.name,
        )
    else:
        warning = _warning_of_language(tokenizer, settings, model_language)
    return replace(tokenizer, choice=choice, warning=warning)


def _choose_name(
    settings: TextSettings,
    content: Content,
    *,
    evidence: Evidence | None,
    trained: str | None,
) -> str:
    """Return the name of the tokenizer by the rules of `choose_tokenizer`.

    `evidence` is None if it was not looked for, or if there was none.
    """
    if settings.tokenizer is not None and settings.names_tokenizer:
        return settings.tokenizer  # rule 1
    if content == "tokens":
        return WHITESPACE.name  # rule 2
    if evidence == "tokenized":
        return WHITESPACE.name  # rule 3
    # From here on, the text is raw (rule 3), or nothing is known about it (rule 4).
    if trained is not None and (settings.language is None or content == "strings"):
        return trained
    if content == "lines" and evidence is None:
        return WHITESPACE.name
    return "moses"


def choose_tokenizer_of_strings(
    texts: Iterable[object], settings: TextSettings, files: "ModelFiles"
) -> Tokenizer:
    """Return the tokenizer of the strings among texts for a model.

    Its warning is logged. `settings` is that of `choose_tokenizer`.
    """
    tokenizer = choose_tokenizer(
        settings,
        "strings",
        strings_in(texts),
        trained=files.tokenizer,
        model_language=files.language,
    )
    log_tokenizer_warning(tokenizer)
    return tokenizer


@overload
def tokenize(  # type: ignore[overload-overlap] # a string is one text
    texts: str, *, tokenizer: str | None = AUTO, language: str | None = None
) -> Sentence: ...


@overload
def tokenize(
    texts: Iterable[str], *, tokenizer: str | None = AUTO, language: str | None = None
) -> list[Sentence]: ...


def tokenize(
    texts: str | Iterable[str],
    *,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> Sentence | list[Sentence]:
    """Split texts into tokens.

        tokenize("We don't know.")  # ["We", "don", "'t", "know", "."]

    "moses" and "spacy" normalize typographic quotes, dashes and the ellipsis first.
    Nothing is escaped.

    Args:
        texts: One text, or several.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" looks at the first 200 texts: tokenized
            ones are split at white space, and others by "moses".
        language: Code of the language of the texts. None means English.

    Returns:
        The tokens of the text: one list for a string, else a list of lists.

    Raises:
        InputError: A text is not a string.
        SettingsError: The tokenizer is unknown.
        ElmoError: The tokenizer is not installed.
    """
    listed = [texts] if isinstance(texts, str) else list(_check_strings(texts))
    settings = TextSettings(tokenizer=tokenizer, language=language)
    chosen = choose_tokenizer(settings, "strings", listed)
    tokenized = [chosen.tokenize(text) for text in listed]
    return tokenized[0] if isinstance(texts, str) else tokenized


def _check_strings(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts of a batch; raise an `InputError` for one that is no string."""
    for index, text in enumerate(check_batch(texts, "texts", "a string or a list")):
        check_type(f"texts[{index}]", text, str, "a string")
        yield text


def log_tokenizer_warning(tokenizer: Tokenizer) -> None:
    """Log that a tokenizer or its language does not fit the model, if so."""
    if tokenizer.warning is not None:
        logger.warning("%s", tokenizer.warning)


def raw_or_all(sentences: Sequence[str]) -> Sequence[str]:
    """Return the raw ones among typed sentences, or all if none is raw.

    They decide how all are tokenized, because "bank" is found in "the bank ." by any
    tokenizer, but not in "the bank." between spaces.
    """
    raw = [text for text in sentences if find_evidence([text]) == "raw"]
    return raw or sentences


def strings_in(texts: Iterable[object]) -> Iterator[str]:
    """Yield the strings among the first texts of a batch, without lists of tokens."""
    for text in islice(texts, EVIDENCE_LINES):
        if isinstance(text, str):
            yield text


def peek_strings(texts: Iterable[_Text]) -> tuple[list[str], Iterable[_Text]]:
    """Return the strings among the first texts, and all texts again.

    Of a stream, only the first text is read. Raise an `InputError` for no batch.
    """
    texts = check_batch(texts, "texts")
    if not isinstance(texts, Iterator):
        return list(strings_in(texts)), texts
    first = list(islice(texts, 1))
    return list(strings_in(first)), chain(first, texts)


def tokenizer_of_tokens(settings: TextSettings, tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer of text in a column `tokens`, with tokens between spaces.

    The user may name another one. `tokenizer` is the one of the other texts.
    """
    name = WHITESPACE.name
    if settings.tokenizer is not None and settings.names_tokenizer:
        name = settings.tokenizer
    return make_tokenizer(
        name,
        language=settings.language or tokenizer.splits_by,
        split_sentences=settings.split_sentences,
    )


def _reason_of_choice(
    tokenizer: Tokenizer, evidence: Evidence | None, trained: str | None
) -> str:
    """Return how the text or the model's training has decided for a tokenizer."""
    if tokenizer.name == trained:
        return f"{trained}, as in the model's training"
    if evidence is None:
        return ""
    name = tokenizer.name.removesuffix(":en")
    return f"{name}, because the text is {evidence}"


def _differs_from_training(
    tokenizer: Tokenizer, settings: TextSettings, trained: str | None
) -> bool:
    """Return whether the user has chosen another tokenizer than the model's."""
    if trained is None or not settings.chooses_tokenizer:
        return False
    return tokenizer.name != trained


def _warning_of_language(
    tokenizer: Tokenizer, settings: TextSettings, model_language: str | None
) -> Message | None:
    """Return a warning if a text is in another language than the model's, if known."""
    named_parts = parse_tokenizer_name(tokenizer.name)
    named = named_parts.language or settings.language
    if named is None or model_language is None:
        return None
    code = language_code(named)
    if code in (model_language, _MANY_LANGUAGES):
        return None
    language = language_name(code)
    if language is None and named_parts.kind == "moses" and not has_moses_rules(code):
        return None  # The tokenizer has warned of it.
    remedy = None
    if language is not None:
        remedy = "`elmo models --language {code}` lists models for {language}."
    return Message(
        "the model was trained on {trained_on}, not {language} ({code})",
        remedy=remedy,
        trained_on=language_name(model_language) or model_language,
        language=language or "this language",
        code=code,
    )
