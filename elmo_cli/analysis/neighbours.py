"""The tokens of a file of activations nearest to a word in a sentence: exact search, in blocks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.analysis.cosine import Occurrence
from elmo_cli.analysis.uses import Vectors, layer_rows, mean_of, read_vectors, stored_layers
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors import InputError
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.outputs.reader import Activations
from elmo_cli.settings import Selection

BLOCK_TOKENS: Final = 2048
"""About how many vectors are compared at once: 8 MB, which the allocator reuses."""
_TINY: Final = 1e-30


@dataclass(frozen=True)
class Neighbour(Occurrence):
    """A token near to a query; the first one of its sentence where tokens are pooled."""

    cosine: float
    record: int
    """The number of its sentence in the file, from 0."""


@dataclass(frozen=True)
class Neighbours:
    """What was found in a file."""

    nearest: list[list[Neighbour]]
    """For each query its neighbours, the nearest first."""
    mean_cosine: float | None
    """The mean cosine of all pairs of two tokens of the file; None if it has no two."""


def neighbours(
    activations: Activations,
    vectors: NDArray[np.floating],
    top: int = 10,
    *,
    layers: str | None = None,
    device: Device = "cpu",
    leave_out: Callable[[int, Neighbour], bool] = lambda query, found: False,
) -> Neighbours:
    """Find the tokens whose vectors have the largest cosines with those of queries.

    All tokens are compared. The file is read once, some MB at a time.

    Args:
        activations: a file, or several as one.
        vectors: of the queries, shape (Q, W).
        top: maximum number of neighbours of each.
        layers: of the file, by numbers with commas between, whose mean is taken; if not given,
            all but the token layer.
        device: where they are compared, as in `ElmoEmbedder`.
        leave_out: whether a token is to be no neighbour of a query, by the query's number.

    Raises:
        InputError: `vectors` or `top` is none; or the file has no tokens or no such layers, or
            vectors of another width.
    """
    chosen = choose_device(device)
    queries = torch.as_tensor(np.asarray(vectors, np.float32), device=chosen)  # (Q, W)
    if queries.ndim != 2 or top < 1:
        raise InputError(
            f"expected vectors of the shape (Q, W) and top 1 or more, found the shape "
            f"{tuple(queries.shape)} and top {top}"
        )
    queries = queries / queries.norm(dim=1, keepdim=True).clamp_min(_TINY)
    nearest: list[list[Neighbour]] = [[] for _ in queries]
    total = torch.zeros(queries.shape[1], dtype=torch.float64)
    n_tokens = 0
    for block in _blocks(read_vectors(activations, layers)):
        rows = torch.from_numpy(np.concatenate([item.vectors for item in block]))
        if rows.shape[1] != queries.shape[1]:
            raise InputError(
                f"{activations.paths[0]}: expected vectors of width {queries.shape[1]:,}, as the "
                f"query has, found {rows.shape[1]:,}"
            )
        rows = rows.to(chosen).float()  # (N, W)
        scales = rows.norm(dim=1).clamp_min(_TINY).reciprocal()  # (N,)
        cosines = (queries @ rows.T * scales).cpu()  # (Q, N)
        total += (scales @ rows).cpu()
        n_tokens += len(rows)
        for query, (found, values) in enumerate(zip(nearest, cosines, strict=True)):
            least = found[-1].cosine if len(found) == top else float("-inf")
            others = (
                other for other in _above(block, values, least) if not leave_out(query, other)
            )
            # Of equal cosines, those that come first in the file stay.
            found += islice(others, top)
            found.sort(key=lambda neighbour: -neighbour.cosine)
            del found[top:]
    if n_tokens < 2:
        return Neighbours(nearest, None)
    # Of all unit vectors, |sum|² = n + all pairs.
    mean = (total @ total - n_tokens) / (n_tokens * (n_tokens - 1))
    return Neighbours(nearest, float(mean))


def word_neighbours(
    embedder: ElmoEmbedder,
    activations: Activations,
    queries: Sequence[Occurrence],
    top: int = 10,
    *,
    layers: str | None = None,
    other_words: bool = False,
) -> Neighbours:
    """Find the neighbours of words in their sentences; or of sentences, where tokens are pooled.

    What lies in the same sentence as the query is left out.

    Args:
        embedder: of the model that made the file; see `ModelSettings.from_attributes`.
        activations, top, layers: as in `neighbours`.
        queries: words; any word of a sentence stands for it where tokens are pooled.
        other_words: leave out the same word, in lower or upper case, too.
    """
    there = activations.attributes.get("model_sha256")
    if there is not None and there != embedder.content_sha256:
        raise InputError(
            f"{activations.paths[0]}: made by another model, {activations.attributes['model']}, "
            f"than {embedder.files.name}; embed and search with the same one"
        )

    def leave_out(number: int, found: Neighbour) -> bool:
        query = queries[number]
        is_same = other_words and found.token.casefold() == query.token.casefold()
        return is_same or found.sentence == query.sentence

    return neighbours(
        *(activations, _embed(embedder, activations, queries, layers), top),
        layers=layers,
        device=embedder.cuda_device,
        leave_out=leave_out,
    )


def _embed(
    embedder: ElmoEmbedder,
    activations: Activations,
    queries: Sequence[Occurrence],
    layers: str | None,
) -> NDArray[np.floating]:
    """The vectors of queries, made as those of a file: shape (Q, W)."""
    attributes = activations.attributes | {"layers": stored_layers(activations)}
    selection = Selection.from_attributes(attributes)
    embedded = embedder.embed_sentences((query.sentence for query in queries), **asdict(selection))
    rows = layer_rows(activations, layers)
    means = [mean_of(values, rows) for values in embedded]
    if selection.pooling is None:
        means = [mean[query.index] for mean, query in zip(means, queries, strict=True)]
    return np.stack(means)


def _above(block: list[Vectors], cosines: Tensor, least: float) -> Iterator[Neighbour]:
    """The tokens of a block with larger cosines than the least, the nearest first."""
    places = (cosines > least).nonzero()[:, 0]
    order = cosines[places].argsort(descending=True, stable=True)
    ends = np.cumsum([len(item.vectors) for item in block])
    for place in places[order].tolist():
        number = int(np.searchsorted(ends, place, "right"))
        item = block[number]
        row = place - int(ends[number]) + len(item.vectors)
        cosine = float(cosines[place])
        yield Neighbour(item.record.tokens, item.positions[row], cosine, item.number)


def _blocks(items: Iterator[Vectors]) -> Iterator[list[Vectors]]:
    """Records together, until they have about `BLOCK_TOKENS` vectors."""
    block: list[Vectors] = []
    n_vectors = 0
    for item in items:
        block.append(item)
        n_vectors += len(item.vectors)
        if n_vectors >= BLOCK_TOKENS:
            yield block
            block, n_vectors = [], 0
    if n_vectors:
        yield block
