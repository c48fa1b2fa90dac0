"""Vectors of words without a context: from the token encoder or the softmax."""

from collections.abc import Sequence
from pathlib import Path

import torch

from elmo_cli.analysis.word_vector_files import (
    Array,
    check_vectors_file,
    read_words_for,
    write_vectors_file,
)
from elmo_cli.callbacks import OnProgress, ignore
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.inference.fast_token_encoder import prepare_token_encoder
from elmo_cli.inference.precision import compute_types
from elmo_cli.language_model.softmax_file import check_softmax, read_word_vectors
from elmo_cli.model.token_encoder import encode_in_chunks
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.pretrained.find import files_of
from elmo_cli.pretrained.load import load_bilm


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
        output: Path, whose suffix chooses the format. The file appears when it is
            complete.
        softmax: Write the output vectors of the softmax. A word outside its vocabulary
            gets the vector of `<UNK>`.
        model: Name, folder or files of a model. None means the default model.
        device: Device of the token encoder, as in `ElmoEmbedder`.
        overwrite: Replace an existing file.
        on_progress: Called with the number of words in each batch after it is computed.

    Returns:
        The number of words.

    Raises:
        InputError: The words cannot be read, or a word has white space and the format
            is text.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ElmoError: The model or its softmax is missing or invalid.
    """
    output = Path(output)
    check_vectors_file(output, words_file, overwrite=overwrite)
    words = read_words_for(output, words_file)
    files = files_of(ModelSettings(model=model), with_softmax=softmax)
    check_vectors_file(output, *files.paths, overwrite=overwrite)
    if softmax:
        vectors = _softmax_vectors(words, files)
        (on_progress or ignore)(len(words))
    else:
        vectors = _encoder_vectors(
            words, files, choose_device(device), on_progress or ignore
        )
    write_vectors_file(output, words, vectors)
    return len(words)


def _softmax_vectors(words: list[str], files: ModelFiles) -> Array:
    """Return the vectors of words from the softmax of a model, shape (V, P)."""
    assert files.vocabulary is not None
    assert files.softmax is not None
    vocabulary = read_vocabulary(files.vocabulary)
    dim = files.architecture.lstm.projection_dim
    check_softmax(files.softmax, len(vocabulary), dim)
    return read_word_vectors(files.softmax, vocabulary.indices(words))


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
