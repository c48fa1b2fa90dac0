"""Reader of word-level LSTM language models of PyTorch.

They consist of an embedding, an `nn.LSTM` and a linear layer, as in PyTorch's
example word_language_model and in what grew out of it: Gulordava et al. (2018),
neural-complexity (van Schijndel and Linzen, 2018). A file of `torch.save` contains the
whole module or its state dict, of V words:

    encoder.weight                    (V, E)
    rnn.weight_ih_l0, weight_hh_l0    (4 D, E), (4 D, D): gates i, f, g, o
    rnn.bias_ih_l0, bias_hh_l0        (4 D,) each; they are added
    rnn.weight_ih_l1, ...             a layer above reads the D outputs of the one below
    decoder.weight, decoder.bias      (V, D), (V,)

The modules may have other names, and may be part of another module.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from torch import Tensor

from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.model.pickles import Placeholder, read_pickle, reporting_damaged_pickle
from elmo_cli.model.tensor_files import Shape
from elmo_cli.model.weights import not_finite_error

_OF_LSTM: Final = re.compile(r"(.*?)(?:weight|bias)_(?:ih|hh|hr)_l\d+(?:_reverse)?")
"""Name of a parameter of an `nn.LSTM`, which is in the first group."""
_EXPECTED: Final = "expected an nn.Embedding, an nn.LSTM and an nn.Linear"


class LstmLayer(NamedTuple):
    """Parameters of a layer of an `nn.LSTM`, float32."""

    weight_ih: Tensor
    """Shape (4 D, E), or (4 D, D) above the lowest layer."""
    weight_hh: Tensor
    """Shape (4 D, D)."""
    bias: Tensor
    """Sum of both biases, shape (4 D,)."""


class TorchLanguageModel(NamedTuple):
    """Parameters of a word-level LSTM language model, float32."""

    embedding: Tensor
    """Vectors of the words that are read, shape (V, E)."""
    layers: list[LstmLayer]
    """Layers, from the lowest."""
    softmax_weight: Tensor
    """Vectors of the words that are predicted, shape (V, D)."""
    softmax_bias: Tensor
    """Shape (V,)."""


def read_torch_language_model(path: Path) -> TorchLanguageModel:
    """Read a language model from a file of `torch.save`.

    Raise a `WeightsError` if the file is damaged, or has a model of another form.
    """
    with reporting_damaged_pickle(path):
        found = dict(_named_tensors(read_pickle(path)))
    lstms = {match[1] for match in map(_OF_LSTM.fullmatch, found) if match}
    if len(lstms) != 1:
        raise _other_form_error(path, found)
    [lstm] = lstms
    # An optimizer's state, for example, is beside the module that has the LSTM.
    module = lstm.removesuffix(".").rpartition(".")[0]
    tensors = {
        name: values
        for name, values in found.items()
        if not module or name.startswith(f"{module}.")
    }
    others = [name for name in tensors if not name.startswith(lstm)]
    weights = [name for name in others if name.endswith("weight")]
    biases = [name for name in others if name.endswith("bias")]
    if len(weights) != 2 or len(biases) != 1 or len(others) != 3:
        raise _other_form_error(path, tensors)
    [bias] = biases
    decoder = f"{bias.removesuffix('bias')}weight"
    if decoder not in weights:
        raise _other_form_error(path, tensors)
    [encoder] = [name for name in weights if name != decoder]
    _check_shapes(path, tensors, encoder=encoder, lstm=lstm, decoder=decoder)
    invalid = [name for name, values in tensors.items() if not values.isfinite().all()]
    if invalid:
        raise not_finite_error(path, invalid)
    n_layers = sum("weight_ih" in name for name in tensors)
    layers = []
    for layer in range(n_layers):
        bias_ih = tensors[f"{lstm}bias_ih_l{layer}"]
        bias_hh = tensors[f"{lstm}bias_hh_l{layer}"]
        layers.append(
            LstmLayer(
                weight_ih=tensors[f"{lstm}weight_ih_l{layer}"].float(),
                weight_hh=tensors[f"{lstm}weight_hh_l{layer}"].float(),
                bias=bias_ih.float() + bias_hh.float(),
            )
        )
    return TorchLanguageModel(
        embedding=tensors[encoder].float(),
        layers=layers,
        softmax_weight=tensors[decoder].float(),
        softmax_bias=tensors[bias].float(),
    )


def _named_tensors(content: object, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a module or a state dict, by their names in a state dict."""
    if isinstance(content, Tensor):
        yield prefix.removesuffix("."), content.detach()
    elif isinstance(content, dict):
        for name, value in content.items():
            yield from _named_tensors(value, f"{prefix}{name}.")
    elif isinstance(content, Placeholder):
        for name in ("_parameters", "_modules"):
            yield from _named_tensors(vars(content).get(name), prefix)


def _check_shapes(
    path: Path, tensors: Mapping[str, Tensor], *, encoder: str, lstm: str, decoder: str
) -> None:
    """Raise a `WeightsError` unless the tensors are those of such a model."""
    found = {name: tuple(values.shape) for name, values in tensors.items()}
    n_words, dim = found[decoder] if len(found[decoder]) == 2 else (0, 0)
    size = found[encoder][-1] if found[encoder] else 0
    bias = f"{decoder.removesuffix('weight')}bias"
    expected: dict[str, Shape] = {
        encoder: (n_words, size),
        decoder: (n_words, dim),
        bias: (n_words,),
    }
    n_layers = sum("weight_ih" in name for name in found)
    for layer in range(n_layers):
        n_inputs = dim if layer else size
        expected[f"{lstm}weight_ih_l{layer}"] = (4 * dim, n_inputs)
        expected[f"{lstm}weight_hh_l{layer}"] = (4 * dim, dim)
        expected[f"{lstm}bias_ih_l{layer}"] = (4 * dim,)
        expected[f"{lstm}bias_hh_l{layer}"] = (4 * dim,)
    mismatches = [
        f"{name}: expected {expected.get(name, 'no tensor')}, "
        f"found {found.get(name, 'no tensor')}"
        for name in expected | found
        if expected.get(name) != found.get(name)
    ]
    if mismatches:
        raise WeightsError(f"{path}: {_EXPECTED}; {'; '.join(mismatches)}")


def _other_form_error(path: Path, tensors: Mapping[str, Tensor]) -> WeightsError:
    """Return the error for a file that has the tensors of another model, or none."""
    names = list(tensors)
    found = "no tensors"
    if names:
        more = "" if len(names) <= 10 else f" and {len(names) - 10:,} more"
        found = f"the tensors {', '.join(names[:10])}{more}"
    return WeightsError(f"{path}: {_EXPECTED}, found {found}")
