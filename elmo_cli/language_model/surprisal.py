"""Surprisal of tokens, words, regions or sentences, in bits: -log2 of probabilities.

A token that is not in the vocabulary has the surprisal of `<UNK>`, which covers all
unknown words.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import overload

from elmo_cli.errors.checks import (
    check_at_least,
    check_choice,
    check_texts,
    list_texts,
)
from elmo_cli.language_model.frequencies import log_frequencies_of
from elmo_cli.language_model.frequency_file import read_frequencies
from elmo_cli.language_model.language_model import LanguageModel, check_language_model
from elmo_cli.language_model.surprisal_table import SurprisalTable, UnitSurprisal
from elmo_cli.language_model.units import ignore_marks
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, DIRECTIONS, Direction
from elmo_cli.options.surprisal import UNIT_KINDS, UnitKind
from elmo_cli.options.text import TextSettings
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.records.record import Record
from elmo_cli.records.record_of_text import record_of_text
from elmo_cli.records.words import record_of_words
from elmo_cli.text.choose_tokenizer import choose_tokenizer_of_strings, peek_strings
from elmo_cli.text.tokenizers import Tokenizer
from elmo_cli.types import Text

logger = logging.getLogger(__name__)


@overload
def measure_surprisal(  # type: ignore[overload-overlap] # a string is one text
    model: LanguageModel,
    texts: str,
    by: UnitKind = "token",
    *,
    direction: Direction = "forward",
    entropy: bool = False,
    frequencies: Mapping[str, float] | str | Path | None = None,
    tokenizer: str | None = AUTO,
    language: str | None = None,
    split_sentences: bool = False,
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> list[UnitSurprisal]: ...


@overload
def measure_surprisal(
    model: LanguageModel,
    texts: Iterable[Text],
    by: UnitKind = "token",
    *,
    direction: Direction = "forward",
    entropy: bool = False,
    frequencies: Mapping[str, float] | str | Path | None = None,
    tokenizer: str | None = AUTO,
    language: str | None = None,
    split_sentences: bool = False,
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> list[list[UnitSurprisal]]: ...


def measure_surprisal(
    model: LanguageModel,
    texts: str | Iterable[Text],
    by: UnitKind = "token",
    *,
    direction: Direction = "forward",
    entropy: bool = False,
    frequencies: Mapping[str, float] | str | Path | None = None,
    tokenizer: str | None = AUTO,
    language: str | None = None,
    split_sentences: bool = False,
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> list[UnitSurprisal] | list[list[UnitSurprisal]]:
    """Measure the surprisal of tokens, words, regions or sentences, in bits.

        for word in measure_surprisal(model, "The keys are here.", by="word"):
            print(word.text, word.surprisal)

    `elmo surprisal` prints the same values.

    Args:
        model: Language model.
        texts: One raw text, or several texts: strings, in which `|` separates regions,
            or lists of tokens. By word, the items of a list are words. They are joined
            to a text by spaces, unless one of them begins with a space.
        by: "token", "word" (split at white space), "region" or "sentence".
        direction: "forward" predicts each token from the tokens before it, "backward"
            from those after it, "both" does both, in this order.
        entropy: Measure the entropy where each unit begins.
        frequencies: Counts of words, from which `log_frequency` is computed: a mapping,
            or the path of a file with a word and its count per line. None estimates
            them from the ranks of words in the vocabulary.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" looks at the first 200 texts: tokenized
            ones are split at white space, and others are tokenized like the model's
            training text, else by "moses".
        language: Code of the language of the texts. None means the model's language.
        split_sentences: Process each sentence of a text on its own.
        batch_size: Sentences per batch; only matters with carried state.

    Returns:
        The units of a text: a list for one string, else one list per text.

    Raises:
        InputError: A text is neither a string nor a list of strings, its tokens cannot
            be aligned with its words or regions, or `frequencies` are not counts.
        SettingsError: Another argument has a wrong value.
    """
    check_language_model(model)
    measured = list(
        iter_surprisal(
            model,
            list_texts(texts),
            by,
            direction=direction,
            entropy=entropy,
            frequencies=frequencies,
            tokenizer=tokenizer,
            language=language,
            split_sentences=split_sentences,
            batch_size=batch_size,
        )
    )
    return measured[0] if isinstance(texts, str) else measured


def iter_surprisal(
    model: LanguageModel,
    texts: Iterable[Text],
    by: UnitKind = "token",
    *,
    direction: Direction = "forward",
    entropy: bool = False,
    frequencies: Mapping[str, float] | str | Path | None = None,
    tokenizer: str | None = AUTO,
    language: str | None = None,
    split_sentences: bool = False,
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> Iterator[list[UnitSurprisal]]:
    """Measure the surprisal of a stream of texts, one window of texts at a time.

        with open("texts.txt") as texts:
            for units in iter_surprisal(model, texts, by="word"):
                print([(unit.text, unit.surprisal) for unit in units])

    Args:
        model: Language model.
        texts: Strings or lists of tokens, read as they are needed.
        by: "token", "word" (split at white space), "region" or "sentence".
        direction: "forward" predicts each token from the tokens before it, "backward"
            from those after it, "both" does both, in this order.
        entropy: Measure the entropy where each unit begins.
        frequencies: Counts of words, from which `log_frequency` is computed: a mapping,
            or the path of a file with a word and its count per line. None estimates
            them from the ranks of words in the vocabulary.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" looks at the first text: a tokenized one
            means that all are split at white space, and otherwise they are tokenized
            like the model's training text, else by "moses".
        language: Code of the language of the texts. None means the model's language.
        split_sentences: Process each sentence of a text on its own.
        batch_size: Sentences per batch; only matters with carried state.

    Returns:
        An iterator over the units of each text, in the order of the texts.

    Raises:
        InputError: As in `measure_surprisal`; for a text when it is read.
        SettingsError: Another argument has a wrong value.
    """
    check_language_model(model)
    check_choice("by", by, UNIT_KINDS)
    check_choice("direction", direction, DIRECTIONS)
    check_at_least("batch_size", batch_size, 1)
    settings = TextSettings(
        tokenizer=tokenizer, language=language, split_sentences=split_sentences
    )
    strings, texts = peek_strings(texts)
    chosen = choose_tokenizer_of_strings(strings, settings, model.files)
    if by == "region":
        chosen = ignore_marks(chosen)
    table = SurprisalTable(
        unit=by,
        direction=direction,
        entropy=entropy,
        log_frequencies=_log_frequencies(frequencies),
    )
    records = (_record(text, by, chosen) for text in check_texts(texts))
    return (scored.result for scored in table.measure(model, records, batch_size))


def _log_frequencies(
    frequencies: Mapping[str, float] | str | Path | None,
) -> dict[str, float] | None:
    """Return log frequencies from counts of words, or from the file of them."""
    if frequencies is None:
        return None
    if isinstance(frequencies, (str, Path)):
        read = read_frequencies(frequencies)
        warning = read.warning(frequencies)
        if warning is not None:
            logger.warning("%s", warning)
        return read.log_frequencies
    return log_frequencies_of(frequencies)


def _record(text: Text, by: UnitKind, tokenizer: Tokenizer) -> Record:
    if isinstance(text, str):
        return record_of_text(text, tokenizer)
    if by == "word":
        return record_of_words(text, tokenizer)
    return Record(" ".join(text), text)
