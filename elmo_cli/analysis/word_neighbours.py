"""Neighbours of words in their sentences."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.neighbours import Neighbour, Neighbours, neighbours
from elmo_cli.analysis.occurrences import Occurrence
from elmo_cli.analysis.vector_files import VectorFiles, as_files
from elmo_cli.analysis.vector_sources import mean_of
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors.checks import check_batch, check_type
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.options.selection import Layers, Selection, layers_text
from elmo_cli.outputs.reader import Activations


def word_neighbours(
    embedder: ElmoEmbedder,
    files: VectorFiles | Activations,
    queries: Sequence[Occurrence],
    top: int = 10,
    *,
    layers: Layers | None = None,
    other_words: bool = False,
) -> Neighbours:
    """Return the neighbours of words in their sentences; or of sentences, where tokens are pooled.

    Args:
        embedder: Model of the files, from the same initial state.
        files: Files of `open_occurrences` or `open_activations`.
        queries: Occurrences from `find_occurrence`. Tokens of the same sentence are no neighbours.
            Any word of a sentence represents it where tokens are pooled.
        top, layers: As in `neighbours`. A table of another program does not say which layer it has.
        other_words: Exclude the same word, in lower or upper case or another form, too.

    Raises:
        InputError: Another model made a file, or as in `neighbours`.
    """
    files = as_files(files)
    check_type("embedder", embedder, ElmoEmbedder, "an ElmoEmbedder")
    for index, query in enumerate(check_batch(queries, "queries")):
        check_type(
            f"queries[{index}]", query, Occurrence, "the result of find_occurrence"
        )
    for source in files.sources:
        sha256 = source.attributes.get("model_sha256")
        if sha256 is not None and sha256 != embedder.content_sha256:
            models = f"{source.attributes.get('model')}, not by {embedder.files.name}"
            remedy = "Embed and search with the same model."
            raise InputError(f"{source.path}: made by the model {models}. {remedy}")

    def is_excluded(number: int, neighbour: Neighbour) -> bool:
        token = queries[number].token
        is_same = neighbour.token.casefold() == token.casefold()
        # Some files fill the forms while they are read.
        words = (source.forms.get(token) for source in files.sources)
        is_same = is_same or neighbour.word == next(filter(None, words), token)
        return (other_words and is_same) or neighbour.sentence == queries[
            number
        ].sentence

    vectors, device = _embed(embedder, files, queries, layers), embedder.device
    return neighbours(
        files, vectors, top, layers=layers, device=device, is_excluded=is_excluded
    )


def _embed(
    embedder: ElmoEmbedder,
    files: VectorFiles,
    queries: Sequence[Occurrence],
    layers: Layers | None,
) -> NDArray[np.floating]:
    """Return the vectors of queries, embedded as the files were: shape (Q, W)."""
    source = next(
        (each for each in files.sources if each.stored_layers is not None), None
    )
    if source is not None:
        selection = Selection.from_attributes(
            source.attributes | {"layers": source.stored_layers}
        )
        rows = source.layer_rows(layers)
    elif layers is not None:
        selection, rows = Selection(layers_text(layers)), None
    else:
        raise SettingsError(
            f"{files.paths[0]}: unknown layer. Name it with --mean-layers."
        )
    options: dict[str, Any] = asdict(selection)
    embedded = embedder.embed_sentences(
        (query.sentence for query in queries), **options
    )
    means = [mean_of(values, rows) for values in embedded]
    if selection.pooling is None:
        means = [mean[query.index] for mean, query in zip(means, queries, strict=True)]
    return np.stack(means)
