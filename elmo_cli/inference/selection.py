"""What is wanted of the layers: which of them, and whether as one vector a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_cli.errors import InputError
from elmo_cli.inference.layers import ALL_LAYERS, LayerChoice, mixed_layers, parse_layers
from elmo_cli.inference.pooling import POOLINGS, pool


@dataclass(frozen=True)
class Selection:
    """A choice of layers, and of a pooling over the tokens of a sentence."""

    layers: LayerChoice = ALL_LAYERS
    pooling: str | None = None
    """One of `POOLINGS`; None keeps every token."""

    def of_sentences(
        self, layers: Tensor, lengths: Sequence[int], device: torch.device
    ) -> tuple[Tensor, ...]:
        """Select from the layers of a batch, before anything leaves its device.

        Args:
            layers: float, shape (L, N, W), sentence after sentence.
            lengths: the tokens of each of B sentences, none 0, N together.
            device: where the result goes.

        Returns:
            For each sentence float32, shape (n, T, W), or (T, W) for one layer; (n, W) or
            (W,) if pooled. W / 2 in place of W for `word_emb`.
        """
        values = self.layers.apply(layers.float())
        if self.pooling is None:
            return torch.split(values.to(device), list(lengths), dim=-2)
        return pool(values, lengths, self.pooling).to(device).unbind(dim=-2)

    def of_no_tokens(self, n_layers: int, width: int, device: torch.device) -> Tensor:
        """What a sentence without tokens gets: a T of 0, or zeros if pooled."""
        values = self.layers.apply(torch.empty(n_layers, 0, width, device=device))
        return values if self.pooling is None else values.sum(dim=-2)

    def attributes(self) -> dict[str, str]:
        """What an output file says of it."""
        attributes = {"layers": str(self.layers)}
        if self.layers.mix:
            attributes["mix"] = ",".join(map(str, self.layers.mix))
            attributes["gamma"] = str(self.layers.gamma)
        if self.pooling is not None:
            attributes["pooling"] = self.pooling
        return attributes


def select(
    n_layers: int,
    layers: str = "all",
    mix: Sequence[float] | None = None,
    gamma: float | None = None,
    pooling: str | None = None,
) -> Selection:
    """Read a selection for a model that has `n_layers`, the token layer included.

    Args:
        layers: as `parse_layers` reads it.
        mix: the scalar parameters of a trained mix, before the softmax, in place of `layers`.
        gamma: that of the mix; 1 if not given.
        pooling: one of `POOLINGS`, or None.

    Raises:
        InputError: there is no such choice, or two contradict each other.
    """
    if pooling is not None and pooling not in POOLINGS:
        raise InputError(f"pooling {pooling!r}: expected {', '.join(POOLINGS)}")
    if mix is None:
        if gamma is not None:
            raise InputError(f"gamma {gamma}: expected a mix with it")
        return Selection(parse_layers(layers, n_layers), pooling)
    if layers != "all":
        raise InputError(f"layers {layers!r}: expected none with a mix, which is of all layers")
    return Selection(mixed_layers(mix, 1.0 if gamma is None else gamma, n_layers), pooling)
