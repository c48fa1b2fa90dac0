"""Neighbours of words in their sentences, which the model of the files embeds."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.search.neighbours import Neighbour, Neighbours, search_vectors
from elmo_cli.analysis.search.vector_files import (
    VectorFiles,
    check_files_come_first,
    opened_files,
)
from elmo_cli.analysis.search.vector_sources import VectorSource, mean_of
from elmo_cli.embedder import ElmoEmbedder, check_embedder
from elmo_cli.errors.checks import check_batch
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import literal
from elmo_cli.errors.wording import counted, kind_of, quoted
from elmo_cli.options.layers import Layers, layers_text
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.options.tokenizer_names import AUTO, recorded_tokenizer
from elmo_cli.outputs.reader import Activations
from elmo_cli.text.choose_tokenizer import choose_tokenizer_of_strings
from elmo_cli.text.occurrences import (
    Occurrence,
    numbers_after,
    occurrence_of,
    tokens_around,
)
from elmo_cli.types import Text

Query = Occurrence | tuple[Text, str]
"""Word to search for: its occurrence, or a sentence and the word in it."""


@overload
def find_word_neighbours(
    embedder: ElmoEmbedder,
    files: VectorFiles | Activations | str | Path | Sequence[str | Path],
    queries: Query,
    top: int = 10,
    *,
    layers: Layers | None = None,
    other_words: bool = False,
) -> Neighbours[list[Neighbour]]: ...


@overload
def find_word_neighbours(
    embedder: ElmoEmbedder,
    files: VectorFiles | Activations | str | Path | Sequence[str | Path],
    queries: Sequence[Query],
    top: int = 10,
    *,
    layers: Layers | None = None,
    other_words: bool = False,
) -> Neighbours[list[list[Neighbour]]]: ...


def find_word_neighbours(
    embedder: ElmoEmbedder,
    files: VectorFiles | Activations | str | Path | Sequence[str | Path],
    queries: Query | Sequence[Query],
    top: int = 10,
    *,
    layers: Layers | None = None,
    other_words: bool = False,
) -> Neighbours[Any]:
    """Return the neighbours of words in their sentences.

        query = ("We sat on the bank.", "bank")
        find_word_neighbours(embedder, "corpus.hdf5", query).nearest[0].marked

    Where tokens are pooled, these are the neighbours of the sentences.

    Args:
        embedder: Model of the files, from the same initial state.
        files: Path or list of paths, of files or folders, or the result of
            `open_occurrences` or `open_activations`.
        queries: A query or a list of them: a sentence and its word, or an occurrence
            from `find_occurrence`. A raw sentence is tokenized like the files. Tokens
            of the same sentence are left out. Any word of a sentence represents it
            where tokens are pooled.
        top: Maximum number of neighbours per query.
        layers: Layers to average, such as "1,2", 2, -1 or [0, 2]. None means all layers
            in the files except the token layer.
        other_words: Also exclude the word in any case, and in files of target words all
            its forms.

    Returns:
        The neighbours: `nearest` is a list for one query, and a list of lists for a
        list of queries.

    Raises:
        InputError: A file was made with another model or cannot be read, or a word
            does not occur in its sentence, or occurs several times.
        SettingsError: `top` is below 1, a file lacks one of the layers, or
            `other_words` is set for one vector per sentence.
    """
    check_embedder(embedder)
    check_files_come_first(files, queries, "the queries")
    if isinstance(top, (str, Path)):  # The order of `elmo neighbours`.
        raise InputError(
            f"top: expected a whole number, found {quoted(str(top))}",
            remedy="Give the files first, then the queries: (SENTENCE, WORD).",
        )
    with opened_files(files) as opened:
        if other_words:
            opened.check_other_words()
        for source in opened.sources:
            _check_model(source, embedder)
        tokenizer = recorded_tokenizer(opened.attributes) or AUTO
        occurrences = [
            _find_query(
                query, name=f"queries[{index}]", embedder=embedder, tokenizer=tokenizer
            )
            for index, query in enumerate(_list_queries(queries))
        ]
        if not occurrences:
            return Neighbours(nearest=[], mean_cosine=None)

        def is_excluded(index: int, neighbour: Neighbour) -> bool:
            query = occurrences[index]
            if neighbour.sentence == query.sentence:
                return True
            return other_words and _is_same_word(opened, query.token, neighbour)

        vectors = _embed_queries(embedder, opened, queries=occurrences, layers=layers)
        return search_vectors(
            opened,
            vectors[0] if _is_one(queries) else vectors,
            top,
            layers=layers,
            device=embedder.device,
            is_excluded=is_excluded,
        )


def _list_queries(queries: Query | Sequence[Query]) -> list[Query]:
    """Return the queries, of which one needs no list."""
    if _is_one(queries):
        return [cast(Query, queries)]
    if isinstance(queries, str):
        text = literal(repr(queries))
        remedy = f"Give its sentence too: (SENTENCE, {text})."
        if len(queries.split()) > 1:
            remedy = f"Give its word too: ({text}, WORD)."
        raise InputError(
            f"queries: expected (sentence, word), found the string {quoted(queries)}",
            remedy=remedy,
        )
    return list(check_batch(cast(Sequence[Query], queries), "queries"))


def _is_one(queries: object) -> bool:
    """Return whether a value is one query, not a list of them."""
    return isinstance(queries, Occurrence) or _is_pair(queries)


def _is_pair(query: object) -> bool:
    """Return whether a query is a sentence and a word."""
    return isinstance(query, tuple) and len(query) == 2 and isinstance(query[1], str)


def _find_query(
    query: Query, name: str, embedder: ElmoEmbedder, tokenizer: str
) -> Occurrence:
    if isinstance(query, Occurrence):
        return query
    if not _is_pair(query):
        raise InputError(
            f"{name}: expected (sentence, word) or the result of find_occurrence, "
            f"found {kind_of(query)}"
        )
    sentence, word = query
    settings = TextSettings(tokenizer=tokenizer)
    chosen = choose_tokenizer_of_strings([sentence], settings, embedder.files)
    tokens = tokens_around(word, sentence, chosen, order="sentence")
    return occurrence_of(
        word,
        tokens,
        number=None,
        choice_of=partial(numbers_after, "find_occurrence(..., occurrence="),
    )


def _check_model(source: VectorSource, embedder: ElmoEmbedder) -> None:
    """Raise an `InputError` if another model made a file, or one of other depth."""
    sha256 = source.attributes.get("model_sha256")
    if sha256 is not None and sha256 != embedder.content_sha256:
        raise InputError(
            f"{source.path}: made by the model {source.attributes.get('model')}, not "
            f"by {embedder.files.name}",
            remedy="Embed and search with the same model.",
        )
    n_stored = len(source.layers_of_axis)
    n_layers = embedder.architecture.n_layers
    if source.stored_layers == "all" and n_stored not in (0, n_layers):
        raise InputError(
            f"{source.path}: {counted(n_stored, 'layer')}, but the model "
            f"{embedder.files.name} has {n_layers}",
            remedy="Embed and search with the same model.",
        )


def _is_same_word(files: VectorFiles, token: str, neighbour: Neighbour) -> bool:
    """Return whether a neighbour is a token in another case, or a form of its word."""
    if neighbour.token.casefold() == token.casefold():
        return True
    # Some files fill the forms while they are read, so they are asked each time.
    for source in files.sources:
        word = source.forms.get(token)
        if word:
            return neighbour.word == word
    return neighbour.word == token


def _embed_queries(
    embedder: ElmoEmbedder,
    files: VectorFiles,
    queries: Sequence[Occurrence],
    layers: Layers | None,
) -> NDArray[np.floating]:
    """Return the vectors of queries, embedded as the files were: shape (Q, W)."""
    with_layers = [
        source for source in files.sources if source.stored_layers is not None
    ]
    rows = None
    if with_layers:
        # A file without records has no axis.
        source = max(with_layers, key=lambda each: len(each.layers_of_axis))
        if source.stored_layers == "all" and not source.layers_of_axis:
            raise InputError(f"{source.path}: no sentences to search")
        attributes = source.attributes | {"layers": source.stored_layers}
        selection = SelectionSettings.from_attributes(attributes)
        rows = source.layer_rows(layers)
    elif layers is not None:
        selection = SelectionSettings(layers_text(layers))
    else:
        raise SettingsError(
            f"{files.paths[0]}: unknown layer",
            remedy="Name it with {--layers}.",
        )
    sentences = (query.sentence for query in queries)
    embedded = embedder.embed_sentences(
        sentences,
        layers=selection.layers,
        mix=selection.mix,
        gamma=selection.gamma,
        pooling=selection.pooling,
        normalize=selection.normalize,
    )
    vectors = []
    for query, values in zip(queries, embedded, strict=True):
        mean = mean_of(values, rows)
        vectors.append(mean if selection.pooling is not None else mean[query.index])
    return np.stack(vectors)
