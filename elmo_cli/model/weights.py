"""weights.hdf5 and the parameters of a biLM: one table of names, read both ways.

The file is bilm-tf's, or safetensors with the same names; all its matrices are stored
(in, out):

    char_embed                         (261, C)             character models
    CNN/W_cnn_i, b_cnn_i               (1, width, C, count), (count)
    CNN_high_k/W_carry, W_transform    (F, F), and b_carry, b_transform (F)
    CNN_proj/W_proj, b_proj            (F, P), (P)
    embedding                          (V, P)               word-level models
    RNN_d/RNN/MultiRNNCell/Cell_l/LSTMCell/W_0, B, W_P_0
                                       (2 P, 4 D), (4 D), (D, P)
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo_cli.errors import WeightsError
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options import ModelOptions
from elmo_cli.model.tensor_files import BILM, open_tensors, write_tensors
from elmo_cli.model.vocabulary import Vocabulary

Transform = Callable[[Tensor], Tensor]


class Entry(NamedTuple):
    """A dataset of the file, and the parameter it is."""

    dataset: str
    parameter: str
    to_parameter: Transform
    to_dataset: Transform


def _entry(dataset: str, parameter: str) -> Entry:
    return Entry(dataset, parameter, lambda values: values, lambda values: values)


def _matrix(dataset: str, parameter: str) -> Entry:
    """(in, out) in the file, (out, in) in torch."""
    return Entry(dataset, parameter, Tensor.t, Tensor.t)


def _filter(dataset: str, parameter: str) -> Entry:
    """(1, width, C, count) in the file, (count, C, width) in torch."""
    return Entry(
        dataset,
        parameter,
        lambda values: values[0].permute(2, 1, 0).contiguous(),  # as its gradient will be
        lambda values: values.permute(2, 1, 0)[None],
    )


def _lookup(dataset: str, parameter: str) -> Entry:
    """A table whose row for "no token here" is not in the file."""
    return Entry(dataset, parameter, below_padding, lambda values: values[1:])


def below_padding(table: Tensor) -> Tensor:
    """A table with a row more, the first, for "no token here"."""
    return torch.cat([table.new_zeros(1, table.shape[1]), table])


def table(options: ModelOptions, *, projects: bool = True) -> Iterator[Entry]:
    """All datasets of a weights file, and the parameters of a `BiLm` they are."""
    if options.char_cnn is None:
        yield _lookup("embedding", "token_encoder.embedding.weight")
    else:
        yield _lookup("char_embed", "token_encoder.char_embedding.weight")
        for i in range(len(options.char_cnn.filters)):
            yield _filter(f"CNN/W_cnn_{i}", f"token_encoder.convolutions.{i}.weight")
            yield _entry(f"CNN/b_cnn_{i}", f"token_encoder.convolutions.{i}.bias")
        for k in range(options.char_cnn.n_highway):
            for gate in ("carry", "transform"):
                highway = f"token_encoder.highways.{k}.{gate}"
                yield _matrix(f"CNN_high_{k}/W_{gate}", f"{highway}.weight")
                yield _entry(f"CNN_high_{k}/b_{gate}", f"{highway}.bias")
        yield _matrix("CNN_proj/W_proj", "token_encoder.projection.weight")
        yield _entry("CNN_proj/b_proj", "token_encoder.projection.bias")
    for d, direction in enumerate(("forward", "backward")):
        for layer in range(options.lstm.n_layers):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            lstm = f"{direction}_layers.{layer}"
            yield _matrix(f"{cell}/W_0", f"{lstm}.gates.weight")
            yield _entry(f"{cell}/B", f"{lstm}.gates.bias")
            if projects:
                yield _matrix(f"{cell}/W_P_0", f"{lstm}.projection.weight")


def read_weights(
    path: str | Path, options: ModelOptions, vocabulary: Vocabulary | None = None
) -> BiLm:
    """Build the biLM of `options` with the weights of a file, in float32.

    All tensors that do not fit the options are named at once, and all that are not finite.
    """
    with open_tensors(path) as file:
        file.check_kind(BILM)
        has_projection = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" in file.names
        projects = has_projection or options.lstm.dim != options.lstm.projection_dim
        with torch.device("meta"), Uninitialized():  # the shapes only
            bilm = BiLm(options, vocabulary, projects=projects)
        state = bilm.state_dict()
        entries = list(table(options, projects=projects))
        expected = {e.dataset: tuple(e.to_dataset(state[e.parameter]).shape) for e in entries}
        file.check_shapes(expected, "the options")
        for entry in entries:
            values = torch.from_numpy(file.read(entry.dataset))
            state[entry.parameter] = entry.to_parameter(values)
    # A value that is not finite makes the sum so, which is one pass over the values.
    faulty = [e.dataset for e in entries if not state[e.parameter].sum().isfinite()]
    if faulty:
        raise not_finite(path, faulty)
    bilm.load_state_dict(state, assign=True)
    return bilm.requires_grad_(False).eval()


class Uninitialized(TorchFunctionMode):
    """Skips parameter initialization; the weights file supplies the values.

    Without it, torch imports its whole compiler to fill parameters on the meta device,
    which have no values.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__.rstrip("_") in ("kaiming_uniform", "uniform", "normal", "constant"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def write_weights(path: str | Path, bilm: BiLm) -> None:
    """Write the parameters of a biLM as a weights file: safetensors, or HDF5."""
    projects = all(layer.projection is not None for layer in bilm.forward_layers)
    parameters = bilm.state_dict()
    values = (
        (entry.dataset, entry.to_dataset(parameters[entry.parameter].detach()).cpu().numpy())
        for entry in table(bilm.options, projects=projects)
    )
    write_tensors(path, values, "float32")


def not_finite(path: str | Path, names: list[str]) -> WeightsError:
    """The error for tensors with values that are not finite."""
    return WeightsError(f"{path}: values that are not finite (NaN or infinity) in {names}")
