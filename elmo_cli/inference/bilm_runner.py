"""Runner for a biLM that is part of a torch model, as fast as the model allows.

A biLM that does not train runs in the fast LSTMs of `FastBiLm`, on the CPU, and in a
lower precision on every device. A biLM that trains runs in `packed_lstm`.
"""

import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.errors.exceptions import ModelError, SettingsError
from elmo_cli.errors.messages import Template
from elmo_cli.inference.exact_products import exact_products
from elmo_cli.inference.fast_bilm import FastBiLm
from elmo_cli.inference.fast_token_encoder import prepare_token_encoder
from elmo_cli.inference.packed_lstm import run_packed
from elmo_cli.inference.precision import ComputeTypes, compute_types
from elmo_cli.inference.prepared_linear import round_weights
from elmo_cli.inference.weights_version import WeightsVersion
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.token_encoder import TokenEncoder
from elmo_cli.options.model import Precision

EncodeAt: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Function from the rows and columns of tokens in a padded batch, int64, shape (N,)
each, to their vectors, float, shape (N, P)."""


class _Prepared(NamedTuple):
    """A biLM that does not train, prepared for inference."""

    version: WeightsVersion
    """Version of the weights that were copied."""
    types: ComputeTypes
    token_encoder: TokenEncoder
    """The biLM's own encoder in float32, and a copy in a lower precision."""
    lstms: FastBiLm


