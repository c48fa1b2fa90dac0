"""A batch to its loss.

Both directions share the softmax (Peters et al., 2018). The forward top layer at a
token predicts the token after it, and the backward top layer the token before it.
"""

import torch
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
            # Other processes have all rows. The zero loss gives every parameter a
            # gradient.
            zero = sum((p.sum() for p in self.parameters()), torch.tensor(0.0)) * 0
            return zero, zero, state
        packing = pack(batch.lengths)
        steps = batch.steps[:, packing.sentences, packing.positions]  # (4, N)
        order = torch.as_tensor(packing.order, device=device)
        rows = torch.as_tensor(steps, device=device)
        words = torch.as_tensor(batch.words, device=device)
        # The encoder computes each distinct token once.
        token_ids = bilm.token_encoder.token_ids(batch.tokens).to(device)
        vectors = bilm.token_encoder(token_ids)
        start = select_state(state, order)
        layers, ended = bilm.run_stacks(
            forward=vectors[rows[0]],
            backward=vectors[rows[2]],
            sizes=packing.sizes,
            state=start,
            run_lstm=run_packed,
        )
        context = bilm.dropout(torch.cat(layers[-1]))  # (2 N, P)
        targets = words[torch.cat([rows[1], rows[3]])]  # (2 N,)
        losses = self.softmax(context, targets, samples)
        forward, backward = losses.view(2, -1).sum(dim=1)
        ended = select_state(map_state(ended, Tensor.detach), order.argsort())
        return forward, backward, ended
