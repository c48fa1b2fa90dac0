"""Models of ELMoForManyLangs (Che et al., 2018): lexicons, token encoder, weights.

Their folder contains

    config.json             `config_path` names the file of the architecture
    cnn_50_100_..._.json    the architecture; often missing, since all models share one
    char.dic, word.dic      one symbol, a tab and its id per line
    token_embedder.pkl, encoder.pkl     the weights

A model reads the Unicode characters of a token, the token as a word, or both, and has one table
for each. Except for the token encoder, these models are ordinary biLMs.

The weights are PyTorch state dicts, matrices (out, in):

    word_emb_layer.embedding.weight         (words, W)
    char_emb_layer.embedding.weight         (characters, C)
    convolutions.i.weight, bias             (count, C, width), (count)
    highways._layers.k.weight, bias         (2 F, F), (2 F): transform, then 1 - carry
    projection.weight, bias                 (P, W + F), (P)

    forward_layer_l, backward_layer_l
        .input_linearity.weight             (4 D, P): gates i, f, j, o
        .state_linearity.weight, bias       (4 D, P), (4 D): f with its bias of 1
        .state_projection.weight            (P, D)

The files are pickles. Only tensors are read from them.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from elmo_cli.errors.exceptions import ModelError, WeightsError
from elmo_cli.errors.missing_files import not_read
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.lstm import FORGET_BIAS
from elmo_cli.model.options import LstmOptions, ManyLangsOptions
from elmo_cli.model.token_encoder import CharacterFeatures, TokenEncoder
from elmo_cli.model.vocabulary import read_words
from elmo_cli.model.weights import Uninitialized, below_padding, not_finite

ReadTensor = Callable[..., Tensor]  # reader of a tensor by its name and shape

_UNKNOWN: Final = "<oov>"
_PADDING: Final = "<pad>"
# The lexicons swap the two names, and the models were trained like this.
_WORD_START: Final = "<eow>"
_WORD_END: Final = "<bow>"
_NAMELESS: Final = "\u3000"
"""Symbol of a line with a number alone: the ideographic space, which `read_words` strips."""
_TABLES: Final = {
    "words.weight": "word_emb_layer.embedding.weight",
    "characters.char_embedding.weight": "char_emb_layer.embedding.weight",
}
"""Parameters with a row for "no token here", and their tensors in the file, without this row."""


class Lexicon(dict[str, int]):
    """Row in the table of each character or word."""

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return 1 + max(self.values())

    def row(self, symbol: str) -> int:
        """Return the row of a symbol, or the row of `<oov>` for an unknown symbol."""
        return self.get(symbol, self[_UNKNOWN])


class Lexicons(NamedTuple):
    """Lexicons of a model: of characters, of words, or both."""

    characters: Lexicon | None
    words: Lexicon | None


def read_lexicons(folder: Path, options: ManyLangsOptions) -> Lexicons:
    """Read the lexicons that a model uses."""
    return Lexicons(
        None if options.char_cnn is None else _read_lexicon(folder / "char.dic"),
        _read_lexicon(folder / "word.dic") if options.word_dim else None,
    )


def _read_lexicon(path: Path) -> Lexicon:
    lines = (line.rpartition("\t") for line in read_words(path) if line)
    try:
        lexicon = Lexicon((symbol or _NAMELESS, int(row)) for symbol, _, row in lines)
    except ValueError as error:
        expected = "a symbol, a tab and a number in each line"
        raise ModelError(f"{path}: expected {expected}: {error}") from None
    if _UNKNOWN not in lexicon:
        raise ModelError(f"{path}: expected the symbol {_UNKNOWN}, found none")
    return lexicon


class LexiconEncoder(TokenEncoder):
    """Token encoder that projects the word's row next to the features of its characters."""

    boundaries = ("<bos>", "<eos>")

    def __init__(self, options: ManyLangsOptions, lexicons: Lexicons) -> None:
        super().__init__()
        self.lexicons = lexicons
        dim = 0
        # Row 0 stays zero: it means "no token here".
        self.words: nn.Embedding | None = None
        if lexicons.words is not None:
            self.words = nn.Embedding(
                1 + lexicons.words.n_rows, options.word_dim, padding_idx=0
            )
            dim += options.word_dim
        self.characters: CharacterFeatures | None = None
        if options.char_cnn is not None and lexicons.characters is not None:
            self.characters = CharacterFeatures(
                options.char_cnn, lexicons.characters.n_rows
            )
            dim += options.char_cnn.n_filters
        self.projection = nn.Linear(dim, options.lstm.projection_dim)
        self._max_characters = options.max_characters_per_token

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """Return the ids of tokens, each one higher than the row in its table: int64, (N, 1 + C).

        They are the id of the word, or 1 without words, then the ids of C characters, or none.
        """
        characters, words = self.lexicons
        n_characters = self._max_characters if characters else 0
        ids = np.zeros((len(tokens), 1 + n_characters), dtype=np.int64)
        for row, token in zip(ids, tokens, strict=True):
            is_boundary = token in self.boundaries
            word = token if is_boundary else token[: self._max_characters - 2]
            if words:
                row[0] = words.row(word)
            if characters:
                symbols = [_WORD_START, *([word] if is_boundary else word), _WORD_END]
                symbols += [_PADDING] * (n_characters - len(symbols))
                row[1:] = [characters.row(symbol) for symbol in symbols]
        return torch.from_numpy(ids + 1)

    def forward(self, ids: Tensor) -> Tensor:
        """Encode ids of `token_ids`, int64, shape (N, 1 + C): float, shape (N, P)."""
        parts = []
        if self.words is not None:
            parts.append(self.words(ids[:, 0]))  # (N, W)
        if self.characters is not None:
            parts.append(self.characters.features(ids[:, 1:]))  # (N, F)
        vectors: Tensor = self.projection(torch.cat(parts, dim=1))  # (N, P)
        return vectors


