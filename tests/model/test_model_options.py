import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import GOLDEN
from strategies import small_architecture

from elmo_cli.errors import OptionsError
from elmo_cli.model.model_options import CharacterOptions, LstmOptions, parse_options, read_options


def replaced(name: str, value: Any) -> dict[str, Any]:
    """Return a valid architecture with the value under a dotted name replaced."""
    content = small_architecture()
    section, _, key = name.partition(".")
    if key:
        content[section][key] = value
    else:
        content[section] = value
    return content


def faults_of(content: Any) -> str:
    with pytest.raises(OptionsError) as caught:
        parse_options(content)
    return str(caught.value).removeprefix("the options: ")


def test_every_key_of_a_golden_file_is_read() -> None:
    options = read_options(GOLDEN / "tanh-clip" / "options.json")
    assert options.lstm == LstmOptions(24, 10, 1, 0.4, 0.25, use_skip_connections=True)
    assert options.char_cnn == CharacterOptions(5, ((1, 6), (3, 9), (7, 12)), 1, "tanh", 50)
    assert options.char_cnn.n_filters == 27
    assert options.n_layers == 2
    assert options.width == 20


@pytest.mark.parametrize("is_null", [True, False])
def test_missing_and_null_keys_have_bilm_tfs_defaults(is_null: bool) -> None:
    content = small_architecture()
    lstm = {"n_layers": 1, "use_skip_connections": False}
    char_cnn = {"n_highway": 0, "max_characters_per_token": 50}
    for section, defaults in (("lstm", lstm), ("char_cnn", char_cnn)):
        for key in defaults:
            content[section].pop(key, None)
        content[section] |= dict.fromkeys(defaults) if is_null else {}
    options = parse_options(content)
    assert options.char_cnn is not None
    assert vars(options.lstm).items() >= lstm.items()
    assert vars(options.char_cnn).items() >= char_cnn.items()
    assert parse_options({"lstm": content["lstm"]}).char_cnn is None


def test_keys_that_only_training_uses_are_ignored() -> None:
    content = {**small_architecture(), "n_epochs": 10, "bidirectional": True, "dropout": "?"}
    content["lstm"]["n_negative_samples_batch"] = 8192
    assert parse_options(content) == parse_options(small_architecture())


VALUES = Path(__file__).with_name("options.txt").read_text().splitlines()[1:]


@pytest.mark.parametrize("row", VALUES)
def test_an_invalid_value_is_reported(row: str) -> None:
    place, _, fault = row.partition(" => ")
    name, _, value = place.partition(" ")
    assert faults_of(replaced(name, json.loads(value))) == f"{name}: {fault}"


def test_all_errors_are_reported_together() -> None:
    content = replaced("lstm.dim", 0)
    del content["lstm"]["projection_dim"]
    content["char_cnn"] = {"embedding": {"dim": 2}, "activation": "gelu", "n_highway": 1}
    assert faults_of(content) == (
        "lstm.dim: expected a whole number, 1 to 100,000, found 0; "
        "lstm.projection_dim: expected a whole number, 1 to 100,000, found no value; "
        "char_cnn.filters: expected a list of [width, count] pairs, found no value; "
        'char_cnn.activation: expected "relu" or "tanh", found "gelu"'
    )


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            b'{\n "lstm": }',
            "expected JSON, found an error: Expecting value: line 2 column 10 (char",
        ),
        (b"\x89HDF\r\n", "expected JSON, found an error: 'utf-8' codec can't decode byte 0x89 in"),
        (b"[]", "expected a JSON object, found []"),
        (None, "no such file."),
        (json.dumps(replaced("lstm.dim", 0)).encode(), "lstm.dim: expected a whole number"),
    ],
)
def test_an_error_in_a_file_names_the_file(
    tmp_path: Path, content: bytes | None, fault: str
) -> None:
    path = tmp_path / "options.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionsError, match="^" + re.escape(f"{path}: {fault}")):
        read_options(path)
