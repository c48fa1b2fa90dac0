"""Devices and their memory, precisions, and the linear layers that multiply in them.

`compute_types` turns the name of a precision into data types, and `prepare_linear` makes a layer
that multiplies in one of them. Layers in int8 are by oneDNN, for processors with AVX-512 VNNI.
torch has their products under private names only. Many servers have VNNI but no instructions for
bfloat16 (Cascade Lake, Ice Lake): on them, no other lower precision is fast.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.compiled.kernels import Linear, make_linear, processor_has
from elmo_cli.errors import (
    ComputationError,
    DeviceError,
    InputError,
    SettingsError,
    counted,
)
from elmo_cli.settings import Precision

Device: TypeAlias = str | int | torch.device
"""Name of a device or number of a GPU; see `choose_device`."""

_SYNONYMS = {"-1": "cpu", "cuda": "cuda:0", "mps:0": "mps"}


def choose_device(device: Device) -> torch.device:
    """Return the device that a name or a number selects. Raise a `DeviceError` if it is missing.

    `cuda` is the first GPU of CUDA, and `auto` too, or else the CPU. -1 is the CPU, N `cuda:N`.
    """
    name = f"cuda:{device}" if str(device).isdecimal() else str(device)
    chosen = _SYNONYMS.get(name, name)
    if (
        chosen == "cpu"
    ):  # To count GPUs starts CUDA, which a process that forks must not do.
        return torch.device(chosen)
    if not re.fullmatch("auto|mps|cuda:[0-9]+", chosen):
        raise SettingsError(
            f"--device {name!r}: unknown. Use auto, cpu, cuda, cuda:N or mps."
        )
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if chosen == "auto":
        return torch.device("cuda:0" if n_gpus else "cpu")
    gpus = [f"cuda:{number}" for number in range(n_gpus)]
    if chosen in gpus or (chosen == "mps" and torch.backends.mps.is_available()):
        return torch.device(chosen)
    raise DeviceError(f"--device {name!r}: {_explain_missing(chosen, n_gpus)}")


def _explain_missing(name: str, n_gpus: int) -> str:
    if name == "mps":
        return "torch finds no Apple GPU. Use --device cpu."
    if n_gpus:
        return f"torch finds {counted(n_gpus, 'GPU')}, and numbers start at 0. Use a lower number."
    if torch.version.cuda is None and torch.version.hip is None:
        remedy = (
            "Install a build with CUDA from https://pytorch.org, or use --device cpu."
        )
        return f"torch {torch.__version__} was built without CUDA. {remedy}"
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return f"CUDA_VISIBLE_DEVICES is {visible!r}, which leaves no GPU. Change or unset it."
    return (
        f"the NVIDIA driver is missing, or too old for CUDA {torch.version.cuda}. Install a newer "
        "driver or an older torch (`nvidia-smi` shows the CUDA version of the driver), or use "
        "--device cpu."
    )


_Result = TypeVar("_Result")
_MESSAGES = (
    "can't allocate memory",
    "std::bad_alloc",
    "out of memory",
    "STATUS_ALLOC_FAILED",
)
"""Parts of the messages of torch's allocator for the CPU, of oneDNN, and of cuBLAS."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether torch or Python ran out of memory."""
    # torch raises a plain RuntimeError on the CPU.
    is_named = isinstance(error, RuntimeError) and any(
        part in str(error) for part in _MESSAGES
    )
    return is_named or isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError))


def result_or_raise(result: _Result | ComputationError) -> _Result:
    """Return a result, or raise the error in its place."""
    if isinstance(result, ComputationError):
        raise result
    return result


_products_lock = (
    RLock()
)  # Threads share the settings of torch, the cores and caches of tokens.


def _replace_lock() -> None:
    """Replace the lock in a forked process, where no thread would release it."""
    global _products_lock
    _products_lock = RLock()


if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=_replace_lock)


