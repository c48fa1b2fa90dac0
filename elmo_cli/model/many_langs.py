"""Weights of ELMoForManyLangs (Che et al., 2018).

The folder of a model contains

    config.json             `config_path` names the file of the architecture
    cnn_50_100_..._.json    the architecture; often missing, since all models share one
    char.dic, word.dic      one symbol, a tab and its id per line
    token_embedder.pkl, encoder.pkl     the weights

Except for the token encoder, these models are ordinary biLMs. The weights are PyTorch
state dicts, matrices (out, in):

    word_emb_layer.embedding.weight         (words, word_dim)
    char_emb_layer.embedding.weight         (characters, E)
    convolutions.i.weight, bias             (count, E, width), (count)
    highways._layers.k.weight, bias         (2 F, F), (2 F): transform, then 1 - carry
    projection.weight, bias                 (P, word_dim + F), (P)

    forward_layer_l, backward_layer_l
        .input_linearity.weight             (4 D, P): gates i, f, j, o
        .state_linearity.weight, bias       (4 D, P), (4 D): f with its bias of 1
        .state_projection.weight            (P, D)

The files are pickles. Only tensors are read from them.
"""

from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.model.allennlp_layers import (
    gates_bias_from_allennlp,
    gates_from_allennlp,
    highway_from_allennlp,
)
from elmo_cli.model.architecture import LstmArchitecture
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.lexicon_encoder import LexiconEncoder
from elmo_cli.model.lexicons import Lexicons
from elmo_cli.model.many_langs_config import ManyLangsArchitecture
from elmo_cli.model.pickles import reporting_damaged_pickle
from elmo_cli.model.weights import Uninitialized, below_padding, not_finite_error

_TABLES: Final = {
    "words.weight": "word_emb_layer.embedding.weight",
    "characters.char_embedding.weight": "char_emb_layer.embedding.weight",
}
"""Parameters with a row for "no token here", and their tensors in the file, without
this row."""


class PickledTensors:
    """Tensors of a pickle, checked when they are read."""

    def __init__(self, path: Path) -> None:
        """Load a file. Raise a `WeightsError` if it is missing or damaged."""
        self.path = path
        with reporting_damaged_pickle(path):
            # `weights_only` never runs code that a pickle names.
            content = torch.load(path, map_location="cpu", weights_only=True)
            self._tensors: dict[Any, Any] = dict(content)

    def read(self, name: str, *shape: int) -> Tensor:
        """Return a tensor as float32.

        Raise a `WeightsError` if it has another shape.
        """
        values = self._tensors.get(name)
        found = tuple(values.shape) if isinstance(values, Tensor) else "no tensor"
        if not isinstance(values, Tensor) or found != shape:
            mismatch = f"{name}: expected {shape}, found {found}"
            raise WeightsError(
                f"{self.path} does not fit the options and the lexicons: {mismatch}"
            )
        if not values.is_floating_point():
            raise WeightsError(
                f"{self.path}: {name}: expected floats, found {values.dtype}"
            )
        if not values.isfinite().all():
            raise not_finite_error(self.path, [name])
        return values.float()


def read_many_langs(
    encoder: Path,
    token_encoder: Path,
    architecture: ManyLangsArchitecture,
    lexicons: Lexicons,
) -> BiLm:
    """Build a model from encoder.pkl and token_embedder.pkl, in float32."""
    with torch.device("meta"), Uninitialized():  # shapes without values
        bilm = BiLm(architecture, token_encoder=LexiconEncoder(architecture, lexicons))
    tensors = PickledTensors(token_encoder)
    parameters = {}
    for name, values in bilm.token_encoder.state_dict().items():
        parameter = _read_token_parameter(tensors, name, tuple(values.shape))
        parameters[f"token_encoder.{name}"] = parameter
    parameters |= _read_lstm_parameters(PickledTensors(encoder), architecture.lstm)
    bilm.load_state_dict(parameters, assign=True)
    return bilm.requires_grad_(False).eval()


def _read_token_parameter(
    tensors: PickledTensors, name: str, shape: tuple[int, ...]
) -> Tensor:
    """Return a parameter of a `LexiconEncoder`."""
    if name in _TABLES:
        n_rows, dim = shape
        return below_padding(tensors.read(_TABLES[name], n_rows - 1, dim))
    name = name.removeprefix("characters.")
    if not name.startswith("highways"):
        return tensors.read(name, *shape)
    _, k, gate, kind = name.split(".")
    n_outputs, *rest = shape
    highway = tensors.read(f"highways._layers.{k}.{kind}", 2 * n_outputs, *rest)
    carry, transform = highway_from_allennlp(highway)
    return carry if gate == "carry" else transform


def _read_lstm_parameters(
    tensors: PickledTensors, architecture: LstmArchitecture
) -> dict[str, Tensor]:
    """Return the parameters of all LSTMs, by their names in a `BiLm`."""
    parameters: dict[str, Tensor] = {}
    n_gates = 4 * architecture.dim
    size = architecture.projection_dim
    for direction in ("forward", "backward"):
        for layer in range(architecture.n_layers):
            ours = f"{direction}_layers.{layer}"
            theirs = f"{direction}_layer_{layer}"
            weight_ih = tensors.read(f"{theirs}.input_linearity.weight", n_gates, size)
            weight_hh = tensors.read(f"{theirs}.state_linearity.weight", n_gates, size)
            bias = tensors.read(f"{theirs}.state_linearity.bias", n_gates)
            parameters[f"{ours}.gates.weight"] = gates_from_allennlp(
                torch.cat([weight_ih, weight_hh], dim=1)
            )
            parameters[f"{ours}.gates.bias"] = gates_bias_from_allennlp(bias)
            parameters[f"{ours}.projection.weight"] = tensors.read(
                f"{theirs}.state_projection.weight", size, architecture.dim
            )
    return parameters
