"""Mean vectors of words over their occurrences in a corpus."""

import logging
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.word_vectors.file_formats import (
    check_vectors_file,
    words_for,
    write_vectors_file,
)
from elmo_cli.arrays import FloatArray
from elmo_cli.callbacks import OnProgress, ignore
from elmo_cli.embedder import ElmoEmbedder, check_embedder
from elmo_cli.errors.checks import check_sentence, list_texts
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.messages import Message, literal
from elmo_cli.errors.wording import counted
from elmo_cli.inference.memory import result_or_raise
from elmo_cli.options.analysis import DEFAULT_MIN_COUNT, AveragingSettings
from elmo_cli.options.layers import Layers, layers_text
from elmo_cli.options.selection import Selection, SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.open_records import open_records
from elmo_cli.records.warnings.expected import expected_input
from elmo_cli.text.choose_tokenizer import choose_tokenizer_of_strings, peek_strings
from elmo_cli.text.tokenizers import tokenize_texts
from elmo_cli.types import Sentence, Text

logger = logging.getLogger(__name__)


def write_average_vectors(
    embedder: ElmoEmbedder,
    corpus: TextInput,
    output: str | Path,
    words: str | Path | Sequence[str] | None = None,
    *,
    averaging: AveragingSettings,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> int:
    """Write the mean vectors of words over their occurrences in a corpus.

    Args:
        embedder: Model.
        corpus: Text, from `open_input`.
        output: Path, whose suffix chooses the format.
        words: Words that get a vector, in this order, or the path of a file with one
            word per line. None means all words, the most frequent first.
        averaging: Occurrences and layers.
        overwrite: Replace an existing file.
        on_progress: Called with the number of tokens of each sentence that is read.

    Returns:
        The number of words.
    """
    output = Path(output)
    sources = [corpus.source.path, *embedder.files.paths]
    if isinstance(words, (str, Path)):
        sources.append(words)
    check_vectors_file(output, *sources, overwrite=overwrite)
    listed = None if words is None else words_for(output, words)
    averages = _average(
        embedder,
        _read_sentences(embedder, corpus, on_progress or ignore),
        words=listed,
        averaging=averaging,
        name=corpus.source.name,
        list_name=str(words) if isinstance(words, (str, Path)) else "the list",
    )
    write_vectors_file(
        output,
        words=averages.words,
        vectors=averages.vectors,
        counts=averages.counts,
        overwrite=overwrite,
    )
    return len(averages.words)


def _read_sentences(
    embedder: ElmoEmbedder, text_input: TextInput, on_progress: OnProgress
) -> Iterator[Sentence]:
    expected = expected_input(embedder.files.name, embedder.architecture.token_limit)
    with open_records(text_input, expected, reads_ids=False) as read:
        for record in read.records:
            on_progress(len(record.tokens))
            yield from record.split()


class AverageVectors(NamedTuple):
    """Mean vectors of words over their occurrences."""

    words: list[str]
    """Words in the given order, or the most frequent first."""
    counts: list[int]
    """Number of occurrences of each word."""
    vectors: FloatArray
    """Vector of each word, float32, shape (n, W) for n words."""


def average_word_vectors(
    embedder: ElmoEmbedder,
    texts: str | Iterable[Text],
    words: Sequence[str] | None = None,
    *,
    layers: Layers | None = None,
    min_count: int = DEFAULT_MIN_COUNT,
    at_most: int | None = None,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> AverageVectors:
    """Average the vectors of words over their occurrences, in one pass.

        texts = ["The cat sat.", "A cat ran."]
        averages = average_word_vectors(embedder, texts, ["cat"], min_count=1)
        averages.vectors  # float32, (1, 1024)

    Sentences whose words all have enough occurrences are not computed. Memory
    holds one window of sentences and one float64 vector per word.

    Args:
        embedder: Model.
        texts: One raw text, or several: strings, which are tokenized, or lists of
            tokens.
        words: Words that get a vector, if they are frequent enough. None means all
            words.
        layers: "all", "top", or numbers such as 2, -1 or [1, 2]. Several layers are
            averaged. None means all layers except the token layer.
        min_count: Minimum number of occurrences of a word.
        at_most: Average only the first `at_most` occurrences of a word. None means all.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" looks at the first 200 texts: tokenized
            ones are split at white space, and others are tokenized like the model's
            training text, else by "moses".
        language: Code of the language of the texts. None means the model's.

    Returns:
        The words, their counts and their mean vectors.

    Raises:
        InputError: A text is neither a string nor a list of tokens, or no word is
            frequent enough.
        SettingsError: The model lacks one of the layers, `min_count` is below 1,
            `at_most` is below `min_count`, or the tokenizer is unknown.
    """
    check_embedder(embedder)
    averaging = AveragingSettings(layers=layers, min_count=min_count, at_most=at_most)
    if words is not None:
        words = check_sentence(words, "words", "a list of words")
    if isinstance(texts, str):
        texts = list_texts(texts)
    strings, texts = peek_strings(texts)
    settings = TextSettings(tokenizer=tokenizer, language=language)
    chosen = choose_tokenizer_of_strings(strings, settings, embedder.files)
    sentences = tokenize_texts(texts, chosen.tokenize)
    return _average(
        embedder,
        sentences,
        words=words,
        averaging=averaging,
        name="texts",
        list_name="the list",
    )


def _average(
    embedder: ElmoEmbedder,
    sentences: Iterable[Sentence],
    words: Sequence[str] | None,
    averaging: AveragingSettings,
    *,
    name: str,
    list_name: str,
) -> AverageVectors:
    """Average the vectors of words.

    Messages name the sentences `name`, and a list of words `list_name`.
    """
    n_layers = embedder.architecture.n_layers
    layers = layers_text(averaging.layer_numbers(n_layers))
    selection = SelectionSettings(layers).for_model(n_layers)
    at_most = averaging.at_most
    counts: Counter[str] = Counter()
    wanted = None if words is None else set(words)
    to_average = _count_occurrences(sentences, wanted, counts=counts, at_most=at_most)
    sums = _sum_vectors(embedder, to_average, selection)
    if words is None:
        words = [word for word, _ in counts.most_common()]
        of_list = ""
    else:
        of_list = f" of {list_name}"
    frequent = [word for word in words if counts[word] >= averaging.min_count]
    if not frequent:
        raise _too_rare_error(name, of_list, counts, averaging.min_count)
    if wanted is not None:
        rare = [word for word in words if counts[word] < averaging.min_count]
        if rare:
            logger.warning(
                "%s",
                _rare_words_message(
                    rare,
                    counts,
                    averaging.min_count,
                    name=name,
                    of_list=f"{counted(len(words), 'word')}{of_list}",
                ),
            )
    width = len(sums[frequent[0]])
    means = np.empty((len(frequent), width), np.float32)
    for row, word in zip(means, frequent, strict=True):
        n_averaged = counts[word] if at_most is None else min(counts[word], at_most)
        row[:] = sums[word] / n_averaged
    return AverageVectors(frequent, [counts[word] for word in frequent], means)


def _too_rare_error(
    name: str, of_list: str, counts: Counter[str], min_count: int
) -> InputError:
    """Return the error for a text without a word that occurs often enough.

    `of_list` names the words that should get a vector; "" means all words of the text.
    """
    if not counts:
        if not of_list:
            return InputError(f"{name}: no words")
        return InputError(
            f"{name}: no word{of_list} occurs",
            remedy="Check the words and the tokenizer.",
        )
    most = max(counts.values())
    times = "once" if most == 1 else counted(most, "time")
    problem = (
        f"{name}: no word{of_list} occurs {min_count:,} times or more; the most "
        f"frequent occurs {times}"
    )
    remedy = f"Use {{--min-count {most}}}."
    shell_remedy = None
    if most == 1 and not of_list and os.path.isfile(name):
        shell_remedy = (
            "Use {--min-count 1}, or for a list of words, "
            f"`elmo word-vectors --words {literal(shlex.quote(name))} OUTPUT`."
        )
    return InputError(problem, remedy=remedy, shell_remedy=shell_remedy)


def _rare_words_message(
    rare: Sequence[str],
    counts: Counter[str],
    min_count: int,
    *,
    name: str,
    of_list: str,
) -> Message:
    """Return the warning for words of a list that are too rare for a vector."""
    found = [counts[word] for word in rare if counts[word] > 0]
    is_one = len(rare) == 1
    if not found:
        reason = "does not occur" if is_one else "do not occur"
        example = repr(rare[0])
        remedy = None
    else:
        verb = "occurs" if is_one else "occur"
        reason = f"{verb} fewer than {min_count:,} times"
        example = f"{rare[0]!r} ({counted(counts[rare[0]], 'time')})"
        remedy = f"For all words that occur, use {{--min-count {min(found)}}}."
    effect = "and gets no vector:" if is_one else "and get no vector, such as"
    return Message(
        f"{name}: {len(rare):,} of {of_list} {reason} {effect} {example}",
        remedy=remedy,
    )


def _count_occurrences(
    sentences: Iterable[Sentence],
    words: set[str] | None,
    counts: Counter[str],
    at_most: int | None,
) -> Iterator[tuple[Sentence, list[int]]]:
    """Count words, and yield sentences with the positions that are averaged."""
    for sentence in sentences:
        positions = []
        for position, word in enumerate(sentence):
            if words is None or word in words:
                counts[word] += 1
                if at_most is None or counts[word] <= at_most:
                    positions.append(position)
        if positions:
            yield sentence, positions


def _sum_vectors(
    embedder: ElmoEmbedder,
    sentences: Iterable[tuple[Sentence, list[int]]],
    selection: Selection,
) -> dict[str, NDArray[np.float64]]:
    """Sum the vectors of each word, shape (W,), at some positions of sentences."""
    sums: dict[str, NDArray[np.float64]] = {}
    engine = embedder.engine
    windows = engine.compute_windows(
        sentences,
        partial(engine.embed_window, selection=selection),
        sentence_of=lambda item: item[0],
    )
    for window, results in windows:
        for (sentence, positions), result in zip(window, results, strict=True):
            vectors = result_or_raise(result)
            if vectors.ndim == 3:  # Several layers are averaged.
                vectors = vectors.mean(axis=0)  # (T, W)
            for position in positions:
                word = sentence[position]
                if word in sums:
                    sums[word] += vectors[position]
                else:
                    sums[word] = vectors[position].astype(np.float64)
    return sums
