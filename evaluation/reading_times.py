"""Reading: how much surprisal adds to a linear regression on what readers did.

The base predicts the measure of a word from its log frequency, its length, their
product and its position; self-paced reading times also from the frequency, length and
product of one or two previous words. The surprisals of the same words are added. Words
count if they are inside a sentence, and if the model knows them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli import LanguageModel, measure_surprisal
from evaluation.bootstrap import (
    Estimate,
    Floats,
    Numbers,
    draw_totals,
    mean_of_groups,
)
from evaluation.reading_data import Measure, ReadingData
from evaluation.tables import Cell, Table, figures

BASE = "base"
MODEL = "this model"
BOTH = "both"
WORDS_PER_PREDICTOR = 10
"""With fewer words, there are no figures."""


class Surprisal(NamedTuple):
    """Surprisals of N words by the model that is evaluated."""

    values: Floats
    """Bits, shape (N,)."""
    are_known: NDArray[np.bool_]
    """Whether the vocabulary has all tokens of each word, shape (N,)."""


@dataclass(frozen=True)
class Regressions:
    """Regressions that differ in their surprisals, on the N words that count."""

    values: Floats
    """The measure, shape (N,)."""
    predictors: dict[str, Floats]
    """Predictors of `BASE`, of it with one model's surprisals, and of it with `BOTH`
    the evaluated model's and the first published ones. Shapes (N, P)."""
    folds: Numbers
    """Fold of each word, shape (N,)."""
    sentences: Numbers
    """Sentence of each word, shape (N,)."""

    def have_enough_words(self) -> bool:
        """Return whether there are at least `WORDS_PER_PREDICTOR`."""
        n_predictors: int = max(each.shape[1] for each in self.predictors.values())
        return len(self.values) >= WORDS_PER_PREDICTOR * n_predictors


def measure(model: LanguageModel, sentences: list[list[str]]) -> Surprisal:
    """Measure the surprisal of each word after the words before it in its sentence."""
    by_sentence = measure_surprisal(model, sentences, by="word")
    words = [word for sentence in by_sentence for word in sentence]
    return Surprisal(
        np.array([word.surprisal for word in words]),
        are_known=np.array([word.known for word in words], bool),
    )


def evaluate(data: ReadingData, surprisal: Surprisal) -> Iterator[Table]:
    """Yield two tables of gains, in log-likelihood and in explained variance.

    They have a row per measure. The columns are the model, each published surprisal,
    and two differences from the first of those: the model and both together.
    """
    columns = columns_of(data)
    gains: dict[str, Sequence[Cell]] = {}
    explained: dict[str, Sequence[Cell]] = {}
    n_words = []
    for name, of_readers in data.measures.items():
        regressions = make_regressions(data, surprisal, of_readers)
        n_words.append(f"{len(regressions.values):,} ({name})")
        if not regressions.have_enough_words():
            gains[name] = [None] * len(columns)
            explained[name] = [None] * (1 + len(columns))
            continue
        of_words = compare(log_likelihoods_of(regressions))
        gain = mean_of_groups(of_words, regressions.sentences)
        gains[name] = figures(gain, factor=1000)
        r_squared = r_squared_of(regressions)
        shares = np.column_stack([r_squared[BASE], compare(r_squared)])
        explained[name] = figures(Estimate(shares[0], shares[1:]))
    yield Table(
        f"{data.name}: log-likelihood",
        "Gain over the base in 0.001 nats per word, on folds that the regression was "
        f"not fitted to. {count_words(data, surprisal)} The figures are for "
        f"{', '.join(n_words)}. Intervals draw sentences.",
        columns,
        gains,
        unit="0.001 nats per word",
    )
    yield Table(
        f"{data.name}: explained variance",
        "R² of the base, and the gain over it in points, on the words that the "
        "regression was fitted to, so that no gain is below 0. Intervals draw "
        "sentences.",
        [BASE, *columns],
        explained,
        n_decimals=2,
    )


def count_words(data: ReadingData, surprisal: Surprisal) -> str:
    """Return sentences with the number of words, and of those that do not count."""
    are_inside = inside_sentences(data.sentences)
    n_edges = np.sum(~are_inside)
    n_unknown = np.sum(are_inside & ~surprisal.are_known)
    n_without = np.sum(are_inside & np.isnan(data.log_frequencies))
    return (
        f"Of {len(are_inside):,} words, {n_edges:,} are the first or last of a "
        f"sentence. Of the others, {n_unknown:,} are not known to the model, and "
        f"{n_without:,} have no frequency. {data.remark}".rstrip()
    )


def inside_sentences(sentences: list[list[str]]) -> NDArray[np.bool_]:
    """Return whether each word is neither the first nor the last of its sentence."""
    are_inside: list[bool] = []
    for sentence in sentences:
        last = len(sentence) - 1
        are_inside += [0 < position < last for position in range(len(sentence))]
    return np.array(are_inside)


