"""Similarity of words in their sentences, and exact search, by the cosine of their vectors."""

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
from elmo_cli.callbacks import ignore
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
    """Target word that the token is a form of, or the token itself without target words."""


@dataclass(frozen=True)
class Neighbours:
    """Result of a search."""

    nearest: list[list[Neighbour]]
    """Neighbours of each query, the nearest first."""
    mean_cosine: float | None
    """Mean cosine of all pairs of two tokens of the files; None for fewer than two tokens."""


def neighbour_columns(*, pooled: bool) -> list[str]:
    """Return the columns of `neighbour_rows`. A pooled sentence has no position and token."""
    token = [] if pooled else ["position", "token"]
    return ["query_number", "rank", "cosine", "file", "line", "id", *token, "sentence"]


def neighbour_rows(
    query_number: int, nearest: Sequence[Neighbour], *, pooled: bool
) -> Iterator[list[object]]:
    """Yield a row per neighbour; numbers, ranks and lines count from 1, positions from 0."""
    for rank, neighbour in enumerate(nearest, start=1):
        path, line, identifier = neighbour.location
        token = [] if pooled else [neighbour.index, neighbour.token]
        sentence = " ".join(neighbour.sentence)
        yield [
            query_number,
            rank,
            neighbour.cosine,
            str(path),
            line,
            identifier,
            *token,
            sentence,
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
        layers: Numbers of the layers whose mean is compared, separated by commas. None is all
            layers of the files but the token layer.
        device: Device of the comparison, as in `ElmoEmbedder`.
        is_excluded: Return whether a token cannot be a neighbour of a query, given by its number.

    Raises:
        InputError: `vectors` has another shape, `top` is below 1, or a file lacks tokens or one
            of the layers, or has vectors of another width than `vectors`.
    """
    queries = torch.as_tensor(
        np.asarray(vectors, np.float32), device=choose_device(device)
    )
    if queries.ndim != 2 or top < 1:
        found = f"the shape {tuple(queries.shape)} and top {top}"
        raise InputError(
            f"expected vectors of the shape (Q, W) and top 1 or more, found {found}"
        )
    excludes = is_excluded or ignore
    queries = queries / queries.norm(dim=1, keepdim=True).clamp_min(_TINY)  # (Q, W)
    nearest: list[list[Neighbour]] = [[] for _ in queries]
    total = torch.zeros(queries.shape[1], dtype=torch.float64, device="cpu")
    n_tokens = 0
    for block in _blocks(as_files(files), layers, queries.shape[1]):
        rows = torch.from_numpy(np.concatenate([item.vectors for item in block]))
        rows = rows.to(queries.device).float()  # (N, W)
        scales = rows.norm(dim=1).clamp_min(_TINY).reciprocal()  # (N,)
        with exact_products():
            cosines, added = queries @ rows.T * scales, scales @ rows  # (Q, N), (W,)
        cosines = cosines.cpu()
        total += added.cpu()
        n_tokens += len(rows)
        for query, (best, values) in enumerate(zip(nearest, cosines, strict=True)):
            least = best[-1].cosine if len(best) == top else float("-inf")
            above = _above(block, values, least)
            # Among equal cosines, the first ones in the file stay.
            best += islice((each for each in above if not excludes(query, each)), top)
            best.sort(key=lambda neighbour: -neighbour.cosine)
            del best[top:]
    if n_tokens < 2:
        return Neighbours(nearest, None)
    # The squared norm of the sum of unit vectors is n plus the cosines of all pairs.
    return Neighbours(
        nearest, float((total @ total - n_tokens) / (n_tokens * (n_tokens - 1)))
    )


def _blocks(
    files: VectorFiles, layers: Layers | None, width: int
) -> Iterator[list[Vectors]]:
    """Yield the records of files in blocks of about `BLOCK_TOKENS` vectors of a width."""
    block: list[Vectors] = []
    n_vectors = 0
    for source in files.sources:
        # `layers` has no effect on files that do not name theirs.
        for item in source.read(None if source.stored_layers is None else layers):
            files.on_progress(1)
            if item.vectors.shape[1] != width:
                expected = f"vectors of width {width:,}, as the query has"
                found = f"found {item.vectors.shape[1]:,}"
                raise InputError(f"{item.location.path}: expected {expected}, {found}")
            block.append(item)
            n_vectors += len(item.vectors)
            if n_vectors >= BLOCK_TOKENS:
                yield block
                block, n_vectors = [], 0
    if n_vectors:
        yield block


def _above(block: list[Vectors], cosines: Tensor, least: float) -> Iterator[Neighbour]:
    """Yield the tokens of a block whose cosines are above `least`, the nearest first."""
    rows = (cosines > least).nonzero()[:, 0]
    order = cosines[rows].argsort(descending=True, stable=True)
    ends = np.cumsum([len(item.vectors) for item in block])
    for row in rows[order].tolist():
        number = int(np.searchsorted(ends, row, "right"))
        item = block[number]
        index = row - int(ends[number]) + len(item.vectors)
        position, word = item.positions[index], item.words[index]
        tokens, location = item.record.tokens, item.location
        yield Neighbour(
            tokens, position, float(cosines[row]), item.record_number, location, word
        )