@contextmanager
def exact_products(*, tf32: bool = False) -> Iterator[None]:
    """Multiply float32 as float32 or, if `tf32`, as TF32, and restore torch's settings at the end.

    NVIDIA's containers allow TF32. One thread at a time can be in this context.
    """
    with _products_lock:
        before = _set_products(2 * ["tf32" if tf32 else "ieee"])
        try:
            yield
        finally:
            _set_products(before)


def _set_products(settings: Sequence[str]) -> list[str]:
    """Set how GPUs and oneDNN multiply float32, and return the settings until now."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # torch before 2.9
        before, names = (
            torch.get_float32_matmul_precision(),
            {"ieee": "highest", "tf32": "high"},
        )
        torch.set_float32_matmul_precision(names.get(settings[0], settings[0]))
        return [before]
    products = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    old = [product.fp32_precision for product in products]
    for product, setting in zip(products, settings, strict=True):
        product.fp32_precision = setting
    return old


def compute_into(
    out: Tensor, function: Callable[..., Tensor], *arguments: Any
) -> Tensor:
    """Write the result of a function of torch to `out`, which may be a view, and return `out`."""
    if (
        out.device.type == "mps"
    ):  # There, `out` arguments lose their strides and offsets.
        return out.copy_(function(*arguments))
    return function(*arguments, out=out)


class ComputeTypes(NamedTuple):
    """Device and data types in which a biLM computes. Its cells are float32 in every precision."""

    device: torch.device
    values: torch.dtype  # type of token vectors and hidden states
    weights: torch.dtype  # type in which linear layers multiply, except the gates
    gate_weights: torch.dtype  # type in which the linear layers of the gates multiply
    tf32: bool = False  # True if a GPU may round the factors of float32 to TF32


def compute_types(precision: Precision, device: torch.device) -> ComputeTypes:
    """Return the data types of a precision. Raise an `InputError` if the device lacks it."""
    if precision == "tf32":
        if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
            required = (
                "requires an NVIDIA GPU of compute capability 8.0 (Ampere) or later"
            )
            raise InputError(
                f"--precision tf32: {required}, and {device} is none. Use float32."
            )
        return ComputeTypes(
            device, torch.float32, torch.float32, torch.float32, tf32=True
        )
    if precision != "int8":
        dtype = getattr(torch, precision)
        return ComputeTypes(device, dtype, dtype, dtype)
    if device.type != "cpu":
        raise SettingsError(
            f"--precision int8 requires the CPU, not {device}. Use bfloat16."
        )
    if not has_int8():
        capability = torch.backends.cpu.get_cpu_capability()
        raise InputError(
            "--precision int8 requires a processor and a torch with AVX-512 VNNI, not "
            f"{capability} and torch {torch.__version__}. Use float32."
        )
    weights = torch.bfloat16 if processor_has("avx512_bf16") else torch.float32
    return ComputeTypes(device, torch.float32, weights, torch.int8)


class RoundedLinear(Linear):
    """Linear layer in a lower precision, with inputs and outputs in float32."""

    def __init__(self, layer: Linear, dtype: torch.dtype) -> None:
        """Wrap a layer that multiplies in `dtype`."""
        self.n_outputs, self._layer, self._dtype = layer.n_outputs, layer, dtype

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply; see `Linear.__call__`."""
        return self._layer(inputs.to(self._dtype)).float()


_LARGEST: Final = 127
_ZERO: Final = (
    128  # value for 0 in the inputs: oneDNN's fast product takes unsigned inputs
)
_MAX_ROWS: Final = (
    256  # a product of more rows is no faster, and its result takes more memory
)
_ROW_STEPS: Final = {8: 1, 128: 8, _MAX_ROWS: 16}
"""Numbers of rows up to each key are rounded up to a multiple of the value.

oneDNN compiles a product for each number of rows, which takes 1 ms and 0.6 MB. Rounding up saves
as much time as it costs."""


