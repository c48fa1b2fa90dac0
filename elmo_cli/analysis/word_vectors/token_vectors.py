"""Vectors of words without a context: from the token encoder or the softmax."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import torch

from elmo_cli.analysis.word_vectors.file_formats import (
    check_vectors_file,
    words_for,
    write_vectors_file,
)
from elmo_cli.arrays import FloatArray
from elmo_cli.callbacks import OnProgress, ignore
from elmo_cli.embedder import ElmoEmbedder, check_embedder
from elmo_cli.errors.checks import check_flag, check_function, check_path
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.inference.fast_token_encoder import prepare_token_encoder
from elmo_cli.inference.precision import compute_types
from elmo_cli.language_model.softmax_file import check_softmax, read_word_vectors
from elmo_cli.model.token_encoder import TokenEncoder, encode_in_chunks
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.pretrained.load_bilm import load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.require_softmax import require_softmax


def write_token_vectors(
    embedder: ElmoEmbedder,
    words: str | Path | Sequence[str],
    output: str | Path,
    *,
    softmax: bool = False,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> int:
    """Write one vector per word without a context, from the token encoder.

        write_token_vectors(embedder, ["bank", "money"], "spelling.vec")

    They are in layer 0 of the model, once for each direction, and reflect little more
    than spelling. `elmo word-vectors --words FILE OUTPUT` writes the same file.

    Args:
        embedder: Model.
        words: Words, or the path of a file with one word per line.
        output: Path in .vec, .txt, .w2v (.gz may follow), .bin, .npz, .tsv, .hdf5 or
            .h5. The file appears once it is complete.
        softmax: Write the output vectors of the softmax instead. A word outside its
            vocabulary gets the vector of `<UNK>`.
        overwrite: Replace an existing file.
        on_progress: Called with the number of words in each batch after it is computed.

    Returns:
        The number of words.

    Raises:
        InputError: The words cannot be read, or `output` cannot store one of them.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ModelError: `softmax` is set, and the model has none.
    """
    check_embedder(embedder)
    check_path("output", output)
    check_flag("softmax", softmax)
    check_flag("overwrite", overwrite)
    check_function("on_progress", on_progress)
    changed = embedder.engine.changed
    return write_vectors_of_model(
        embedder.files,
        words,
        output,
        softmax=softmax,
        token_encoder=None if changed is None else deepcopy(changed.token_encoder),
        device=embedder.device,
        overwrite=overwrite,
        on_progress=on_progress,
    )


def write_vectors_of_model(
    files: ModelFiles,
    words: str | Path | Sequence[str],
    output: str | Path,
    *,
    softmax: bool = False,
    token_encoder: TokenEncoder | None = None,
    device: Device = "cpu",
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> int:
    """Write the vectors of words from the files of a model that is not loaded.

    `token_encoder` has weights in place of those in the files. The other arguments are
    those of `write_token_vectors`.
    """
    output = Path(output)
    if softmax:
        # Its vocabulary is a file of the model too, which is not overwritten.
        files = require_softmax(files)
    words_file = words if isinstance(words, (str, Path)) else None
    check_vectors_file(output, words_file, *files.paths, overwrite=overwrite)
    listed = words_for(output, words)
    if softmax:
        vectors = _softmax_vectors(listed, files)
        (on_progress or ignore)(len(listed))
    else:
        vectors = _encoder_vectors(
            listed,
            token_encoder=token_encoder or load_bilm(files).token_encoder,
            device=choose_device(device),
            on_progress=on_progress or ignore,
        )
    write_vectors_file(output, words=listed, vectors=vectors, overwrite=overwrite)
    return len(listed)


def _softmax_vectors(words: list[str], files: ModelFiles) -> FloatArray:
    """Return the vectors of words from the softmax of a model, shape (V, P)."""
    assert files.vocabulary is not None
    assert files.softmax is not None
    vocabulary = read_vocabulary(files.vocabulary)
    dim = files.architecture.lstm.projection_dim
    check_softmax(files.softmax, n_words=len(vocabulary), dim=dim)
    return read_word_vectors(files.softmax, vocabulary.indices(words))


def _encoder_vectors(
    words: list[str],
    token_encoder: TokenEncoder,
    device: torch.device,
    on_progress: OnProgress,
) -> FloatArray:
    """Return the vectors of words from a token encoder, shape (V, P)."""
    encoder = prepare_token_encoder(token_encoder, compute_types("float32", device))

    @torch.inference_mode()
    def encode(tokens: Sequence[str]) -> torch.Tensor:
        vectors: torch.Tensor = encoder(encoder.token_ids(tokens).to(device))
        on_progress(len(tokens))
        return vectors

    return encode_in_chunks(encode, words).cpu().numpy()
