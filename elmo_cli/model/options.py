"""options.json: the architecture of a model, parsed once and checked.

The file is bilm-tf's. Two objects matter: `lstm`, always, and `char_cnn`, which
word-level models lack. Keys that only matter in training are ignored. The config.json
of ELMoForManyLangs names a file of the same contents under other names.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NamedTuple

from elmo_cli.errors import OptionsError, shown
from elmo_cli.text.lines import read_text

MAX_JSON_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class CharacterOptions:
    """The character CNN (`char_cnn` in the file)."""

    embedding_dim: int
    filters: tuple[tuple[int, int], ...]
    """(width, count) of each convolution."""
    n_highway: int
    activation: str
    """`relu` or `tanh`."""
    max_characters_per_token: int = 50

    @property
    def n_filters(self) -> int:
        """The number of features that the convolutions give a token."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True)
class LstmOptions:
    """The two stacks of LSTMs (`lstm` in the file)."""

    dim: int
    """The size of the memory cell."""
    projection_dim: int
    """The size of a token vector, and of the output of each direction."""
    n_layers: int
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False


@dataclass(frozen=True)
class ModelOptions:
    """The architecture of a biLM."""

    lstm: LstmOptions
    char_cnn: CharacterOptions | None
    """None for a word-level model."""

    @property
    def n_layers(self) -> int:
        """The number of layers of activations: the token layer and the LSTMs'."""
        return 1 + self.lstm.n_layers

    @property
    def width(self) -> int:
        """The size of an activation: both directions side by side."""
        return 2 * self.lstm.projection_dim


@dataclass(frozen=True)
class ManyLangsOptions(ModelOptions):
    """The architecture; `char_cnn` is None where words alone are used."""

    word_dim: int
    """The size of a word's row; 0 where characters alone are used."""
    max_characters_per_token: int
    """Character ids a token, its two end marks included; its word is cut alike."""


def read_options(path: str | Path) -> ModelOptions:
    """Read and check an options.json, or the config.json of ELMoForManyLangs.

    Raises:
        OptionsError: the file is missing, not JSON, or describes no model; all
            errors are named at once.
    """
    content = read_json(path)
    if isinstance(content, dict) and "config_path" in content:
        return _read_config(Path(path), content)
    try:
        return parse_options(content)
    except OptionsError as error:
        raise OptionsError(f"{path}: {error}") from None


def reads_words(path: str | Path) -> bool:
    """Whether the model of an options.json reads words by a table, and not their characters."""
    options = read_options(path)
    # Models of ELMoForManyLangs, a kind of their own, have their lexicons.
    return type(options) is ModelOptions and options.char_cnn is None


def start_of_sentences(path: str | Path) -> Literal["zero", "warm"]:
    """Where the sentences of a model start when nobody says: as in its training, if that is known.

    `elmo train` writes it into the options.json. A model trained with carried state starts
    warm: it never met the zero state, and a fixed start leaves sentences independent.
    """
    content = read_json(path)
    training = content.get("training") if isinstance(content, dict) else None
    carried = isinstance(training, dict) and training.get("state") == "carry"
    return "warm" if carried else "zero"


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Raises:
        OptionsError: it is missing or not JSON.
    """
    try:
        return json.loads(read_text(path, MAX_JSON_BYTES))
    except OSError as error:
        raise OptionsError(f"{path}: cannot read the options: {error.strerror}") from None
    except json.JSONDecodeError as error:
        found = f"an error at line {error.lineno}, column {error.colno} ({error.msg})"
    except UnicodeDecodeError:
        found = "bytes that are not UTF-8"
    except (ValueError, RecursionError) as error:
        found = str(error)
    raise OptionsError(f"{path}: expected JSON, found {found}")


def parse_options(content: Any) -> ModelOptions:
    """Turn the content of an options.json into `ModelOptions`.

    Raises:
        OptionsError: keys are missing or have the wrong type; all are named.
    """
    if not isinstance(content, dict):
        raise OptionsError(f"expected a JSON object, found {_kind(content)}")
    errors: list[str] = []
    lstm = _read(content, "lstm", _LSTM, errors)
    has_characters = content.get("char_cnn") is not None
    char_cnn = _read(content, "char_cnn", _CHAR_CNN, errors) if has_characters else None
    if errors:
        raise OptionsError("; ".join(errors))
    characters = _character_options(char_cnn, char_cnn["embedding.dim"]) if char_cnn else None
    return ModelOptions(LstmOptions(**lstm), characters)


def _character_options(section: dict[str, Any], embedding_dim: int) -> CharacterOptions:
    return CharacterOptions(
        embedding_dim=embedding_dim,
        filters=tuple((width, count) for width, count in section["filters"]),
        n_highway=section["n_highway"],
        activation=section["activation"],
        max_characters_per_token=section["max_characters_per_token"],
    )


class _Check(NamedTuple):
    """What a value has to be."""

    expected: str
    accepts: Callable[[Any], bool]


def _read(
    content: Any, name: str, checks: Mapping[str, _Check], errors: list[str]
) -> dict[str, Any]:
    """The values of a section of the file; an error for each that is not right."""
    section = content.get(name) if isinstance(content, dict) else None
    if not isinstance(section, dict):
        errors.append(f"{name}: expected an object, found {_kind(section)}")
        return {}
    values: dict[str, Any] = {}
    for key, check in checks.items():
        inner, _, last = key.rpartition(".")
        found = section.get(inner) if inner else section
        if not isinstance(found, dict):
            errors.append(f"{name}.{inner}: expected an object, found {_kind(found)}")
        elif last not in found and key not in _DEFAULTS:
            errors.append(f"{name}.{key}: missing")
        elif last in found and not check.accepts(found[last]):
            errors.append(f"{name}.{key}: expected {check.expected}, found {_kind(found[last])}")
        else:
            values[key] = found.get(last, _DEFAULTS.get(key))
    longest = values.get("max_characters_per_token", _MAX_SIZE)
    if any(width > longest for width, _ in values.get("filters", ())):
        errors.append(
            f"{name}.filters: expected no width above the {longest} characters of "
            f"{name}.max_characters_per_token"
        )
    return values


def _kind(value: Any) -> str:
    """A value as an error message shows it."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return shown(json.dumps(value, ensure_ascii=False))


