"""A batch to its loss: both directions, and the state they end in."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo_cli.model.bilm import BiLm, BiLmState, map_state, select_state
from elmo_cli.model.lstm import pack
from elmo_cli.training.batches import Batch
from elmo_cli.training.sampled_softmax import Samples, sampled_loss
from elmo_cli.training.softmax import Predictions, Softmax

MOST_LOGITS = 1 << 25
"""Logits of the full softmax in memory at once, without gradients: 128 MiB."""


class Losses(NamedTuple):
    """What a batch cost, in nats, and where its rows ended."""

    forward: Tensor
    """The sum over the predictions of the forward direction."""
    backward: Tensor
    state: BiLmState
    """In the order of the rows, without gradients."""


class Objective(nn.Module):
    """The language model that is trained: a biLM and the softmax that both directions share."""

    def __init__(self, bilm: BiLm, softmax: Softmax) -> None:
        super().__init__()
        self.bilm = bilm
        self.softmax = softmax

    def forward(
        self, batch: Batch, state: BiLmState | None = None, samples: Samples | None = None
    ) -> Losses:
        """The losses of a batch.

        Args:
            batch: its rows lie in any order.
            state: where each row starts; zero if not given.
            samples: for the sampled softmax; the full softmax if not given.
        """
        state = state or self.bilm.initial_state(len(batch.lengths))
        if not batch.lengths.any():  # another process has all the rows
            nothing = sum((p.sum() for p in self.parameters()), torch.tensor(0.0)) * 0
            return Losses(nothing, nothing, state)
        bilm, device = self.bilm, self.bilm.device
        packing = pack(batch.lengths)
        steps = batch.steps[:, packing.sentences, packing.positions]  # (4, N)
        order = torch.as_tensor(packing.order, device=device)
        rows = torch.as_tensor(steps, device=device)
        words = torch.as_tensor(batch.words, device=device)
        # Each distinct token is encoded once.
        vectors = bilm.token_encoder(bilm.token_encoder.token_ids(batch.tokens).to(device))
        layers, ended = bilm.run_stacks(
            vectors[rows[0]],
            vectors[rows[2]],
            packing.sizes,
            select_state(state, order),
        )
        losses = [
            self._loss(Predictions(bilm.dropout(top), words[predicted]), samples)
            for top, predicted in zip(layers[-1], (rows[1], rows[3]), strict=True)
        ]
        ended = select_state(map_state(ended, Tensor.detach), order.argsort())
        return Losses(losses[0], losses[1], ended)

    def _loss(self, predictions: Predictions, samples: Samples | None) -> Tensor:
        if samples is not None:
            return sampled_loss(self.softmax, predictions, samples).sum()
        n_rows = len(predictions.targets)
        if not torch.is_grad_enabled():
            n_rows = max(1, MOST_LOGITS // len(self.softmax.bias))
        parts = zip(*(torch.split(part, n_rows) for part in predictions), strict=True)
        losses: list[Tensor] = [self.softmax(Predictions(*part)).sum() for part in parts]
        return torch.stack(losses).sum()
