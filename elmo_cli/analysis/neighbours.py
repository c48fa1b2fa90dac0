"""Exact search for the tokens of files that are nearest to vectors, by their cosine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.analysis.occurrences import Occurrence
from elmo_cli.analysis.vector_files import VectorFiles, as_files
from elmo_cli.analysis.vector_sources import Location, Vectors
from elmo_cli.callbacks import never
from elmo_cli.errors.exceptions import InputError
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.inference.exact_products import exact_products
from elmo_cli.options.selection import Layers
from elmo_cli.outputs.reader import Activations

BLOCK_TOKENS: Final = 2048
"""Approximate number of vectors per comparison: 8 MB, which the allocator reuses."""
_TINY: Final = 1e-30


@dataclass(frozen=True)
class Neighbour(Occurrence):
    """Token near a query; the first token of its sentence where tokens are pooled."""

    cosine: float
    record: int
    """Number of its sentence in the file, from 0."""
    location: Location
    word: str
    """Target word that the token is a form of, or the token itself."""


@dataclass(frozen=True)
class Neighbours:
    """Result of a search."""

    nearest: list[list[Neighbour]]
    """Neighbours of each query, the nearest first."""
    mean_cosine: float | None
    """Mean cosine of all pairs of two tokens of the files; None for fewer than two."""


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


def neighbours(
    files: VectorFiles | Activations,
    vectors: NDArray[np.floating],
    top: int = 10,
    *,
    layers: Layers | None = None,
    device: Device = "cpu",
    is_excluded: Callable[[int, Neighbour], bool] | None = None,
) -> Neighbours:
    """Return the tokens whose vectors have the largest cosines with query vectors.

    All tokens are compared. Each file is read once, some MB at a time.

    Args:
        files: Files of `open_occurrences` or `open_activations`.
        vectors: Vectors of the queries, shape (Q, W).
        top: Maximum number of neighbours per query.
        layers: Numbers of the layers whose mean is compared, separated by commas. None
            is all layers of the files but the token layer.
        device: Device of the comparison, as in `ElmoEmbedder`.
        is_excluded: Return whether a token cannot be a neighbour of a query, given by
            its number. By default, none is excluded.

    Raises:
        InputError: `vectors` has another shape, `top` is below 1, or a file lacks
            tokens or one of the layers, or has vectors of another width than `vectors`.
    """
    queries = torch.as_tensor(
        np.asarray(vectors, np.float32), device=choose_device(device)
    )
    if queries.ndim != 2 or top < 1:
        raise InputError(
            "expected vectors of the shape (Q, W) and top 1 or more, found the shape "
            f"{tuple(queries.shape)} and top {top}"
        )
    excludes = is_excluded or never
    queries = queries / queries.norm(dim=1, keepdim=True).clamp_min(_TINY)  # (Q, W)
    width = queries.shape[1]
    nearest: list[list[Neighbour]] = [[] for _ in queries]
    sum_of_units = torch.zeros(width, dtype=torch.float64, device="cpu")
    n_tokens = 0
    for block in _blocks(as_files(files), layers, width):
        rows = torch.from_numpy(np.concatenate([item.vectors for item in block]))
        rows = rows.to(queries.device).float()  # (N, W)
        scales = rows.norm(dim=1).clamp_min(_TINY).reciprocal()  # (N,)
        with exact_products():
            cosines = queries @ rows.T * scales  # (Q, N)
            sum_of_block = scales @ rows  # (W,)
        cosines = cosines.cpu()
        sum_of_units += sum_of_block.cpu()
        n_tokens += len(rows)
        for query, own_cosines in enumerate(cosines):
            best = nearest[query]
            least = best[-1].cosine if len(best) == top else float("-inf")
            candidates = (
                neighbour
                for neighbour in _above(block, own_cosines, least)
                if not excludes(query, neighbour)
            )
            # Among equal cosines, the first ones in the file stay.
            best += islice(candidates, top)
            best.sort(key=lambda neighbour: -neighbour.cosine)
            del best[top:]
    if n_tokens < 2:
        return Neighbours(nearest, None)
    # The squared norm of the sum of unit vectors is n plus the cosines of all pairs.
    sum_of_cosines = sum_of_units @ sum_of_units - n_tokens
    n_pairs = n_tokens * (n_tokens - 1)
    return Neighbours(nearest, float(sum_of_cosines / n_pairs))


def _blocks(
    files: VectorFiles, layers: Layers | None, width: int
) -> Iterator[list[Vectors]]:
    """Yield the records of files in blocks of about `BLOCK_TOKENS` vectors."""
    block: list[Vectors] = []
    n_vectors = 0
    for source in files.sources:
        # `layers` has no effect on files that do not name theirs.
        own_layers = None if source.stored_layers is None else layers
        for item in source.read(own_layers):
            files.on_progress(1)
            own_width = item.vectors.shape[1]
            if own_width != width:
                raise InputError(
                    f"{item.location.path}: expected vectors of width {width:,}, as "
                    f"the query has, found {own_width:,}"
                )
            block.append(item)
            n_vectors += len(item.vectors)
            if n_vectors >= BLOCK_TOKENS:
                yield block
                block = []
                n_vectors = 0
    if n_vectors:
        yield block


def _above(block: list[Vectors], cosines: Tensor, least: float) -> Iterator[Neighbour]:
    """Yield the tokens with cosines above `least`, the nearest first."""
    rows = (cosines > least).nonzero()[:, 0]
    order = cosines[rows].argsort(descending=True, stable=True)
    ends = np.cumsum([len(item.vectors) for item in block])
    for row in rows[order].tolist():
        number = int(np.searchsorted(ends, row, "right"))
        item = block[number]
        start = int(ends[number]) - len(item.vectors)
        index = row - start
        yield Neighbour(
            sentence=item.record.tokens,
            index=item.positions[index],
            cosine=float(cosines[row]),
            record=item.record_number,
            location=item.location,
            word=item.words[index],
        )
