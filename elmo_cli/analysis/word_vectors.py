"""One vector per word: from the token encoder, the softmax, or the mean over its occurrences.

The suffix of a file chooses its format; docs/word-vectors.md describes all formats.
"""

import gzip
import io
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elmo_cli.callbacks import ignore
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors.checks import Sentence, check_sentence, check_sentences, check_type
from elmo_cli.errors.exceptions import InputError, OutputNameError, SettingsError
from elmo_cli.errors.wording import counted
from elmo_cli.files.atomic import replaced
from elmo_cli.files.outputs import check_output
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.inference.fast_token_encoder import prepare_token_encoder
from elmo_cli.inference.memory import result_or_raise
from elmo_cli.inference.precision import compute_types
from elmo_cli.language_model.softmax import check_softmax, read_word_vectors
from elmo_cli.model.tensor_files import HDF5_SUFFIXES, write_tensors
from elmo_cli.model.token_encoder import encode_in_chunks
from elmo_cli.model.vocabulary_files import read_vocabulary, read_words
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.pretrained.find import choose_model, load_bilm
from elmo_cli.pretrained.registry import expected_input
from elmo_cli.settings import Layers, Selection, TextSettings, layers_text
from elmo_cli.text.input_formats import TextInput, open_input, open_records

logger = logging.getLogger(__name__)

TEXT_SUFFIXES: Final = (".txt", ".vec", ".w2v")
_METADATA: Final = ".metadata.tsv"
# White space, and empty words, that a format cannot store.
_WHITE_SPACE: Final = dict.fromkeys((*TEXT_SUFFIXES, ".bin"), r"\s|^$") | {
    ".tsv": r"[^\S ]"
}

Array = NDArray[np.float32]
Counts = Sequence[int] | None
OnProgress = Callable[[int], object]


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


