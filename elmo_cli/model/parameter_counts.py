"""Number of parameters of a model, from its architecture."""

from elmo_cli.model.architecture import Architecture
from elmo_cli.model.characters import N_CHARACTERS
from elmo_cli.model.many_langs_config import ManyLangsArchitecture


def parameters_by_part(
    architecture: Architecture,
    n_words: int | None = None,
    n_characters: int = N_CHARACTERS,
    *,
    projects: bool = True,
) -> dict[str, int]:
    """Return the number of parameters of each part.

    Args:
        architecture: Architecture.
        n_words: Number of words of a model that reads words.
        n_characters: Number of characters of a model that reads characters.
        projects: False if the weights have no projection of the features of characters.
    """
    size = architecture.lstm.projection_dim
    characters = architecture.char_cnn
    if isinstance(architecture, ManyLangsArchitecture):
        word_dim = architecture.word_dim
    elif characters is None:
        word_dim = size
        projects = False  # A word's row is its token vector.
    else:
        word_dim = 0
    parts = {}
    if word_dim > 0 and n_words is not None:
        parts["word embedding"] = n_words * word_dim
    n_features = word_dim  # inputs of the projection
    if characters is not None:
        dim = characters.embedding_dim
        n_filters = characters.n_filters
        parts["character embedding"] = n_characters * dim
        parts["convolutions"] = sum(
            count * (width * dim + 1) for width, count in characters.filters
        )
        per_highway = 2 * n_filters * (n_filters + 1)
        parts["highway layers"] = characters.n_highway * per_highway
        n_features += n_filters
    if projects:
        parts["projection"] = (n_features + 1) * size
    per_layer = 4 * architecture.lstm.dim * (2 * size + 1)
    if architecture.lstm.dim != size:  # bilm-tf omits a projection that keeps the size.
        per_layer += architecture.lstm.dim * size
    per_direction = architecture.lstm.n_layers * per_layer
    for direction in architecture.directions:
        parts[f"{direction} LSTM"] = per_direction
    return parts
