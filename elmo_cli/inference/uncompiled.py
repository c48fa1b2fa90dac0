"""Methods that torch.compile leaves out of a compiled model.

torch.export and torch.jit cannot leave out a method, so there they raise an error.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

from elmo_cli.errors.exceptions import ModelError

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
        _check_not_exported()
        if not torch.compiler.is_compiling():
            return method(*args, **settings)
        if disabled is None:
            disabled = torch.compiler.disable(method)  # type: ignore[no-untyped-call]
        return disabled(*args, **settings)

    return call


def _check_not_exported() -> None:
    """Raise a `ModelError` in a model that torch.export or torch.jit records."""
    # `is_exporting` is new in torch 2.7.
    is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)
    is_traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if is_exporting() or is_traced:
        raise ModelError(
            "torch.export and torch.jit cannot record ELMo, whose steps depend on "
            "the lengths of sentences",
            remedy="Export the layers after it, which take its representations.",
        )
