"""One vector a word: of its spelling, of the softmax, or the mean over its uses in a corpus."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elmo_cli.analysis.vector_files import (
    CHUNK_WORDS,
    Array,
    WordVectors,
    check_vector_file,
    takes_white_space,
    write_vectors,
)
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors import InputError
from elmo_cli.inference.batching import DEFAULT_BATCH_SIZE, sentence_windows
from elmo_cli.inference.device import Device, choose_device, result_or_raise
from elmo_cli.inference.fast_token_encoder import prepare_token_encoder
from elmo_cli.inference.precision import compute_types
from elmo_cli.inference.selection import select
from elmo_cli.language_model.softmax import check_softmax, read_vectors
from elmo_cli.model.options import read_options
from elmo_cli.model.token_encoder import encode_by_length
from elmo_cli.model.vocabulary import read_vocabulary, read_words
from elmo_cli.pretrained.loading import choose_model, load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.lines import Sentence
from elmo_cli.text.records import find_format, open_records
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer


def write_token_vectors(
    words_file: str | Path,
    output: str | Path,
    *,
    softmax: bool = False,
    options_file: str | Path | None = None,
    weight_file: str | Path | None = None,
    device: Device = "cpu",
    model: str | Path | ModelFiles | None = None,
    vocabulary_file: str | Path | None = None,
    softmax_file: str | Path | None = None,
    overwrite: bool = False,
    on_progress: Callable[[int], object] = lambda n_words: None,
) -> int:
    """Write the vectors of the words of a file.

    Args:
        words_file: a word a line; special tokens are not required.
        output: its suffix chooses the format. It appears when it is complete.
        softmax: write the output vectors of the softmax; a word outside its vocabulary gets
            that of `<UNK>`.
        options_file, weight_file, device, model: as in `ElmoEmbedder`.
        vocabulary_file, softmax_file: as in `LanguageModel`.
        overwrite: replace a file that is there.
        on_progress: called with the number of words of each chunk that is written.

    Returns:
        The number of words.

    Raises:
        InputError: the words cannot be read, or one has white space and the format is text.
        OutputError: `output` has another suffix, exists already or cannot be written.
        ElmoError: the model or its softmax is missing or invalid.
    """
    output = Path(output)
    check_vector_file(output, words_file, overwrite=overwrite)
    words = _read_words(words_file, output)
    named = (model, options_file, weight_file, vocabulary_file, softmax_file)
    files = choose_model(*named, with_softmax=softmax)
    if softmax:
        width, chunks = _of_softmax(words, files)
    else:
        width, chunks = _of_encoder(words, files, choose_device(device))
    write_vectors(output, WordVectors(words, width, _counted(chunks, on_progress)))
    return len(words)


def _read_words(path: str | Path, output: Path) -> list[str]:
    words = read_words(path)
    if words == [""]:
        raise InputError(f"{path}: expected a word a line, found nothing")
    for number, word in enumerate(words, start=1):
        if word.split() != [word] and not takes_white_space(output):
            raise InputError(
                f"{path}, line {number}: expected one word without white space, found "
                f"{word[:60]!r}; {output.suffix} has no way to write it, HDF5 and npz have"
            )
    return words


Chunks = Iterator[Array]


def _of_encoder(words: list[str], files: ModelFiles, device: torch.device) -> tuple[int, Chunks]:
    """The width of a model's token vectors, and those of the words in chunks."""
    bilm = load_bilm(files)
    encoder = prepare_token_encoder(bilm.token_encoder, compute_types("float32", device))

    @torch.inference_mode()
    def encode(tokens: Sequence[str]) -> torch.Tensor:
        vectors: torch.Tensor = encoder(encoder.token_ids(tokens).to(device))
        return vectors

    chunks = (encode_by_length(encode, chunk).cpu().numpy() for chunk in _cut(words))
    return bilm.options.lstm.projection_dim, chunks


def _of_softmax(words: list[str], files: ModelFiles) -> tuple[int, Chunks]:
    """The same for a model's softmax."""
    assert files.vocabulary is not None
    assert files.softmax is not None
    vocabulary, path = read_vocabulary(files.vocabulary), files.softmax
    dim = read_options(files.options).lstm.projection_dim
    check_softmax(path, len(vocabulary), dim)
    return dim, (read_vectors(path, vocabulary.indices(chunk)) for chunk in _cut(words))


def _cut(words: list[str]) -> Iterator[list[str]]:
    return (words[start:stop] for start, stop in _bounds(len(words)))


def _counted(chunks: Chunks, on_progress: Callable[[int], object]) -> Chunks:
    for chunk in chunks:
        yield chunk
        on_progress(len(chunk))


