"""Which layers of the activations are wanted: all of them, some, or one mixed from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_cli.errors import InputError, shown

_LARGEST = torch.finfo(torch.float32).max
NAMES = ("all", "top", "average", "sum", "word_emb")


@dataclass(frozen=True)
class LayerChoice:
    """A choice of layers, as `--layers` spells it, or a mix as a task has learned it."""

    name: str
    """One of `NAMES`, `lstm1` and so on, numbers such as `0,2`, or `mix`."""
    indices: tuple[int, ...] = ()
    """The layers taken, where they are given by number."""
    mix: tuple[float, ...] = ()
    """s of gamma * sum_k softmax(s)_k * layer_k, a number a layer: see `ScalarMix`."""
    gamma: float = 1.0

    def __str__(self) -> str:
        return self.name

    def apply(self, layers: Tensor) -> Tensor:
        """Choose or mix.

        Args:
            layers: float, shape (L, N, W).

        Returns:
            float, shape (n, N, W) for `all` and several numbers, (N, W / 2) for `word_emb`,
            else (N, W).
        """
        if self.name == "all":
            return layers
        if self.name == "top":
            return layers[-1]  # (N, W)
        if self.name == "average":
            return layers.mean(dim=0)  # (N, W)
        if self.name == "sum":
            return layers.sum(dim=0)  # (N, W)
        if self.name == "word_emb":  # layer 0 is the token vector, twice side by side
            return layers[0, :, : layers.shape[-1] // 2]  # (N, W / 2)
        if self.mix:
            weights = self.gamma * torch.tensor(self.mix, device=layers.device).softmax(dim=0)
            return (weights[:, None, None] * layers).sum(dim=0)  # (N, W)
        chosen = layers[torch.tensor(self.indices, device=layers.device)]  # (n, N, W)
        return chosen[0] if len(self.indices) == 1 else chosen


ALL_LAYERS = LayerChoice("all")


def parse_layers(text: str, n_layers: int) -> LayerChoice:
    """Read a choice of layers for a model that has `n_layers`, the token layer included.

    Raises:
        InputError: it is neither a name nor numbers of layers that there are.
    """
    text = str(text)  # from Python a number comes as it is
    lstms = {f"lstm{index}": index for index in range(1, n_layers)}
    if text in NAMES:
        return LayerChoice(text)
    if text in lstms:
        return LayerChoice(text, (lstms[text],))
    numbers = [part.strip() for part in text.split(",")]
    if not set(numbers) <= set(map(str, range(n_layers))):
        raise InputError(
            f"layers {shown(text)!r}: expected {', '.join([*NAMES, *lstms])}, or numbers from 0 to "
            f"{n_layers - 1} with commas between"
        )
    return LayerChoice(",".join(numbers), tuple(map(int, numbers)))


def mixed_layers(mix: Sequence[float], gamma: float, n_layers: int) -> LayerChoice:
    """A mix with the parameters of a trained `ScalarMix`, for a model of `n_layers`.

    Args:
        mix: its scalar parameters, before the softmax.
        gamma: its gamma.

    Raises:
        InputError: it is not one number a layer, or a number is not finite.
    """
    if len(mix) != n_layers:
        raise InputError(
            f"mix: expected {n_layers} numbers, one a layer from the token layer up, "
            f"found {len(mix)}"
        )
    for name, values in (("mix", mix), ("gamma", [gamma])):
        strange = [value for value in values if not abs(value) <= _LARGEST]  # nor is nan
        if strange:
            raise InputError(f"{name}: expected finite float32 numbers, found {strange[0]}")
    return LayerChoice("mix", mix=tuple(map(float, mix)), gamma=float(gamma))
