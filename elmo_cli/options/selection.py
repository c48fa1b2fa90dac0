"""Which activations are written: layers, their mix, and pooling, as set and checked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Final, Literal, get_args

from elmo_cli.errors.checks import check_batch, check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Template, option_of
from elmo_cli.options.fields import check_choices, option
from elmo_cli.options.layers import Layers, check_layers, layers_text

Pooling = Literal["mean", "max", "first", "last"]
POOLINGS: Final = get_args(Pooling)
_MAX_FLOAT32: Final = 3.4028234663852886e38


@dataclass(frozen=True)
class SelectionSettings:
    """Selection of layers, their mix, and their pooling over tokens."""

    layers: str = option(
        "all",
        "Layers to write: all, top, average, sum, word_emb, lstm1, lstm2, or numbers "
        "such as 0,-1. See `elmo help layers`.",
        value="CHOICE",
    )
    mix: tuple[float, ...] | None = option(
        None,
        "Write the sum of all layers, weighted by the softmax of S0,S1,...; see `elmo "
        "help layers`.",
        value="S0,S1,...",
    )
    """gamma * sum_k softmax(s)_k * layer_k, one number s per layer."""
    gamma: float | None = option(None, "Scale of {--mix}.", default_text="1", value="G")
    pooling: Pooling | None = option(
        None,
        "Pool the token vectors into one per sentence (zeros for a blank line).",
        default_text="one vector per token",
        choices=POOLINGS,
    )
    normalize: bool = option(False, "Scale every vector to length 1.")
    """Zeros stay zeros."""
    layers_argument: str = field(default="layers", compare=False, kw_only=True)
    """Argument that gave the layers, for errors."""

    def __post_init__(self) -> None:
        check_choices(self)
        if self.mix is None and self.gamma is not None:
            raise SettingsError(
                Template("{--gamma}: requires {--mix}"),
                remedy="Add it, or remove {--gamma}.",
            )
        if self.mix is not None and self.layers != "all":
            raise SettingsError(
                "{layers} has no effect with {mix}, which is of all layers",
                remedy="Remove one of them.",
                layers=option_of(self.layers_argument),
                mix=option_of("mix"),
            )
        if self.mix is not None:
            for value in self.mix:
                _check_float32("mix", value)
        if self.gamma is not None:
            _check_float32("gamma", self.gamma)

    @classmethod
    def from_arguments(
        cls,
        layers: Layers,
        *,
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: Pooling | None = None,
        normalize: bool = False,
        layers_argument: str = "layers",
    ) -> "SelectionSettings":
        """Return the settings for the arguments of `ElmoEmbedder.embed_sentences`.

        `layers_argument` is the argument that gave the layers.
        """
        return cls(
            layers=layers_text(layers, layers_argument),
            mix=None if mix is None else tuple(check_batch(mix, "mix")),
            gamma=gamma,
            pooling=pooling,
            normalize=normalize,
            layers_argument=layers_argument,
        )

    def for_model(self, n_layers: int) -> "Selection":
        """Return the selection for a model, or raise a `SettingsError`.

        `n_layers` is the number of layers of the model, the token layer included.
        """
        if self.mix is None:
            layers, numbers = check_layers(
                self.layers, n_layers, argument=self.layers_argument
            )
            return Selection(
                layers=layers,
                numbers=numbers,
                pooling=self.pooling,
                normalize=self.normalize,
            )
        if len(self.mix) != n_layers:
            raise SettingsError(
                "{--mix}: expected {n_layers} numbers, one per layer from the "
                "token layer up, found {n_numbers}",
                n_layers=n_layers,
                n_numbers=len(self.mix),
            )
        return Selection(
            layers="mix",
            mix=tuple(map(float, self.mix)),
            gamma=1.0 if self.gamma is None else float(self.gamma),
            pooling=self.pooling,
            normalize=self.normalize,
        )

    def check_for_model(self, n_layers: int) -> None:
        """Raise the error of `for_model`, before a model is loaded or a file opened."""
        self.for_model(n_layers)

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> "SelectionSettings":
        """Return the selection of a file with these attributes.

        AllenNLP's files have none: they contain all layers.
        """
        pooling = attributes.get("pooling")
        normalize = "normalize" in attributes
        if "mix" not in attributes:
            layers = attributes.get("layers", "all")
            return cls(layers=layers, pooling=pooling, normalize=normalize)
        return cls(
            mix=tuple(map(float, attributes["mix"].split(","))),
            gamma=float(attributes["gamma"]),
            pooling=pooling,
            normalize=normalize,
        )


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selection of layers that a model has, their mix, and their pooling over tokens.

    `SelectionSettings.for_model` checks and creates it.
    """

    layers: str
    """A name, numbers from 0 such as `0,2`, or `mix`: see `numbers` and `mix`."""
    numbers: tuple[int, ...] | None = None
    """Numbers of the layers; None for a mix and for a name in `NAMED_LAYERS`."""
    mix: tuple[float, ...] | None = None
    """One number s per layer: gamma * sum_k softmax(s)_k * layer_k."""
    gamma: float = 1.0
    """Scale of the mix."""
    pooling: Pooling | None = None
    normalize: bool = False
    """Scale every vector to length 1. Zeros stay zeros."""

    def to_attributes(self) -> dict[str, str]:
        """Return the attributes of an output file that name the selection."""
        attributes = {"layers": self.layers}
        if self.mix is not None:
            attributes["mix"] = ",".join(map(str, self.mix))
            attributes["gamma"] = str(self.gamma)
        if self.pooling is not None:
            attributes["pooling"] = self.pooling
        if self.normalize:
            attributes["normalize"] = "True"
        return attributes


def _check_float32(name: str, value: float) -> None:
    check_type(name, value, Real, "a number")
    if math.isnan(value) or abs(value) > _MAX_FLOAT32:
        raise SettingsError(
            "{option}: expected finite float32 numbers, found {value}",
            option=option_of(name),
            value=value,
        )
