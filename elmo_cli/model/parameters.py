"""The number of parameters of each part of a biLM, from its options alone."""

from elmo_cli.model.characters import N_CHARACTERS
from elmo_cli.model.options import CharacterOptions, LstmOptions, ManyLangsOptions, ModelOptions


def parameters_by_part(
    options: ModelOptions, n_words: int | None = None, n_characters: int = N_CHARACTERS
) -> dict[str, int]:
    """Count the values in the weights file of a model.

    Args:
        n_words: the size of the vocabulary of a word-level model, whose embedding is left out
            where it is not known.
        n_characters: the rows of the character table.
    """
    size, char_cnn = options.lstm.projection_dim, options.char_cnn
    has_table = isinstance(options, ManyLangsOptions) or char_cnn is None
    word_dim = options.word_dim if isinstance(options, ManyLangsOptions) else size
    n_features = word_dim if has_table else 0
    parts = {} if n_words is None or not has_table else {"word embedding": n_words * word_dim}
    if char_cnn is not None:
        parts |= _characters(char_cnn, n_characters)
        n_features += char_cnn.n_filters
    if char_cnn is not None or isinstance(options, ManyLangsOptions):
        parts["projection"] = (n_features + 1) * size
    n_direction = options.lstm.n_layers * _lstm_layer(options.lstm)
    return {**parts, "forward LSTM": n_direction, "backward LSTM": n_direction}


def _characters(options: CharacterOptions, n_characters: int) -> dict[str, int]:
    n_filters = options.n_filters
    return {
        "character embedding": n_characters * options.embedding_dim,
        "convolutions": sum(
            count * (width * options.embedding_dim + 1) for width, count in options.filters
        ),
        "highway layers": options.n_highway * 2 * n_filters * (n_filters + 1),
    }


def _lstm_layer(options: LstmOptions) -> int:
    gates = 4 * options.dim * (2 * options.projection_dim + 1)
    # bilm-tf leaves the projection out where it would change no size.
    projects = options.dim != options.projection_dim
    return gates + projects * options.dim * options.projection_dim
