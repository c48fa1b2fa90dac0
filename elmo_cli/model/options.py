"""Architecture of a model, parsed from options.json and checked.

The file has bilm-tf's form. Two of its objects are read: `lstm`, and `char_cnn`, which word-level
models lack. Keys that matter only in training are ignored. The config.json of ELMoForManyLangs
names a second file, which has the same content under other keys.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NamedTuple

from elmo_cli.errors.exceptions import OptionsError
from elmo_cli.errors.missing_files import not_read
from elmo_cli.errors.wording import shown
from elmo_cli.files.text_files import read_text
from elmo_cli.model.token_limit import TokenLimit
from elmo_cli.model.vocabulary import N_CHARACTERS, N_MARKS
from elmo_cli.options.tokenizer_names import recorded_tokenizer

MAX_OPTIONS_BYTES: Final = 1_000_000  # Published models have less than 1 kB.


@dataclass(frozen=True)
class CharacterOptions:
    """Character CNN (`char_cnn` in the file)."""

    embedding_dim: int
    filters: tuple[tuple[int, int], ...]  # (width, count) of each convolution
    n_highway: int
    activation: str  # `relu` or `tanh`
    max_characters_per_token: int = 50

    @property
    def n_filters(self) -> int:
        """Number of features that the convolutions compute per token."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True)
class LstmOptions:
    """Two stacks of LSTMs (`lstm` in the file)."""

    dim: int  # size of the memory cell
    projection_dim: int  # size of a token vector, and of the output of each direction
    n_layers: int
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False


@dataclass(frozen=True)
class ModelOptions:
    """Architecture of a biLM."""

    lstm: LstmOptions
    char_cnn: CharacterOptions | None  # None for a word-level model

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
class ManyLangsOptions(ModelOptions):
    """Architecture of ELMoForManyLangs; `char_cnn` is None if only words are used."""

    word_dim: int  # size of a word's row; 0 if only characters are used
    max_characters_per_token: int
    """Number of character ids per token, including its two end marks. Words are truncated, too."""

    @property
    def token_limit(self) -> TokenLimit | None:
        """Maximum length of a token."""
        return TokenLimit(self.max_characters_per_token - N_MARKS, "characters")


def read_options(path: str | Path) -> ModelOptions:
    """Read and check an options.json, or config.json. An `OptionsError` names all wrong values."""
    return read_options_and_training(path)[0]


class TrainedWith(NamedTuple):
    """Defaults for the use of a model, from its training by `elmo train`."""

    initial_state: Literal["zero", "warm"]
    """Initial state of sentences. It is `warm` for a model that was trained with carried state.
    Such a model does not know the zero state. A fixed state keeps sentences independent."""
    tokenizer: str | None  # name such as `moses:en`; None if the text had tokens


