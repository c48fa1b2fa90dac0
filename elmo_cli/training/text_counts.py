"""The words of a text, counted before the first step."""

import json
import logging
from collections import Counter
from typing import NamedTuple

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import counted
from elmo_cli.model.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_cli.training.training_text import TrainingRecord, TrainingText

logger = logging.getLogger(__name__)


class TextCounts(NamedTuple):
    """Result of `count_text`."""

    n_tokens: int
    """Number of tokens to train on."""
    words: list[str]
    """Special tokens and the most frequent words."""
    validation_lines: list[str]
    """Lines of the validation share."""


def count_text(training_text: TrainingText, n_words: int | None) -> TextCounts:
    """Count the tokens of a text, and collect its validation lines.

    The result has at most `n_words` words, or none if `n_words` is None.
    """
    logger.info("Counting the tokens of %s", counted(len(training_text.paths), "file"))
    words: Counter[str] = Counter()
    validation_lines: list[str] = []
    n_sentences = 0
    for path in training_text.paths:
        for record in training_text.read_file(path):
            if record.sentences and training_text.is_validation(record.text):
                validation_lines += _validation_lines(
                    record, is_plain=training_text.is_plain
                )
            else:
                n_sentences += len(record.sentences)
                for sentence in record.sentences:
                    words.update(sentence)
    if n_sentences == 0:
        raise InputError(f"{training_text.names}: no sentence to train on")
    if training_text.validation_share and not validation_lines:
        raise _no_validation_line_error(training_text.validation_share, n_sentences)
    n_tokens = words.total()
    logger.info(
        "%s, %s, %s",
        counted(n_sentences, "sentence"),
        counted(n_tokens, "token"),
        counted(len(words), "word"),
    )
    if n_words is None:
        return TextCounts(n_tokens, words=[], validation_lines=validation_lines)
    frequent = [word for word, _ in words.most_common(n_words)]
    with_line = [word for word in frequent if Vocabulary.has_line_for(word)]
    chosen = [*SPECIAL_TOKENS, *with_line][:n_words]
    return TextCounts(n_tokens, words=chosen, validation_lines=validation_lines)


def _validation_lines(record: TrainingRecord, *, is_plain: bool) -> list[str]:
    """Return a line of text as it is, or another record as JSON lines of tokens."""
    if is_plain:
        return [record.text]
    return [json.dumps({"tokens": sentence}) for sentence in record.sentences]


def _no_validation_line_error(share: float, n_sentences: int) -> InputError:
    return InputError(
        "{--validation-share} {share}: no line chosen among {sentences}",
        remedy="Use a larger share or {--validation-file}.",
        share=share,
        sentences=counted(n_sentences, "sentence"),
    )