class Int8Linear(Linear):
    """Linear layer in int8, float32 in and out, with an error near 1 % for normal values.

    Weights have a scale per output, inputs one per row: the largest value is 127. Sums are exact.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Round and pack the weights."""
        self.n_outputs, self.bias = len(weight), bias
        scales = _find_largest(weight) / _LARGEST  # (out, 1)
        rounded = (weight / scales).round_().to(torch.int8).contiguous()
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._scales = scales.flatten()  # (out,)
        self._no_offsets = torch.zeros(len(weight), dtype=torch.int32, device="cpu")

    def __call__(self, inputs: Tensor, workspace: Tensor | None = None) -> Tensor:
        """Multiply; see `Linear.__call__`."""
        chunks = torch.split(inputs, _MAX_ROWS)
        products = [self._multiply(_pad_rows(rows))[: len(rows)] for rows in chunks]
        return products[0] if len(products) == 1 else torch.cat(products)

    def _multiply(self, inputs: Tensor) -> Tensor:
        scales = _find_largest(inputs) / _LARGEST  # (N, 1)
        # The conversion truncates: with 0.5 added it rounds to the nearest number.
        rounded = (inputs / scales).add_(_ZERO + 0.5).to(torch.uint8)
        rows: Tensor = torch.ops.onednn.qlinear_pointwise(
            rounded,
            1.0,
            _ZERO,
            self.weight,
            self._scales,
            self._no_offsets,
            None,  # bias
            1.0,  # scale and offset of the result
            0,
            torch.float32,
            "none",  # no function after the product
            [],
            "",
        )
        if self.bias is None:
            return rows.mul_(scales)
        return torch.addcmul(self.bias, rows, scales, out=rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the rounded weights as an array: oneDNN's layout has no pickle."""
        return {**vars(self), "weight": self.weight.to_dense().t().contiguous().numpy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Pack the rounded weights again, if this processor can multiply them."""
        if not has_int8():
            raise InputError(
                "a model in int8 requires a processor with AVX-512 VNNI, and this one has "
                f"{torch.backends.cpu.get_cpu_capability()}. Load it with another precision."
            )
        vars(self).update(state)
        weight = torch.tensor(state["weight"], device="cpu")
        self.weight = torch.ops.onednn.qlinear_prepack(weight, None)


def has_int8() -> bool:
    """Return whether this processor and this torch can multiply in int8, with exact sums."""
    if not (processor_has("vnni") and hasattr(torch.ops.onednn, "qlinear_pointwise")):
        return False
    # Without VNNI, oneDNN limits sums of two products to 16 bits.
    largest = torch.ones(64, 64, device="cpu")
    return bool((Int8Linear(largest)(largest) == 64).all())


def _pad_rows(inputs: Tensor) -> Tensor:
    """Add rows of zeros to at most `_MAX_ROWS` rows; see `_ROW_STEPS`."""
    step = next(step for largest, step in _ROW_STEPS.items() if len(inputs) <= largest)
    missing = -len(inputs) % step
    return functional.pad(inputs, (0, 0, 0, missing)) if missing else inputs


def _find_largest(rows: Tensor) -> Tensor:
    """Return the largest absolute value per row, shape (N, 1), and at least 1e-30 for divisions."""
    return rows.abs().amax(dim=1, keepdim=True).clamp_min_(1e-30)


def prepare_linear(
    weight: Tensor, bias: Tensor | None, dtype: torch.dtype, values: torch.dtype
) -> Linear:
    """Make the fastest linear layer that multiplies in `dtype`, on the device of the weights.

    They are float32, shape (out, in). `values` is the type of inputs and outputs: float32 for int8.
    """
    if dtype == torch.int8:
        return Int8Linear(weight, bias)
    layer = make_linear(weight.to(dtype), None if bias is None else bias.to(dtype))
    return layer if values == dtype else RoundedLinear(layer, dtype)
