"""Fast computation of a biLM that is part of a torch model."""

import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.inference.fast_bilm import FastBiLm
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.weights_version import WeightsVersion
from elmo_cli.model.bilm import BiLm

EncodeAt: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Function from the rows and columns of tokens in a padded batch, int64, shape (N,) each, to their
vectors, float, shape (N, P)."""


class BiLmRunner:
    """Runner for the biLM of a module. It uses fast LSTMs if the biLM is not trained.

    The fast LSTMs have a copy of the weights, which is made again after a change that
    `WeightsVersion` shows, and after training. Copies and pickles of a runner have no weights.
    """

    def __init__(self) -> None:
        self._fast: FastBiLm | None = None
        self._copied = WeightsVersion()

    def __reduce__(self) -> tuple[type["BiLmRunner"], tuple[()]]:
        return BiLmRunner, ()

    def reload_weights(self) -> None:
        """Forget the copy of the weights, so that the next call makes a new one."""
        self._fast, self._copied = None, WeightsVersion()

    def run(
        self,
        bilm: BiLm,
        ids: Tensor,
        mask: Tensor,
        lengths: Sequence[int],
        encode: EncodeAt | None = None,
    ) -> Tensor:
        """Run over a padded batch with boundaries, from the zero state: see `BiLm.run_bounded`.

        All calls must get one model. `ids` are int64, shape (B, T + 2, C). Return layers, float,
        shape (L, B, T + 2, W), zero outside the mask.
        """
        encode = encode or (
            lambda rows, columns: bilm.token_encoder(ids[rows, columns])
        )
        is_frozen = _is_frozen(bilm)
        if not is_frozen:
            self.reload_weights()  # Not all optimizers count their steps.
        if not is_frozen and (
            bilm.device.type != "cpu" or torch.compiler.is_compiling()
        ):
            return bilm.run_bounded(mask, lengths, encode).layers
        with torch.set_grad_enabled(torch.is_grad_enabled() and not is_frozen):
            vectors, tokens = _encode_distinct_tokens(ids, mask, encode)
        if not is_frozen:
            return bilm.run_bounded(
                mask,
                lengths,
                lambda rows, columns: vectors.index_select(0, tokens[rows, columns]),
            ).layers
        vectors = vectors.to(
            _gates_dtype(bilm)
        )  # Autocast may have changed the data type.
        # Created outside of inference mode, because a mix may need gradients.
        layers = vectors.new_zeros(
            bilm.options.n_layers, *mask.shape, bilm.options.width
        )
        if len(lengths):
            run = self._contextualize
            if (
                "torch._dynamo" in sys.modules
            ):  # torch.compile would trace the calls of kernels.
                run = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
            layers[:, mask] = run(bilm, vectors, tokens.numpy())
        return layers

    def _contextualize(
        self, bilm: BiLm, vectors: Tensor, tokens: NDArray[np.int64]
    ) -> Tensor:
        """Run the fast LSTMs, and copy the weights first if they have changed."""
        stacks = bilm.forward_layers, bilm.backward_layers
        version = WeightsVersion(
            weight for stack in stacks for weight in stack.parameters()
        )
        if self._fast is None or version.key != self._copied.key:
            self._fast, self._copied = (
                None,
                version,
            )  # The old copy is freed before the new one.
            dtype = _gates_dtype(bilm)
            types = ComputeTypes(bilm.device, dtype, dtype, dtype)
            self._fast = FastBiLm(bilm, types, keeps_bilm=True)
        with torch.autocast("cpu", enabled=False):
            return self._fast.contextualize(vectors, tokens, self._fast.zero_state(1))[
                0
            ]


def _is_frozen(bilm: BiLm) -> bool:
    """Return whether fast LSTMs can replace a biLM: no gradients, no dropout, and on the CPU."""
    if bilm.device.type != "cpu" or (bilm.training and bilm.dropout.p > 0):
        return False
    is_trained = any(parameter.requires_grad for parameter in bilm.parameters())
    return (
        not is_trained and _gates_dtype(bilm) != torch.float64
    )  # Fast cells are float32.


def _gates_dtype(bilm: BiLm) -> torch.dtype:
    return bilm.layer_pairs()[0][0].gates.weight.dtype


def _encode_distinct_tokens(
    ids: Tensor, mask: Tensor, encode: EncodeAt
) -> tuple[Tensor, Tensor]:
    """Return distinct vectors, float, (V, P), and rows, int64, (B, T + 2), padded with -1."""
    rows, columns = mask.nonzero(as_tuple=True)  # (N,) each
    distinct, indices = torch.unique(ids[rows, columns], dim=0, return_inverse=True)
    first = indices.new_full((len(distinct),), len(indices))
    first.scatter_reduce_(
        0, indices, torch.arange(len(indices), device=ids.device), "amin"
    )
    tokens = indices.new_full(mask.shape, -1)
    tokens[rows, columns] = indices
    return encode(rows[first], columns[first]), tokens
