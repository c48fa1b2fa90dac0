"""Context in which torch multiplies float32 exactly, or as TF32 on purpose."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch

from elmo_cli.inference.one_thread import one_thread_at_a_time

_OLD_NAMES: Final = {"ieee": "highest", "tf32": "high", "bf16": "medium"}
"""Names of the settings before torch 2.9."""
_NEW_NAMES: Final = {old: new for new, old in _OLD_NAMES.items()}


@contextmanager
def exact_products(*, tf32: bool = False) -> Iterator[None]:
    """Multiply float32 as float32, or as TF32 if `tf32`.

    By default, torch may round the factors: NVIDIA's containers allow TF32. Its
    settings are restored at the end. One thread at a time can be in this context,
    because the settings are the same for all threads.
    """
    setting = "tf32" if tf32 else "ieee"
    with one_thread_at_a_time():
        before = _product_settings()
        _set_products([setting] * len(before))
        try:
            yield
        finally:
            _set_products(before)


def _product_settings() -> list[str]:
    """Return how GPUs and oneDNN multiply float32, or one setting for both."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # torch before 2.9
        return [_NEW_NAMES[torch.get_float32_matmul_precision()]]
    return [product.fp32_precision for product in _products()]


def _set_products(settings: Sequence[str]) -> None:
    """Set what `_product_settings` returns."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        [setting] = settings
        torch.set_float32_matmul_precision(_OLD_NAMES[setting])
        return
    for product, setting in zip(_products(), settings, strict=True):
        product.fp32_precision = setting


def _products() -> list[Any]:
    """Return torch's settings of products on NVIDIA GPUs, and by oneDNN."""
    mkldnn: Any = torch.backends.mkldnn
    return [torch.backends.cuda.matmul, mkldnn.matmul]