_MAX_SIZE: Final = 1 << 20
"""Larger sizes are a mistake, and would only end in an allocation that fails."""


def _is_whole(value: Any, least: int, most: int = _MAX_SIZE) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_clip(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value is None or (number and 0 <= value <= 1e18)  # torch takes no larger whole number


def _are_filters(value: Any) -> bool:
    pairs = isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(_is_whole(number, 1) for number in pair)
        for pair in value
    )
    return pairs and 0 < len(value) <= 100


_SIZE: Final = _Check("a whole number above 0", lambda value: _is_whole(value, 1))
_LAYERS: Final = _Check("a whole number from 1 to 100", lambda value: _is_whole(value, 1, 100))
_HIGHWAYS: Final = _Check("a whole number from 0 to 100", lambda value: _is_whole(value, 0, 100))
_CLIP: Final = _Check("a number from 0 to 1e18, or null", _is_clip)
_LSTM: Final = {
    "dim": _SIZE,
    "projection_dim": _SIZE,
    "n_layers": _LAYERS,
    "cell_clip": _CLIP,
    "proj_clip": _CLIP,
    "use_skip_connections": _Check("true or false", lambda value: isinstance(value, bool)),
}
_CONVOLUTIONS: Final = {
    "max_characters_per_token": _Check(
        "a whole number, 3 or more", lambda value: _is_whole(value, 3)
    ),
    "filters": _Check("a list of [width, count] pairs", _are_filters),
    "n_highway": _HIGHWAYS,
    "activation": _Check('"relu" or "tanh"', lambda value: value in ("relu", "tanh")),
}
_CHAR_CNN: Final = {
    # 261 in training, 262 in inference files: the same model, the weights decide.
    "n_characters": _Check("261 or 262", lambda value: _is_whole(value, 261, 262)),
    "embedding.dim": _SIZE,
    **_CONVOLUTIONS,
}
_DEFAULTS: Final = {
    "cell_clip": None,
    "proj_clip": None,
    "use_skip_connections": False,
    "n_characters": 262,
    "max_characters_per_token": 50,
}


# ELMoForManyLangs (Che et al., 2018).

_DIM: Final = _Check("a whole number, 0 or more", lambda value: _is_whole(value, 0))
_ENCODER: Final = {"name": _Check('"elmo"', lambda value: value in ("elmo", "ELMo")), **_LSTM}
_TOKEN_EMBEDDER: Final = {
    "name": _Check('"cnn"', lambda value: value in ("cnn", "CNN")),
    "word_dim": _DIM,
    "char_dim": _DIM,
    **_CONVOLUTIONS,
}
_PUBLISHED: Final = ManyLangsOptions(
    LstmOptions(4096, 512, 2, cell_clip=3, proj_clip=3, use_skip_connections=True),
    CharacterOptions(
        embedding_dim=50,
        filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
        n_highway=2,
        activation="relu",
    ),
    word_dim=100,
    max_characters_per_token=50,
)
_PUBLISHED_NAMES: Final = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
"""Files that come with their package, not with the models; both hold `_PUBLISHED`."""


def _read_config(path: Path, content: dict[str, Any]) -> ManyLangsOptions:
    """The architecture of the model whose config.json has this content."""
    named = PurePosixPath(str(content["config_path"]).replace("\\", "/"))
    # The path is from the disk where the model was trained: its name alone counts.
    architecture = path.with_name(named.name or "-")
    if not architecture.is_file():
        if named.name in _PUBLISHED_NAMES:
            return _PUBLISHED
        raise OptionsError(
            f"{path}: config_path names {named.name or 'no file'}, which is not in the folder; "
            "copy it there"
        )
    found = read_json(architecture)
    errors: list[str] = []
    encoder = _read(found, "encoder", _ENCODER, errors)
    embedder = _read(found, "token_embedder", _TOKEN_EMBEDDER, errors)
    if embedder.get("char_dim") == embedder.get("word_dim") == 0:
        errors.append("token_embedder: expected char_dim or word_dim above 0, found 0 and 0")
    if errors:
        raise OptionsError(f"{architecture}: {'; '.join(errors)}")
    lstm = {key: encoder[key] for key in _LSTM} | {"use_skip_connections": True}
    char_dim = embedder["char_dim"]
    return ManyLangsOptions(
        LstmOptions(**lstm),
        _character_options(embedder, char_dim) if char_dim else None,
        embedder["word_dim"],
        embedder["max_characters_per_token"],
    )