class BiLmRunner:
    """Runner for the biLM of a module. It uses fast LSTMs if the biLM is not trained.

    The fast LSTMs have a copy of the weights, which is made again after a change that
    `WeightsVersion` shows, and after training. Copies and pickles of a runner have no
    weights.
    """

    def __init__(self, precision: Precision = "float32") -> None:
        """Set the precision. Only float32 allows the biLM to train.

        float32 means the data type of the weights, and torch's settings of products,
        which belong to the program around the module.
        """
        self.precision = precision
        self._prepared: _Prepared | None = None

    def __reduce__(self) -> tuple[type["BiLmRunner"], tuple[Precision]]:
        return BiLmRunner, (self.precision,)

    def reload_weights(self) -> None:
        """Forget the copy of the weights, so that the next call makes a new one."""
        self._prepared = None

    def check(self, bilm: BiLm) -> None:
        """Raise an `ElmoError` for a biLM that cannot run in this precision."""
        _check_not_quantized(bilm)
        if self.precision == "float32":
            return
        if not _is_frozen(bilm):
            raise SettingsError(
                Template(
                    f"{{--precision {self.precision}}}: requires a frozen biLM, "
                    "without gradients or dropout"
                ),
                remedy="Use {--precision float32}.",
            )
        if self.precision == "int8":
            # The other precisions may only be missing until the biLM moves to a GPU.
            compute_types("int8", bilm.device)

    def token_encoder(self, bilm: BiLm) -> TokenEncoder:
        """Return the encoder of tokens: the biLM's, or a copy in a lower precision."""
        if self.precision == "float32":
            return bilm.token_encoder
        return self._prepare_once(bilm).token_encoder

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
            encode: Function that encodes tokens. None means `token_encoder` of their
                ids.

        Returns:
            Layers, float, shape (L, B, T + 2, W), zero outside the mask. In a lower
            precision, they have the data type of the biLM's weights, too.
        """
        self.check(bilm)
        if self.precision == "float32" and not _can_run_fast(bilm):
            self.reload_weights()  # Not all optimizers count their steps.
            if encode is None:
                encode = _encode_by(bilm.token_encoder, ids)
            if bilm.device.type == "cpu" and not torch.compiler.is_compiling():
                encode = _encode_once(ids, mask, encode)
            return bilm.run_bounded(mask, lengths, encode, run_lstm=run_packed).layers
        prepared = self._prepare_once(bilm)
        if encode is None:
            encode = _encode_by(prepared.token_encoder, ids)
        run = partial(
            _run_fast, prepared, ids, mask=mask, encode=encode, dtype=_gates_dtype(bilm)
        )
        if self.precision == "float32":
            return run()
        # The values are those of `ElmoEmbedder`, whatever is set around the module.
        with (
            torch.autocast(bilm.device.type, enabled=False),
            exact_products(tf32=prepared.types.tf32),
        ):
            return run()

    def _prepare_once(self, bilm: BiLm) -> _Prepared:
        """Prepare a biLM, unless its weights are those of the last time."""
        version = WeightsVersion(bilm.parameters())
        if len(version.key) == 0:
            # Replicas (nn.DataParallel) have no parameters, and share this runner.
            return _prepare_weights(bilm, self.precision, version)
        if self._prepared is None or version.key != self._prepared.version.key:
            self._prepared = None  # The old copy is freed before the new one is made.
            self._prepared = _prepare_weights(bilm, self.precision, version)
        return self._prepared


def _prepare_weights(
    bilm: BiLm, precision: Precision, version: WeightsVersion
) -> _Prepared:
    """Prepare a biLM for inference, and leave it as it is."""
    if precision == "float32":
        dtype = _gates_dtype(bilm)
        types = ComputeTypes(
            device=bilm.device, values=dtype, weights=dtype, gate_weights=dtype
        )
        lstms = FastBiLm(bilm, types, keeps_bilm=True)
        return _Prepared(version, types, bilm.token_encoder, lstms)
    types = compute_types(precision, bilm.device)
    copied = _copy_modules(bilm, types)
    token_encoder = prepare_token_encoder(copied.token_encoder, types)
    return _Prepared(version, types, token_encoder, FastBiLm(copied, types))


def _copy_modules(bilm: BiLm, types: ComputeTypes) -> BiLm:
    """Return a biLM in float32 whose modules can be replaced.

    It shares the weights with the original, unless they have to change.
    """
    shared = {}
    if _gates_dtype(bilm) == torch.float32 and not types.rounds_weights:
        shared = {id(weight): weight for weight in bilm.parameters()}
    copied = deepcopy(bilm, shared).float()
    if types.rounds_weights:
        round_weights(copied)
    return copied


def _run_fast(
    prepared: _Prepared,
    ids: Tensor,
    *,
    mask: Tensor,
    encode: EncodeAt,
    dtype: torch.dtype,
) -> Tensor:
    """Run a padded batch in the fast LSTMs. The layers have the data type `dtype`."""
    with torch.no_grad():
        vectors, tokens = _encode_distinct_tokens(ids, mask, encode)
    # Created outside of inference mode, because a mix may need gradients.
    layers = torch.zeros(
        prepared.lstms.architecture.n_layers,
        *mask.shape,
        prepared.lstms.architecture.width,
        dtype=dtype,
        device=prepared.types.device,
    )
    if len(mask) > 0:
        run = _run_lstms
        # torch.compile would trace the calls of kernels.
        if "torch._dynamo" in sys.modules:
            run = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
        layers[:, mask] = run(prepared, vectors, tokens.numpy()).to(dtype)
    return layers


def _run_lstms(
    prepared: _Prepared, vectors: Tensor, tokens: NDArray[np.int64]
) -> Tensor:
    """Run the fast LSTMs over the vectors of distinct tokens."""
    # Autocast may have changed the data type.
    vectors = vectors.to(prepared.types.values)
    with torch.autocast(prepared.types.device.type, enabled=False):
        layers, _ = prepared.lstms.run(
            vectors, tokens, state=prepared.lstms.zero_state(1)
        )
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
    """Return whether fast LSTMs can replace a biLM in the precision of its weights."""
    if bilm.device.type != "cpu" or not _is_frozen(bilm):
        return False
    return _gates_dtype(bilm) != torch.float64  # Fast cells are float32.


def _is_frozen(bilm: BiLm) -> bool:
    """Return whether a biLM computes without gradients and dropout."""
    if bilm.training and bilm.dropout.p > 0:
        return False
    return not any(parameter.requires_grad for parameter in bilm.parameters())


def _gates_dtype(bilm: BiLm) -> torch.dtype:
    forward, _ = bilm.layer_pairs()[0]
    return forward.gates.weight.dtype


def _encode_by(encoder: TokenEncoder, ids: Tensor) -> EncodeAt:
    """Return a function that encodes the ids of tokens in a batch."""

    def encode(rows: Tensor, columns: Tensor) -> Tensor:
        vectors: Tensor = encoder(ids[rows, columns])
        return vectors

    return encode


def _encode_once(ids: Tensor, mask: Tensor, encode: EncodeAt) -> EncodeAt:
    """Encode each distinct token once. Return a function that looks up the vectors."""
    vectors, tokens = _encode_distinct_tokens(ids, mask, encode)
    return lambda rows, columns: vectors.index_select(0, tokens[rows, columns])


def _encode_distinct_tokens(
    ids: Tensor, mask: Tensor, encode: EncodeAt
) -> tuple[Tensor, Tensor]:
    """Encode each distinct token once.

    Return the vectors of U distinct tokens, float, (U, P), and the row of each token
    among them, int64, (B, T + 2), padded with -1, on the CPU.
    """
    rows, columns = mask.nonzero(as_tuple=True)  # (N,) each
    # MPS cannot find distinct rows.
    ids_of_tokens = ids[rows, columns].cpu()
    distinct, indices = torch.unique(ids_of_tokens, dim=0, return_inverse=True)
    # `first` has the position of the first occurrence of each distinct token.
    first = indices.new_full((len(distinct),), len(indices))
    positions = torch.arange(len(indices), device="cpu")
    first.scatter_reduce_(0, indices, positions, "amin")
    first = first.to(mask.device)
    vectors = encode(rows[first], columns[first])
    tokens = indices.new_full(mask.shape, -1)
    tokens[mask.cpu()] = indices
    return vectors, tokens
