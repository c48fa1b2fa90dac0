"""Methods that torch.compile leaves out of a compiled model."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

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
        # The decorator of torch itself would import torch's compiler with this package,
        # for 1 s.
        if not disabled:
            disabled.append(torch.compiler.disable(method))  # type: ignore[no-untyped-call]
        return disabled[0](*args, **settings)

    return call
