"""encoder.pkl and token_embedder.pkl of ELMoForManyLangs, and the parameters of a biLM.

Both files are PyTorch state dicts, matrices (out, in):

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

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from elmo_cli.errors import WeightsError
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.lexicon_encoder import LexiconEncoder
from elmo_cli.model.lstm import FORGET_BIAS
from elmo_cli.model.many_langs import Lexicons, ManyLangsOptions
from elmo_cli.model.options import CharacterOptions, LstmOptions
from elmo_cli.model.weights import Uninitialized

Shape = tuple[int, ...]


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
        **_read(token_encoder, list(token_table(options, lexicons))),
        **_read(encoder, list(lstm_table(options.lstm))),
    }
    with torch.device("meta"), Uninitialized():  # the shapes only
        bilm = BiLm(options, token_encoder=LexiconEncoder(options, lexicons))
    bilm.load_state_dict(state, assign=True)
    return bilm.requires_grad_(False).eval()


def token_table(options: ManyLangsOptions, lexicons: Lexicons) -> Iterator[Entry]:
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


def lstm_table(options: LstmOptions) -> Iterator[Entry]:
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


def _gates(from_inputs: Tensor, from_hidden: Tensor) -> Tensor:
    return _in_our_order(torch.cat([from_inputs, from_hidden], dim=1))


def _bias(values: Tensor) -> Tensor:
    bias = _in_our_order(values)
    bias.view(4, -1)[2] -= FORGET_BIAS  # the LSTM adds it
    return bias


def _in_our_order(values: Tensor) -> Tensor:
    input_gate, forget_gate, memory, output_gate = values.chunk(4)
    return torch.cat([input_gate, memory, forget_gate, output_gate])


def _read(path: Path, entries: list[Entry]) -> dict[str, Tensor]:
    """The parameters that a file makes, by their names."""
    found = _tensors(path)
    expected = {name: shape for entry in entries for name, shape in entry.tensors.items()}
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


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():
            # Of kinds of tensors that are named and refused later, as sparse ones.
            warnings.simplefilter("ignore", UserWarning)
            found = torch.load(path, map_location="cpu", weights_only=True)
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
