"""Which layers a sentence gets, how they are mixed, and whether as one vector."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.errors import InputError, shown

_NAMED: dict[str, Callable[[Tensor], Tensor]] = {
    "all": lambda layers: layers,
    "top": lambda layers: layers[-1],
    "average": lambda layers: layers.mean(dim=0),
    "sum": lambda layers: layers.sum(dim=0),
    # Layer 0 is the token vector, twice side by side.
    "word_emb": lambda layers: layers[0, :, : layers.shape[-1] // 2],
}
POOLINGS = ("mean", "max", "first", "last")
_MAX_FLOAT32 = torch.finfo(torch.float32).max


@dataclass(frozen=True)
class Selection:
    """A choice or a mix of layers, and a pooling over the tokens of a sentence; see `select`."""

    layers: str = "all"
    """One of `_NAMED`, `lstm1` and so on, numbers such as `0,2`, or `mix`."""
    mix: tuple[float, ...] = ()
    """s of gamma * sum_k softmax(s)_k * layer_k, a number a layer: see `ScalarMix`."""
    gamma: float = 1.0
    pooling: str | None = None
    """One of `POOLINGS`; None keeps every token."""
    normalize: bool = False
    """Every vector has length 1, or is zero."""

    def apply(
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
        values = self.choose(layers.float())
        if self.pooling is not None:
            values = pool(values, lengths, self.pooling)  # (..., B, W)
        if self.normalize:
            values = functional.normalize(values, dim=-1)
        values = values.to(device)
        if self.pooling is not None:
            return values.unbind(dim=-2)
        return torch.split(values, list(lengths), dim=-2)

    def choose(self, layers: Tensor) -> Tensor:
        """Choose or mix layers, float, shape (L, N, W).

        To (n, N, W) for `all` and several numbers, (N, W / 2) for `word_emb`, else (N, W).
        """
        if self.layers in _NAMED:
            return _NAMED[self.layers](layers)
        if self.mix:
            weights = self.gamma * torch.tensor(self.mix, device=layers.device).softmax(dim=0)
            return (weights[:, None, None] * layers).sum(dim=0)  # (N, W)
        numbers = [int(part.removeprefix("lstm")) for part in self.layers.split(",")]
        chosen = layers[torch.tensor(numbers, device=layers.device)]  # (n, N, W)
        return chosen[0] if len(numbers) == 1 else chosen

    def empty(self, n_layers: int, width: int, device: torch.device) -> Tensor:
        """The value of a sentence without tokens: T is 0, or zeros if pooled."""
        values = self.choose(torch.empty(n_layers, 0, width, device=device))
        return values if self.pooling is None else values.sum(dim=-2)

    def attributes(self) -> dict[str, str]:
        """The attributes of an output file that name it."""
        attributes = {"layers": self.layers}
        if self.mix:
            attributes |= {"mix": ",".join(map(str, self.mix)), "gamma": str(self.gamma)}
        if self.pooling is not None:
            attributes["pooling"] = self.pooling
        if self.normalize:
            attributes["normalize"] = "True"
        return attributes


def select(
    n_layers: int,
    layers: str = "all",
    mix: Sequence[float] | None = None,
    gamma: float | None = None,
    pooling: str | None = None,
    *,
    normalize: bool = False,
) -> Selection:
    """Read a selection for a model that has `n_layers`, the token layer included.

    The arguments are those of `ElmoEmbedder.embed_sentences`.
    """
    if pooling is not None and pooling not in POOLINGS:
        raise InputError(f"pooling {pooling!r}: expected {', '.join(POOLINGS)}")
    if mix is None:
        if gamma is not None:
            raise InputError(f"gamma {gamma}: expected a mix with it")
        return Selection(_checked_layers(layers, n_layers), pooling=pooling, normalize=normalize)
    if layers != "all":
        raise InputError(f"layers {layers!r}: expected none with a mix, which is of all layers")
    if len(mix) != n_layers:
        raise InputError(
            f"mix: expected {n_layers} numbers, one a layer from the token layer up, "
            f"found {len(mix)}"
        )
    gamma = 1.0 if gamma is None else float(gamma)
    for name, values in (("mix", mix), ("gamma", [gamma])):
        strange = [value for value in values if not abs(value) <= _MAX_FLOAT32]  # nor is nan
        if strange:
            raise InputError(f"{name}: expected finite float32 numbers, found {strange[0]}")
    return Selection("mix", tuple(map(float, mix)), gamma, pooling, normalize)


def _checked_layers(layers: str, n_layers: int) -> str:
    """A choice of layers without white space, if there is such a one."""
    parts = str(layers).split(",")  # from Python a number comes as it is
    text = ",".join(map(str.strip, parts))
    names = [*_NAMED, *(f"lstm{number}" for number in range(1, n_layers))]
    if text not in names and not set(text.split(",")) <= set(map(str, range(n_layers))):
        raise InputError(
            f"layers {shown(layers)!r}: expected {', '.join(names)}, or numbers "
            f"from 0 to {n_layers - 1} with commas between"
        )
    return text


def pool(values: Tensor, lengths: Sequence[int], pooling: str) -> Tensor:
    """Pool the tokens of each of B sentences, without boundaries, all sentences at once.

    Float, shape (N, W) or (n, N, W), sentence after sentence, to (B, W) or (n, B, W).
    """
    counts = torch.tensor(lengths, dtype=torch.int64, device=values.device)  # (B,)
    ends = counts.cumsum(0)
    if pooling == "first":
        return values[..., ends - counts, :]
    if pooling == "last":
        return values[..., ends - 1, :]
    # The vectors are a table, and a sentence a bag of its rows: 2 to 100 times faster than
    # torch.segment_reduce on the CPU, and likewise no sum depends on another sentence.
    table = values.reshape(-1, values.shape[-1])  # (n N, W)
    layers = torch.arange(len(table) // sum(lengths), device=values.device)
    starts = layers[:, None] * sum(lengths) + ends - counts  # (n, B)
    rows = torch.arange(len(table), device=values.device)
    pooled = functional.embedding_bag(rows, table, starts.flatten(), mode=pooling)
    return pooled.reshape(*values.shape[:-2], len(lengths), -1)
