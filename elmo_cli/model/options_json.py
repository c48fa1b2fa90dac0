"""Reader of options.json.

The file has bilm-tf's form. Two of its objects are read: `lstm`, and `char_cnn`, which
word-level models lack. `"forward_only": true` is this project's own: the model has no
backward direction. Keys that matter only in training are ignored. A config.json of
ELMoForManyLangs stands for an options.json, too: see `many_langs_config`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.model.architecture import (
    Architecture,
    ForwardArchitecture,
    LstmArchitecture,
)
from elmo_cli.model.architecture_checks import (
    CHARACTER_CHECKS,
    EMBEDDING_CHECKS,
    LSTM_CHECKS,
    character_architecture,
)
from elmo_cli.model.json_objects import read_json, read_section, shown_json
from elmo_cli.model.many_langs_config import read_config


def read_architecture(path: str | Path) -> Architecture:
    """Read and check an options.json, or config.json.

    Raises:
        ModelError: The file cannot be read, or values are wrong. The message names
            all of them.
    """
    return architecture_from(read_json(path), path)


def architecture_from(content: dict[str, Any], path: str | Path) -> Architecture:
    """Return the architecture in the content of an options.json, or config.json."""
    if "config_path" in content:
        return read_config(Path(path), content)
    return parse_architecture(content, path)


def parse_architecture(
    content: Mapping[str, Any], path: str | Path = "the options"
) -> Architecture:
    """Turn the content of an options.json into an `Architecture`."""
    lstm = read_section(content, "lstm", LSTM_CHECKS)
    problems = [*lstm.problems]
    char_cnn = None
    if content.get("char_cnn") is not None:
        checks = EMBEDDING_CHECKS | CHARACTER_CHECKS
        section = read_section(content, "char_cnn", checks)
        char_cnn = section.values
        problems += section.problems
        if not problems:
            longest = char_cnn["max_characters_per_token"]
            widest, _ = max(char_cnn["filters"])
            if widest > longest:
                problems.append(
                    f"char_cnn.filters: expected widths up to {longest}, found {widest}"
                )
    forward_only = content.get("forward_only", False)
    if not isinstance(forward_only, bool):
        found = shown_json(forward_only)
        problems.append(f"forward_only: expected true or false, found {found}")
    if problems:
        raise ModelError(f"{path}: {'; '.join(problems)}")
    characters = None
    if char_cnn is not None:
        characters = character_architecture(char_cnn, char_cnn["embedding"]["dim"])
    architecture = ForwardArchitecture if forward_only else Architecture
    return architecture(LstmArchitecture(**lstm.values), characters)
