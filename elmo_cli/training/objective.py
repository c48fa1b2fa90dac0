"""A batch to its loss.

Both directions share the softmax (Peters et al., 2018). The forward top layer at a
token predicts the token after it, and the backward top layer the token before it.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_cli.inference.packed_lstm import run_packed
from elmo_cli.model.bilm import BiLm, BiLmState, map_state, select_state
from elmo_cli.model.packing import pack
from elmo_cli.training.batches import Batch
from elmo_cli.training.loss import OutputLayer, SampledWords


class Objective(nn.Module):
    """Language model in training: a biLM, and the softmax of both directions."""

    def __init__(self, bilm: BiLm, softmax: OutputLayer) -> None:
        super().__init__()
        self.bilm = bilm
        self.softmax = softmax

    def forward(
        self,
        batch: Batch,
        state: BiLmState | None = None,
        samples: SampledWords | None = None,
    ) -> tuple[Tensor, Tensor, BiLmState]:
        """Return each direction's sum of losses, in nats, and the state after the rows.

        The rows start from `state`, by default the zero state. The new state has no
        gradients.
        """
        bilm = self.bilm
        device = bilm.device
        state = state or bilm.initial_state(len(batch.lengths))
        if not batch.lengths.any():
            # Other processes have all rows. The processes average the gradients of
            # all parameters, so this loss of 0 depends on each of them.
            sums = [parameter.sum() for parameter in self.parameters()]
            zero = 0 * torch.stack(sums).sum()
            return zero, zero, state
        packing = pack(batch.lengths)

        def packed(steps: NDArray[np.int64]) -> Tensor:
            """Return the tokens of all steps, (B, U), in packed order, (N,)."""
            rows = steps[packing.sentences, packing.positions]
            return torch.as_tensor(rows, device=device)

        # The encoder computes each distinct token once.
        token_ids = bilm.token_encoder.token_ids(batch.tokens).to(device)
        vectors = bilm.token_encoder(token_ids)
        order = torch.as_tensor(packing.order, device=device)
        layers, ended = bilm.run_stacks(
            forward=vectors[packed(batch.forward.read)],
            backward=vectors[packed(batch.backward.read)],
            sizes=packing.sizes,
            state=select_state(state, order),
            run_lstm=run_packed,
        )
        # Both directions are one call of the softmax.
        context = bilm.dropout(torch.cat(layers[-1]))  # (2 N, P)
        predicted = torch.cat(
            [packed(batch.forward.predicted), packed(batch.backward.predicted)]
        )
        words = torch.as_tensor(batch.words, device=device)
        losses = self.softmax(context, words[predicted], samples)  # (2 N,)
        forward, backward = losses.view(2, -1).sum(dim=1)
        ended = select_state(map_state(ended, Tensor.detach), order.argsort())
        return forward, backward, ended
