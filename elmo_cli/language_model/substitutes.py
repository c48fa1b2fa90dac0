"""Substitutes for the tokens of sentences: words for each, as if a gap were there."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, overload

import torch
from torch import Tensor

from elmo_cli.errors.checks import check_at_least, check_texts, list_texts
from elmo_cli.errors.exceptions import InputError
from elmo_cli.language_model.candidates import (
    PREDICTION_COLUMNS,
    Candidate,
    most_probable,
)
from elmo_cli.language_model.gaps import GAP, fill_gaps, has_gap
from elmo_cli.language_model.language_model import LanguageModel, check_language_model
from elmo_cli.model.vocabulary import UNKNOWN_TOKEN, Vocabulary
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.types import Sentence, Text

SUBSTITUTE_COLUMNS: Final = ("position", "token", "known", *PREDICTION_COLUMNS)


class Substitutes(NamedTuple):
    """Most probable words at the position of each token of a sentence."""

    tokens: Sentence
    candidates: list[list[Candidate]]
    """Words for each token, the most probable first."""

    def rows(self, vocabulary: Vocabulary) -> Iterator[list[object]]:
        """Yield `SUBSTITUTE_COLUMNS` of each candidate for each token."""
        for position, token in enumerate(self.tokens):
            known = token in vocabulary and token != UNKNOWN_TOKEN
            for rank, candidate in enumerate(self.candidates[position], start=1):
                word, probability = candidate
                yield [position, token, known, rank, word, probability]


@overload
def find_substitutes(  # type: ignore[overload-overlap] # a string is one text
    model: LanguageModel,
    texts: str,
    top: int = 10,
    *,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> Substitutes: ...


@overload
def find_substitutes(
    model: LanguageModel,
    texts: Iterable[Text],
    top: int = 10,
    *,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> list[Substitutes]: ...


def find_substitutes(
    model: LanguageModel,
    texts: str | Iterable[Text],
    top: int = 10,
    *,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> Substitutes | list[Substitutes]:
    """Find the most probable words in place of each token, as if it were a gap.

        found = find_substitutes(model, "The cat sat.")
        found.tokens[1], found.candidates[1][0].word  # ("cat", "Lord")

    Args:
        model: Language model.
        texts: One raw text, or several: strings or lists of tokens.
        top: Number of words per token, at most the size of the vocabulary.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" looks at the first 200 texts: tokenized
            ones are split at white space, and others are tokenized like the model's
            training text, else by "moses".
        language: Code of the language of the texts. None means the model's.

    Returns:
        The words for each token of a text: one result for a string, else a list.

    Raises:
        InputError: A text is neither a string nor a list of tokens, or has a gap
            (`___`), which `predict_words` fills.
        SettingsError: `top` is less than 1, or the tokenizer is unknown.
    """
    check_language_model(model)
    check_at_least("top", top, 1)
    given = list_texts(texts)
    for index, text in enumerate(given):
        name = "texts" if isinstance(texts, str) else f"texts[{index}]"
        _check_has_no_gap(text, name)
    found = list(
        iter_substitutes(model, given, top, tokenizer=tokenizer, language=language)
    )
    return found[0] if isinstance(texts, str) else found


def iter_substitutes(
    model: LanguageModel,
    texts: Iterable[Text],
    top: int = 10,
    *,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> Iterator[Substitutes]:
    """Find substitutes for the tokens of a stream of texts, one window at a time.

        with open("texts.txt") as texts:
            for found in iter_substitutes(model, texts, top=1):
                print(found.tokens, found.candidates)

    Args:
        model: Language model.
        texts: Strings or lists of tokens, read as they are needed.
        top: Number of words per token, at most the size of the vocabulary.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" looks at the first text: a tokenized one
            means that all are split at white space, and otherwise they are tokenized
            like the model's training text, else by "moses".
        language: Code of the language of the texts. None means the model's.

    Returns:
        An iterator over the words for each token of a text.

    Raises:
        InputError: A text is neither a string nor a list of tokens, or has a gap
            (`___`), when it is read.
        SettingsError: `top` is less than 1, or the tokenizer is unknown.
    """
    check_language_model(model)
    check_at_least("top", top, 1)

    def compute(batch: list[Sentence], layer: Tensor) -> list[Substitutes]:
        is_token = []  # of each row of the layer, which has the boundaries too
        for sentence in batch:
            is_token += [False, *(True for _ in sentence), False]
        rows = torch.tensor(is_token, device=layer.device).nonzero()[:, 0]
        forward, backward = layer.chunk(2, dim=1)
        log_p = fill_gaps(model, left=forward[rows - 1], right=backward[rows + 1])
        found = []
        for sentence in batch:
            candidates = [most_probable(model, next(log_p), top) for _ in sentence]
            found.append(Substitutes(sentence, candidates))
        return found

    checked = (
        _check_has_no_gap(text, f"texts[{index}]")
        for index, text in enumerate(check_texts(texts))
    )
    return model.compute_batches(
        checked, compute, Substitutes([], []), tokenizer=tokenizer, language=language
    )


def _check_has_no_gap(text: Text, name: str) -> Text:
    """Return a text; raise an `InputError` for a gap, which has no token to replace."""
    if has_gap(text):
        raise InputError(
            f"{name}: a gap ({GAP}) has no token to replace",
            remedy="Use predict_words to fill the gap, or write a word there.",
        )
    return text
