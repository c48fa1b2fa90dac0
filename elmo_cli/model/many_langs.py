"""The models of ELMoForManyLangs (Che et al., 2018): lexicons, token encoder, weights.

Their folder holds

    config.json             `config_path` names the file of the architecture
    cnn_50_100_..._.json    the architecture; often left out, since all have the same
    char.dic, word.dic      a symbol, a tab and its id a line
    token_embedder.pkl, encoder.pkl     the weights

A token is its Unicode characters and its word; a model has a table for each, or for
one of them. Beyond the token encoder, these models are biLMs like all others.

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

They are pickles, and read as tensors and nothing else.
"""

import math
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_cli.errors import ModelError, WeightsError
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.lstm import FORGET_BIAS
from elmo_cli.model.options import CharacterOptions, LstmOptions, ManyLangsOptions
from elmo_cli.model.token_encoder import CharacterFeatures, TokenEncoder
from elmo_cli.model.weights import Uninitialized
from elmo_cli.text.lines import read_text

Shape = tuple[int, ...]

_MAX_BYTES_A_VALUE: Final = 8
"""Of a file of weights, unpacked: float64."""
_MAX_OTHER_BYTES: Final = 1 << 20
"""Its names and its structure."""

START_TOKEN: Final = "<bos>"
END_TOKEN: Final = "<eos>"

_UNKNOWN: Final = "<oov>"
_MAX_DIGITS: Final = 9
"""Of a number of a lexicon; no table has more rows."""
_PADDING: Final = "<pad>"
# Each has the other's name in the lexicons: so the models were trained.
_WORD_START: Final = "<eow>"
_WORD_END: Final = "<bow>"
_CHARACTER_SYMBOLS = (START_TOKEN, END_TOKEN, _WORD_START, _WORD_END, _UNKNOWN, _PADDING)
_NAMELESS: Final = "\u3000"
"""The symbol of a line that has none: a space, of which the lexicons only have this one."""


class Lexicon:
    """Symbols, characters or words, and the rows of their table."""

    def __init__(self, rows: dict[str, int]) -> None:
        self.rows = rows
        self.n_rows = 1 + max(rows.values())
        self._unknown = rows[_UNKNOWN]

    def row(self, symbol: str) -> int:
        """The row of a symbol; that of `<oov>` if it is not held."""
        return self.rows.get(symbol, self._unknown)


@dataclass(frozen=True)
class Lexicons:
    """The lexicons of a model, and the ids that they give to tokens."""

    characters: Lexicon | None
    words: Lexicon | None
    max_characters: int

    def token_ids(self, tokens: Sequence[str]) -> NDArray[np.int64]:
        """The ids of tokens; a literal `<bos>` or `<eos>` gives those of that boundary.

        Returns:
            int64, shape (N, 1 + C): the word (1 where words are not used), then the
            characters, C of them or none. Rows of the tables, raised by one.
        """
        n_characters = self.max_characters if self.characters else 0
        ids = np.zeros((len(tokens), 1 + n_characters), dtype=np.int64)
        for row, token in zip(ids, tokens, strict=True):
            if token not in (START_TOKEN, END_TOKEN):
                token = token[: self.max_characters - 2]
            if self.words:
                row[0] = self.words.row(token)
            if self.characters:
                row[1:] = self._character_ids(token, self.characters)
        return ids + 1

    def _character_ids(self, token: str, lexicon: Lexicon) -> list[int]:
        symbols = [token] if token in (START_TOKEN, END_TOKEN) else token
        symbols = [_WORD_START, *symbols, _WORD_END]
        padding = [lexicon.rows[_PADDING]] * (self.max_characters - len(symbols))
        return [*map(lexicon.row, symbols), *padding]


def read_lexicons(folder: Path, options: ManyLangsOptions) -> Lexicons:
    """Read the lexicons that a model uses.

    Raises:
        ModelError: one is missing, or is not as it should be.
    """
    characters, words = None, None
    if options.char_cnn is not None:
        characters = _read_lexicon(folder / "char.dic", _CHARACTER_SYMBOLS)
    if options.word_dim:
        words = _read_lexicon(folder / "word.dic", (_UNKNOWN,))
    return Lexicons(characters, words, options.max_characters_per_token)


