"""Which activations are written: layers, their mix, and pooling, as set and checked."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final, Literal, get_args

from elmo_cli.errors.checks import check_batch, check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Template, option_of
from elmo_cli.errors.wording import expected_one_of, shown
from elmo_cli.options.fields import check_choices, option

Pooling = Literal["mean", "max", "first", "last"]
POOLINGS: Final = get_args(Pooling)
Layers = str | int | Sequence[int]
"""Choice of layers: a name or numbers, such as `top`, `0,2`, 2, -1 or [0, 2]."""
NAMED_LAYERS: Final = ("all", "top", "average", "sum", "word_emb")
"""Choices of layers that every model has; numbers and lstm1, lstm2, ... are others."""
_MAX_FLOAT32: Final = 3.4028234663852886e38


@dataclass(frozen=True)
class SelectionSettings:
    """Selection of layers, their mix, and their pooling over tokens."""

    layers: str = option(
        "all",
        "Layers to write: all, top, average, sum, or numbers such as 0,2. See "
        "`elmo help layers`.",
        value="CHOICE",
    )
    mix: tuple[float, ...] | None = option(
        None,
        "Write a weighted sum of all layers. The weights are the softmax of these "
        "numbers; see `elmo help layers`.",
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

    def __post_init__(self) -> None:
        check_choices(self)
        if self.mix is None and self.gamma is not None:
            raise SettingsError(
                Template("{--gamma}: requires {--mix}"),
                remedy="Add it, or remove {--gamma}.",
            )
        if self.mix is not None and self.layers != "all":
            raise SettingsError(
                Template(
                    "{--layers} has no effect with {--mix}, which is of all layers"
                )
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
    ) -> "SelectionSettings":
        """Return the settings for the arguments of `ElmoEmbedder.embed_sentences`."""
        return cls(
            layers=layers_text(layers),
            mix=None if mix is None else tuple(check_batch(mix, "mix")),
            gamma=gamma,
            pooling=pooling,
            normalize=normalize,
        )

    def for_model(self, n_layers: int) -> "Selection":
        """Return the selection for a model, or raise a `SettingsError`.

        `n_layers` is the number of layers of the model, the token layer included.
        """
        if self.mix is None:
            layers, numbers = _check_layers(self.layers, n_layers)
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


def parse_layers(layers: Layers, available: Sequence[int]) -> list[int] | None:
    """Return the numbers in a choice such as `0,2`, or None if one is not available.

    Negative numbers count from the last available layer, which is -1.
    """
    layer_of = {str(layer): layer for layer in available}
    for index, layer in enumerate(available):
        layer_of[str(index - len(available))] = layer
    chosen = []
    for part in layers_text(layers).split(","):
        if part.strip() not in layer_of:
            return None
        chosen.append(layer_of[part.strip()])
    return chosen


def parse_mean_layers(layers: Layers, n_layers: int) -> list[int]:
    """Return the numbers of the layers of a model whose mean is taken.

    `all` and `average` are all of them, `top` is the last one, `word_emb` the token
    layer, and `lstm1`, `lstm2`, ... are the layers above it.

    Raises:
        SettingsError: The model has no such layers.
    """
    name = layers_text(layers)
    named = {
        "all": list(range(n_layers)),
        "top": [n_layers - 1],
        "average": list(range(n_layers)),
        "word_emb": [0],
    }
    for lstm_layer, number in _lstm_layers(n_layers).items():
        named[lstm_layer] = [number]
    if name in named:
        return named[name]
    numbers = parse_layers(name, range(n_layers))
    if numbers is None:
        raise _no_such_layers_error(name, names=list(named), n_layers=n_layers)
    return numbers


def layers_text(layers: Layers) -> str:
    """Return a choice of layers as text: `0,2` for [0, 2]."""
    check_type("layers", layers, (str, int, Iterable), "a name or numbers")
    if isinstance(layers, (str, int)):
        return str(layers).strip()
    return ",".join(str(layer).strip() for layer in layers)


def _check_layers(name: str, n_layers: int) -> tuple[str, tuple[int, ...] | None]:
    """Return a choice of layers with numbers from 0, and these numbers.

    The numbers are None for a name in `NAMED_LAYERS`. Raise a `SettingsError` if the
    model has no such layers.
    """
    if name in NAMED_LAYERS:
        return name, None
    lstm_layers = _lstm_layers(n_layers)
    if name in lstm_layers:
        return name, (lstm_layers[name],)
    numbers = parse_layers(name, range(n_layers))
    if numbers is None:
        names = [*NAMED_LAYERS, *lstm_layers]
        raise _no_such_layers_error(name, names=names, n_layers=n_layers)
    return ",".join(map(str, numbers)), tuple(numbers)


def _lstm_layers(n_layers: int) -> dict[str, int]:
    """Return the numbers of the layers above the token layer, by their names."""
    return {f"lstm{number}": number for number in range(1, n_layers)}


def _no_such_layers_error(
    name: str, *, names: Sequence[str], n_layers: int
) -> SettingsError:
    numbers = f"numbers from 0 to {n_layers - 1} separated by commas"
    problem = expected_one_of([*names, numbers], shown(name))
    return SettingsError("{--layers}: {problem}", problem=problem)
