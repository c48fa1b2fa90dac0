"""Exact search for the tokens of files that are nearest to vectors, by their cosine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.analysis.search.vector_files import VectorFiles, opened_files
from elmo_cli.analysis.search.vector_sources import Location, Vectors, VectorSource
from elmo_cli.callbacks import never
from elmo_cli.errors.checks import check_at_least, check_function
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.wording import kind_of
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.inference.exact_products import exact_products
from elmo_cli.options.layers import Layers
from elmo_cli.outputs.reader import Activations
from elmo_cli.text.occurrences import Occurrence

BLOCK_TOKENS: Final = 2048
"""Approximate number of vectors per comparison: 8 MB, which the allocator reuses."""
_Nearest = TypeVar("_Nearest")
_TINY: Final = 1e-30
"""Smallest norm by which a vector is divided."""


@dataclass(frozen=True)
class Neighbour(Occurrence):
    """Token near a query; the first token of its sentence where tokens are pooled."""

    cosine: float
    record_index: int
    """Index of its record in the file or files that were searched."""
    location: Location
    word: str
    """Target word that the token is a form of, or the token itself."""

    def __repr__(self) -> str:
        return (
            f"Neighbour({self.marked!r}, cosine={self.cosine:.4f}, "
            f"path={str(self.location.path)!r}, number={self.location.number})"
        )


@dataclass(frozen=True)
class Neighbours(Generic[_Nearest]):
    """Result of a search."""

    nearest: _Nearest
    """Neighbours, the nearest first: a list for one query, and a list of lists for
    several queries."""
    mean_cosine: float | None
    """Mean cosine of all pairs of two tokens of the files; None for fewer than two, or
    without a query."""


def neighbour_columns(*, pooled: bool) -> list[str]:
    """Return the columns of `neighbour_rows`. A pooled sentence has no token."""
    token = [] if pooled else ["position", "token"]
    return ["query_number", "rank", "cosine", "file", "line", "id", *token, "sentence"]


def neighbour_rows(
    query_number: int, nearest: Sequence[Neighbour], *, pooled: bool
) -> Iterator[list[object]]:
    """Yield a row per neighbour.

    Numbers, ranks and lines count from 1, positions from 0.
    """
    for rank, neighbour in enumerate(nearest, start=1):
        location = neighbour.location
        token = [] if pooled else [neighbour.index, neighbour.token]
        yield [
            query_number,
            rank,
            neighbour.cosine,
            str(location.path),
            location.number,
            location.id,
            *token,
            " ".join(neighbour.sentence),
        ]


def find_neighbours(
    files: VectorFiles | Activations | str | Path | Sequence[str | Path],
    vectors: NDArray[np.floating],
    top: int = 10,
    *,
    layers: Layers | None = None,
    device: Device = "cpu",
    is_excluded: Callable[[int, Neighbour], bool] | None = None,
) -> Neighbours[Any]:
    """Return the tokens whose vectors are most similar to query vectors, by cosine.

        vector = embedder.word_vector("We sat on the bank.", "bank")
        find_neighbours("corpus.hdf5", vector).nearest[0].marked

    All tokens are compared. Each file is read once, some MB at a time.

    Args:
        files: Path or list of paths, of files or folders, or the result of
            `open_occurrences` or `open_activations`.
        vectors: Vector of one query, float, shape (W,), or of n queries, shape (n, W),
            from the same layers as `layers`.
        top: Maximum number of neighbours per query.
        layers: Layers to average, such as "1,2", 2, -1 or [0, 2], as in `word_vector`.
            None means all layers except the token layer, also as in `word_vector`; it
            is an error for files without all layers, and for one vector per sentence.
        device: Device of the comparison, as in `ElmoEmbedder`.
        is_excluded: Return whether a token cannot be a neighbour of a query, given by
            its index. By default, none are excluded.

    Returns:
        The neighbours: `nearest` is a list for the shape (W,), and a list of lists for
        (n, W).

    Raises:
        InputError: `vectors` has another shape, or a file cannot be read, lacks tokens,
            or has vectors of another width than `vectors`.
        SettingsError: `top` is below 1, a file lacks one of the layers, or `layers` is
            None and a file has other layers than the default of `word_vector`.
    """
    check_function("is_excluded", is_excluded)
    with opened_files(files) as opened:
        if layers is None:
            for source in opened.sources:
                _check_default_layers(source)
        return search_vectors(
            opened, vectors, top, layers=layers, device=device, is_excluded=is_excluded
        )


def _check_default_layers(source: VectorSource) -> None:
    """Raise an error if the default vectors of a file may not be `word_vector`'s."""
    stored = source.stored_layers
    if stored is None:  # `layers` has no effect.
        return
    is_pooled = source.attributes.get("pooling") is not None
    if stored == "all" and not is_pooled:
        return
    example = stored
    if is_pooled:
        has = "one vector per sentence"
        if stored == "all":
            example = "average"
    elif stored == "top":
        has = "only the top layer"
    elif "," in stored:
        has = f"only layers {stored}"
    else:
        has = f"only {stored}"
    raise SettingsError(
        "{--layers}: required, because {path} has {has}",
        remedy=f"Name the layers of your vectors, such as {{--layers {example}}}.",
        path=source.path,
        has=has,
    )