def read_options_and_training(path: str | Path) -> tuple[ModelOptions, TrainedWith]:
    """Read the architecture of a model as `read_options`, and the defaults from its training."""
    content = read_json(path)
    is_config = "config_path" in content
    options = (
        _read_config(Path(path), content) if is_config else parse_options(content, path)
    )
    training = content.get(
        "training"
    )  # written by `elmo train`; other values are ignored
    training = training if isinstance(training, dict) else {}
    state: Literal["zero", "warm"] = (
        "warm" if training.get("state") == "carry" else "zero"
    )
    return options, TrainedWith(state, recorded_tokenizer(training))


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a file with a JSON object."""
    try:
        content = json.loads(read_text(path, MAX_OPTIONS_BYTES))
    except OSError as error:
        raise not_read(path, "options", error, OptionsError) from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # Bytes that are not UTF-8 raise a ValueError.
        raise OptionsError(f"{path}: expected JSON, found an error: {error}") from None
    if not isinstance(content, dict):
        raise OptionsError(f"{path}: expected a JSON object, found {_shown(content)}")
    return content


def parse_options(
    content: Mapping[str, Any], path: str | Path = "the options"
) -> ModelOptions:
    """Turn the content of an options.json into `ModelOptions`."""
    errors: list[str] = []
    lstm = _read(content, "lstm", _LSTM, errors)
    char_cnn = None
    if content.get("char_cnn") is not None:
        char_cnn = _read(content, "char_cnn", _EMBEDDING | _CHARACTERS, errors)
        longest = char_cnn.get("max_characters_per_token")
        if not errors and (widest := max(char_cnn["filters"])[0]) > longest:
            errors.append(
                f"char_cnn.filters: expected widths up to {longest}, found {widest}"
            )
    if errors:
        raise OptionsError(f"{path}: {'; '.join(errors)}")
    characters = (
        _character_options(char_cnn, char_cnn["embedding"]["dim"]) if char_cnn else None
    )
    return ModelOptions(LstmOptions(**lstm), characters)


def _character_options(values: dict[str, Any], embedding_dim: int) -> CharacterOptions:
    filters = tuple((width, count) for width, count in values["filters"])
    others = {key: values[key] for key in _CHARACTERS if key != "filters"}
    return CharacterOptions(embedding_dim, filters, **others)


_Check = tuple[str, Callable[[Any], bool]]
"""Description of valid values, and a function that returns whether a value is valid."""


def _read(
    content: Mapping[str, Any],
    name: str,
    checks: Mapping[str, _Check],
    errors: list[str],
) -> dict[str, Any]:
    """Return the values of an object of the file, and append a message per invalid value."""
    section = content.get(name)
    if not isinstance(section, dict):
        errors.append(f"{name}: expected an object, found {_shown(section)}")
        return {}
    values = {key: section.get(key) for key in checks}
    values |= {
        key: value for key, value in _DEFAULTS.items() if values.get(key, value) is None
    }
    for key, (expected, accepts) in checks.items():
        if not accepts(values[key]):
            errors.append(
                f"{name}.{key}: expected {expected}, found {_shown(values[key])}"
            )
    return values


def _shown(value: Any) -> str:
    return "no value" if value is None else shown(json.dumps(value, ensure_ascii=False))


_MAX_LAYERS: Final = 1000


_MAX_SIZE: Final = 100_000
"""Maximum sizes. Larger ones would exhaust the memory before the weights are compared."""


def _is_whole(value: Any, least: int, most: int = _MAX_SIZE) -> bool:
    return type(value) is int and least <= value <= most  # True is an int too.


def _are_filters(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= _MAX_LAYERS
        and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
        and all(_is_whole(number, 1) for pair in value for number in pair)
    )


def _whole(least: int, most: int = _MAX_SIZE) -> _Check:
    return f"a whole number, {least} to {most:,}", lambda value: _is_whole(
        value, least, most
    )


_MAX_CLIP: Final = 1e38  # below float32's maximum


_CLIP: Final = (
    f"a number, 0 to {_MAX_CLIP:g}, or null",
    lambda value: (
        value is None or (type(value) in (int, float) and 0 <= value <= _MAX_CLIP)
    ),
)


_LSTM: Final = {
    "dim": _whole(1),
    "projection_dim": _whole(1),
    "n_layers": _whole(1, _MAX_LAYERS),
    "cell_clip": _CLIP,
    "proj_clip": _CLIP,
    "use_skip_connections": ("true or false", lambda value: isinstance(value, bool)),
}


_EMBEDDING: Final = {
    "embedding": (
        f'{{"dim": a whole number, 1 to {_MAX_SIZE:,}}}',
        lambda value: isinstance(value, dict) and _is_whole(value.get("dim"), 1),
    )
}


# n_characters is ignored: it is 261 in training files and 262 in inference files of one model.
_CHARACTERS: Final = {
    "max_characters_per_token": _whole(3, 1000),
    "filters": ("a list of [width, count] pairs", _are_filters),
    "n_highway": _whole(0, _MAX_LAYERS),
    "activation": ('"relu" or "tanh"', lambda value: value in ("relu", "tanh")),
}


_DEFAULTS: Final = {
    "n_layers": 1,
    "use_skip_connections": False,
    "n_highway": 0,
    "max_characters_per_token": 50,
}
"""Values of keys that are missing or null, as in bilm-tf."""


_FILTERS: Final = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


_PUBLISHED: Final = ManyLangsOptions(
    LstmOptions(4096, 512, 2, cell_clip=3, proj_clip=3, use_skip_connections=True),
    CharacterOptions(
        embedding_dim=50, filters=_FILTERS, n_highway=2, activation="relu"
    ),
    word_dim=100,
    max_characters_per_token=50,
)


_PUBLISHED_NAMES: Final = (
    "cnn_50_100_512_4096_sample.json",
    "cnn_0_100_512_4096_sample.json",
)
"""Files of the package ELMoForManyLangs, which its models lack. Both contain `_PUBLISHED`."""


def _read_config(path: Path, content: dict[str, Any]) -> ManyLangsOptions:
    # The path belongs to the training machine. Only the file name counts.
    name = PurePosixPath(str(content["config_path"]).replace("\\", "/")).name
    architecture = path.parent / name
    if not architecture.is_file():
        if name in _PUBLISHED_NAMES:
            return _PUBLISHED
        problem = f"config_path is {name!r}, which is missing in the folder"
        raise OptionsError(f"{path}: {problem}. Copy it there.")
    config = read_json(architecture)
    errors: list[str] = []
    lstm = _read(config, "encoder", _LSTM, errors)
    dims = {"word_dim": _whole(0), "char_dim": _whole(0)}
    tokens = _read(config, "token_embedder", dims | _CHARACTERS, errors)
    if errors:
        raise OptionsError(f"{architecture}: {'; '.join(errors)}")
    char_dim = tokens["char_dim"]
    return ManyLangsOptions(
        LstmOptions(**lstm | {"use_skip_connections": True}),
        _character_options(tokens, char_dim) if char_dim else None,
        tokens["word_dim"],
        tokens["max_characters_per_token"],
    )


def parameters_by_part(
    options: ModelOptions,
    n_words: int | None = None,
    n_characters: int = N_CHARACTERS,
    *,
    projects: bool = True,
) -> dict[str, int]:
    """Return the number of parameters of each part. `projects`: features are projected."""
    size, characters = options.lstm.projection_dim, options.char_cnn
    if isinstance(options, ManyLangsOptions):
        word_dim = options.word_dim
    else:
        word_dim, projects = (size, False) if characters is None else (0, projects)
    parts = {}
    if word_dim and n_words is not None:
        parts["word embedding"] = n_words * word_dim
    n_filters = 0
    if characters is not None:
        n_filters, dim = characters.n_filters, characters.embedding_dim
        parts["character embedding"] = n_characters * dim
        parts["convolutions"] = sum(
            n * (width * dim + 1) for width, n in characters.filters
        )
        parts["highway layers"] = characters.n_highway * 2 * n_filters * (n_filters + 1)
    if projects:
        parts["projection"] = (word_dim + n_filters + 1) * size
    n_layer = 4 * options.lstm.dim * (2 * size + 1)
    if options.lstm.dim != size:  # bilm-tf omits a projection that keeps the size.
        n_layer += options.lstm.dim * size
    n_direction = options.lstm.n_layers * n_layer
    return {**parts, "forward LSTM": n_direction, "backward LSTM": n_direction}
