"""Conversion of a word-level LSTM language model of PyTorch to a folder.

The folder has the files of every language model. Its options say that it only reads
forward, and the weights of the backward LSTMs are zeros. The embedding and the units
have one size in it: zeros pad the smaller one.

Such a model reads `<eos>` before the first word and predicts it after the last.
Therefore `<eos>` is both `<S>`, which is never predicted, and `</S>`. `<unk>` is
`<UNK>`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.errors.exceptions import InputError, OutputError, OutputNameError
from elmo_cli.errors.wording import counted
from elmo_cli.files import disk
from elmo_cli.files.atomic import write_lines
from elmo_cli.files.output_checks import check_output, output_error
from elmo_cli.language_model.softmax_file import write_softmax
from elmo_cli.model.allennlp_layers import (
    gates_bias_from_allennlp,
    gates_from_allennlp,
)
from elmo_cli.model.architecture import ForwardArchitecture, LstmArchitecture
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.pickles import Placeholder, is_pickle, read_pickle
from elmo_cli.model.tensor_files import WEIGHTS_SUFFIXES
from elmo_cli.model.torch_language_model import (
    TorchLanguageModel,
    read_torch_language_model,
)
from elmo_cli.model.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_cli.model.vocabulary_files import read_words
from elmo_cli.model.weights import Uninitialized, below_padding, write_weights
from elmo_cli.pretrained.checksums import sha256
from elmo_cli.pretrained.roles import FILE_NAMES

_END: Final = "<eos>"
_UNKNOWN: Final = "<unk>"
_NEVER: Final = -1e4
"""Bias of a word that is never predicted. Its probability is 0, even in float64, and
the bias is a float16."""


class ConvertedModel(NamedTuple):
    """Size of a language model that was converted."""

    n_words: int
    """Number of words, including `<eos>` and `<unk>`."""
    n_layers: int
    """Number of LSTM layers."""
    dim: int
    """Number of units per layer."""


def convert_torch_model(
    source: str | Path,
    folder: str | Path,
    vocabulary_file: str | Path,
    *,
    overwrite: bool = False,
) -> ConvertedModel:
    """Convert a word-level LSTM language model of PyTorch to a folder.

    Args:
        source: File of `torch.save` with an `nn.Embedding`, an `nn.LSTM` and a
            `torch.nn.Linear`: a whole module or its state dict. No code in it runs.
        folder: Folder to write. It is created, and may have other files.
        vocabulary_file: Words in the order of their rows: one per line, or a pickle of
            an object with a list `idx2word`, such as `Dictionary` and `Corpus`.
        overwrite: Replace the files of a model in the folder.

    Returns:
        Size of the model.

    Raises:
        WeightsError: The source cannot be read, or has another form.
        InputError: The vocabulary cannot be read, or does not fit the source.
        OutputError: The folder cannot be written, or has a model.
    """
    source = Path(source)
    folder = Path(folder)
    if folder.suffix in WEIGHTS_SUFFIXES:
        raise OutputNameError(
            f"{folder}: expected a folder, found the name of a file",
            remedy="A language model has several files.",
        )
    if folder.is_file():
        raise OutputError(f"{folder}: expected a folder, found a file")
    model = read_torch_language_model(source)
    words = _read_words(Path(vocabulary_file))
    _check_words(words, len(model.embedding), vocabulary_file)
    try:
        disk.make_folder(folder)
        for name in FILE_NAMES.values():
            check_output(folder / name, source, vocabulary_file, may_exist=overwrite)
        # Without weights, the files that are not replaced yet are no model.
        disk.remove(folder / FILE_NAMES["weights"], missing_ok=True)
        _write_files(folder, model, words, sha256(source))
    except OSError as error:
        raise output_error(folder, error) from None
    n_words, _ = model.embedding.shape
    _, dim = model.softmax_weight.shape
    return ConvertedModel(n_words, n_layers=len(model.layers), dim=dim)


def _read_words(path: Path) -> list[str]:
    """Read the words of a vocabulary from lines, or from a pickle that lists them."""
    if not is_pickle(path):
        return read_words(path)
    found = _find_words(read_pickle(path))
    if found is None:
        raise InputError(
            f"{path}: no list idx2word", remedy="Give a file with one word per line."
        )
    return found


def _find_words(content: object) -> list[str] | None:
    """Return the list `idx2word` of an object or of one inside it, or None."""
    inner: list[Any] = []
    if isinstance(content, Placeholder):
        words = vars(content).get("idx2word")
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return words
        inner = list(vars(content).values())
    elif isinstance(content, (list, tuple)):
        inner = list(content)
    for each in inner:
        found = _find_words(each)
        if found is not None:
            return found
    return None


def _check_words(words: Sequence[str], n_rows: int, path: str | Path) -> None:
    """Raise an `InputError` for words that cannot be those of a model."""
    if len(words) != n_rows:
        raise InputError(
            f"{path} does not fit the model: {counted(len(words), 'word')} for "
            f"{counted(n_rows, 'row')} of the embedding"
        )
    for index, word in enumerate(words, start=1):
        if not Vocabulary.has_line_for(word):
            raise InputError(f"{path}: word {index:,} cannot be {word!r}")
    missing = [word for word in (_END, _UNKNOWN) if word not in words]
    if missing:
        raise InputError(f"{path}: the vocabulary lacks {' and '.join(missing)}")


def _write_files(
    folder: Path, model: TorchLanguageModel, words: Sequence[str], source_sha256: str
) -> None:
    """Write the files of a model. The weights come last, to make it complete."""
    index = {word: row for row, word in enumerate(words)}
    special = [index[_END], index[_END], index[_UNKNOWN]]
    rows = [*special, *(row for row in range(len(words)) if row not in special)]
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *(words[row] for row in rows[3:])])
    bilm = _make_bilm(model, vocabulary, rows)
    lstm = bilm.architecture.lstm
    options = {
        "lstm": {
            "dim": lstm.dim,
            "projection_dim": lstm.projection_dim,
            "n_layers": lstm.n_layers,
            "cell_clip": None,
            "proj_clip": None,
            "use_skip_connections": False,
        },
        "forward_only": True,
        "source_sha256": source_sha256,
    }
    weight = _padded(model.softmax_weight[rows], lstm.projection_dim)
    bias = model.softmax_bias[rows]
    bias[0] = _NEVER
    write_lines(folder / FILE_NAMES["vocabulary"], vocabulary.words)
    write_softmax(folder / FILE_NAMES["softmax"], weight.numpy(), bias.numpy())
    write_lines(folder / FILE_NAMES["options"], [json.dumps(options, indent=1)])
    write_weights(folder / FILE_NAMES["weights"], bilm)


def _make_bilm(
    model: TorchLanguageModel, vocabulary: Vocabulary, rows: Sequence[int]
) -> BiLm:
    """Make the biLM of a model, with the rows of the embedding in another order."""
    _, embedding_dim = model.embedding.shape
    _, dim = model.softmax_weight.shape
    size = max(embedding_dim, dim)
    lstm = LstmArchitecture(dim=dim, projection_dim=size, n_layers=len(model.layers))
    architecture = ForwardArchitecture(lstm, char_cnn=None)
    projects = dim != size
    with torch.device("meta"), Uninitialized():  # shapes without values
        bilm = BiLm(architecture, vocabulary, projects=projects)
    embedding = _padded(model.embedding[rows], size)
    parameters = {"token_encoder.embedding.weight": below_padding(embedding)}
    for number, layer in enumerate(model.layers):
        weight_ih = _padded(layer.weight_ih, size)
        weight_hh = _padded(layer.weight_hh, size)
        weights = {
            "gates.weight": gates_from_allennlp(torch.cat([weight_ih, weight_hh], 1)),
            "gates.bias": gates_bias_from_allennlp(layer.bias),
        }
        if projects:  # The outputs of the units stay what they are.
            weights["projection.weight"] = torch.eye(size, dim)
        for name, values in weights.items():
            parameters[f"forward_layers.{number}.{name}"] = values
            zeros = torch.zeros_like(values)
            parameters[f"backward_layers.{number}.{name}"] = zeros
    bilm.load_state_dict(parameters, assign=True)
    return bilm.requires_grad_(False).eval()


def _padded(values: Tensor, n_columns: int) -> Tensor:
    """Return a matrix with columns of zeros added, so that it has `n_columns`."""
    return functional.pad(values, (0, n_columns - values.shape[1]))
