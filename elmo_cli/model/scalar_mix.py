"""Weighted average of a biLM's layers."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.errors.checks import check_at_least, check_batch, check_flag, check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import kind_of


class ScalarMix(nn.Module):
    """Trained weighted sum of layers: gamma * sum_k softmax(s)_k * layer_k."""

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        """Create the parameters.

        Args:
            mixture_size: Number of layers, L.
            do_layer_norm: Normalize each layer first, by the mean and the variance of
                all its values under the mask.
            initial_scalar_parameters: s, before the softmax. None is zeros: equal
                weights.
            trainable: True if s and gamma get gradients.

        Raises:
            InputError: There is not one number per layer.
        """
        super().__init__()
        check_at_least("mixture_size", mixture_size, 1)
        check_flag("do_layer_norm", do_layer_norm)
        check_flag("trainable", trainable)
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        if initial_scalar_parameters is None:
            initial_scalar_parameters = [0.0] * mixture_size
        parameters = check_parameters(
            "initial_scalar_parameters", initial_scalar_parameters, mixture_size
        )
        # AllenNLP's state dicts name one parameter per layer, of shape (1,).
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([value]), requires_grad=trainable)
            for value in parameters
        )
        self.gamma = nn.Parameter(torch.tensor([1.0]), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Mix layers.

        Args:
            tensors: L layers, float, shape (B, T, W) each. Other dimensions may replace
                B and T.
            mask: int64 or bool, shape (B, T): positions that count in the mean and the
                variance. None means all of them. The mask is unused without layer norm.

        Returns:
            float, shape (B, T, W).

        Raises:
            InputError: There are more or fewer layers than `mixture_size`, or `tensors`
                are none, or their shapes differ.
        """
        tensors = list(check_batch(tensors, "tensors"))
        if len(tensors) != self.mixture_size:
            raise InputError(
                f"tensors: expected {self.mixture_size} layers, found {len(tensors)}"
            )
        for index, tensor in enumerate(tensors):
            check_type(f"tensors[{index}]", tensor, Tensor, "a tensor")
            if tensor.shape != tensors[0].shape:
                raise InputError(
                    f"tensors[{index}]: expected shape {tuple(tensors[0].shape)}, as "
                    f"tensors[0] has, found {tuple(tensor.shape)}"
                )
        if self.do_layer_norm:
            shape = tensors[0].shape[:-1]
            if mask is None:
                mask = tensors[0].new_ones(shape)
            check_type("mask", mask, Tensor, "a tensor")
            if mask.shape != shape:
                raise InputError(
                    f"mask: expected shape {tuple(shape)}, found {tuple(mask.shape)}"
                )
            tensors = [_normalize(tensor, mask) for tensor in tensors]
        parameters = torch.cat(list(self.scalar_parameters))  # (L,)
        weights = functional.softmax(parameters, dim=0)[:, None]
        pieces = [
            weight * tensor for weight, tensor in zip(weights, tensors, strict=True)
        ]
        mixed: Tensor = self.gamma * sum(pieces)
        return mixed


def check_parameters(
    name: str, parameters: Sequence[float], n_layers: int
) -> list[float]:
    """Return the parameters of a mix, one finite number per layer.

    Raise an `InputError` for anything else, in which `name` is the argument.
    """
    given = list(check_batch(parameters, name))
    if len(given) != n_layers:
        raise InputError(
            f"{name}: expected {n_layers} numbers, one per layer from the token layer "
            f"up, found {len(given)}"
        )
    numbers = []
    for index, value in enumerate(given):
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                f"{name}[{index}]: expected a number, found {kind_of(value)}"
            ) from None
        if not math.isfinite(number):
            raise InputError(
                f"{name}[{index}]: expected a finite number, found {number}"
            )
        numbers.append(number)
    return numbers


def _normalize(tensor: Tensor, mask: Tensor) -> Tensor:
    """Normalize a layer by its mean and standard deviation under the mask."""
    # In half precision the sum of the squares of a batch would overflow.
    tensor = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
    counted = mask.to(tensor.dtype)[..., None]
    # Padding alone would give NaN.
    n_values = (counted.sum() * tensor.shape[-1]).clamp(min=1)
    mean = (tensor * counted).sum() / n_values
    centered = tensor - mean
    squares = (centered * counted) ** 2
    variance = squares.sum() / n_values
    return centered / torch.sqrt(variance + 1e-12)