def search_vectors(
    files: VectorFiles,
    vectors: NDArray[np.floating],
    top: int,
    *,
    layers: Layers | None,
    device: Device,
    is_excluded: Callable[[int, Neighbour], bool] | None = None,
) -> Neighbours[Any]:
    """Search open files as `find_neighbours` does, for vectors of the same layers."""
    queries = _unit_queries(vectors, top, device)
    width = queries.shape[1]
    excludes = is_excluded or never
    nearest: list[list[Neighbour]] = [[] for _ in queries]
    sum_of_units = torch.zeros(width, dtype=torch.float64, device="cpu")
    n_tokens = 0
    for block in _blocks(files, layers, width):
        compared = _compare(queries, block)
        for query, cosines in enumerate(compared.cosines):
            nearest[query] = _keep_nearest(
                nearest[query],
                top,
                block=block,
                cosines=cosines,
                excludes=partial(excludes, query),
            )
        sum_of_units += compared.sum_of_units
        n_tokens += compared.cosines.shape[1]
    mean_cosine = _mean_cosine(sum_of_units, n_tokens)
    if np.ndim(vectors) == 1:
        return Neighbours(nearest[0], mean_cosine)
    return Neighbours(nearest, mean_cosine)


def _unit_queries(vectors: NDArray[np.floating], top: int, device: Device) -> Tensor:
    """Check a search, and return its queries with norm 1: float32, shape (Q, W)."""
    check_at_least("top", top, 1)
    try:
        numbers = np.asarray(vectors, np.float32)
    except (TypeError, ValueError, RuntimeError):
        remedy = None
        if isinstance(vectors, Tensor):
            remedy = "Use vectors.detach().cpu().numpy()."
        raise InputError(
            f"vectors: expected an array of numbers, found {kind_of(vectors)}",
            remedy=remedy,
        ) from None
    if not np.isfinite(numbers).all():
        raise InputError("vectors: expected finite numbers, found NaN or infinity")
    queries = torch.as_tensor(numbers, device=choose_device(device))
    if queries.ndim == 1:
        queries = queries[None]
    if queries.ndim != 2:
        raise InputError(
            "vectors: expected the shape (W,) or (Q, W), found the shape "
            f"{tuple(queries.shape)}"
        )
    norms = queries.norm(dim=1, keepdim=True)  # (Q, 1)
    units: Tensor = queries / norms.clamp_min(_TINY)
    return units


