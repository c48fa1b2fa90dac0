"""Vectors of the occurrences of words in two files, one matrix per word."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.occurrences.targets import targets_of
from elmo_cli.analysis.search.vector_files import VectorFiles, open_occurrences
from elmo_cli.analysis.search.vector_sources import VectorSource
from elmo_cli.analysis.search.word_search import find_occurrences
from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.options.analysis import MATCHES, Match
from elmo_cli.options.layers import Layers
from elmo_cli.outputs.comparison import check_same

_SAME: Final = ("model_sha256", "state", "layers", "mix", "gamma", "tokenizer", "match")
"""Attributes in which the files of both corpora agree, if they have attributes."""

Matrix = NDArray[np.floating]
Occurrences = dict[str, Matrix]
"""Vectors of the occurrences of each word, shape (n, W)."""


def read_occurrences(
    old: str | Path,
    new: str | Path,
    words: Mapping[str, str] | Sequence[str] | str | Path | None = None,
    layers: Layers | None = None,
    *,
    match: Match | None = None,
    ignore_case: bool = False,
    on_progress: Callable[[int], object] | None = None,
) -> tuple[Occurrences, Occurrences]:
    """Read the vectors of words in two files, one matrix per word.

        old, new = read_occurrences("old.parquet", "new.parquet")
        old["bank"].shape  # (occurrences of "bank" in the old file, 1024)
        changes = measure_change(old, new)

    `measure_change` takes the two files, too. Use this function to look at the vectors
    or to choose among them first. `open_occurrences` returns each with its sentence.

    Args:
        old, new: Files of `elmo occurrences`, or HDF5 of `elmo embed` with all tokens.
        words: Words to read: a list, the word of each form, or the path of a file that
            `read_targets` reads. None means all target words of the files.
        layers: Layers to average, such as "1,2", 2, -1 or
            [0, 2]. None means all layers in the files except the token layer.
        match: "form" or "lemma": the `match` that `elmo occurrences` made the files
            with. None means any.
        ignore_case: Ignore case when comparing forms with tokens.
        on_progress: Called with the number of records that were read since the last
            call.

    Returns:
        The vectors of the occurrences of each word in `old` and in `new`, shape (n, W).

    Raises:
        InputError: A file cannot be read, or the two have different models or settings.
        SettingsError: A file lacks one of the layers, has vectors of all tokens and
            `words` is missing, or was not made with `match`.
    """
    targets = None if words is None else targets_of(words)
    if match is not None:
        check_choice("match", match, MATCHES)
    with (
        open_occurrences(old, on_progress=on_progress) as old_files,
        open_occurrences(new, on_progress=on_progress) as new_files,
    ):
        if match is not None:
            _check_match([*old_files.sources, *new_files.sources], match)
        for old_source, new_source in product(old_files.sources, new_files.sources):
            if old_source.attributes and new_source.attributes:
                check_same(
                    [
                        (old_source.path, old_source.attributes),
                        (new_source.path, new_source.attributes),
                    ],
                    _SAME,
                )
        old_matrices = _read_matrices(
            old_files, targets, layers, ignore_case=ignore_case
        )
        new_matrices = _read_matrices(
            new_files, targets, layers, ignore_case=ignore_case
        )
    _check_matrices([old_matrices, new_matrices], old=old, new=new)
    return old_matrices, new_matrices


def _check_match(sources: Iterable[VectorSource], match: str) -> None:
    """Raise a `SettingsError` unless all files found their words in this way."""
    others = []
    for source in sources:
        found_by, _, _ = str(source.attributes.get("match", "form")).partition(",")
        if found_by != match:
            others.append(str(source.path))
    if others:
        raise SettingsError(
            "{paths}: not made with {--match} {match}, or without a record of it",
            remedy=(
                "Make each of the files with `elmo occurrences TEXT OUT --words "
                "FILE --match {match}`, where OUT is HDF5 or Parquet."
            ),
            paths=" and ".join(others),
            match=match,
        )


def _read_matrices(
    files: VectorFiles,
    words: Mapping[str, str] | None,
    layers: Layers | None,
    *,
    ignore_case: bool,
) -> Occurrences:
    if words is None and not all(source.has_targets for source in files.sources):
        raise SettingsError(
            f"{files.paths[0]}: contains the vectors of all tokens",
            remedy="Name the words to compare with {--words}.",
        )
    found = find_occurrences(files, words, layers, ignore_case=ignore_case)
    matrices: Occurrences = {}
    for word, occurrences in found.items():
        if occurrences:
            matrices[word] = np.stack([each.vector for each in occurrences])
        else:
            matrices[word] = np.empty((0, 0))
    return matrices


def _check_matrices(
    files: Iterable[Occurrences], old: str | Path, new: str | Path
) -> None:
    """Raise an `InputError` unless all vectors are finite and have the same width."""
    widths = set[int]()
    for matrices in files:
        for word, matrix in matrices.items():
            if not np.isfinite(matrix).all():
                raise InputError(
                    f"{old} or {new}: some vectors of {word!r} have values that are "
                    "not finite (NaN or infinity)"
                )
            if len(matrix):
                widths.add(matrix.shape[1])
    if len(widths) > 1:
        numbers = " and ".join(map(str, sorted(widths)))
        raise InputError(
            f"{old} and {new}: the vectors have the widths {numbers}",
            remedy="Use one model.",
        )