def read_many_langs(
    encoder: Path, token_encoder: Path, options: ManyLangsOptions, lexicons: Lexicons
) -> BiLm:
    """Build a model from encoder.pkl and token_embedder.pkl, in float32."""
    with torch.device("meta"), Uninitialized():  # shapes without values
        bilm = BiLm(options, token_encoder=LexiconEncoder(options, lexicons))
    read_tensor = _open_tensors(token_encoder)
    parameters = {
        f"token_encoder.{name}": _token_parameter(
            read_tensor, name, tuple(values.shape)
        )
        for name, values in bilm.token_encoder.state_dict().items()
    }
    parameters |= _lstm_parameters(_open_tensors(encoder), options.lstm)
    bilm.load_state_dict(parameters, assign=True)
    return bilm.requires_grad_(False).eval()


def _token_parameter(
    read_tensor: ReadTensor, name: str, shape: tuple[int, ...]
) -> Tensor:
    if name in _TABLES:
        return below_padding(read_tensor(_TABLES[name], shape[0] - 1, shape[1]))
    name = name.removeprefix("characters.")
    if not name.startswith("highways"):
        return read_tensor(name, *shape)
    _, k, gate, kind = name.split(".")
    highway = read_tensor(f"highways._layers.{k}.{kind}", 2 * shape[0], *shape[1:])
    transform, carry = highway.chunk(2)
    # Their gate weights the input, ours weights the transformed input.
    return -carry if gate == "carry" else transform


def _lstm_parameters(
    read_tensor: ReadTensor, options: LstmOptions
) -> dict[str, Tensor]:
    parameters: dict[str, Tensor] = {}
    gates, size = 4 * options.dim, options.projection_dim
    for direction in ("forward", "backward"):
        for layer in range(options.n_layers):
            ours, theirs = f"{direction}_layers.{layer}", f"{direction}_layer_{layer}"
            weight_ih = read_tensor(f"{theirs}.input_linearity.weight", gates, size)
            weight_hh = read_tensor(f"{theirs}.state_linearity.weight", gates, size)
            weight = _reorder_gates(torch.cat([weight_ih, weight_hh], dim=1))
            bias = _reorder_gates(read_tensor(f"{theirs}.state_linearity.bias", gates))
            bias.view(4, -1)[2] -= FORGET_BIAS  # The LSTM adds it at run time.
            projection = read_tensor(
                f"{theirs}.state_projection.weight", size, options.dim
            )
            parameters |= {f"{ours}.gates.weight": weight, f"{ours}.gates.bias": bias}
            parameters[f"{ours}.projection.weight"] = projection
    return parameters


def _reorder_gates(values: Tensor) -> Tensor:
    """Return gates i, f, j, o in the order i, j, f, o."""
    input_gate, forget_gate, memory, output_gate = values.chunk(4)
    return torch.cat([input_gate, memory, forget_gate, output_gate])


def _open_tensors(path: Path) -> ReadTensor:
    """Load a file of tensors. Return a function that returns one of them, in float32."""
    try:  # `weights_only` never runs code that a pickle names.
        with warnings.catch_warnings():  # An error may follow.
            warnings.simplefilter("ignore")
            tensors: Any = dict(torch.load(path, map_location="cpu", weights_only=True))
    except OSError as error:
        raise not_read(path, "weights", error, WeightsError) from None
    except MemoryError:
        raise
    except Exception as error:  # The error of a damaged pickle depends on the damage.
        problem = f"not a valid PyTorch file of tensors ({type(error).__name__})"
        raise WeightsError(f"{path}: {problem}. Download it again.") from None

    def read_tensor(name: str, *shape: int) -> Tensor:
        values = tensors.get(name)
        found = tuple(values.shape) if isinstance(values, Tensor) else "no tensor"
        if found != shape:
            mismatch = f"{name}: expected {shape}, found {found}"
            raise WeightsError(
                f"{path} does not fit the options and the lexicons: {mismatch}"
            )
        if not values.is_floating_point():
            raise WeightsError(f"{path}: {name}: expected floats, found {values.dtype}")
        if not values.isfinite().all():
            raise not_finite(path, [name])
        weights: Tensor = values.float()
        return weights

    return read_tensor
