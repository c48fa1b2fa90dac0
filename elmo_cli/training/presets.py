"""Architectures of the bundled model and of AllenNLP's published models."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from elmo_cli.model.architecture import PUBLISHED_FILTERS

_SMALL_FILTERS: Final = (*PUBLISHED_FILTERS[:4], (5, 128), (6, 128))


def _make_architecture(
    *, dim: int, projection_dim: int, n_highway: int, filters: Sequence[Sequence[int]]
) -> dict[str, Any]:
    return {
        "lstm": {
            "dim": dim,
            "projection_dim": projection_dim,
            "n_layers": 2,
            "cell_clip": 3,
            "proj_clip": 3,
            "use_skip_connections": True,
        },
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 16},
            "n_characters": 262,
            "max_characters_per_token": 50,
            "n_highway": n_highway,
            "filters": [list(each) for each in filters],
        },
    }


PRESETS: Final[Mapping[str, dict[str, Any]]] = {
    "mini": _make_architecture(
        dim=256, projection_dim=512, n_highway=1, filters=_SMALL_FILTERS
    ),
    "small": _make_architecture(
        dim=1024, projection_dim=128, n_highway=1, filters=PUBLISHED_FILTERS
    ),
    "medium": _make_architecture(
        dim=2048, projection_dim=256, n_highway=1, filters=PUBLISHED_FILTERS
    ),
    "original": _make_architecture(
        dim=4096, projection_dim=512, n_highway=2, filters=PUBLISHED_FILTERS
    ),
}
"""Contents of an options.json, by the name of the preset."""
