"""options.json: the architecture of a model, parsed once and checked.

The file is bilm-tf's. Two objects matter: `lstm`, always, and `char_cnn`, which
word-level models lack. Keys that only matter in training are ignored. The config.json
of ELMoForManyLangs names a file of the same contents under other names.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NamedTuple

from elmo_cli.errors import OptionsError
from elmo_cli.text.lines import read_text

MAX_JSON_BYTES: Final = 1 << 20

Errors = list[str]
Section = dict[str, Any] | None


class Check(NamedTuple):
    """What a value has to be."""

    expected: str
    accepts: Callable[[Any], bool]


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
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{path}: expected JSON, found {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"an error at line {error.lineno}, column {error.colno} ({error.msg})"
    return "bytes that are not UTF-8" if isinstance(error, UnicodeError) else str(error)


def parse_options(content: Any) -> ModelOptions:
    """Turn the content of an options.json into `ModelOptions`.

    Raises:
        OptionsError: keys are missing or have the wrong type; all are named.
    """
    if not isinstance(content, dict):
        raise OptionsError(f"expected a JSON object, found {_kind(content)}")
    errors: Errors = []
    lstm = _lstm(_section(content, "lstm", errors), errors)
    char_cnn = None
    if content.get("char_cnn") is not None:
        char_cnn = _char_cnn(_section(content, "char_cnn", errors), errors)
    if errors:
        raise OptionsError("; ".join(errors))
    return ModelOptions(lstm, char_cnn)


def _lstm(section: Section, errors: Errors) -> LstmOptions:
    return LstmOptions(
        dim=_take(section, "lstm.dim", _SIZE, errors),
        projection_dim=_take(section, "lstm.projection_dim", _SIZE, errors),
        n_layers=_take(section, "lstm.n_layers", _LAYERS, errors),
        cell_clip=_take(section, "lstm.cell_clip", _CLIP, errors, default=None),
        proj_clip=_take(section, "lstm.proj_clip", _CLIP, errors, default=None),
        use_skip_connections=_take(
            section, "lstm.use_skip_connections", _BOOLEAN, errors, default=False
        ),
    )


def _char_cnn(section: Section, errors: Errors) -> CharacterOptions:
    embedding = None if section is None else _section(section, "char_cnn.embedding", errors)
    # 261 in training, 262 in inference files: the same model, the weights decide.
    _take(section, "char_cnn.n_characters", _N_CHARACTERS, errors, default=262)
    longest = _take(section, "char_cnn.max_characters_per_token", _TOKEN_SIZE, errors, default=50)
    filters = _take(section, "char_cnn.filters", _FILTERS, errors) or ()
    for width, _ in filters:
        if longest is not None and width > longest:
            errors.append(
                f"char_cnn.filters: a width of {width} is more than the {longest} characters "
                "of char_cnn.max_characters_per_token"
            )
    return CharacterOptions(
        embedding_dim=_take(embedding, "char_cnn.embedding.dim", _SIZE, errors),
        filters=tuple((width, count) for width, count in filters),
        n_highway=_take(section, "char_cnn.n_highway", _HIGHWAYS, errors),
        activation=_take(section, "char_cnn.activation", _ACTIVATION, errors),
        max_characters_per_token=longest,
    )


def _section(content: dict[str, Any], name: str, errors: Errors) -> Section:
    """The JSON object under the last part of `name`; None, and an error, where there is none."""
    found = content.get(name.rpartition(".")[2])
    if isinstance(found, dict):
        return found
    errors.append(f"{name}: expected an object, found {_kind(found)}")
    return None


_MISSING = object()


def _take(
    section: Section,
    name: str,
    check: Check,
    errors: Errors,
    default: Any = _MISSING,
) -> Any:
    """The value under the last part of `name`; None, and an error, where it is not right."""
    if section is None:  # missing whole: one error, not one for each key
        return None
    value = section.get(name.rpartition(".")[2], default)
    if value is _MISSING:
        errors.append(f"{name}: missing")
        return None
    if value is default:
        return value
    if check.accepts(value):
        return value
    errors.append(f"{name}: expected {check.expected}, found {_kind(value)}")
    return None


def _kind(value: Any) -> str:
    """A value as an error message shows it."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 40 else shown[:37] + "..."


_MAX_SIZE = 1 << 20
"""Larger sizes are a mistake, and would only end in an allocation that fails."""
_MAX_LAYERS = 100
"""Likewise; each layer is made before it is known whether the weights have it."""
_MAX_CLIP = 1e18
"""Nothing is clipped there; torch takes no whole number much larger."""


