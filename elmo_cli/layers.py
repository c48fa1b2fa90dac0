"""Which layers of the activations are wanted: all of them, some, or one mixed from them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_cli.errors import InputError

NAMES = ("all", "top", "average", "sum")


@dataclass(frozen=True)
class LayerChoice:
    """A choice of layers, as `--layers` spells it."""

    name: str
    """`all`, `top`, `average`, `sum`, or numbers such as `0,2`."""
    indices: tuple[int, ...] = ()
    """The layers taken, where they are given by number."""

    def __str__(self) -> str:
        return self.name

    def apply(self, layers: Tensor) -> Tensor:
        """Choose or mix.

        Args:
            layers: float, shape (L, N, W).

        Returns:
            float, shape (n, N, W) for `all` and several numbers, else (N, W).
        """
        if self.name == "all":
            return layers
        if self.name == "top":
            return layers[-1]  # (N, W)
        if self.name == "average":
            return layers.mean(dim=0)  # (N, W)
        if self.name == "sum":
            return layers.sum(dim=0)  # (N, W)
        chosen = layers[torch.tensor(self.indices, device=layers.device)]  # (n, N, W)
        return chosen[0] if len(self.indices) == 1 else chosen


def parse_layers(text: str, n_layers: int) -> LayerChoice:
    """Read a choice of layers for a model that has `n_layers`, the token layer included.

    Raises:
        InputError: it is neither a name nor numbers of layers that there are.
    """
    if text in NAMES:
        return LayerChoice(text)
    numbers = [part.strip() for part in text.split(",")]
    good = all(part.isascii() and part.isdigit() and int(part) < n_layers for part in numbers)
    if not good:
        raise InputError(
            f"layers {text!r}: expected {', '.join(NAMES)}, or numbers from 0 to {n_layers - 1} "
            "with commas between"
        )
    return LayerChoice(",".join(numbers), tuple(map(int, numbers)))