def _read_lexicon(path: Path, required: Sequence[str]) -> Lexicon:
    try:
        lines = read_text(path).split("\n")
    except OSError as error:
        raise ModelError(f"{path}: cannot read the lexicon: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ModelError(f"{path}: expected a lexicon in UTF-8, found other bytes") from None
    rows = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        symbol, _, row = line.rpartition("\t")
        if not row.strip().isdecimal() or len(row.strip()) > _MAX_DIGITS:
            raise ModelError(
                f"{path}: line {number}: expected a symbol, a tab and a number, found {line[:40]!r}"
            )
        rows[symbol.lstrip() or _NAMELESS] = int(row.strip())
    missing = [symbol for symbol in required if symbol not in rows]
    if missing:
        raise ModelError(f"{path}: expected the symbols {', '.join(missing)}, found none of them")
    return Lexicon(rows)


class LexiconEncoder(TokenEncoder):
    """A token's row of the words beside the features of its characters, projected."""

    boundaries = (START_TOKEN, END_TOKEN)

    def __init__(self, options: ManyLangsOptions, lexicons: Lexicons) -> None:
        super().__init__()
        self.lexicons = lexicons
        dim = 0
        # Row 0 stays zero: it stands for "no token here".
        self.words: nn.Embedding | None = None
        if lexicons.words is not None:
            self.words = nn.Embedding(1 + lexicons.words.n_rows, options.word_dim, padding_idx=0)
            dim += options.word_dim
        self.characters: CharacterFeatures | None = None
        if options.char_cnn is not None and lexicons.characters is not None:
            self.characters = CharacterFeatures(options.char_cnn, lexicons.characters.n_rows)
            dim += options.char_cnn.n_filters
        self.projection = nn.Linear(dim, options.lstm.projection_dim)

    def token_ids(self, tokens: Sequence[str]) -> Tensor:
        """The ids of tokens, their word and their characters: int64, shape (N, 1 + C)."""
        return torch.from_numpy(self.lexicons.token_ids(tokens))

    def forward(self, ids: Tensor) -> Tensor:
        """Encode tokens.

        Args:
            ids: int64, shape (N, 1 + C): `token_ids`.

        Returns:
            float, shape (N, P).
        """
        parts = []
        if self.words is not None:
            parts.append(self.words(ids[:, 0]))  # (N, W)
        if self.characters is not None:
            parts.append(self.characters.features(ids[:, 1:]))  # (N, F)
        vectors: Tensor = self.projection(torch.cat(parts, dim=1))  # (N, P)
        return vectors


# Weights.


class Entry(NamedTuple):
    """A parameter, and the tensors of a file that make it."""

    parameter: str
    tensors: dict[str, Shape]
    to_parameter: Callable[..., Tensor] = lambda values: values


def read_many_langs(
    encoder: Path, token_encoder: Path, options: ManyLangsOptions, lexicons: Lexicons
) -> BiLm:
    """Build a model, in float32.

    Args:
        encoder: encoder.pkl, the weights of the LSTMs.
        token_encoder: token_embedder.pkl.
        options: the architecture.
        lexicons: those that the model uses.

    Raises:
        WeightsError: a file is missing, holds anything but tensors, or does not fit the
            options and the lexicons (all mismatches of a file are named).
    """
    state = {
        **_read(token_encoder, list(_token_table(options, lexicons))),
        **_read(encoder, list(_lstm_table(options.lstm))),
    }
    with torch.device("meta"), Uninitialized():  # the shapes only
        bilm = BiLm(options, token_encoder=LexiconEncoder(options, lexicons))
    bilm.load_state_dict(state, assign=True)
    return bilm.requires_grad_(False).eval()


def _token_table(options: ManyLangsOptions, lexicons: Lexicons) -> Iterator[Entry]:
    """The parameters of the token encoder, and what token_embedder.pkl has for them."""
    dim = options.word_dim
    if lexicons.words is not None:
        shape = (lexicons.words.n_rows, options.word_dim)
        tensors: dict[str, Shape] = {"word_emb_layer.embedding.weight": shape}
        yield Entry("token_encoder.words.weight", tensors, _lookup)
    if lexicons.characters is not None and options.char_cnn is not None:
        yield from _character_table(options.char_cnn, lexicons.characters.n_rows)
        dim += options.char_cnn.n_filters
    size = options.lstm.projection_dim
    yield Entry("token_encoder.projection.weight", {"projection.weight": (size, dim)})
    yield Entry("token_encoder.projection.bias", {"projection.bias": (size,)})


def _character_table(options: CharacterOptions, n_characters: int) -> Iterator[Entry]:
    ours = "token_encoder.characters"
    shape = (n_characters, options.embedding_dim)
    tensors: dict[str, Shape] = {"char_emb_layer.embedding.weight": shape}
    yield Entry(f"{ours}.char_embedding.weight", tensors, _lookup)
    for i, (width, count) in enumerate(options.filters):
        weight = {f"convolutions.{i}.weight": (count, options.embedding_dim, width)}
        yield Entry(f"{ours}.convolutions.{i}.weight", {**weight})
        yield Entry(f"{ours}.convolutions.{i}.bias", {f"convolutions.{i}.bias": (count,)})
    dim = options.n_filters
    for k in range(options.n_highway):
        shapes: dict[str, Shape] = {"weight": (2 * dim, dim), "bias": (2 * dim,)}
        for kind, shape_of_both in shapes.items():
            both = {f"highways._layers.{k}.{kind}": shape_of_both}
            # Their gate is the share of the input, ours that of what is made of it.
            yield Entry(f"{ours}.highways.{k}.transform.{kind}", both, lambda t: t.chunk(2)[0])
            yield Entry(f"{ours}.highways.{k}.carry.{kind}", both, lambda t: -t.chunk(2)[1])


def _lstm_table(options: LstmOptions) -> Iterator[Entry]:
    """The parameters of the LSTMs, and what encoder.pkl has for them."""
    gates, size = 4 * options.dim, options.projection_dim
    for direction in ("forward", "backward"):
        for layer in range(options.n_layers):
            ours, theirs = f"{direction}_layers.{layer}", f"{direction}_layer_{layer}"
            weights: dict[str, Shape] = {
                f"{theirs}.input_linearity.weight": (gates, size),
                f"{theirs}.state_linearity.weight": (gates, size),
            }
            yield Entry(f"{ours}.gates.weight", weights, _gates)
            yield Entry(f"{ours}.gates.bias", {f"{theirs}.state_linearity.bias": (gates,)}, _bias)
            projection = {f"{theirs}.state_projection.weight": (size, options.dim)}
            yield Entry(f"{ours}.projection.weight", {**projection})


def _lookup(values: Tensor) -> Tensor:
    """A row more, the first, for "no token here"."""
    return torch.cat([values.new_zeros(1, values.shape[1]), values])


def _gates(weight_ih: Tensor, weight_hh: Tensor) -> Tensor:
    return _in_our_order(torch.cat([weight_ih, weight_hh], dim=1))


def _bias(values: Tensor) -> Tensor:
    bias = _in_our_order(values)
    bias.view(4, -1)[2] -= FORGET_BIAS  # the LSTM adds it
    return bias


def _in_our_order(values: Tensor) -> Tensor:
    input_gate, forget_gate, memory, output_gate = values.chunk(4)
    return torch.cat([input_gate, memory, forget_gate, output_gate])


def _read(path: Path, entries: list[Entry]) -> dict[str, Tensor]:
    """The parameters that a file makes, by their names."""
    expected = {name: shape for entry in entries for name, shape in entry.tensors.items()}
    found = _tensors(path, sum(map(math.prod, expected.values())))
    mismatches = [
        f"{name}: expected {expected.get(name, 'nothing')}, found {_describe(found.get(name))}"
        for name in expected | found
        if _describe(found.get(name)) != f"{expected.get(name)}"
    ]
    if mismatches:
        raise WeightsError(
            f"{path} does not fit the options and the lexicons, {len(mismatches)} of "
            f"{len(expected)} tensors: {'; '.join(mismatches)}"
        )
    faulty = [name for name in expected if not found[name].isfinite().all()]
    if faulty:
        raise WeightsError(f"{path}: values that are not finite (NaN or infinity) in {faulty}")
    return {
        entry.parameter: entry.to_parameter(*(found[name].float() for name in entry.tensors))
        for entry in entries
    }


def _tensors(path: Path, n_values: int) -> dict[str, Tensor]:
    """The tensors of a file that should have so many values."""
    try:
        n_bytes = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as file:
                n_bytes = sum(member.file_size for member in file.infolist())
        if n_bytes > _MAX_BYTES_A_VALUE * n_values + _MAX_OTHER_BYTES:
            raise WeightsError(
                f"{path}: expected some {4 * n_values:,} bytes, as the options and the lexicons "
                f"ask for, found {n_bytes:,}"
            )
        with warnings.catch_warnings():
            # Of kinds of tensors that are named and refused later, as sparse ones.
            warnings.simplefilter("ignore", UserWarning)
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (WeightsError, MemoryError):
        raise
    except OSError as error:
        raise WeightsError(f"{path}: cannot read the weights: {error.strerror}") from None
    except Exception as error:  # what a damaged pickle raises depends on where it is damaged
        raise WeightsError(
            f"{path}: expected a PyTorch file of tensors alone, found something else or a "
            f"damaged one ({type(error).__name__}); get it again"
        ) from None
    if not isinstance(found, dict):
        raise WeightsError(f"{path}: expected tensors by their names, found {type(found).__name__}")
    return found


def _describe(found: object) -> str:
    if found is None:
        return "nothing"
    if not isinstance(found, Tensor):
        return type(found).__name__
    if found.layout != torch.strided or found.device.type != "cpu":
        return f"a {found.layout} on {found.device}"
    return f"{tuple(found.shape)}" if found.is_floating_point() else f"{found.dtype} values"
