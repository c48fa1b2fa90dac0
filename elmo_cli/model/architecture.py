"""Architecture of a biLM."""

from dataclasses import dataclass
from typing import Final

from elmo_cli.model.characters import N_MARKS
from elmo_cli.model.token_limit import TokenLimit
from elmo_cli.types import READING_DIRECTIONS, ReadingDirection

PUBLISHED_FILTERS: Final = (
    (1, 32),
    (2, 32),
    (3, 64),
    (4, 128),
    (5, 256),
    (6, 512),
    (7, 1024),
)
"""Width and count of each convolution in the published models."""


@dataclass(frozen=True)
class CharacterArchitecture:
    """Character CNN (`char_cnn` in options.json)."""

    embedding_dim: int
    filters: tuple[tuple[int, int], ...]
    """(width, count) of each convolution."""
    n_highway: int
    activation: str
    """`relu` or `tanh`."""
    max_characters_per_token: int = 50

    @property
    def n_filters(self) -> int:
        """Number of features that the convolutions compute per token."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True)
class LstmArchitecture:
    """Two stacks of LSTMs (`lstm` in options.json)."""

    dim: int
    """Size of the memory cell."""
    projection_dim: int
    """Size of a token vector, and of the output of each direction."""
    n_layers: int
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False


@dataclass(frozen=True)
class Architecture:
    """Architecture of a biLM."""

    lstm: LstmArchitecture
    char_cnn: CharacterArchitecture | None
    """None for a word-level model."""

    @property
    def directions(self) -> tuple[ReadingDirection, ...]:
        """Directions in which the model reads."""
        return READING_DIRECTIONS

    @property
    def n_layers(self) -> int:
        """Number of layers of activations: the token layer and the LSTM layers."""
        return 1 + self.lstm.n_layers

    @property
    def width(self) -> int:
        """Size of a vector: both directions side by side."""
        return 2 * self.lstm.projection_dim

    @property
    def token_limit(self) -> TokenLimit | None:
        """Maximum length of a token; None for a word-level model."""
        if self.char_cnn is None:
            return None
        return TokenLimit(self.char_cnn.max_characters_per_token - N_MARKS, "bytes")


@dataclass(frozen=True)
class ForwardArchitecture(Architecture):
    """Architecture of a model that only reads forward.

    Its backward LSTMs are in the file, as in every model. All their weights are 0.
    """

    @property
    def directions(self) -> tuple[ReadingDirection, ...]:
        """Directions in which the model reads."""
        return ("forward",)
