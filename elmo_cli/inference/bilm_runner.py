"""Runner for a biLM that is part of a torch model, as fast as the model allows.

A biLM that does not train runs in the fast LSTMs of `FastBiLm`, on the CPU. A biLM that
trains runs in `packed_lstm`.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.inference.fast_bilm import FastBiLm
from elmo_cli.inference.packed_lstm import run_packed
from elmo_cli.inference.precision import ComputeTypes
from elmo_cli.inference.weights_version import WeightsVersion
from elmo_cli.model.bilm import BiLm

EncodeAt: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Function from the rows and columns of tokens in a padded batch, int64, shape (N,)
each, to their vectors, float, shape (N, P)."""


class BiLmRunner:
    """Runner for the biLM of a module. It uses fast LSTMs if the biLM is not trained.

    The fast LSTMs have a copy of the weights, which is made again after a change that
    `WeightsVersion` shows, and after training. Copies and pickles of a runner have no
    weights.
    """

    def __init__(self) -> None:
        self._fast: FastBiLm | None = None
        self._copied = WeightsVersion()  # version of the weights in `_fast`

    def __reduce__(self) -> tuple[type["BiLmRunner"], tuple[()]]:
        return BiLmRunner, ()

    def reload_weights(self) -> None:
        """Forget the copy of the weights, so that the next call makes a new one."""
        self._fast = None
        self._copied = WeightsVersion()

    def run(
        self,
        bilm: BiLm,
        ids: Tensor,
        mask: Tensor,
        lengths: Sequence[int],
        encode: EncodeAt | None = None,
    ) -> Tensor:
        """Run over a padded batch with boundaries, from the zero state.

        Args:
            bilm: The biLM. All calls must get one model.
            ids: Ids with boundaries, int64, shape (B, T + 2, C).
            mask: Mask of `BiLm.add_boundaries`, bool, shape (B, T + 2).
            lengths: Number of tokens of each sentence, without the boundaries.
            encode: Function that encodes tokens. None means the biLM's encoder of their
                ids.

        Returns:
            Layers, float, shape (L, B, T + 2, W), zero outside the mask.
        """
        _check_not_quantized(bilm)
        if encode is None:

            def encode(rows: Tensor, columns: Tensor) -> Tensor:
                vectors: Tensor = bilm.token_encoder(ids[rows, columns])
                return vectors

        if _can_run_fast(bilm):
            return self._run_fast(bilm, ids=ids, mask=mask, encode=encode)
        self.reload_weights()  # Not all optimizers count their steps.
        if bilm.device.type == "cpu" and not torch.compiler.is_compiling():
            encode = _encode_once(ids, mask, encode)
        output = bilm.run_bounded(mask, lengths, encode, run_lstm=run_packed)
        return output.layers

    def _run_fast(
        self, bilm: BiLm, ids: Tensor, mask: Tensor, encode: EncodeAt
    ) -> Tensor:
        """Run a biLM that does not train over a padded batch in the fast LSTMs."""
        with torch.no_grad():
            vectors, tokens = _encode_distinct_tokens(ids, mask, encode)
        # Autocast may have changed the data type.
        vectors = vectors.to(_gates_dtype(bilm))
        # Created outside of inference mode, because a mix may need gradients.
        layers = vectors.new_zeros(
            bilm.architecture.n_layers, *mask.shape, bilm.architecture.width
        )
        if len(mask) > 0:
            run = self._run_lstms
            # torch.compile would trace the calls of kernels.
            if "torch._dynamo" in sys.modules:
                run = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
            layers[:, mask] = run(bilm, vectors, tokens.numpy())
        return layers

    def _run_lstms(
        self, bilm: BiLm, vectors: Tensor, tokens: NDArray[np.int64]
    ) -> Tensor:
        """Run the fast LSTMs, and copy the weights first if they have changed."""
        version = WeightsVersion(
            weight
            for stack in (bilm.forward_layers, bilm.backward_layers)
            for weight in stack.parameters()
        )
        if self._fast is None or version.key != self._copied.key:
            self._fast = None  # The old copy is freed before the new one is made.
            self._copied = version
            dtype = _gates_dtype(bilm)
            types = ComputeTypes(
                device=bilm.device, values=dtype, weights=dtype, gate_weights=dtype
            )
            self._fast = FastBiLm(bilm, types, keeps_bilm=True)
        with torch.autocast("cpu", enabled=False):
            layers, _ = self._fast.run(vectors, tokens, state=self._fast.zero_state(1))
        return layers


def _check_not_quantized(bilm: BiLm) -> None:
    """Raise a `ModelError` if torch has quantized the LSTMs of a biLM."""
    for pair in bilm.layer_pairs():
        for lstm in pair:
            if not isinstance(lstm.gates.weight, Tensor):
                raise ModelError(
                    "torch's quantization cannot be used for ELMo",
                    remedy=(
                        "Name the modules to quantize after it, as in "
                        'quantize_dynamic(model, {"output"}), or embed with '
                        'ElmoEmbedder(precision="int8").'
                    ),
                )


def _can_run_fast(bilm: BiLm) -> bool:
    """Return whether fast LSTMs can replace a biLM.

    It must be on the CPU, with no gradients and no dropout.
    """
    if bilm.device.type != "cpu":
        return False
    if bilm.training and bilm.dropout.p > 0:
        return False
    if any(parameter.requires_grad for parameter in bilm.parameters()):
        return False
    return _gates_dtype(bilm) != torch.float64  # Fast cells are float32.


def _gates_dtype(bilm: BiLm) -> torch.dtype:
    forward, _ = bilm.layer_pairs()[0]
    return forward.gates.weight.dtype


def _encode_once(ids: Tensor, mask: Tensor, encode: EncodeAt) -> EncodeAt:
    """Encode each distinct token once. Return a function that looks up the vectors."""
    vectors, tokens = _encode_distinct_tokens(ids, mask, encode)
    return lambda rows, columns: vectors.index_select(0, tokens[rows, columns])


def _encode_distinct_tokens(
    ids: Tensor, mask: Tensor, encode: EncodeAt
) -> tuple[Tensor, Tensor]:
    """Encode each distinct token once.

    Return the vectors of U distinct tokens, float, (U, P), and the row of each token
    among them, int64, (B, T + 2), padded with -1.
    """
    rows, columns = mask.nonzero(as_tuple=True)  # (N,) each
    distinct, indices = torch.unique(ids[rows, columns], dim=0, return_inverse=True)
    # `first` has the position of the first occurrence of each distinct token.
    first = indices.new_full((len(distinct),), len(indices))
    positions = torch.arange(len(indices), device=ids.device)
    first.scatter_reduce_(0, indices, positions, "amin")
    vectors = encode(rows[first], columns[first])
    tokens = indices.new_full(mask.shape, -1)
    tokens[rows, columns] = indices
    return vectors, tokens
