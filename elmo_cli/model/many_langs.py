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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_cli.errors import ModelError, WeightsError
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.lstm import FORGET_BIAS
from elmo_cli.model.options import CharacterOptions, LstmOptions, ManyLangsOptions
from elmo_cli.model.token_encoder import CharacterFeatures, TokenEncoder
from elmo_cli.model.weights import Uninitialized, not_finite
from elmo_cli.text.lines import read_text

Take = Callable[..., Tensor]
"""Called with the name and the shape of a tensor of a file, gives it."""

START_TOKEN: Final = "<bos>"
END_TOKEN: Final = "<eos>"

_UNKNOWN: Final = "<oov>"
_PADDING: Final = "<pad>"
# Each has the other's name in the lexicons: so the models were trained.
_WORD_START: Final = "<eow>"
_WORD_END: Final = "<bow>"
_CHARACTER_SYMBOLS = (START_TOKEN, END_TOKEN, _WORD_START, _WORD_END, _UNKNOWN, _PADDING)
_NAMELESS: Final = "\u3000"
"""The symbol of a line that has none: a space, of which the lexicons only have this one."""


class Lexicon(dict[str, int]):
    """Symbols, characters or words, and the rows of their table."""

    @property
    def n_rows(self) -> int:
        """The number of rows of the table."""
        return 1 + max(self.values())

    def row(self, symbol: str) -> int:
        """The row of a symbol; that of `<oov>` if it is not held."""
        return self.get(symbol, self[_UNKNOWN])


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
        padding = [lexicon[_PADDING]] * (self.max_characters - len(symbols))
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
    lexicon = Lexicon()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        symbol, _, row = line.rpartition("\t")
        if not row.strip().isdecimal():
            raise ModelError(
                f"{path}: line {number}: expected a symbol, a tab and a number, found {line[:40]!r}"
            )
        lexicon[symbol.lstrip() or _NAMELESS] = int(row)
    missing = [symbol for symbol in required if symbol not in lexicon]
    if missing:
        raise ModelError(f"{path}: expected the symbols {', '.join(missing)}, found none of them")
    return lexicon


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
        """Encode tokens, int64, shape (N, 1 + C): `token_ids`, as float, shape (N, P)."""
        parts = []
        if self.words is not None:
            parts.append(self.words(ids[:, 0]))  # (N, W)
        if self.characters is not None:
            parts.append(self.characters.features(ids[:, 1:]))  # (N, F)
        vectors: Tensor = self.projection(torch.cat(parts, dim=1))  # (N, P)
        return vectors


# Weights.


def read_many_langs(
    encoder: Path, token_encoder: Path, options: ManyLangsOptions, lexicons: Lexicons
) -> BiLm:
    """Build a model of encoder.pkl and token_embedder.pkl, in float32.

    Raises:
        WeightsError: a file is missing, holds anything but tensors, or does not fit the
            options and the lexicons (all mismatches of a file are named).
    """
    state = {
        **_read(token_encoder, lambda take: _token_parameters(take, options, lexicons)),
        **_read(encoder, lambda take: _lstm_parameters(take, options.lstm)),
    }
    with torch.device("meta"), Uninitialized():  # the shapes only
        bilm = BiLm(options, token_encoder=LexiconEncoder(options, lexicons))
    bilm.load_state_dict(state, assign=True)
    return bilm.requires_grad_(False).eval()


def _token_parameters(
    take: Take, options: ManyLangsOptions, lexicons: Lexicons
) -> dict[str, Tensor]:
    """The parameters of the token encoder, of the tensors of token_embedder.pkl."""
    state = {}
    size, dim = options.lstm.projection_dim, options.word_dim
    if lexicons.words is not None:
        words = take("word_emb_layer.embedding.weight", lexicons.words.n_rows, options.word_dim)
        state["words.weight"] = _lookup(words)
    if lexicons.characters is not None and options.char_cnn is not None:
        features = _character_parameters(take, options.char_cnn, lexicons.characters.n_rows)
        state |= {f"characters.{name}": values for name, values in features.items()}
        dim += options.char_cnn.n_filters
    state["projection.weight"] = take("projection.weight", size, dim)
    state["projection.bias"] = take("projection.bias", size)
    return {f"token_encoder.{name}": values for name, values in state.items()}


def _character_parameters(
    take: Take, options: CharacterOptions, n_characters: int
) -> dict[str, Tensor]:
    dim = options.embedding_dim
    characters = take("char_emb_layer.embedding.weight", n_characters, dim)
    state = {"char_embedding.weight": _lookup(characters)}
    for i, (width, count) in enumerate(options.filters):
        name = f"convolutions.{i}"
        state[f"{name}.weight"] = take(f"{name}.weight", count, dim, width)
        state[f"{name}.bias"] = take(f"{name}.bias", count)
    n_filters = options.n_filters
    for k in range(options.n_highway):
        for kind, shape in {"weight": (2 * n_filters, n_filters), "bias": (2 * n_filters,)}.items():
            transform, carry = take(f"highways._layers.{k}.{kind}", *shape).chunk(2)
            state[f"highways.{k}.transform.{kind}"] = transform
            # Their gate is the share of the input, ours that of what is made of it.
            state[f"highways.{k}.carry.{kind}"] = -carry
    return state


def _lstm_parameters(take: Take, options: LstmOptions) -> dict[str, Tensor]:
    """The parameters of the LSTMs, of the tensors of encoder.pkl."""
    state = {}
    gates, size = 4 * options.dim, options.projection_dim
    for direction in ("forward", "backward"):
        for layer in range(options.n_layers):
            ours, theirs = f"{direction}_layers.{layer}", f"{direction}_layer_{layer}"
            weight_ih = take(f"{theirs}.input_linearity.weight", gates, size)
            weight_hh = take(f"{theirs}.state_linearity.weight", gates, size)
            state[f"{ours}.gates.weight"] = _in_our_order(torch.cat([weight_ih, weight_hh], dim=1))
            bias = _in_our_order(take(f"{theirs}.state_linearity.bias", gates))
            bias.view(4, -1)[2] -= FORGET_BIAS  # the LSTM adds it
            state[f"{ours}.gates.bias"] = bias
            projection = take(f"{theirs}.state_projection.weight", size, options.dim)
            state[f"{ours}.projection.weight"] = projection
    return state


def _lookup(values: Tensor) -> Tensor:
    """A row more, the first, for "no token here"."""
    return torch.cat([values.new_zeros(1, values.shape[1]), values])


def _in_our_order(values: Tensor) -> Tensor:
    input_gate, forget_gate, memory, output_gate = values.chunk(4)
    return torch.cat([input_gate, memory, forget_gate, output_gate])


def _read(path: Path, convert: Callable[[Take], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The parameters that the tensors of a file are converted to."""
    found = _tensors(path)
    expected: dict[str, tuple[int, ...]] = {}

    def note(name: str, *shape: int) -> Tensor:
        expected[name] = shape
        return torch.empty(shape, device="meta")

    convert(note)  # the shapes only
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
        raise not_finite(path, faulty)
    return convert(lambda name, *_: found[name].float())


def _tensors(path: Path) -> dict[str, Any]:
    try:
        # Which runs nothing that a pickle names.
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise WeightsError(f"{path}: cannot read the weights: {error.strerror}") from None
    except MemoryError:
        raise
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
    if not isinstance(found, Tensor) or found.layout != torch.strided:
        return type(found).__name__
    return f"{tuple(found.shape)}" if found.is_floating_point() else f"{found.dtype} values"
