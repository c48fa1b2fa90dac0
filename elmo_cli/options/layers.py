"""Choices of layers: names such as `top`, and numbers such as `0,2`.

Layer 0 is the token layer, which only depends on the spelling of a token.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import option_of
from elmo_cli.errors.wording import expected_one_of, shown

Layers = str | int | Sequence[int]
"""Choice of layers: a name or numbers, such as `top`, `0,2`, 2, -1 or [0, 2]."""


@dataclass(frozen=True)
class NamedLayers:
    """Layers that a name stands for."""

    which: Literal["all", "top", "token"]
    """All layers of a model, its last layer, or its token layer."""
    joined_by: Literal["mean", "sum"] | None = None
    """How several layers become one. None keeps them apart."""

    def numbers(self, n_layers: int) -> list[int]:
        """Return the numbers of the layers in a model that has `n_layers`."""
        if self.which == "all":
            return list(range(n_layers))
        return [0] if self.which == "token" else [n_layers - 1]


NAMED_LAYERS: Final = {
    "all": NamedLayers("all"),
    "top": NamedLayers("top"),
    "average": NamedLayers("all", joined_by="mean"),
    "sum": NamedLayers("all", joined_by="sum"),
    "word_emb": NamedLayers("token"),
}
"""Choices of layers that every model has; numbers and lstm1, lstm2, ... are others."""


def layers_text(layers: Layers, argument: str = "layers") -> str:
    """Return a choice of layers as text: `0,2` for [0, 2].

    `argument` is the argument that gave it, for errors.
    """
    if getattr(layers, "ndim", None) == 0:
        # A number of NumPy or torch.
        layers = cast(Any, layers).item()
    check_type(argument, layers, (str, int, Iterable), "a name or numbers")
    if isinstance(layers, (str, int)):
        return str(layers).strip()
    return ",".join(str(layer).strip() for layer in layers)


def check_layers(
    name: str, n_layers: int, *, argument: str = "layers"
) -> tuple[str, tuple[int, ...] | None]:
    """Return a choice of layers with numbers from 0, and these numbers.

        check_layers("0,-1", 3)  # ("0,2", (0, 2))
        check_layers("lstm2", 3)  # ("lstm2", (2,))
        check_layers("average", 3)  # ("average", None)

    The numbers are None for a name in `NAMED_LAYERS`. Raise a `SettingsError` if the
    model has no such layers. `argument` is the argument that gave them.
    """
    if name in NAMED_LAYERS:
        return name, None
    lstm_layers = _lstm_layers(n_layers)
    if name in lstm_layers:
        return name, (lstm_layers[name],)
    numbers = parse_layers(name, range(n_layers))
    if numbers is None:
        names = [*NAMED_LAYERS, *lstm_layers]
        raise _no_such_layers_error(
            name, names=names, n_layers=n_layers, argument=argument
        )
    return ",".join(map(str, numbers)), tuple(numbers)


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

    They may have any name but `sum`, which is no mean.

    Raises:
        SettingsError: The model has no such layers.
    """
    name = layers_text(layers)
    numbers_of: dict[str, list[int]] = {}
    for each, named in NAMED_LAYERS.items():
        if named.joined_by != "sum":
            numbers_of[each] = named.numbers(n_layers)
    for lstm_layer, number in _lstm_layers(n_layers).items():
        numbers_of[lstm_layer] = [number]
    if name in numbers_of:
        return numbers_of[name]
    numbers = parse_layers(name, range(n_layers))
    if numbers is None:
        raise _no_such_layers_error(name, names=list(numbers_of), n_layers=n_layers)
    return numbers


def without_token_layer(layers: Sequence[int]) -> list[int]:
    """Return the layers whose mean is taken by default: all but the token layer.

    The vectors of the token layer depend only on spelling. If there is no other layer,
    it is the only one.
    """
    others = [layer for layer in layers if layer != 0]
    return others or [0]


def layers_as_numbers(name: str, n_layers: int) -> str:
    """Return a choice of one layer as its number, and any other unchanged.

    layers_as_numbers("top", 3)  # "2", and so are "lstm2" and "2"
    """
    single = _lstm_layers(n_layers)
    for each, named in NAMED_LAYERS.items():
        if named.which != "all":
            numbers = named.numbers(n_layers)
            single[each] = numbers[0]
    return str(single.get(name, name))


def joins_token_layer(name: str) -> bool:
    """Return whether one vector per token depends on the token layer.

    `name` is the choice of layers of the vectors: a name or a number, or `mix`, which
    is of all layers.
    """
    if name in NAMED_LAYERS:
        named = NAMED_LAYERS[name]
        return named.which == "token" or named.joined_by is not None
    return name in ("0", "mix")


def _lstm_layers(n_layers: int) -> dict[str, int]:
    """Return the numbers of the layers above the token layer, by their names."""
    return {f"lstm{number}": number for number in range(1, n_layers)}


def _no_such_layers_error(
    name: str, *, names: Sequence[str], n_layers: int, argument: str = "layers"
) -> SettingsError:
    numbers = f"numbers from {-n_layers} to {n_layers - 1} separated by commas"
    problem = expected_one_of([*names, numbers], shown(name))
    return SettingsError(
        "{option}: {problem}", option=option_of(argument), problem=problem
    )