def write_average_vectors(
    embedder: ElmoEmbedder,
    corpus: str | Path,
    output: str | Path,
    words_file: str | Path | None = None,
    *,
    tokenizer: Tokenizer = WHITESPACE,
    layers: str | None = None,
    min_count: int = 1,
    at_most: int | None = None,
    overwrite: bool = False,
    on_progress: Callable[[int], object] = lambda n_tokens: None,
) -> int:
    """Write the mean vectors of the words of a corpus over their uses.

    Args:
        embedder: of the model that embeds it.
        corpus: text, a sentence a line.
        output: its suffix chooses the format. It appears when it is complete.
        words_file: a word a line, for the vectors of these alone, in this order; if not given,
            all words have one, the most frequent first.
        tokenizer: of the corpus; see `make_tokenizer`.
        layers, min_count, at_most: as in `average_vectors`.
        overwrite: replace a file that is there.
        on_progress: called with the number of tokens of each sentence that is read.

    Returns:
        The number of words.

    Raises:
        InputError: the corpus or the words cannot be read, or no word is frequent enough.
        OutputError: see `write_token_vectors`.
    """
    output = Path(output)
    check_vector_file(output, words_file, corpus, overwrite=overwrite)
    words = None if words_file is None else _read_words(words_file, output)

    input_format = find_format(corpus, tokenizer=tokenizer)

    def sentences() -> Iterator[Sentence]:
        with open_records(corpus, input_format, tokenizer=tokenizer) as (records, *_):
            for record in records:
                on_progress(len(record.tokens))
                yield record.tokens

    found = average_vectors(
        *(embedder, sentences(), words), layers=layers, min_count=min_count, at_most=at_most
    )
    if not found.words:
        raise InputError(f"{corpus}: expected words that occur {min_count:,} times, found none")
    width = found.vectors.shape[1]
    chunks = (found.vectors[start:stop] for start, stop in _bounds(len(found.words)))
    write_vectors(output, WordVectors(found.words, width, chunks, found.counts))
    return len(found.words)


class AverageVectors(NamedTuple):
    """Words, the most frequent first if none were asked for, and the means over their uses."""

    words: list[str]
    counts: list[int]
    """How often each occurs."""
    vectors: Array
    """float32, shape (V, W)."""


def average_vectors(
    embedder: ElmoEmbedder,
    sentences: Iterable[Sentence],
    words: Sequence[str] | None = None,
    *,
    layers: str | None = None,
    min_count: int = 1,
    at_most: int | None = None,
) -> AverageVectors:
    """Average the vectors of words over their uses, in one pass.

    Sentences without a word that still counts are not computed. In memory is one window of
    sentences, and a float64 vector a word.

    Args:
        embedder: of the model that embeds them.
        sentences: each a list of tokens.
        words: those that get a vector, if they are frequent enough; all if not given.
        layers: as in `ElmoEmbedder.embed_sentences`, the mean of several; all but the token
            layer if not given.
        min_count: minimum number of uses of a word.
        at_most: maximum number of uses that are averaged, the first ones; all if not given.

    Raises:
        InputError: there are no such layers, or `at_most` is below `min_count`.
    """
    if at_most is not None and at_most < min_count:
        raise InputError(f"at most {at_most:,} uses: expected {min_count:,} or more, the minimum")
    lstm_layers = ",".join(map(str, range(1, embedder.options.n_layers)))
    selection = select(embedder.options.n_layers, lstm_layers if layers is None else layers)
    counts: Counter[str] = Counter()
    sums: dict[str, NDArray[np.float64]] = {}
    for window in sentence_windows(
        _uses(sentences, None if words is None else set(words), counts, at_most),
        *(DEFAULT_BATCH_SIZE, embedder.batch_tokens),
        carried=embedder.state == "carry",
        length=lambda uses: len(uses.sentence),
    ):
        embedded = embedder.embed_window([uses.sentence for uses in window], selection)
        for uses, values in zip(window, map(result_or_raise, embedded), strict=True):
            vectors = values if values.ndim == 2 else values.mean(axis=0)  # (T, W)
            for position in uses.positions:
                word = uses.sentence[position]
                if word in sums:
                    sums[word] += vectors[position]
                else:
                    sums[word] = vectors[position].astype(np.float64)
    ordered = (word for word, _ in counts.most_common()) if words is None else words
    kept = [word for word in ordered if counts[word] >= max(1, min_count)]
    means = np.empty((len(kept), len(sums[kept[0]]) if kept else 0), np.float32)
    for row, word in zip(means, kept, strict=True):
        row[:] = sums[word] / min(counts[word], at_most or counts[word])
    return AverageVectors(kept, [counts[word] for word in kept], means)


class _Uses(NamedTuple):
    """A sentence, and the places of the words in it that count."""

    sentence: Sentence
    positions: list[int]


def _uses(
    sentences: Iterable[Sentence],
    words: set[str] | None,
    counts: Counter[str],
    at_most: int | None,
) -> Iterator[_Uses]:
    """Count the words of sentences, and give the sentences that have uses to average."""
    for sentence in sentences:
        positions = []
        for position, word in enumerate(sentence):
            if words is None or word in words:
                counts[word] += 1
                if at_most is None or counts[word] <= at_most:
                    positions.append(position)
        if positions:
            yield _Uses(sentence, positions)


def _bounds(n_words: int) -> Iterator[tuple[int, int]]:
    """Where the chunks of words start and end."""
    for start in range(0, n_words, CHUNK_WORDS):
        yield start, min(start + CHUNK_WORDS, n_words)
