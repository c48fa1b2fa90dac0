"""Prediction of the word after a text, before it, or in a gap of it."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple, overload

import torch
from torch import Tensor

from elmo_cli.errors.checks import check_at_least, check_choice, check_flag, list_texts
from elmo_cli.inference.batching import BATCH_TOKENS, split_by_size
from elmo_cli.language_model.candidates import Candidate, most_probable
from elmo_cli.language_model.gaps import GAP, check_gaps, cut_around_gaps, fill_gaps
from elmo_cli.language_model.language_model import LanguageModel, check_language_model
from elmo_cli.model.vocabulary import UNKNOWN_TOKEN
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.options.text import TextSettings
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.text.choose_tokenizer import choose_tokenizer_of_strings
from elmo_cli.text.tokenizers import tokenize_texts
from elmo_cli.types import READING_DIRECTIONS, ReadingDirection, Sentence, Text


class Prediction(NamedTuple):
    """Most probable words after a text, before it or in its gap."""

    tokens: Sentence
    place: str
    """Where the words belong: "after" or "before" the text, or in its "gap"."""
    candidates: list[Candidate]
    """Words, the most probable first."""
    unknown: float | None
    """Probability of `<UNK>`, of all words outside the vocabulary; None in a gap, which
    is filled by words only."""

    def rows(self) -> Iterator[list[object]]:
        """Yield `PREDICTION_COLUMNS` of each candidate."""
        for rank, (word, probability) in enumerate(self.candidates, start=1):
            yield [rank, word, probability]


@overload
def predict_words(  # type: ignore[overload-overlap] # a string is one text
    model: LanguageModel,
    texts: str,
    top: int = 10,
    *,
    direction: ReadingDirection = "forward",
    with_unknown: bool = False,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> Prediction: ...


@overload
def predict_words(
    model: LanguageModel,
    texts: Iterable[Text],
    top: int = 10,
    *,
    direction: ReadingDirection = "forward",
    with_unknown: bool = False,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> list[Prediction]: ...


def predict_words(
    model: LanguageModel,
    texts: str | Iterable[Text],
    top: int = 10,
    *,
    direction: ReadingDirection = "forward",
    with_unknown: bool = False,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> Prediction | list[Prediction]:
    """Predict the most probable words after each text, or in its gap.

        predict_words(model, "We sat on the ___ of the river.").candidates

    After a text (before it, if backward), the softmax gives the probabilities, with
    `</S>` (`<S>`) for the end of the sentence. A gap is filled by words only, by Bayes'
    rule from both sides.

    Args:
        model: Language model.
        texts: One raw text, or several: strings or lists of tokens, with `___`
            (or `_`, `[MASK]`, `[BLANK]`) for a word to predict. An empty list is the
            start (or end) of a sentence.
        top: Number of words, at most the size of the vocabulary.
        direction: "forward" predicts the word after each text, and "backward" the word
            before it. A gap uses both directions.
        with_unknown: Include `<UNK>` among the words after a text.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" looks at the first 200 texts: tokenized
            ones are split at white space, and others are tokenized like the model's
            training text, else by "moses".
        language: Code of the language of the texts. None means the model's.

    Returns:
        The prediction with its words and their probabilities: one for a string, else a
        list.

    Raises:
        InputError: A text is neither a string nor a list of tokens, or has several
            gaps.
        SettingsError: `top` is less than 1, or the direction or the tokenizer is
            unknown.
    """
    check_language_model(model)
    check_at_least("top", top, 1)
    check_choice("direction", direction, READING_DIRECTIONS)
    check_flag("with_unknown", with_unknown)
    unknown = model.vocabulary.indices([UNKNOWN_TOKEN])[0]
    given = list_texts(texts)
    settings = TextSettings(tokenizer=tokenizer, language=language)
    chosen = choose_tokenizer_of_strings(given, settings, model.files)
    tokenize = partial(cut_around_gaps, tokenize=chosen.tokenize)
    checked = [check_gaps(tokens) for tokens in tokenize_texts(given, tokenize)]
    predictions = []
    for batch in split_by_size(
        checked, max_tokens=BATCH_TOKENS["cpu"], max_sentences=DEFAULT_BATCH_SIZE
    ):
        in_gaps = _in_gaps(model, [text for text in batch if GAP in text])
        others = [text for text in batch if GAP not in text]
        beside = _log_probabilities_beside(model, others, direction)
        for text in batch:
            if GAP in text:
                place = "gap"
                log_p = next(in_gaps)
            else:
                place = "before" if direction == "backward" else "after"
                log_p = next(beside)
            p_unknown = None if place == "gap" else log_p[unknown].exp().item()
            if not with_unknown:
                log_p[unknown] = -torch.inf
            candidates = most_probable(model, log_p, top)
            predictions.append(
                Prediction(text, place, candidates=candidates, unknown=p_unknown)
            )
    return predictions[0] if isinstance(texts, str) else predictions


def _in_gaps(model: LanguageModel, texts: list[Sentence]) -> Iterator[Tensor]:
    """Yield the log probability, shape (V,), of every word in the gap of each text."""
    before_gaps = []
    after_gaps = []
    for text in texts:
        gap = text.index(GAP)
        before_gaps.append(text[:gap])
        after_gaps.append(text[gap + 1 :])
    left, _ = model.read(before_gaps, direction="forward")
    right, _ = model.read(after_gaps, direction="backward")
    yield from fill_gaps(model, left, right)


def _log_probabilities_beside(
    model: LanguageModel, texts: list[Sentence], direction: ReadingDirection
) -> Iterator[Tensor]:
    """Yield the log probabilities, shape (V,), of all words after or before a text."""
    contexts, _ = model.read(texts, direction=direction)
    yield from model.softmax.of_words(contexts)
