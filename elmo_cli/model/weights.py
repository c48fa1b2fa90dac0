"""Weights of a biLM in a file of named tensors.

Their names are bilm-tf's. `stored_parameters` lists them for reading and writing. All
matrices are stored (in, out):

    char_embed                         (261, E)             character models
    CNN/W_cnn_i, b_cnn_i               (1, width, E, count), (count)
    CNN_high_k/W_carry, W_transform    (F, F), and b_carry, b_transform (F)
    CNN_proj/W_proj, b_proj            (F, P), (P)
    embedding                          (V, P)               word-level models
    RNN_d/RNN/MultiRNNCell/Cell_l/LSTMCell/W_0, B, W_P_0
                                       (2 P, 4 D), (4 D), (D, P)
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.model.architecture import Architecture
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.tensor_files import (
    BILM,
    Shape,
    is_finite,
    open_tensors,
    write_tensors,
)
from elmo_cli.model.vocabulary import Vocabulary

_INITIALIZATIONS: Final = ("kaiming_uniform", "uniform", "normal", "constant")
"""Functions of `torch.nn.init` that the modules of a biLM call, without a last
underscore."""


def below_padding(table: Tensor) -> Tensor:
    """Return a table with an additional first row of zeros, for "no token here"."""
    return torch.cat([table.new_zeros(1, table.shape[1]), table])


class _Conversions(NamedTuple):
    """Conversions of a parameter between its forms in the file and in torch."""

    to_parameter: Callable[[Tensor], Tensor]
    to_dataset: Callable[[Tensor], Tensor]


_PLAIN: Final = _Conversions(
    to_parameter=lambda values: values, to_dataset=lambda values: values
)
_MATRIX: Final = _Conversions(to_parameter=Tensor.t, to_dataset=Tensor.t)
"""(in, out) in the file, (out, in) in torch."""
_FILTER: Final = _Conversions(
    # contiguous like its gradient
    to_parameter=lambda values: values[0].permute(2, 1, 0).contiguous(),
    to_dataset=lambda values: values.permute(2, 1, 0)[None],
)
"""(1, width, E, count) in the file, (count, C, width) in torch."""
_TABLE: Final = _Conversions(
    to_parameter=below_padding, to_dataset=lambda values: values[1:]
)
"""The file lacks the row for "no token here"."""


class StoredParameter(NamedTuple):
    """Parameter of a `BiLm`, the dataset that stores it, and its form there."""

    dataset: str
    parameter: str
    conversions: _Conversions = _PLAIN


def stored_parameters(
    architecture: Architecture, *, projects: bool, projects_features: bool
) -> Iterator[StoredParameter]:
    """Yield all stored parameters of a `BiLm` that is made with these arguments."""
    if architecture.char_cnn is None:
        yield StoredParameter("embedding", "token_encoder.embedding.weight", _TABLE)
    else:
        yield StoredParameter(
            "char_embed", "token_encoder.char_embedding.weight", _TABLE
        )
        for i in range(len(architecture.char_cnn.filters)):
            convolution = f"token_encoder.convolutions.{i}"
            yield StoredParameter(f"CNN/W_cnn_{i}", f"{convolution}.weight", _FILTER)
            yield StoredParameter(f"CNN/b_cnn_{i}", f"{convolution}.bias")
        for k in range(architecture.char_cnn.n_highway):
            for gate in ("carry", "transform"):
                highway = f"token_encoder.highways.{k}.{gate}"
                yield StoredParameter(
                    f"CNN_high_{k}/W_{gate}", f"{highway}.weight", _MATRIX
                )
                yield StoredParameter(f"CNN_high_{k}/b_{gate}", f"{highway}.bias")
        if projects_features:
            yield StoredParameter(
                "CNN_proj/W_proj", "token_encoder.projection.weight", _MATRIX
            )
            yield StoredParameter("CNN_proj/b_proj", "token_encoder.projection.bias")
    for d, direction in enumerate(("forward", "backward")):
        for layer in range(architecture.lstm.n_layers):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            lstm = f"{direction}_layers.{layer}"
            yield StoredParameter(f"{cell}/W_0", f"{lstm}.gates.weight", _MATRIX)
            yield StoredParameter(f"{cell}/B", f"{lstm}.gates.bias")
            if projects:
                yield StoredParameter(
                    f"{cell}/W_P_0", f"{lstm}.projection.weight", _MATRIX
                )


def read_weights(
    path: str | Path, architecture: Architecture, vocabulary: Vocabulary | None = None
) -> BiLm:
    """Build a biLM in float32.

    A `WeightsError` names all tensors that do not fit the architecture.
    """
    with open_tensors(path) as file:
        file.check_kind(BILM)
        bilm = _empty_bilm(file.names, architecture, vocabulary)
        parameters = bilm.state_dict()
        stored = _stored_in(bilm)
        shapes: dict[str, Shape] = {}
        for each in stored:
            dataset = each.conversions.to_dataset(parameters[each.parameter])
            shapes[each.dataset] = tuple(dataset.shape)
        file.check_shapes(shapes, "the options")
        for each in stored:
            values = file.load(each.dataset, shapes[each.dataset])
            parameters[each.parameter] = each.conversions.to_parameter(values)
    _check_finite(path, parameters, stored)
    bilm.load_state_dict(parameters, assign=True)
    return bilm.requires_grad_(False).eval()


def _empty_bilm(
    names: Collection[str], architecture: Architecture, vocabulary: Vocabulary | None
) -> BiLm:
    """Make the biLM for a file with tensors of these names, without their values."""
    # bilm-tf writes no projection that keeps the size. Other programs may write one.
    size = architecture.lstm.projection_dim
    first_projection = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"
    projects = architecture.lstm.dim != size or first_projection in names
    projects_features = (
        architecture.char_cnn is None
        or architecture.char_cnn.n_filters != size
        or "CNN_proj/W_proj" in names
    )
    with torch.device("meta"), Uninitialized():  # shapes without values
        return BiLm(
            architecture,
            vocabulary,
            projects=projects,
            projects_features=projects_features,
        )


def _stored_in(bilm: BiLm) -> list[StoredParameter]:
    """Return the stored parameters of a biLM."""
    names = bilm.state_dict().keys()
    return list(
        stored_parameters(
            bilm.architecture,
            projects="forward_layers.0.projection.weight" in names,
            projects_features="token_encoder.projection.weight" in names,
        )
    )


def _check_finite(
    path: str | Path,
    parameters: Mapping[str, Tensor],
    stored: Sequence[StoredParameter],
) -> None:
    """Raise a `WeightsError` that names the tensors with values that are not finite."""
    invalid = []
    for each in stored:
        values = parameters[each.parameter]
        # If any value is not finite, the sum is not. It needs only one pass over the
        # values, but the sum of large ones can overflow.
        if not values.sum().isfinite() and not is_finite(values):
            invalid.append(each.dataset)
    if invalid:
        raise not_finite_error(path, invalid)


class Uninitialized(TorchFunctionMode):
    """Context in which modules leave their parameters uninitialized.

    On the meta device, torch would import its compiler to fill them.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Leave tensors uninitialized, and call any other function."""
        kwargs = kwargs or {}
        if func.__name__.rstrip("_") not in _INITIALIZATIONS:
            return func(*args, **kwargs)
        return args[0] if args else kwargs["tensor"]


def write_weights(path: str | Path, bilm: BiLm) -> None:
    """Write the parameters of a biLM as a weights file: safetensors, or HDF5."""
    parameters = bilm.state_dict()

    def tensors() -> Iterator[tuple[str, AnyArray]]:
        for each in _stored_in(bilm):
            values = each.conversions.to_dataset(parameters[each.parameter].detach())
            yield each.dataset, values.cpu().numpy()

    write_tensors(path, tensors(), dtype="float32")


def not_finite_error(path: str | Path, names: list[str]) -> WeightsError:
    """Return the error for tensors with values that are not finite."""
    return WeightsError(
        f"{path}: values that are not finite (NaN or infinity) in {names}"
    )