def _is_whole(value: Any, least: int, most: int = _MAX_SIZE) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_clip(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value is None or (number and 0 <= value <= _MAX_CLIP)


def _are_filters(value: Any) -> bool:
    pairs = isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(_is_whole(number, 1) for number in pair)
        for pair in value
    )
    return pairs and 0 < len(value) <= _MAX_LAYERS


_SIZE = Check("a whole number above 0", lambda value: _is_whole(value, 1))
_LAYERS = Check("a whole number from 1 to 100", lambda value: _is_whole(value, 1, _MAX_LAYERS))
_HIGHWAYS = Check("a whole number from 0 to 100", lambda value: _is_whole(value, 0, _MAX_LAYERS))
_CLIP = Check("a number from 0 to 1e18, or null", _is_clip)
_BOOLEAN = Check("true or false", lambda value: isinstance(value, bool))
_N_CHARACTERS = Check("261 or 262", lambda value: _is_whole(value, 261, 262))
_TOKEN_SIZE = Check("a whole number, 3 or more", lambda value: _is_whole(value, 3))
_ACTIVATION = Check('"relu" or "tanh"', lambda value: value in ("relu", "tanh"))
_FILTERS = Check("a list of [width, count] pairs", _are_filters)


# ELMoForManyLangs (Che et al., 2018).

_PUBLISHED: Final = {
    "encoder": {
        "name": "elmo",
        "dim": 4096,
        "projection_dim": 512,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
_PUBLISHED_NAMES: Final = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
"""Files that come with their package, not with the models; both hold `_PUBLISHED`."""

# The names in options.json, and theirs; the longest first.
_NAMES: Final = {
    "char_cnn.embedding.dim": "token_embedder.char_dim",
    "char_cnn.": "token_embedder.",
    "lstm.": "encoder.",
}


def _read_config(path: Path, content: dict[str, Any]) -> ManyLangsOptions:
    """The architecture of the model whose config.json has this content."""
    named = PurePosixPath(str(content["config_path"]).replace("\\", "/"))
    # The path is from the disk where the model was trained: its name alone counts.
    architecture = path.with_name(named.name or "-")
    if architecture.is_file():
        found = read_json(architecture)
    elif named.name in _PUBLISHED_NAMES:
        found = _PUBLISHED
    else:
        raise OptionsError(
            f"{path}: config_path names {named.name or 'no file'}, which is not in the folder; "
            "copy it there"
        )
    try:
        return _parse_many_langs(found)
    except OptionsError as error:
        raise OptionsError(f"{architecture}: {error}") from None


def _parse_many_langs(content: Any) -> ManyLangsOptions:
    """Their architecture, which options.json has under other names for the two sections."""
    encoder = _named_section(content, "encoder", "elmo")
    embedder = _named_section(content, "token_embedder", "cnn")
    char_dim, word_dim = embedder.get("char_dim"), embedder.get("word_dim")
    if not isinstance(word_dim, int) or word_dim < 0 or char_dim == word_dim == 0:
        raise OptionsError(
            "token_embedder: expected the sizes char_dim and word_dim, one of them above 0, "
            f"found {char_dim} and {word_dim}"
        )
    rewritten = {
        "lstm": {**encoder, "use_skip_connections": True},
        "char_cnn": {**embedder, "embedding": {"dim": char_dim}} if char_dim != 0 else None,
    }
    try:
        options = parse_options(rewritten)
    except OptionsError as error:
        message = str(error)
        for ours, theirs in _NAMES.items():
            message = message.replace(ours, theirs)
        raise OptionsError(message) from None
    longest = embedder.get("max_characters_per_token")
    if not isinstance(longest, int) or longest < 3:
        raise OptionsError(
            "token_embedder.max_characters_per_token: expected a whole number, 3 or more, "
            f"found {longest}"
        )
    return ManyLangsOptions(options.lstm, options.char_cnn, word_dim, longest)


def _named_section(content: Any, name: str, kind: str) -> dict[str, Any]:
    """A section of the file, which must be of the kind that is known here."""
    section = content.get(name) if isinstance(content, dict) else None
    if not isinstance(section, dict):
        raise OptionsError(f"{name}: expected an object, found none")
    if str(section.get("name")).lower() != kind:
        raise OptionsError(f'{name}.name: expected "{kind}", found {section.get("name")!r}')
    return section
