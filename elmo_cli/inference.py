"""The fast biLM: the same as `BiLm.contextualize`, packed, without gradients.

Three things make it faster than the readable one: the weights are laid out once
for the processor's matrix product, the inputs of a few steps share one product
(never those of a whole batch, whose gates would not fit the caches), and all
elementwise work is done in place.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.batching import Packing
from elmo_cli.bilm import BiLm, BiLmState, LayerOutput, LayerState
from elmo_cli.lstm import FORGET_BIAS, Lstm, LstmState

PRODUCT_ROWS = 256
"""Steps share an input product up to this many rows; beyond, it gets no faster."""


class Product:
    """x W + b for constant weights."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight.contiguous()  # (out, in)
        self.bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        """Float, shape (N, in), to float, shape (N, out)."""
        return functional.linear(inputs, self.weight, self.bias)

    def plus(self, inputs: Tensor, other: Tensor) -> Tensor:
        """The product plus `other`, float, shape (N, out)."""
        return self(inputs).add_(other)


class OneDnnProduct(Product):
    """The same through oneDNN, with weights packed beforehand: float32 on x86 CPUs.

    Measured 1.1 to 2 times the plain product, the more the fewer the rows
    (`docs/performance.md`). torch offers this layout only under private names.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PRODUCT_ROWS)
        self.bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        """Float, shape (N, in), to float, shape (N, out)."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, self.weight, self.bias, "none", [], ""
        )
        return product

    def plus(self, inputs: Tensor, other: Tensor) -> Tensor:
        """The product plus `other`, float, shape (N, out)."""
        total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
            inputs, other, self.weight, self.bias, "add"
        )
        return total


def product(weight: Tensor, bias: Tensor | None = None) -> Product:
    """The fastest product there is for these weights, with the same meaning as any other."""
    packs = (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )
    return OneDnnProduct(weight, bias) if packs else Product(weight, bias)


class FastLstm:
    """One LSTM layer in one direction, prepared for inference."""

    def __init__(self, lstm: Lstm, device: torch.device, dtype: torch.dtype) -> None:
        self.options = lstm.options
        weight = lstm.gates.weight.detach().to(device, dtype)
        bias = lstm.gates.bias.detach().clone()
        bias.view(4, -1)[2] += FORGET_BIAS
        from_inputs, from_hidden = torch.split(weight, lstm.options.projection_dim, dim=1)
        self.from_inputs = product(from_inputs)
        self.from_hidden = product(from_hidden, bias.to(device, dtype))
        self.projection = None
        if lstm.projection is not None:
            self.projection = product(lstm.projection.weight.detach().to(device, dtype))

    def run(self, inputs: Tensor, sizes: Sequence[int], state: LstmState) -> Tensor:
        """Run over packed sequences; see `Lstm.forward`.

        Args:
            inputs: float, shape (N, P), packed.
            sizes: the number of sequences that run at each step, falling.
            state: where each sequence starts; overwritten with where it ended.

        Returns:
            The hidden states, float, shape (N, P), packed alike.
        """
        outputs = torch.empty_like(inputs)
        start = 0
        for group in _steps_of_one_product(sizes):
            end = start + sum(group)
            input_gates = self.from_inputs(inputs[start:end])  # (rows of the group, 4 D)
            for gates in torch.split(input_gates, group):
                size = len(gates)
                gates = self.from_hidden.plus(state.hidden[:size], gates)  # (size, 4 D)
                hidden = self._finish_step(gates, state.cell[:size])
                state.hidden[:size] = hidden
                outputs[start : start + size] = hidden
                start += size
        return outputs

    def _finish_step(self, gates: Tensor, cell: Tensor) -> Tensor:
        """Gates to hidden states; the gates are used up, the cell is updated in place."""
        dim = self.options.dim
        input_gate = gates[:, :dim].sigmoid_()
        memory = gates[:, dim : 2 * dim].tanh_()
        forget_and_output = gates[:, 2 * dim :].sigmoid_()
        cell.mul_(forget_and_output[:, :dim]).addcmul_(input_gate, memory)
        if self.options.cell_clip:
            cell.clamp_(-self.options.cell_clip, self.options.cell_clip)
        hidden = torch.tanh(cell).mul_(forget_and_output[:, dim:])  # (size, D)
        if self.projection is not None:
            hidden = self.projection(hidden)  # (size, P)
        if self.options.proj_clip:
            hidden.clamp_(-self.options.proj_clip, self.options.proj_clip)
        return hidden


def _steps_of_one_product(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Cut the steps into groups of at most `PRODUCT_ROWS` rows, one step at the least."""
    group: list[int] = []
    for size in sizes:
        if group and sum(group) + size > PRODUCT_ROWS:
            yield group
            group = []
        group.append(size)
    if group:
        yield group


class FastBiLm:
    """Both stacks of LSTMs, prepared for inference on a device, in a precision."""

    def __init__(self, bilm: BiLm, device: torch.device, dtype: torch.dtype) -> None:
        self.options = bilm.options
        self.device = device
        self.dtype = dtype
        self.layers = [
            (FastLstm(ahead, device, dtype), FastLstm(behind, device, dtype))
            for ahead, behind in bilm.layer_pairs()
        ]

    @torch.inference_mode()
    def contextualize(
        self, vectors: Tensor, packing: Packing, state: BiLmState
    ) -> list[LayerOutput]:
        """Run both stacks over packed token vectors; see `BiLm.contextualize`.

        Args:
            vectors: float, shape (N, P), packed by `packing`.
            state: where each sentence starts, in `packing.order`; overwritten with
                where it ended.

        Returns:
            The token layer and each LSTM layer.
        """
        reversal = torch.from_numpy(packing.reversal).to(self.device)
        ahead, behind = vectors, vectors[reversal]
        outputs = [LayerOutput(vectors, vectors)]
        for layer, (forward, backward) in enumerate(self.layers):
            residual = self.options.lstm.use_skip_connections and layer > 0
            ahead = _run(forward, ahead, packing.sizes, state[layer].forward, residual)
            behind = _run(backward, behind, packing.sizes, state[layer].backward, residual)
            outputs.append(LayerOutput(ahead, behind[reversal]))
        return outputs

    def initial_state(self, n_sentences: int) -> BiLmState:
        """The zero state for `n_sentences` sentences."""
        lstm = self.options.lstm

        def zeros(dim: int) -> Tensor:
            return torch.zeros(n_sentences, dim, device=self.device, dtype=self.dtype)

        def direction() -> LstmState:
            return LstmState(zeros(lstm.projection_dim), zeros(lstm.dim))

        return [LayerState(direction(), direction()) for _ in range(lstm.n_layers)]


def _run(
    lstm: FastLstm, inputs: Tensor, sizes: Sequence[int], state: LstmState, residual: bool
) -> Tensor:
    outputs = lstm.run(inputs, sizes, state)
    return outputs.add_(inputs) if residual else outputs
