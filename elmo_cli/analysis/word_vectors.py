"""Words to a file of their vectors, which do not depend on a sentence.

The vectors are those of the token encoder (layer 0 of the activations), or the output vectors
of a softmax. The suffix of the file chooses its format:

    .hdf5, .h5           a dataset `embedding`, float32, shape (V, P), a row a word: the format
                         of bilm-tf, and of the weights of a word-level model
    .txt, .vec, .w2v     word2vec's text format: V and P, then a word and its P values a line;
                         compressed if `.gz` follows
"""

import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

import numpy as np
import torch
from numpy.typing import NDArray

from elmo_cli.atomic import check_output
from elmo_cli.errors import InputError, OutputError
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.inference.linear import replace_linear_modules
from elmo_cli.language_model.softmax import check_softmax, read_vectors
from elmo_cli.model.options import read_options
from elmo_cli.model.tensor_files import HDF5_SUFFIXES, replaced, write_rows
from elmo_cli.model.token_encoder import encode_by_length
from elmo_cli.model.vocabulary import read_vocabulary, read_words
from elmo_cli.pretrained.loading import choose_language_model, choose_model, load_bilm
from elmo_cli.pretrained.model_files import ModelFiles

DATASET: Final = "embedding"
TEXT_SUFFIXES: Final = (".txt", ".vec", ".w2v")
CHUNK_WORDS: Final = 2048
"""Maximum number of words in memory."""

Array = NDArray[np.float32]


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
    as_text = check_output_form(output, overwrite=overwrite, source=words_file)
    words = _read_words(words_file, as_text=as_text)
    named = (model, options_file, weight_file, vocabulary_file)
    if softmax:
        width, chunks = _of_softmax(words, choose_language_model(*named, softmax_file))
    else:
        width, chunks = _of_encoder(words, choose_model(*named), choose_device(device))
    counted = _counted(chunks, on_progress)
    if as_text:
        _write_text(output, words, width, counted)
    else:
        write_rows(output, DATASET, (len(words), width), counted)
    return len(words)


def check_output_form(path: Path, *, overwrite: bool, source: str | Path) -> bool:
    """Check that an output can be written; whether it is text, not HDF5.

    Raises:
        OutputError: it has another suffix, or see `check_output`.
    """
    as_text = Path(path.name.removesuffix(".gz")).suffix in TEXT_SUFFIXES
    if not as_text and path.suffix not in HDF5_SUFFIXES:
        raise OutputError(
            f"{path}: expected a name that ends in {', '.join(HDF5_SUFFIXES)} for HDF5, or in "
            f"{', '.join(TEXT_SUFFIXES)} for word2vec's text (.gz may follow)"
        )
    check_output(path, overwrite=overwrite, source=source)
    return as_text


def _read_words(path: str | Path, *, as_text: bool) -> list[str]:
    words = read_words(path)
    if words == [""]:
        raise InputError(f"{path}: expected a word a line, found nothing")
    for number, word in enumerate(words, start=1):
        if as_text and word.split() != [word]:
            raise InputError(
                f"{path}, line {number}: expected one word without white space, found {word!r}; "
                "text has no way to write it, HDF5 has"
            )
    return words


Chunks = Iterator[Array]


def _of_encoder(words: list[str], files: ModelFiles, device: torch.device) -> tuple[int, Chunks]:
    """The width of a model's token vectors, and those of the words in chunks."""
    bilm = load_bilm(files)
    encoder = bilm.token_encoder.to(device)
    replace_linear_modules(encoder, torch.float32)

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
    for start in range(0, len(words), CHUNK_WORDS):
        yield words[start : start + CHUNK_WORDS]


def _counted(chunks: Chunks, on_progress: Callable[[int], object]) -> Chunks:
    for chunk in chunks:
        yield chunk
        on_progress(len(chunk))


def _write_text(path: Path, words: list[str], width: int, chunks: Chunks) -> None:
    with replaced(path) as partial, _open_text(partial, compressed=path.suffix == ".gz") as file:
        file.write(f"{len(words)} {width}\n")
        for chunk_words, vectors in zip(_cut(words), chunks, strict=True):
            for word, vector in zip(chunk_words, vectors, strict=True):
                file.write(" ".join([word, *(f"{value:.6g}" for value in vector.tolist())]) + "\n")


def _open_text(path: Path, *, compressed: bool) -> TextIO:
    if compressed:
        # No time in the header, so that equal vectors make equal files.
        raw = gzip.GzipFile(path, "wb", compresslevel=6, mtime=0)
        return io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
    return open(path, "w", encoding="utf-8", newline="\n")