def make_regressions(
    data: ReadingData, surprisal: Surprisal, of_readers: Measure
) -> Regressions:
    """Return the regressions of a measure.

    All have the same words: those whose predictors, also from previous words, are there
    and known to the model.
    """
    base = [data.positions]
    surprisals: dict[str, list[Floats]] = {MODEL: []}
    for lag in range(of_readers.n_previous + 1):
        frequencies = look_back(data.log_frequencies, data.texts, lag)
        lengths = look_back(data.lengths, data.texts, lag)
        base += [frequencies, lengths, frequencies * lengths]
        known_values = np.where(surprisal.are_known, surprisal.values, np.nan)
        surprisals[MODEL].append(look_back(known_values, data.texts, lag))
        for name, values in data.published.items():
            earlier = look_back(values, data.texts, lag)
            surprisals.setdefault(name, []).append(earlier)
    columns = {BASE: base}
    for name, lags in surprisals.items():
        columns[name] = [*base, *lags]
    if data.published:
        first = next(iter(data.published))
        columns[BOTH] = [*base, *surprisals[MODEL], *surprisals[first]]
    predictors = {name: np.column_stack(each) for name, each in columns.items()}
    counts = inside_sentences(data.sentences) & np.isfinite(of_readers.values)
    for each in predictors.values():
        counts &= np.isfinite(each).all(axis=1)
    sizes = [len(sentence) for sentence in data.sentences]
    return Regressions(
        of_readers.values[counts],
        predictors={name: each[counts] for name, each in predictors.items()},
        folds=data.folds[counts],
        sentences=np.repeat(np.arange(len(sizes)), sizes)[counts],
    )


def look_back(values: Floats, texts: NDArray[np.str_], lag: int) -> Floats:
    """Return the value `lag` words earlier in the same text, NaN if there is none."""
    if lag == 0:
        return values
    earlier = np.full(len(values), np.nan)
    earlier[lag:] = np.where(texts[lag:] == texts[:-lag], values[:-lag], np.nan)
    return earlier


def columns_of(data: ReadingData) -> list[str]:
    """Return the names of the gains that `compare` computes."""
    columns = [MODEL, *data.published]
    if data.published:
        first = next(iter(data.published))
        columns += [f"{MODEL} minus {first}", f"{BOTH} minus {first}"]
    return columns


def compare(scores: Mapping[str, Floats]) -> Floats:
    """Return each model's gain over the base, and two over the first published model.

    Args:
        scores: The scores of `BASE`, of the models and of `BOTH`, shapes (S,).

    Returns:
        Shape (S, K), in the order of `columns_of`.
    """
    models = [name for name in scores if name not in (BASE, BOTH)]
    gains = [scores[name] - scores[BASE] for name in models]
    if BOTH in scores:
        first = scores[models[1]]
        gains += [scores[MODEL] - first, scores[BOTH] - first]
    return np.column_stack(gains)


def log_likelihoods_of(regressions: Regressions) -> dict[str, Floats]:
    """Return the log-likelihood of each word in nats by each regression, (N,).

    Each fold is predicted by a regression that was fitted to the others. Its errors are
    taken as normal, with the variance that they had on those others.
    """
    values = regressions.values
    by_name = {}
    for name, predictors in regressions.predictors.items():
        columns = np.column_stack([np.ones(len(values)), predictors])
        log_likelihoods = np.empty(len(values))
        for fold in np.unique(regressions.folds):
            held_out = regressions.folds == fold
            weights, *_ = np.linalg.lstsq(columns[~held_out], values[~held_out])
            errors = values - columns @ weights
            variance = np.mean(errors[~held_out] ** 2)
            squares = errors[held_out] ** 2 / variance
            log_likelihoods[held_out] = -0.5 * (np.log(2 * np.pi * variance) + squares)
        by_name[name] = log_likelihoods
    return by_name


def r_squared_of(regressions: Regressions) -> dict[str, Floats]:
    """Return R² of each regression, on the data and on each draw, (1 + N_DRAWS,)."""
    by_name = {}
    for name, predictors in regressions.predictors.items():
        columns = np.column_stack([predictors, regressions.values])
        columns -= columns.mean(axis=0)
        spread = columns.std(axis=0)
        columns /= np.where(spread > 0, spread, 1)  # All words may have one length.
        columns = np.column_stack([np.ones(len(columns)), columns])
        totals = _totals_of_products(columns, regressions.sentences)
        products = totals[:, :-1, :-1]
        with_values = totals[:, :-1, -1:]
        n_words = totals[:, 0, 0]
        # The normal equations of each draw need only its sums over sentences.
        weights = np.linalg.pinv(products, hermitian=True) @ with_values
        explained = (weights * with_values).sum(axis=(1, 2))
        of_mean = totals[:, 0, -1] ** 2 / n_words
        squares = totals[:, -1, -1]
        by_name[name] = (explained - of_mean) / (squares - of_mean)
    return by_name


def _totals_of_products(columns: Floats, sentences: Numbers) -> Floats:
    """Return the products of columns, of the data and of draws, (1 + N_DRAWS, P, P)."""
    size = columns.shape[1]
    _, numbers = np.unique(sentences, return_inverse=True)
    sums = np.zeros((numbers.max() + 1, size * size))
    products = columns[:, :, None] * columns[:, None, :]
    np.add.at(sums, numbers, products.reshape(len(columns), -1))
    totals = np.vstack([sums.sum(axis=0), draw_totals(sums)])
    return totals.reshape(-1, size, size)
