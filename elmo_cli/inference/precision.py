"""What a precision means: the type of the values, and the products that are made of them."""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from elmo_cli.errors import InputError, check_choice
from elmo_cli.inference.cells import NextCells, next_cells
from elmo_cli.inference.compiled_cells import compiled_next_cells
from elmo_cli.inference.int8_product import Int8Product, sums_are_exact
from elmo_cli.inference.kernels import processor_has
from elmo_cli.inference.linear import Product, RoundedProduct, product
from elmo_cli.inference.recurrence import CompiledRecurrence, Recurrence, compiles_steps

Precision = Literal["float32", "bfloat16", "float16", "int8"]


class ComputeTypes(NamedTuple):
    """How a biLM computes, and where; its cells are float32 always."""

    device: torch.device
    values: torch.dtype
    """Of the token vectors and hidden states."""
    factors: torch.dtype
    """Of what is multiplied, but in the products of the gates if these are int8."""
    gates_are_int8: bool

    def product(self, weight: Tensor) -> Product:
        """The product of values with weights that are given in float32."""
        return self._product(weight, None, self.values)

    def recurrence(
        self, from_inputs: Tensor, from_hidden: Tensor, bias: Tensor, half: torch.dtype
    ) -> Recurrence:
        """That of weights that are given in float32; see `cells` for the factors in them.

        Args:
            half: the type of what is projected.
        """
        is_plain = {self.values, self.factors, half} == {torch.float32} and not self.gates_are_int8
        if is_plain and self.device.type == "cpu" and compiles_steps(from_hidden):
            return CompiledRecurrence(from_inputs, from_hidden, bias)
        gates = self._gates(from_inputs, bias), self._gates(from_hidden)
        return Recurrence(*gates, self._next_cells(half))

    def _gates(self, weight: Tensor, bias: Tensor | None = None) -> Product:
        """The product of values where the result is gates, which need less precision."""
        if self.gates_are_int8:
            return Int8Product(weight, bias)
        return self._product(weight, bias, self.values)

    def _next_cells(self, half: torch.dtype) -> NextCells:
        """The fastest `next_cells` for what is projected of this type."""
        compiled = None
        if self.device.type == "cpu":
            compiled = compiled_next_cells(self.values, half)
        return compiled or next_cells

    def _product(self, weight: Tensor, bias: Tensor | None, values: torch.dtype) -> Product:
        bias = None if bias is None else bias.to(self.device, self.factors)
        made = product(weight.to(self.device, self.factors), bias)
        return made if values == self.factors else RoundedProduct(made, self.factors)

    def use_products(self, module: nn.Module) -> None:
        """Put a `ProductLinear` in the place of each `nn.Linear` of a module for float32."""
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                bias = None if child.bias is None else child.bias.detach()
                multiply = self._product(child.weight.detach(), bias, torch.float32)
                setattr(module, name, ProductLinear(multiply))
            else:
                self.use_products(child)


class ProductLinear(nn.Module):
    """A product in the place of `nn.Linear`, for inference."""

    def __init__(self, multiply: Product) -> None:
        super().__init__()
        self._multiply = multiply

    def forward(self, inputs: Tensor) -> Tensor:
        """Float32, shape (N, in), to float32, shape (N, out)."""
        return self._multiply(inputs)


def compute_types(precision: Precision, device: torch.device) -> ComputeTypes:
    """The types of a precision on a device.

    Raises:
        InputError: there is no such precision, or the device does not have it.
    """
    check_choice("precision", precision, get_args(Precision))
    if precision != "int8":
        dtype = getattr(torch, precision)
        return ComputeTypes(device, dtype, dtype, gates_are_int8=False)
    if device.type != "cpu":
        raise InputError(f"precision int8: expected the CPU, found {device}; use float16")
    if not has_int8():
        found = torch.backends.cpu.get_cpu_capability()
        raise InputError(
            "precision int8: expected a processor with AVX-512 VNNI and a torch that knows it, "
            f"found {found} and torch {torch.__version__}; use float32"
        )
    factors = torch.bfloat16 if processor_has("avx512_bf16") else torch.float32
    return ComputeTypes(device, torch.float32, factors, gates_are_int8=True)


def has_int8() -> bool:
    """Whether the precision int8 can be had on this processor, with this torch."""
    known = processor_has("vnni") and hasattr(torch.ops.onednn, "qlinear_pointwise")
    return known and sums_are_exact()
