"""GPUs that do not exist: tensors say "cuda:0" or "mps:0", and the CPU computes them.

The code that a GPU would run therefore runs on any machine, with real numbers. An
operation raises an error where it would on a GPU: for tensors of two devices, and for
memory above a limit; on MPS also for float64, for operations that MPS lacks, and for an
`out` argument that is a view, whose strides MPS ignores. Products are rounded to TF32
where torch allows it. Speed, other rounding, autocast, streams and NCCL are not
emulated.

It uses private names of torch. If a new torch breaks it, take "fake cuda" and "fake
mps" out of `GPUS` in conftest.py, until it is repaired: a real GPU runs the same tests.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

_MAY_MIX = ("copy_", "_to_copy", "_foreach_copy_")
_READS = ("_local_scalar_dense", "equal", "is_same_size")
"""Operations whose results are no tensors."""
_WAITS = ("_local_scalar_dense", "equal", "nonzero", "_unique2", "unique_dim")
_MISSING = {"cuda": (), "mps": ("_embedding_bag", "unique_dim", "segment_reduce")}

_PRODUCTS = ("mm", "addmm", "bmm", "mv", "dot", "linear", "matmul")
_IN_C = torch.device("meta")
"""Device of all tensors in C++, where builds without CUDA know no GPU."""


class FakeTensor(Tensor):
    """Tensor that says it is on a GPU."""

    stored: Tensor
    kind: torch.device

    @staticmethod
    def __new__(cls: type, real: Tensor, device: torch.device) -> "FakeTensor":
        made: FakeTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            real.size(),
            strides=real.stride(),
            storage_offset=real.storage_offset(),
            dtype=real.dtype,
            device=_IN_C,
        )
        made.stored = real
        made.kind = device
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.kind

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    # With these two methods, `Module.to` changes parameters in place, as on a GPU.
    def __tensor_flatten__(self) -> tuple[list[str], torch.device]:
        return ["stored"], self.device

    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, Tensor], device: torch.device, size: object, stride: object
    ) -> "FakeTensor":
        return FakeTensor(inner["stored"], device)

    @property
    def is_meta(self) -> bool:  # type: ignore[override]
        return False

    def __reduce_ex__(
        self, protocol: Any
    ) -> Any:  # as it is loaded with map_location="cpu"
        return self.detach().cpu().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        assert FakeDevice.current is not None
        return FakeDevice.current.run(func, args, kwargs or {})


class _WithIndex(TorchFunctionMode):
    """Context that numbers the GPU in calls of `to`, where C++ asks the driver."""

    def __torch_function__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is Tensor.to or func is Tensor.cuda:
            args = tuple(_with_index(value) for value in args)
            kwargs = {
                name: _with_index(value) for name, value in (kwargs or {}).items()
            }
        return func(*args, **(kwargs or {}))


def _with_index(value: Any) -> Any:
    if (
        value in ("cuda", "mps")
        if isinstance(value, str)
        else isinstance(value, torch.device)
    ):
        device = torch.device(value)
        return (
            torch.device(device.type, 0) if device.type in ("cuda", "mps") else device
        )
    return value


def allows_tf32() -> bool:
    """Return whether a GPU would round the factors of float32."""
    product = torch.backends.cuda.matmul
    if hasattr(product, "fp32_precision"):
        return bool(product.fp32_precision == "tf32")
    return torch.get_float32_matmul_precision() != "highest"


def _to_tf32(value: Any) -> Any:
    """Round float32 to the ten bits of TF32."""
    if not isinstance(value, Tensor) or value.dtype != torch.float32:
        return value
    # The last 13 of 23 bits are rounded off.
    bits = value.contiguous().view(torch.int32)
    rounded = (bits + (1 << 12)) & -(1 << 13)
    return rounded.view(torch.float32)


class FakeDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Context in which torch has one GPU of a kind, "cuda" or "mps"."""

    current: "FakeDevice | None" = None

    def __init__(self, kind: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = torch.device(kind, 0)
        self.max_bytes: float = float("inf")
        self.waits: list[str] = []
        """Operations in which the CPU waited for the GPU."""

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute an operation on the CPU, after the checks of a GPU."""
        name = func.overloadpacket.__name__
        if name in ("to", "cpu", "cuda"):  # In inference mode they are not decomposed.
            with self:
                return func.decompose(*args, **kwargs)
        fakes = [
            value
            for value in tree_leaves((args, kwargs))
            if isinstance(value, FakeTensor)
        ]
        is_here = bool(fakes)
        if kwargs.get("device") is not None:
            is_here = self._is_own(kwargs["device"])
        if not fakes and not is_here:
            return func(*args, **kwargs)
        self._check(name, args, kwargs)
        real_args, real_kwargs = tree_map_only(
            FakeTensor, lambda fake: fake.stored, (args, kwargs)
        )
        if is_here and "device" in kwargs:
            real_kwargs["device"] = torch.device("cpu")
        if name in _PRODUCTS and allows_tf32():
            real_args = tuple(_to_tf32(value) for value in real_args)
        result = func(*real_args, **real_kwargs)
        if name == "copy_":
            return args[0]
        if name == "_to_copy" and result is real_args[0]:
            result = result.clone()  # Devices share no memory.
        if not is_here or name in _READS:
            return result
        # Change the shape of the outer tensor too.
        if torch.Tag.inplace_view in func.tags:
            with no_dispatch():
                func(*args, **kwargs)
        known = {id(fake.stored): fake for fake in fakes}
        return tree_map_only(Tensor, lambda real: self._wrap(real, known), result)

    def _is_own(self, device: Any) -> bool:
        return torch.device(device).type in (self.device.type, _IN_C.type)

    def _wrap(self, real: Tensor, known: dict[int, FakeTensor]) -> FakeTensor:
        if (fake := known.get(id(real))) is not None:  # It was changed in place.
            assert fake.shape == real.shape
            return fake
        if self.device.type == "mps" and real.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        if real.numel() * real.element_size() > self.max_bytes:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return FakeTensor(real, self.device)

    def _check(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise the errors of a GPU, and note if the CPU has to wait for it."""
        if name in _MISSING[self.device.type]:
            raise NotImplementedError(
                f"aten::{name} is not implemented for {self.device}"
            )
        out = kwargs.get("out")
        if self.device.type == "mps" and out is not None:
            n_stored = out.stored.untyped_storage().nbytes() // out.element_size()
            assert out.storage_offset() == 0, f"{name} writes to a view"
            assert out.numel() == n_stored, f"{name} writes to a view"
        if name.startswith("index") and name != "index_select":
            checked: Any = (args[0], *args[2:])  # Indices may be on the CPU.
        else:
            checked = (args, kwargs)
        tensors = [value for value in tree_leaves(checked) if isinstance(value, Tensor)]
        are_here = {
            isinstance(value, FakeTensor) for value in tensors if value.dim() > 0
        }
        if len(are_here) > 1 and name not in _MAY_MIX:
            raise RuntimeError(
                f"Expected all tensors to be on the same device ({name})"
            )
        if self.device.type == "mps":
            assert not kwargs.get("non_blocking"), (
                "memory may be freed before MPS reads it"
            )
        is_transfer = name in ("copy_", "_to_copy")
        target = (
            isinstance(args[0], FakeTensor) if name == "copy_" else kwargs.get("device")
        )
        if is_transfer and target is not None:
            source = args[1] if name == "copy_" else args[0]
            to_gpu = target is True or (target and self._is_own(target))
            is_transfer = bool(to_gpu) != isinstance(source, FakeTensor)
            is_transfer &= not kwargs.get("non_blocking", False)
        if name in _WAITS or (is_transfer and target is not None):
            self.waits.append(name)


@contextmanager
def fake_device(
    kind: str, patch: Callable[[object, str, object], None]
) -> Iterator[FakeDevice]:
    """Let torch have one GPU, "cuda" or "mps". `patch` sets an attribute for the time
    of a test."""
    for name, value in {
        "is_available": kind == "cuda",
        "device_count": 1,
        "is_initialized": False,
        "get_device_capability": (9, 0),
        "is_bf16_supported": True,
    }.items():
        patch(torch.cuda, name, lambda *_, value=value, **__: value)
    patch(torch.cuda, "_lazy_init", lambda: None)
    patch(torch.cuda, "manual_seed_all", lambda seed: None)
    patch(torch.mps, "manual_seed", lambda seed: None)
    # The compiler of torch looks for the function that `functools.cache` wraps.
    has_mps = cache(lambda: kind == "mps")
    patch(torch.backends.mps, "is_available", has_mps)
    as_tensor = torch.as_tensor

    def as_tensor_in_steps(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
        values = as_tensor(data, dtype=dtype)
        return values if device is None else values.to(device)

    # In C++, the transfer would not be noticed.
    patch(torch, "as_tensor", as_tensor_in_steps)
    lifts_cpu_tensors = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    device = FakeDevice(kind)
    FakeDevice.current = device
    try:
        # Threads of autograd for a GPU need CUDA.
        with torch.autograd.set_multithreading_enabled(False), _WithIndex(), device:
            yield device
    finally:
        torch._C._set_only_lift_cpu_tensors(lifts_cpu_tensors)
        FakeDevice.current = None
