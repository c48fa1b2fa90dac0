"""Where a biLM computes, and in which data types: devices and precisions by their names."""

from typing import NamedTuple, TypeAlias, TypeVar

import torch

from elmo_cli.compiled.kernels import has_int8, processor_has
from elmo_cli.errors import ComputationError, DeviceError, InputError
from elmo_cli.settings import Precision

Device: TypeAlias = str | int | torch.device
"""The name of a device, or the number of a GPU; -1 is the CPU. See `choose_device`."""
_Result = TypeVar("_Result")
_ALIASES = {"-1": "cpu", "cuda": "cuda:0", "mps:0": "mps"}


def choose_device(device: Device) -> torch.device:
    """The device of a name.

    Args:
        device: `cpu`, `cuda:N`, `cuda` (the first GPU), `mps`, or `auto`: a GPU if there is one,
            else the CPU. Or a number: -1 is the CPU, N is `cuda:N`.
    """
    name = f"cuda:{device}" if str(device).isdecimal() else str(device)
    here = _devices()
    found = here[0] if name == "auto" else _ALIASES.get(name, name)
    if found not in here:
        raise DeviceError(
            f"device {name!r}: expected auto or a device of this machine, found only "
            f"{', '.join(here)}"
        )
    return torch.device(found)


def _devices() -> list[str]:
    """The names of all devices here, the CPU last."""
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return [*(f"cuda:{number}" for number in range(n_gpus)), *mps, "cpu"]


def result_or_raise(result: _Result | ComputationError) -> _Result:
    """The result, or raise the error in its place."""
    if isinstance(result, ComputationError):
        raise result
    return result


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch or Python ran out of memory."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    # The CPU's allocator and oneDNN raise a plain RuntimeError.
    text = str(error)
    return isinstance(error, RuntimeError) and any(
        sign in text for sign in ("can't allocate memory", "std::bad_alloc", "out of memory")
    )


class ComputeTypes(NamedTuple):
    """The data types in which a biLM computes, and its device; its cells are float32 always."""

    device: torch.device
    values: torch.dtype
    """Of the token vectors and hidden states."""
    weights: torch.dtype
    """In which linear layers multiply, except those of the gates."""
    gate_weights: torch.dtype
    """In which the linear layers of the gates multiply."""


def compute_types(precision: Precision, device: torch.device) -> ComputeTypes:
    """The types of a precision on a device; an `InputError` if it does not have it."""
    if precision != "int8":
        dtype = getattr(torch, precision)
        return ComputeTypes(device, dtype, dtype, dtype)
    if device.type != "cpu":
        raise InputError(f"precision int8: expected the CPU, found {device}; use float16")
    if not has_int8():
        found = torch.backends.cpu.get_cpu_capability()
        raise InputError(
            "precision int8: expected a processor with AVX-512 VNNI and a torch that knows it, "
            f"found {found} and torch {torch.__version__}; use float32"
        )
    weights = torch.bfloat16 if processor_has("avx512_bf16") else torch.float32
    return ComputeTypes(device, torch.float32, weights, torch.int8)
