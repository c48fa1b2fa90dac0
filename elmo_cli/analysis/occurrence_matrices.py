"""Vectors of the occurrences of words in two files."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.targets import MATCHES, check_words
from elmo_cli.analysis.vector_files import VectorFiles, open_occurrences
from elmo_cli.analysis.vector_sources import VectorSource
from elmo_cli.analysis.word_search import find_occurrences
from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.options.selection import Layers
from elmo_cli.outputs.comparison import check_same

_SAME: Final = ("model_sha256", "state", "layers", "mix", "gamma", "tokenizer", "match")
"""Attributes in which the files of both corpora agree, as far as they have attributes."""


Matrix = NDArray[np.floating]


Occurrences = dict[str, Matrix]  # vectors of the occurrences of each word, shape (n, W)


def read_occurrences(
    old: str | Path,
    new: str | Path,
    words: Mapping[str, str] | None = None,
    layers: Layers | None = None,
    *,
    match: str | None = None,
    ignore_case: bool = False,
    on_progress: Callable[[int], object] | None = None,
) -> tuple[Occurrences, Occurrences]:
    """Read the occurrences of words in two files.

    Args:
        old, new: Files of `elmo usages`, or HDF5 of `elmo embed` with all tokens.
        words: Word of each form, from `read_targets`. None is all target words of the files.
        layers: As in `neighbours`.
        match: `form` or `lemma`: the `match` that `elmo usages` made the files with. None is any.
        ignore_case: Compare the forms with the tokens without regard to case.
        on_progress: Called with the number of records that were read since the last call.

    Returns:
        The vectors of the occurrences of each word in `old` and in `new`, shape (n, W).

    Raises:
        InputError: A file cannot be read, or the two have different models or settings.
    """
    if words is not None:
        check_words(words)
    if match is not None:
        check_choice("match", match, MATCHES)
    with (
        open_occurrences(old, on_progress=on_progress) as old_files,
        open_occurrences(new, on_progress=on_progress) as new_files,
    ):
        _check_match([*old_files.sources, *new_files.sources], match)
        for one, other in product(old_files.sources, new_files.sources):
            if one.attributes and other.attributes:
                check_same(
                    [(one.path, one.attributes), (other.path, other.attributes)], _SAME
                )
        read = partial(
            _read_matrices, words=words, layers=layers, ignore_case=ignore_case
        )
        first, second = read(old_files), read(new_files)
    named = [*first.items(), *second.items()]
    for word, matrix in named:
        if not np.isfinite(matrix).all():
            problem = f"some vectors of {word!r} have values that are not finite (NaN or infinity)"
            raise InputError(f"{old} or {new}: {problem}")
    widths = sorted({matrix.shape[1] for _, matrix in named if len(matrix)})
    if len(widths) > 1:
        numbers = " and ".join(map(str, widths))
        raise InputError(
            f"{old} and {new}: the vectors have the widths {numbers}. Use one model."
        )
    return first, second


def _check_match(sources: Iterable[VectorSource], match: str | None) -> None:
    """Raise a `SettingsError` unless the words of all files were found by forms, or by lemmas."""
    others = [
        str(each.path)
        for each in sources
        if match
        and str(each.attributes.get("match", "form")).partition(",")[0] != match
    ]
    if others:
        command = f"elmo usages TEXT OUT --words FILE --match {match}"
        problem = f"not made with --match {match}, or without a record of it"
        remedy = (
            f"Make each of the files with `{command}`, where OUT is HDF5 or Parquet."
        )
        raise SettingsError(f"{' and '.join(others)}: {problem}. {remedy}")


def _read_matrices(
    files: VectorFiles,
    words: Mapping[str, str] | None,
    layers: Layers | None,
    *,
    ignore_case: bool,
) -> Occurrences:
    if words is None and not all(source.has_targets for source in files.sources):
        remedy = "Name the words to compare with --words."
        raise SettingsError(
            f"{files.paths[0]} contains the vectors of all tokens. {remedy}"
        )
    return {
        word: np.stack([each.vector for each in found]) if found else np.empty((0, 0))
        for word, found in find_occurrences(
            files, words, layers, ignore_case=ignore_case
        ).items()
    }
