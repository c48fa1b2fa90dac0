"""Options for which activations are written: layers, their mix, and pooling."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.wording import shown

POOLINGS: Final = ("mean", "max", "first", "last")


Layers = str | int | Sequence[int]
"""Choice of layers: a name or numbers, such as `top`, `0,2`, 2, -1 or [0, 2]."""


NAMED_LAYERS: Final = ("all", "top", "average", "sum", "word_emb")
"""Choices of layers that every model has; numbers and lstm1, lstm2, ... are others."""


_MAX_FLOAT32: Final = 3.4028234663852886e38


@dataclass(frozen=True)
class Selection:
    """Selection of layers, their mix, and their pooling over tokens."""

    # one of `NAMED_LAYERS`, `lstm1`, `lstm2`, ..., or numbers such as `0,2`
    layers: str = "all"
    mix: tuple[float, ...] | None = None
    """In place of `layers`: s of gamma * sum_k softmax(s)_k * layer_k, one number per layer."""
    gamma: float | None = None  # scale of the mix; None is 1
    pooling: str | None = None  # One vector per sentence. None keeps one per token.
    normalize: bool = False  # Scale every vector to length 1. Zeros stay zeros.

    def __post_init__(self) -> None:
        if self.pooling is not None and self.pooling not in POOLINGS:
            raise SettingsError(
                f"--pooling {self.pooling!r}: unknown. Use {', '.join(POOLINGS)}."
            )
        if self.mix is None and self.gamma is not None:
            raise SettingsError("--gamma requires --mix")
        if self.mix is not None and self.layers != "all":
            raise SettingsError(
                "--layers has no effect with --mix, which is of all layers."
            )
        for name, values in (("mix", self.mix or ()), ("gamma", [self.gamma or 0.0])):
            for value in values:
                if math.isnan(value) or abs(value) > _MAX_FLOAT32:
                    raise SettingsError(
                        f"{name}: expected finite float32 numbers, found {value}"
                    )

    def for_model(self, n_layers: int) -> "Selection":
        """Return the selection in its canonical form, checked for a model.

        `n_layers` is the number of layers of the model, the token layer included.
        """
        if self.mix is None:
            return replace(self, layers=_check_layers(self.layers, n_layers))
        if len(self.mix) != n_layers:
            raise SettingsError(
                f"--mix: expected {n_layers} numbers, one per layer from the token layer up, "
                f"found {len(self.mix)}"
            )
        gamma = 1.0 if self.gamma is None else float(self.gamma)
        return replace(self, mix=tuple(map(float, self.mix)), gamma=gamma)

    def to_attributes(self) -> dict[str, str]:
        """Return the attributes of an output file that name a checked selection."""
        attributes = {"layers": self.layers}
        if self.mix is not None:
            mix = ",".join(map(str, self.mix))
            attributes = {"layers": "mix", "mix": mix, "gamma": str(self.gamma)}
        if self.pooling is not None:
            attributes["pooling"] = self.pooling
        if self.normalize:
            attributes["normalize"] = "True"
        return attributes

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> "Selection":
        """Return the selection of a file with these attributes; AllenNLP's have all layers."""
        pooling, normalize = attributes.get("pooling"), "normalize" in attributes
        if (mix := attributes.get("mix")) is None:
            return cls(
                attributes.get("layers", "all"), pooling=pooling, normalize=normalize
            )
        numbers = tuple(map(float, mix.split(",")))
        return cls("all", numbers, float(attributes["gamma"]), pooling, normalize)


def parse_layers(layers: Layers, available: Sequence[int]) -> list[int] | None:
    """Return the numbers in a choice such as `0,2`, or None if it is not of available layers.

    Negative numbers count from the last available layer, which is -1.
    """
    numbers = {str(number): number for number in available}
    numbers |= {
        str(place - len(available)): layer for place, layer in enumerate(available)
    }
    parts = [part.strip() for part in layers_text(layers).split(",")]
    return [numbers[part] for part in parts] if set(parts) <= set(numbers) else None


def layers_text(layers: Layers) -> str:
    """Return a choice of layers as text: `0,2` for [0, 2]."""
    check_type("layers", layers, (str, int, Iterable), "a name or numbers")
    listed = [layers] if isinstance(layers, (str, int)) else layers
    return ",".join(str(layer).strip() for layer in listed)


def _check_layers(name: str, n_layers: int) -> str:
    """Return a choice of layers with numbers from 0; raise an `InputError` for any other text."""
    names = [*NAMED_LAYERS, *(f"lstm{number}" for number in range(1, n_layers))]
    if name in names:
        return name
    numbers = parse_layers(name, range(n_layers))
    if numbers is None:
        raise SettingsError(
            f"--layers {shown(name)!r}: expected {', '.join(names)}, or numbers "
            f"from 0 to {n_layers - 1}, separated by commas"
        )
    return ",".join(map(str, numbers))
