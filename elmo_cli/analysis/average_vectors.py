"""Mean vectors of words over their occurrences in a corpus."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.word_vector_files import (
    Array,
    OnProgress,
    _check_output,
    _read_words,
    write,
)
from elmo_cli.callbacks import ignore
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors.checks import Sentence, check_sentence, check_sentences, check_type
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.inference.memory import result_or_raise
from elmo_cli.options.selection import Layers, Selection, layers_text
from elmo_cli.options.text import TextSettings
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.open_records import open_records
from elmo_cli.records.text_input import open_input
from elmo_cli.records.warnings.expected import expected_input


@dataclass(frozen=True)
class Averaging:
    """Occurrences and layers whose vectors are averaged."""

    layers: Layers | None = None
    """Layers as in `ElmoEmbedder.embed_sentences`. Several layers are averaged. None is all layers
    but the token layer."""
    min_count: int = 1
    """Minimum number of occurrences of a word."""
    at_most: int | None = None
    """Average only the first `at_most` occurrences of a word. None is all of them."""

    def __post_init__(self) -> None:
        if self.at_most is not None and self.at_most < self.min_count:
            expected = f"expected --min-count ({self.min_count:,}) or more"
            raise SettingsError(f"--at-most: {expected}, found {self.at_most:,}")


def write_average_vectors(
    embedder: ElmoEmbedder,
    corpus: str | Path | TextInput,
    output: str | Path,
    words_file: str | Path | None = None,
    *,
    settings: TextSettings | None = None,
    averaging: Averaging | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> int:
    """Write the mean vectors of words over their occurrences in a corpus.

    Args:
        embedder: Model.
        corpus: Path of the text, one sentence per line, or an input from `open_input`.
        output: As in `write_token_vectors`.
        words_file: Path of the words, one per line, that get a vector, in this order. None is all
            words, the most frequent first.
        settings: Options for reading the corpus. Its language is by default the model's.
        averaging: Occurrences and layers. None is `Averaging()`.
        overwrite: Replace an existing file.
        on_progress: Called with the number of tokens of each sentence that is read.

    Returns:
        The number of words.

    Raises:
        InputError: The corpus or the words cannot be read, or no word is frequent enough.
        OutputError: See `write_token_vectors`.
    """
    check_type("embedder", embedder, ElmoEmbedder, "an ElmoEmbedder")
    output = Path(output)
    path = str(corpus.source.path) if isinstance(corpus, TextInput) else corpus
    _check_output(
        output, *[words_file, path, *embedder.files.paths], overwrite=overwrite
    )
    words = None if words_file is None else _read_words(words_file, output)
    text = corpus
    if not isinstance(text, TextInput):
        text = open_input(
            text, settings or TextSettings(), language=embedder.files.language
        )
    expected = expected_input(embedder.files.name, embedder.options.token_limit)

    def sentences() -> Iterator[Sentence]:
        with open_records(text, expected, reads_ids=False) as (records, *_):
            for record in records:
                (on_progress or ignore)(len(record.tokens))
                yield from record.split()

    averaging = averaging or Averaging()
    averages = average_vectors(embedder, sentences(), words, **asdict(averaging))
    if not averages.words:
        problem = f"no word occurs {averaging.min_count:,} times or more"
        raise InputError(f"{path}: {problem}. Lower --min-count.")
    write(output, averages.words, averages.vectors, averages.counts)
    return len(averages.words)


class AverageVectors(NamedTuple):
    """Mean vectors of words over their occurrences."""

    words: list[str]
    """Words in the given order, or the most frequent first."""
    counts: list[int]
    """Number of occurrences of each word."""
    vectors: Array
    """float32, shape (V, W)."""


def average_vectors(
    embedder: ElmoEmbedder,
    sentences: Iterable[Sentence],
    words: Sequence[str] | None = None,
    *,
    layers: Layers | None = None,
    min_count: int = 1,
    at_most: int | None = None,
) -> AverageVectors:
    """Average the vectors of words over their occurrences, in one pass.

    Sentences whose words all have enough occurrences are not computed. The memory contains one
    window of sentences and one float64 vector per word.

    Args:
        embedder: Model.
        sentences: Lists of tokens.
        words: Words that get a vector, if they are frequent enough. None is all words.
        layers, min_count, at_most: As in `Averaging`.

    Returns:
        The words, their counts and their mean vectors.

    Raises:
        InputError: The model lacks one of the layers, or `at_most` is below `min_count`.
    """
    check_type("embedder", embedder, ElmoEmbedder, "an ElmoEmbedder")
    Averaging(
        layers, min_count, at_most
    )  # Raise an error for numbers that contradict each other.
    engine, n_layers = embedder.engine, embedder.options.n_layers
    lstm_layers = ",".join(map(str, range(1, n_layers)))
    selection = Selection(
        lstm_layers if layers is None else layers_text(layers)
    ).for_model(n_layers)
    counts: Counter[str] = Counter()
    sums: dict[str, NDArray[np.float64]] = {}
    wanted = (
        None
        if words is None
        else set(check_sentence(words, "words", "a list of words"))
    )
    occurrences = _count_occurrences(
        check_sentences(sentences), wanted, counts, at_most
    )
    embed = partial(engine.embed_window, selection=selection)
    for window, embedded in engine.run(
        occurrences, embed, sentence_of=lambda item: item[0]
    ):
        for (sentence, positions), result in zip(window, embedded, strict=True):
            values = result_or_raise(result)
            vectors = values if values.ndim == 2 else values.mean(axis=0)  # (T, W)
            for position in positions:
                word = sentence[position]
                if word in sums:
                    sums[word] += vectors[position]
                else:
                    sums[word] = vectors[position].astype(np.float64)
    ordered = (word for word, _ in counts.most_common()) if words is None else words
    frequent = [word for word in ordered if counts[word] >= max(1, min_count)]
    means = np.empty(
        (len(frequent), len(sums[frequent[0]]) if frequent else 0), np.float32
    )
    for row, word in zip(means, frequent, strict=True):
        row[:] = sums[word] / min(counts[word], at_most or counts[word])
    return AverageVectors(frequent, [counts[word] for word in frequent], means)


def _count_occurrences(
    sentences: Iterable[Sentence],
    words: set[str] | None,
    counts: Counter[str],
    at_most: int | None,
) -> Iterator[tuple[Sentence, list[int]]]:
    """Count words, and yield sentences with the positions of occurrences that are averaged."""
    for sentence in sentences:
        positions = []
        for position, word in enumerate(sentence):
            if words is None or word in words:
                counts[word] += 1
                if at_most is None or counts[word] <= at_most:
                    positions.append(position)
        if positions:
            yield sentence, positions
