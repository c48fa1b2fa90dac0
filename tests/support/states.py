"""States of the readable biLM: random ones, and those carried from batch to batch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmo_cli.model.bilm import BiLm, BiLmState, LayerState, map_state, select_state
from elmo_cli.model.lstm import LstmState

GOLDEN_BATCHES = (range(3), range(3, 8), range(8, 10), range(10, 11), range(11, 12))
"""The golden sentences as AllenNLP got them when it carried states."""


def random_state(bilm: BiLm, n_sentences: int, seed: int = 0) -> BiLmState:
    """Return a state of values between -1 and 1."""
    generator = torch.Generator().manual_seed(seed)
    return map_state(
        bilm.initial_state(n_sentences),
        lambda values: 2 * torch.rand(values.shape, generator=generator) - 1,
    )


def carried_layers(
    bilm: BiLm, batches: Sequence[Sequence[Sequence[str]]]
) -> list[Tensor]:
    """Return the layers of each batch, (L, B, T + 2, W), with carried state."""
    slots = bilm.initial_state(max(map(len, batches)))
    layers = []
    for batch in batches:
        output = bilm(
            bilm.sentence_ids(batch), select_state(slots, torch.arange(len(batch)))
        )
        layers.append(output.layers)
        if not any(batch):  # AllenNLP does not run a batch without tokens.
            continue
        slots = [
            LayerState(
                *(
                    LstmState(*map(_join, new, old))
                    for new, old in zip(a, b, strict=True)
                )
            )
            for a, b in zip(output.state, slots, strict=True)
        ]
    return layers


def _join(new: Tensor, old: Tensor) -> Tensor:
    """Return the state of all slots after a batch that had only the first of them."""
    return torch.cat([new, old[len(new) :]])
