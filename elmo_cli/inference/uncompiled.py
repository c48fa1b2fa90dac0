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
    # torch's own decorator would import its compiler with this package, which takes a
    # second. Therefore it is applied at the first call in a compiled model.
    disabled: Callable[_Parameters, _Result] | None = None

    @wraps(method)
    def call(*args: _Parameters.args, **settings: _Parameters.kwargs) -> _Result:
        nonlocal disabled
        if not torch.compiler.is_compiling():
            return method(*args, **settings)
        if disabled is None:
            disabled = torch.compiler.disable(method)  # type: ignore[no-untyped-call]
        return disabled(*args, **settings)

    return call
