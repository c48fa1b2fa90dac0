"""A biLM inside a model: its layers, by the fast LSTMs where the biLM itself does not train."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.inference.fast_bilm import FastBiLm
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.model.bilm import BiLm

Encode = Callable[[Tensor, Tensor], Tensor]


class BiLmRunner:
    """Runs the biLM of a module: by fast LSTMs where it does not train.

    Those have a copy of its LSTMs' weights, made when they are first used and again where the
    weights have changed since. Copies and pickles of this object have none.
    """

    def __init__(self) -> None:
        self._fast: FastBiLm | None = None
        self._copied: list[Any] = []

    def __reduce__(self) -> tuple[type["BiLmRunner"], tuple[()]]:
        return BiLmRunner, ()

    def layers(
        self,
        bilm: BiLm,
        ids: Tensor,
        mask: Tensor,
        lengths: Sequence[int],
        encode: Encode | None = None,
    ) -> Tensor:
        """Run over a padded batch that has its boundaries, from the zero state.

        Args:
            bilm: always the same one.
            ids: int64, shape (B, T + 2, C): `BiLm.add_boundaries`.
            mask, lengths, encode: as in `BiLm.run_bounded`; `encode` is the biLM's token encoder
                if not given.

        Returns:
            float, shape (L, B, T + 2, W), zero where the mask is.
        """
        encode = encode or (lambda rows, columns: bilm.token_encoder(ids[rows, columns]))
        is_frozen = _is_frozen(bilm)
        if not is_frozen and (bilm.device.type != "cpu" or torch.compiler.is_compiling()):
            return bilm.run_bounded(mask, lengths, encode).layers
        with torch.set_grad_enabled(torch.is_grad_enabled() and not is_frozen):
            vectors, tokens = _distinct_tokens(ids, mask, encode)
        if not is_frozen:
            return bilm.run_bounded(
                mask, lengths, lambda rows, columns: vectors.index_select(0, tokens[rows, columns])
            ).layers
        vectors = vectors.to(_dtype(bilm))  # autocast has another
        # Made outside of inference mode, since the gradients of a mix need it.
        layers = vectors.new_zeros(bilm.options.n_layers, *mask.shape, bilm.options.width)
        running = [length > 0 for length in lengths]
        if any(running):
            run = self._contextualize
            if "torch._dynamo" in sys.modules:  # torch.compile would follow into the kernels
                run = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
            layers[:, mask] = run(bilm, vectors, tokens.numpy()[running])
        return layers

    def _contextualize(self, bilm: BiLm, vectors: Tensor, tokens: NDArray[np.int64]) -> Tensor:
        stacks = bilm.forward_layers, bilm.backward_layers
        weights = [weight for stack in stacks for weight in stack.parameters()]
        found = [(weight.data_ptr(), weight._version, weight.dtype) for weight in weights]
        if self._fast is None or found != self._copied:
            self._fast = None  # its memory first
            types = ComputeTypes(bilm.device, *3 * (_dtype(bilm),))
            self._fast, self._copied = FastBiLm(bilm, types, keeps_bilm=True), found
        with torch.autocast("cpu", enabled=False):
            return self._fast.contextualize(vectors, tokens, self._fast.initial_state(1))[0]


def _is_frozen(bilm: BiLm) -> bool:
    """Whether a biLM has neither gradients nor dropout, on a device that has fast LSTMs."""
    if bilm.device.type != "cpu" or (bilm.training and bilm.dropout.p > 0):
        return False
    trains = any(parameter.requires_grad for parameter in bilm.parameters())
    return not trains and _dtype(bilm) != torch.float64  # cells would be float32


def _dtype(bilm: BiLm) -> torch.dtype:
    return bilm.layer_pairs()[0][0].gates.weight.dtype


def _distinct_tokens(ids: Tensor, mask: Tensor, encode: Encode) -> tuple[Tensor, Tensor]:
    """The vectors of distinct tokens, float, shape (V, P), and which of them each token is.

    The latter is int64, shape (B, T + 2), -1 where there is no token.
    """
    rows, columns = mask.nonzero(as_tuple=True)  # (N,) each
    distinct, indices = torch.unique(ids[rows, columns], dim=0, return_inverse=True)
    first = indices.new_full((len(distinct),), len(indices))
    first.scatter_reduce_(0, indices, torch.arange(len(indices)), "amin")
    tokens = indices.new_full(mask.shape, -1)
    tokens[rows, columns] = indices
    return encode(rows[first], columns[first]), tokens
