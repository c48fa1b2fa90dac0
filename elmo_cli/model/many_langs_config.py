"""Architecture of a model of ELMoForManyLangs, and the reader of its config.json.

`config_path` in config.json names a second file, which has the content of options.json
under other keys.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from elmo_cli.errors.exceptions import ElmoError, ModelError
from elmo_cli.model.architecture import (
    PUBLISHED_FILTERS,
    Architecture,
    CharacterArchitecture,
    LstmArchitecture,
)
from elmo_cli.model.architecture_checks import (
    CHARACTER_CHECKS,
    LSTM_CHECKS,
    MAX_SIZE,
    character_architecture,
)
from elmo_cli.model.characters import N_MARKS
from elmo_cli.model.json_objects import read_json, read_section, whole
from elmo_cli.model.token_limit import TokenLimit


@dataclass(frozen=True)
class ManyLangsArchitecture(Architecture):
    """Architecture of ELMoForManyLangs; `char_cnn` is None if only words are used."""

    word_dim: int
    """Size of a word's row; 0 if only characters are used."""
    max_characters_per_token: int
    """Number of character ids per token, including its two end marks. Words are
    truncated, too."""

    @property
    def token_limit(self) -> TokenLimit | None:
        """Maximum length of a token."""
        return TokenLimit(self.max_characters_per_token - N_MARKS, "characters")


_PUBLISHED: Final = ManyLangsArchitecture(
    lstm=LstmArchitecture(
        dim=4096,
        projection_dim=512,
        n_layers=2,
        cell_clip=3,
        proj_clip=3,
        use_skip_connections=True,
    ),
    char_cnn=CharacterArchitecture(
        embedding_dim=50,
        filters=PUBLISHED_FILTERS,
        n_highway=2,
        activation="relu",
    ),
    word_dim=100,
    max_characters_per_token=50,
)
_PUBLISHED_NAMES: Final = (
    "cnn_50_100_512_4096_sample.json",
    "cnn_0_100_512_4096_sample.json",
)
"""Files of the package ELMoForManyLangs, which its models lack. Both contain
`_PUBLISHED`."""
_DIM_CHECKS: Final = {
    "word_dim": whole(least=0, most=MAX_SIZE),
    "char_dim": whole(least=0, most=MAX_SIZE),
}


def named_config(path: Path) -> Path | None:
    """Return the file that a config.json names, if there is one."""
    with suppress(ElmoError):
        content = read_json(path)
        if "config_path" in content:
            named = _named_config(path, content)
            return named if named.is_file() else None
    return None


def _named_config(path: Path, content: Mapping[str, Any]) -> Path:
    # The path belongs to the training machine. Only the file name counts.
    name = PurePosixPath(str(content["config_path"]).replace("\\", "/")).name
    return path.parent / name


def read_config(path: Path, content: dict[str, Any]) -> ManyLangsArchitecture:
    """Return the architecture that a config.json names, from the file beside it."""
    architecture = _named_config(path, content)
    name = architecture.name
    if not architecture.is_file():
        if name in _PUBLISHED_NAMES:
            return _PUBLISHED
        raise ModelError(
            f"{path}: config_path is {name!r}, which is missing in the folder",
            remedy="Copy it there.",
        )
    config = read_json(architecture)
    lstm = read_section(config, "encoder", LSTM_CHECKS)
    embedder = read_section(config, "token_embedder", _DIM_CHECKS | CHARACTER_CHECKS)
    problems = [*lstm.problems, *embedder.problems]
    if problems:
        raise ModelError(f"{architecture}: {'; '.join(problems)}")
    lstm_values = {**lstm.values, "use_skip_connections": True}
    characters = None
    if embedder.values["char_dim"] > 0:
        characters = character_architecture(
            embedder.values, embedder.values["char_dim"]
        )
    return ManyLangsArchitecture(
        lstm=LstmArchitecture(**lstm_values),
        char_cnn=characters,
        word_dim=embedder.values["word_dim"],
        max_characters_per_token=embedder.values["max_characters_per_token"],
    )