def _blocks(
    files: VectorFiles, layers: Layers | None, width: int
) -> Iterator[list[Vectors]]:
    """Yield the records of files in blocks of about `BLOCK_TOKENS` vectors.

    Raise an `InputError` for vectors that are not as wide as the queries.
    """
    block: list[Vectors] = []
    n_vectors = 0
    for source in files.sources:
        for embedded in source.read(layers):
            files.on_progress(1)
            own_width = embedded.vectors.shape[1]
            if own_width != width:
                raise InputError(
                    f"{embedded.location.path}: expected vectors of width {width:,}, "
                    f"as the query has, found {own_width:,}"
                )
            block.append(embedded)
            n_vectors += len(embedded.vectors)
            if n_vectors >= BLOCK_TOKENS:
                yield block
                block = []
                n_vectors = 0
    if n_vectors > 0:
        yield block


class _Comparison(NamedTuple):
    """Comparison of the N tokens of a block with all queries, on the CPU."""

    cosines: Tensor
    """Cosine of each query with each token, float32, shape (Q, N)."""
    sum_of_units: Tensor
    """Sum of the tokens' vectors, each with norm 1, float32, shape (W,)."""


def _compare(queries: Tensor, block: list[Vectors]) -> _Comparison:
    """Compare the tokens of a block with queries of norm 1, (Q, W)."""
    vectors = torch.from_numpy(np.concatenate([embedded.vectors for embedded in block]))
    vectors = vectors.to(queries.device).float()  # (N, W)
    scales = vectors.norm(dim=1).clamp_min(_TINY).reciprocal()  # (N,)
    with exact_products():
        cosines = queries @ vectors.T * scales
        sum_of_units = scales @ vectors
    return _Comparison(cosines=cosines.cpu(), sum_of_units=sum_of_units.cpu())


def _mean_cosine(sum_of_units: Tensor, n_tokens: int) -> float | None:
    """Return the mean cosine of all pairs of two tokens; None if there is no pair.

    `sum_of_units` is the sum of the tokens' vectors, each with norm 1, (W,).
    """
    if n_tokens < 2:
        return None
    # The squared norm of the sum is n plus the cosines of all pairs.
    sum_of_cosines = sum_of_units @ sum_of_units - n_tokens
    n_pairs = n_tokens * (n_tokens - 1)
    return float(sum_of_cosines / n_pairs)


def _keep_nearest(
    nearest: list[Neighbour],
    top: int,
    *,
    block: list[Vectors],
    cosines: Tensor,
    excludes: Callable[[Neighbour], bool],
) -> list[Neighbour]:
    """Return the nearest `top` of the tokens so far and of the tokens of a block.

    Args:
        nearest: At most `top` tokens of earlier blocks, the nearest first.
        top: Maximum number of tokens.
        block: Records of N tokens.
        cosines: Cosine of each of their tokens, shape (N,).
        excludes: Return whether a token is left out.
    """
    least = nearest[-1].cosine if len(nearest) == top else float("-inf")
    candidates = (
        token for token in _tokens_above(least, block, cosines) if not excludes(token)
    )
    found = [*nearest, *islice(candidates, top)]
    # The order of equal cosines stays: the first ones in the files are kept.
    found.sort(key=lambda token: -token.cosine)
    return found[:top]


def _tokens_above(
    least: float, block: list[Vectors], cosines: Tensor
) -> Iterator[Neighbour]:
    """Yield the tokens of a block with cosines above `least`, the nearest first."""
    rows = (cosines > least).nonzero()[:, 0]
    order = cosines[rows].argsort(descending=True, stable=True)
    ends = np.cumsum([len(embedded.vectors) for embedded in block])
    for row in rows[order].tolist():
        block_index = int(np.searchsorted(ends, row, "right"))
        embedded = block[block_index]
        start = int(ends[block_index]) - len(embedded.vectors)
        index = row - start
        yield Neighbour(
            sentence=embedded.record.tokens,
            index=embedded.positions[index],
            cosine=float(cosines[row]),
            record_index=embedded.record_index,
            location=embedded.location,
            word=embedded.words[index],
        )