def write_token_vectors(
    words_file: str | Path,
    output: str | Path,
    *,
    softmax: bool = False,
    model: str | Path | ModelFiles | None = None,
    device: Device = "cpu",
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> int:
    """Write the vectors of the words in a file.

    Args:
        words_file: Path of the words, one per line; special tokens are not required.
        output: Path, whose suffix chooses the format. The file appears when it is complete.
        softmax: Write the output vectors of the softmax. A word outside its vocabulary gets the
            vector of `<UNK>`.
        model: Name, folder or files of a model. None is the default model.
        device: Device of the token encoder, as in `ElmoEmbedder`.
        overwrite: Replace an existing file.
        on_progress: Called with the number of words in each batch after it is computed.

    Returns:
        The number of words.

    Raises:
        InputError: The words cannot be read, or a word has white space and the format is text.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ElmoError: The model or its softmax is missing or invalid.
    """
    output = Path(output)
    _check_output(output, words_file, overwrite=overwrite)
    words = _read_words(words_file, output)
    files = choose_model(model, with_softmax=softmax)
    _check_output(output, *files.paths, overwrite=overwrite)
    if softmax:
        assert files.vocabulary is not None
        assert files.softmax is not None
        vocabulary = read_vocabulary(files.vocabulary)
        check_softmax(
            files.softmax, len(vocabulary), files.parsed_options.lstm.projection_dim
        )
        vectors = read_word_vectors(files.softmax, vocabulary.indices(words))
        (on_progress or ignore)(len(words))
    else:
        vectors = _encoder_vectors(
            words, files, choose_device(device), on_progress or ignore
        )
    _write(output, words, vectors, None)
    return len(words)


def _read_words(path: str | Path, output: Path) -> list[str]:
    words = read_words(path)
    if words == [""]:
        raise InputError(f"{path}: no words. Write one word per line.")
    takes_white_space = _suffix(output) in (*HDF5_SUFFIXES, ".npz")
    for number, word in enumerate(words, start=1):
        if word.split() != [word] and not takes_white_space:
            problem = (
                f"{word[:60]!r} has white space, which {output.suffix} cannot store"
            )
            raise InputError(f"{path}, line {number}: {problem}. Choose HDF5 or npz.")
    return words


def _encoder_vectors(
    words: list[str], files: ModelFiles, device: torch.device, on_progress: OnProgress
) -> Array:
    """Return the vectors of words from the token encoder of a model, shape (V, P)."""
    token_encoder = load_bilm(files).token_encoder
    encoder = prepare_token_encoder(token_encoder, compute_types("float32", device))

    @torch.inference_mode()
    def encode(tokens: Sequence[str]) -> torch.Tensor:
        vectors: torch.Tensor = encoder(encoder.token_ids(tokens).to(device))
        on_progress(len(tokens))
        return vectors

    return encode_in_chunks(encode, words).cpu().numpy()


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
        with open_records(text, expected, ids="none") as (records, *_):
            for record in records:
                (on_progress or ignore)(len(record.tokens))
                yield from record.split()

    averaging = averaging or Averaging()
    averages = average_vectors(embedder, sentences(), words, **asdict(averaging))
    if not averages.words:
        problem = f"no word occurs {averaging.min_count:,} times or more"
        raise InputError(f"{path}: {problem}. Lower --min-count.")
    _write(output, averages.words, averages.vectors, averages.counts)
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


def _check_output(path: Path, *sources: str | Path | None, overwrite: bool) -> None:
    if _suffix(path) not in _WRITERS:
        known = ".vec, .txt or .w2v (.gz may follow), .bin, .npz, .tsv, .hdf5 or .h5"
        raise OutputNameError(
            f"{path}: unknown suffix {path.suffix!r}. Choose {known}."
        )
    metadata = [path.with_suffix(_METADATA)] if _suffix(path) == ".tsv" else []
    for file in (path, *metadata):
        check_output(file, *sources, overwrite=overwrite)


def _suffix(path: Path) -> str:
    """Return the suffix that chooses the format. `.gz` may follow a suffix of text."""
    text = Path(path.name.removesuffix(".gz")).suffix
    return text if text in TEXT_SUFFIXES else path.suffix


def _write(path: Path, words: Sequence[str], vectors: Array, counts: Counts) -> None:
    """Write vectors in the format of a path. Log a warning if some are not finite."""
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        number, first = (
            counted(int((~finite).sum()), "word"),
            words[int(finite.argmin())],
        )
        problem = f"{number} are not finite (NaN or infinity), the first of {first!r}"
        remedy = "Check the weights of the model."
        logger.warning("Warning: %s: the vectors of %s. %s", path, problem, remedy)
    _WRITERS[_suffix(path)](path, _as_lines(path, words), vectors, counts)


def _as_lines(path: Path, words: Sequence[str]) -> Sequence[str]:
    """Replace white space in words, as in New_York, if the format cannot store it."""
    pattern = _WHITE_SPACE.get(_suffix(path), "(?!)")
    changed = [word[:60] for word in words if re.search(pattern, word)]
    if changed:
        shown = (
            f"{counted(len(changed), 'word')} becomes _, for example in {changed[0]!r}"
        )
        logger.warning(
            "Warning: %s: white space in %s. npz and HDF5 keep it.", path, shown
        )
    return [re.sub(pattern, "_", word) for word in words] if changed else words


def _write_hdf5(path: Path, _words: object, vectors: Array, _counts: object) -> None:
    write_tensors(path, [("embedding", vectors)], "float32")


def _write_text(
    path: Path, words: Sequence[str], vectors: Array, _counts: object
) -> None:
    with replaced(path) as partial, open(partial, "wb") as plain:
        raw: Any = plain
        if path.suffix == ".gz":
            # Without the time in the header, equal vectors give equal files.
            raw = gzip.GzipFile("", "wb", compresslevel=6, fileobj=plain, mtime=0)
        with io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as file:
            file.write(f"{len(words)} {vectors.shape[1]}\n")
            for word, row in zip(words, vectors, strict=True):
                file.write(
                    f"{word} {' '.join(f'{value:.6g}' for value in row.tolist())}\n"
                )


def _write_binary(
    path: Path, words: Sequence[str], vectors: Array, _counts: object
) -> None:
    with replaced(path) as partial, open(partial, "wb") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, row in zip(words, vectors, strict=True):
            file.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")


def _write_npz(
    path: Path, words: Sequence[str], vectors: Array, counts: Counts
) -> None:
    optional: dict[str, Any] = {} if counts is None else {"counts": counts}
    with replaced(path) as partial, open(partial, "wb") as file:
        np.savez(file, words=words, vectors=vectors, **optional)


def _write_tsv(
    path: Path, words: Sequence[str], vectors: Array, counts: Counts
) -> None:
    # The Projector expects a header only if there is more than one column.
    rows = (
        [*words]
        if counts is None
        else ["word\tcount", *map("{}\t{}".format, words, counts)]
    )
    names = path.with_suffix(_METADATA)
    with replaced(names) as metadata, replaced(path) as tensors:
        np.savetxt(tensors, vectors, "%.6g", "\t")
        metadata.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        names.unlink(
            missing_ok=True
        )  # Even a kill never leaves words next to other vectors.


_WRITERS: Final[dict[str, Callable[..., None]]] = {
    **dict.fromkeys(HDF5_SUFFIXES, _write_hdf5),
    **dict.fromkeys(TEXT_SUFFIXES, _write_text),
    ".bin": _write_binary,
    ".npz": _write_npz,
    ".tsv": _write_tsv,
}
