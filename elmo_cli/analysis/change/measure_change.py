"""Change of words between two corpora, and how probable it is by chance."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from elmo_cli.analysis.change.measures import changes_of_divisions
from elmo_cli.analysis.change.occurrence_matrices import (
    Matrix,
    Occurrences,
    read_occurrences,
)
from elmo_cli.callbacks import ignore
from elmo_cli.errors.checks import (
    check_at_least,
    check_choice,
    check_flag,
    check_function,
    check_type,
)
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import Message, Template
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import kind_of
from elmo_cli.options.analysis import CORRECTIONS, MEASURES, Correction, Match, Measure
from elmo_cli.options.layers import Layers

MIN_OCCURRENCES: Final = 3
"""Minimum number of occurrences of a word in each corpus."""
_CHANCE: Final = (0.05, 0.95)
"""Quantiles of `Change.by_chance`."""


class Change(NamedTuple):
    """Change of a word."""

    word: str
    change: float | None
    """None for a word with fewer than 3 occurrences in `old` or in `new`."""
    n_old: int
    n_new: int
    p: float | None = None
    """Share of random divisions of all its occurrences with at least as much change."""
    adjusted_p: float | None = None
    """`p` adjusted for the number of words."""
    by_chance: tuple[float, float] | None = None
    """Range of the change by chance: the 5th and the 95th percentile of the random
    divisions. None without `permutations`."""


def change_columns(*, has_p: bool, has_adjusted_p: bool) -> list[str]:
    """Return the fields of a table of changes; p only if it was asked for."""
    names = ["word", "change", "n_old", "n_new"]
    if has_p:
        names.append("p")
    if has_adjusted_p:
        names.append("adjusted_p")
    return names


def measure_change(
    old: Occurrences | str | Path,
    new: Occurrences | str | Path,
    measure: Measure = "apd",
    *,
    words: Mapping[str, str] | Sequence[str] | str | Path | None = None,
    layers: Layers | None = None,
    match: Match | None = None,
    ignore_case: bool = False,
    permutations: int = 0,
    correction: Correction | None = None,
    on_progress: Callable[[int], object] | None = None,
) -> list[Change]:
    """Measure the change of each word between two corpora.

        measure_change("1900.parquet", "2000.parquet", permutations=1000)

    Args:
        old, new: Files of `write_occurrences` or `elmo occurrences`, or of `elmo embed`
            with `words`; or the vectors from `read_occurrences`.
        measure: "apd", the mean cosine distance of an old and a new occurrence; "prt",
            the inverse cosine of their means; or "jsd", the Jensen-Shannon divergence
            over clusters.
        words: Words to compare: a list, the word of each form, or the path of a file
            that `read_targets` reads. None means all target words of the files.
        layers: Layers to average, such as "1,2", 2, -1 or [0, 2]. None means all layers
            in the files except the token layer.
        match: "form" or "lemma": the `match` that `elmo occurrences` made the files
            with. None means any.
        ignore_case: Ignore case when comparing forms with tokens.
        permutations: Number of random divisions of the occurrences of a word, for
            `Change.p` and `Change.by_chance`. Each call makes the same divisions.
        correction: "bh" (Benjamini and Hochberg) or "bonferroni", for
            `Change.adjusted_p`; requires `permutations`.
        on_progress: Called with 1 after each word.

    Returns:
        The words in descending order of their change. Words with fewer than 3
        occurrences in `old` or in `new` come last, with `change` None.

    Raises:
        InputError: A file cannot be read, or the two have different models or settings.
        SettingsError: The measure or the correction is unknown, `permutations` is
            negative, or an option is missing.
        ElmoError: scikit-learn, which "jsd" needs, is missing.
    """
    check_choice("measure", measure, MEASURES)
    check_at_least("permutations", permutations, 0)
    check_flag("ignore_case", ignore_case)
    check_function("on_progress", on_progress)
    if correction is not None:
        check_choice("correction", correction, CORRECTIONS)
        if not permutations:
            raise SettingsError(
                "{--correction} {correction}: requires {--permutations}",
                correction=repr(correction),
            )
    if isinstance(old, (str, Path)) and isinstance(new, (str, Path)):
        old, new = read_occurrences(
            old, new, words=words, layers=layers, match=match, ignore_case=ignore_case
        )
    else:
        _check_unread(words=words, layers=layers, match=match, ignore_case=ignore_case)
    old = _check_vectors("old", old)
    new = _check_vectors("new", new)
    if measure == "jsd":
        load_extra(Message(Template("{--measure jsd}")), "sklearn", "sklearn")
    no_occurrences = np.empty((0, 0))
    changes = []
    for word in dict.fromkeys([*old, *new]):
        change = _measure_word(
            word,
            old=old.get(word, no_occurrences),
            new=new.get(word, no_occurrences),
            measure=measure,
            permutations=permutations,
        )
        changes.append(change)
        (on_progress or ignore)(1)
    if correction is not None:
        changes = _with_adjusted_p(changes, correction)
    return sorted(changes, key=lambda each: (each.change is None, -(each.change or 0)))


def _check_unread(**arguments: object) -> None:
    """Raise an error for arguments of the reader if no files are read."""
    for name, value in arguments.items():
        if value not in (None, False):
            raise SettingsError(
                f"{name}: requires the paths of two files",
                remedy="Give it to read_occurrences.",
            )


def _check_vectors(name: str, vectors: Occurrences | str | Path) -> Occurrences:
    """Return the vectors of each word; raise an `InputError` for anything else."""
    expected = "vectors from read_occurrences, or two paths"
    if isinstance(vectors, (str, Path)):
        raise InputError(f"{name}: expected {expected}, found one path, {vectors}")
    check_type(name, vectors, Mapping, expected)
    for word, matrix in vectors.items():
        if np.ndim(matrix) != 2:
            raise InputError(
                f"{name}[{word!r}]: expected an array of shape (n, W), found "
                f"{kind_of(matrix)}"
            )
    return vectors


def _measure_word(
    word: str, old: Matrix, new: Matrix, measure: str, permutations: int
) -> Change:
    n_old = len(old)
    n_new = len(new)
    if min(n_old, n_new) < MIN_OCCURRENCES:
        return Change(word, change=None, n_old=n_old, n_new=n_new)
    true_change, *random_changes = changes_of_divisions(
        old, new, measure=measure, permutations=permutations
    )
    change = float(true_change[0])
    if not permutations:
        return Change(word, change=change, n_old=n_old, n_new=n_new)
    by_chance = np.concatenate(random_changes)
    # Rounding must not make the change of an equal division smaller.
    n_as_much = int((by_chance >= change - 1e-12).sum())
    # Some changes by prt are infinite, and nothing is between them and others.
    low, high = np.quantile(by_chance, _CHANCE, method="nearest")
    return Change(
        word,
        change=change,
        n_old=n_old,
        n_new=n_new,
        p=(1 + n_as_much) / (1 + permutations),
        by_chance=(float(low), float(high)),
    )


def _with_adjusted_p(changes: list[Change], correction: str) -> list[Change]:
    p_values = [change.p for change in changes if change.p is not None]
    adjusted = iter(adjust_p(p_values, correction))
    return [
        change if change.p is None else change._replace(adjusted_p=next(adjusted))
        for change in changes
    ]


def adjust_p(p_values: Sequence[float], correction: str) -> list[float]:
    """Return p values adjusted by "bh" or "bonferroni", in their order.

    adjust_p([0.01, 0.04, 0.03], "bonferroni")  # [0.03, 0.12, 0.09]
    adjust_p([0.01, 0.04, 0.03], "bh")  # [0.03, 0.04, 0.04]
    """
    n = len(p_values)
    p = np.asarray(p_values, np.float64)
    adjusted = p * n
    if correction == "bh":
        # Each is divided by its rank. The largest p is first, with rank n.
        order = np.argsort(-p, kind="stable")
        ranks = np.arange(n, 0, -1)
        by_rank = adjusted[order] / ranks
        # A smaller p never gets a larger value than the p before it.
        adjusted[order] = np.minimum.accumulate(by_rank)
    return [float(value) for value in np.minimum(1, adjusted)]
