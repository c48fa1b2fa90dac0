"""The number of parameters of each part of a biLM, from its options alone."""

from elmo_cli.options import CharacterOptions, LstmOptions, ModelOptions

_N_CHARACTERS = 261
"""Rows of the character table in the weights file: 256 bytes and 5 special ones."""


def parameters_by_part(options: ModelOptions, n_words: int | None = None) -> dict[str, int]:
    """Count the values in the weights file of a model.

    Args:
        options: the architecture.
        n_words: the size of the vocabulary of a word-level model; where it is not
            known, its embedding is left out.

    Returns:
        The parts in the order of the data's way, and their number of parameters.
    """
    projection_dim = options.lstm.projection_dim
    if options.char_cnn is not None:
        parts = _characters(options.char_cnn, projection_dim)
    else:
        parts = {} if n_words is None else {"word embedding": n_words * projection_dim}
    n_direction = options.lstm.n_layers * _lstm_layer(options.lstm)
    return {**parts, "forward LSTM": n_direction, "backward LSTM": n_direction}


def _characters(options: CharacterOptions, projection_dim: int) -> dict[str, int]:
    n_filters = options.n_filters
    return {
        "character embedding": _N_CHARACTERS * options.embedding_dim,
        "convolutions": sum(
            count * (width * options.embedding_dim + 1) for width, count in options.filters
        ),
        "highway layers": options.n_highway * 2 * n_filters * (n_filters + 1),
        "projection": (n_filters + 1) * projection_dim,
    }


def _lstm_layer(options: LstmOptions) -> int:
    gates = 4 * options.dim * (2 * options.projection_dim + 1)
    # bilm-tf leaves the projection out where it would change no size.
    projects = options.dim != options.projection_dim
    return gates + projects * options.dim * options.projection_dim
