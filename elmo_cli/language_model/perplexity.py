"""Perplexity of texts.

It is exp of the mean negative log probability of all predictions: each token, and one
boundary per sentence. `<UNK>` counts as a word, so perplexities of different
vocabularies cannot be compared.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.callbacks import ignore
from elmo_cli.errors.checks import check_batch, list_texts
from elmo_cli.errors.exceptions import InputError
from elmo_cli.language_model.language_model import (
    LanguageModel,
    SentenceScore,
    check_language_model,
)
from elmo_cli.language_model.scored_records import WriteRows, score_records
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.records.open_records import Records
from elmo_cli.types import Sentence, Text

SENTENCE_COLUMNS: Final = (
    "tokens",
    "unknown",
    "log_p_forward",
    "log_p_backward",
    "perplexity_forward",
    "perplexity_backward",
    "perplexity_average",
)
"""Columns of `sentence_row`."""


@dataclass(frozen=True)
class Perplexities:
    """Perplexity of each direction, and of both together."""

    forward: float
    backward: float | None
    """None for a model that only reads forward."""
    average: float | None
    """Geometric mean of both perplexities, or None without the backward one."""


@dataclass(frozen=True)
class Perplexity:
    """Perplexity of a text, with the numbers of sentences, tokens and predictions."""

    sentences: int
    """Number of sentences with tokens; the others are not predicted."""
    tokens: int
    predictions: int
    """Number of predictions per direction: tokens, and one boundary per sentence."""
    unknown: float
    """Share of the tokens that are not in the vocabulary."""
    all_words: Perplexities
    """Perplexity of all predictions, with `<UNK>` as a word."""
    known_words: Perplexities
    """Perplexity of the words of the vocabulary, including boundaries."""


def measure_perplexity(
    model: LanguageModel,
    texts: str | Iterable[Text],
    *,
    batch_size: int = DEFAULT_BATCH_SIZE,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> Perplexity:
    """Measure the perplexity of a text, or of several texts together.

        perplexity = measure_perplexity(model, ["The cat sat.", "A dog ran."])
        perplexity.all_words.average  # 200.77

    Args:
        model: Language model.
        texts: One raw text, or a list or stream of texts, each one sentence: strings or
            lists of tokens.
        batch_size: Sentences per batch; only matters with carried state.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" looks at the first 200 texts: tokenized
            ones are split at white space, and others are tokenized like the model's
            training text, else by "moses".
        language: Code of the language of the texts. None means the model's.

    Returns:
        Perplexity of each direction, with and without unknown words, and the numbers of
        tokens.

    Raises:
        InputError: There is no token, or a text is neither a string nor a list.
        SettingsError: The tokenizer is unknown, or `batch_size` is below 1.
    """
    check_language_model(model)
    if isinstance(texts, str):
        texts = list_texts(texts)
    check_batch(texts, "texts", "a string or a list")
    scores = model.iter_scores(
        texts, batch_size=batch_size, tokenizer=tokenizer, language=language
    )
    perplexity = perplexity_of_scores(scores)
    if perplexity is None:
        raise InputError("texts: no tokens")
    return perplexity


def run_perplexity(
    model: LanguageModel,
    records: Records,
    *,
    name: str,
    write: WriteRows | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    on_tokens: Callable[[int], object] = ignore,
) -> Perplexity | None:
    """Measure the perplexity of the records of a text, and write a row for each.

    Return None if rows are written and there are none, as for a table with a header
    only. Without `write`, raise an `InputError` then, because there is no result.

    Args:
        model: Language model.
        records: Records of the open text.
        name: Name of the text in the error for a text without tokens.
        write: Called with `SENTENCE_COLUMNS` of each record, once they are computed.
        batch_size: Sentences per batch; only matters with carried state.
        on_tokens: Called after each record with the number of tokens so far.
    """

    def score(sentences: Iterable[Sentence]) -> Iterator[SentenceScore]:
        return model.iter_scores(
            sentences, batch_size=batch_size, is_ready=records.is_ready
        )

    def scores() -> Iterator[SentenceScore]:
        """Yield the scores of all sentences, and write the row of each record."""
        n_tokens = 0
        for scored in score_records(records.records, score):
            if write is not None:
                row = sentence_row(scored.result)
                write([row], scored.record.columns, scored.names)
            yield from scored.result
            n_tokens += len(scored.record.tokens)
            on_tokens(n_tokens)

    perplexity = perplexity_of_scores(scores())
    if perplexity is None and write is None:
        raise InputError(f"{name}: no tokens")
    return perplexity


def perplexity_of_scores(scores: Iterable[SentenceScore]) -> Perplexity | None:
    """Compute the perplexity of a text from the scores of its sentences.

    Return None if they have no tokens.
    """
    n_sentences = 0
    n_tokens = 0
    n_unknown = 0
    forward = _LogProbabilities()
    backward: _LogProbabilities | None = _LogProbabilities()
    for score in scores:
        if not score.tokens:
            continue
        is_unknown = ~score.known
        n_sentences += 1
        n_tokens += len(score.tokens)
        n_unknown += int(is_unknown.sum())
        # The boundary is predicted last forward, and first backward.
        forward.add(score.forward, of_unknown=score.forward[:-1][is_unknown])
        if backward is None or score.backward is None:
            backward = None  # The model only reads forward.
        else:
            backward.add(score.backward, of_unknown=score.backward[1:][is_unknown])
    if n_tokens == 0:
        return None
    n_predictions = n_tokens + n_sentences
    return Perplexity(
        sentences=n_sentences,
        tokens=n_tokens,
        predictions=n_predictions,
        unknown=n_unknown / n_tokens,
        all_words=_perplexities(
            log_p_forward=forward.all_words,
            log_p_backward=None if backward is None else backward.all_words,
            n_predictions=n_predictions,
        ),
        known_words=_perplexities(
            log_p_forward=forward.known_words,
            log_p_backward=None if backward is None else backward.known_words,
            n_predictions=n_predictions - n_unknown,
        ),
    )


@dataclass
class _LogProbabilities:
    """Sums of log probabilities in one direction."""

    all_words: float = 0.0
    unknown_words: float = 0.0

    @property
    def known_words(self) -> float:
        """Sum for the words of the vocabulary, including boundaries."""
        return self.all_words - self.unknown_words

    def add(self, log_p: NDArray[np.float64], of_unknown: NDArray[np.float64]) -> None:
        """Add those of a sentence, and those of its unknown words among them."""
        self.all_words += float(log_p.sum())
        self.unknown_words += float(of_unknown.sum())


def _perplexities(
    log_p_forward: float, log_p_backward: float | None, n_predictions: int
) -> Perplexities:
    """Turn the log probabilities of a number of predictions into perplexities."""
    if log_p_backward is None:
        with np.errstate(over="ignore"):
            only = float(np.exp(-log_p_forward / n_predictions))
        return Perplexities(only, backward=None, average=None)
    log_p_average = (log_p_forward + log_p_backward) / 2
    log_p = np.array([log_p_forward, log_p_backward, log_p_average])
    with np.errstate(over="ignore"):
        forward, backward, average = np.exp(-(log_p / n_predictions)).tolist()
    return Perplexities(forward, backward, average)


def sentence_row(scores: Sequence[SentenceScore]) -> list[object]:
    """Return `SENTENCE_COLUMNS` of a record, which has one or more sentences.

    A record without tokens has no perplexity, and a model that only reads forward has
    no values for the other direction.
    """
    n_tokens = sum(len(score.tokens) for score in scores)
    n_unknown = sum(int((~score.known).sum()) for score in scores)
    log_p_forward = float(sum(score.forward.sum() for score in scores))
    backward = [score.backward for score in scores if score.backward is not None]
    log_p_backward = None
    if len(backward) == len(scores):
        log_p_backward = float(sum(values.sum() for values in backward))
    row: list[object] = [n_tokens, n_unknown, log_p_forward, log_p_backward]
    perplexity = perplexity_of_scores(scores)
    if perplexity is None:
        return [*row, None, None, None]
    return [*row, *astuple(perplexity.all_words)]
