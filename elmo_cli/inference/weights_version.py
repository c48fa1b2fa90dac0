"""Versions of weights, to notice that they have changed."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def uncompiled(
    method: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Leave a method, and all that it calls, out of compiled models.

    Compiling ELMo takes a minute for each shape of a batch, and saves no time.
    """
    disabled: list[Callable[_Parameters, _Result]] = []

    @wraps(method)
    def call(*args: _Parameters.args, **settings: _Parameters.kwargs) -> _Result:
        if not torch.compiler.is_compiling():
            return method(*args, **settings)
        # The decorator of torch itself would import torch's compiler with this package, for 1 s.
        if not disabled:
            disabled.append(torch.compiler.disable(method))  # type: ignore[no-untyped-call]
        return disabled[0](*args, **settings)

    return call


class WeightsVersion:
    """Addresses of weights, and torch's counters of their changes.

    torch does not count `weight.data.add_()`, NumPy's writes, or the steps of an optimizer with
    `fused=True`. Copies and pickles are versions of no weights.
    """

    def __init__(self, weights: Iterable[Tensor] = ()) -> None:
        # References keep the memory, so that later weights cannot get the addresses of these.
        self._weights = [weight.detach() for weight in weights]
        self.key = [
            (weight.data_ptr(), -1 if weight.is_inference() else weight._version)
            for weight in self._weights
        ]

    def __reduce__(self) -> tuple[type["WeightsVersion"], tuple[()]]:
        return WeightsVersion, ()
