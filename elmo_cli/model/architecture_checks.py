"""Checks of the values in options.json, with the defaults of bilm-tf."""

from typing import Any, Final

from elmo_cli.model.architecture import CharacterArchitecture
from elmo_cli.model.json_objects import ValueCheck, is_number, is_whole, whole

# Larger values would exhaust the memory before the weights are compared.
MAX_COUNT: Final = 1000
"""Maximum number of layers, of highway layers and of convolutions."""
MAX_SIZE: Final = 100_000
"""Maximum size of a vector, a memory cell or a convolution."""
_MAX_CLIP: Final = 1e38
"""Number below float32's maximum."""


def _is_clip(value: Any) -> bool:
    if value is None:
        return True
    return is_number(value) and 0 <= value <= _MAX_CLIP


def _has_dim(value: Any) -> bool:
    return isinstance(value, dict) and is_whole(
        value.get("dim"), least=1, most=MAX_SIZE
    )


def _are_filters(value: Any) -> bool:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_COUNT:
        return False
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            return False
        if not all(is_whole(number, least=1, most=MAX_SIZE) for number in pair):
            return False
    return True


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_activation(value: Any) -> bool:
    return value in ("relu", "tanh")


_CLIP: Final = ValueCheck(f"a number, 0 to {_MAX_CLIP:g}, or null", _is_clip)

LSTM_CHECKS: Final = {
    "dim": whole(least=1, most=MAX_SIZE),
    "projection_dim": whole(least=1, most=MAX_SIZE),
    "n_layers": whole(least=1, most=MAX_COUNT, default=1),
    "cell_clip": _CLIP,
    "proj_clip": _CLIP,
    "use_skip_connections": ValueCheck("true or false", _is_flag, default=False),
}
EMBEDDING_CHECKS: Final = {
    "embedding": ValueCheck(f'{{"dim": a whole number, 1 to {MAX_SIZE:,}}}', _has_dim)
}
CHARACTER_CHECKS: Final = {
    "max_characters_per_token": whole(least=3, most=1000, default=50),
    "filters": ValueCheck("a list of [width, count] pairs", _are_filters),
    "n_highway": whole(least=0, most=MAX_COUNT, default=0),
    "activation": ValueCheck('"relu" or "tanh"', _is_activation),
}
"""`n_characters` is ignored: of one model, it is 261 in the file for training and 262
in the file for inference."""


def character_architecture(
    values: dict[str, Any], embedding_dim: int
) -> CharacterArchitecture:
    """Return the architecture of a character CNN from checked values."""
    return CharacterArchitecture(
        embedding_dim=embedding_dim,
        filters=tuple((width, count) for width, count in values["filters"]),
        n_highway=values["n_highway"],
        activation=values["activation"],
        max_characters_per_token=values["max_characters_per_token"],
    )
