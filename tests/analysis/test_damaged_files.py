"""Files of vectors with damaged attributes: commands say one line, whatever an attribute is."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow
import pytest
from click.testing import Result
from commands import TINY, elmo
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

VALUES: list[Any] = [
    *("", "x", "all", "top", "0,1", "1,,2", "0,1,2,9", "nan", "1,2,3", "3/2", "-1", "9" * 5000),
    *("[", "null", "{}", '{"a": 1}', '{"cat": "cat"}', "[" * 20_000, "a\nb", "mean", "packed"),
    *(3, 0.5, True, np.array([1, 2]), np.array(["a", "b"], "S1"), h5py.Empty("f"), b"\xff", None),
]
"""Values of an attribute; None removes it."""
NAMES = (
    *("model", "model_sha256", "state", "layers", "mix", "gamma", "pooling", "format", "layout"),
    *("records", "input_records", "shard", "words", "compression", "sentence_keys", "tokenizer"),
    *("keys", "normalize", "dtype", "normalization"),
)
FILES = ("all.hdf5", "packed.hdf5", "words.hdf5", "words.parquet")
TEXT = "The cat sat\nA cat ran off\n\nMy cat is old\n"
attributes = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(VALUES), min_size=1, max_size=2
)
pytestmark = pytest.mark.usefixtures("folder")
often = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with undamaged files."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("text.txt").write_text(TEXT)
        Path("words.txt").write_text("cat\nsat\n")
        for name, options in {
            "all.hdf5": ("embed",),
            "packed.hdf5": ("embed", "--layout", "packed", "--tokenizer", "moses"),
            "words.hdf5": ("usages", "--words", "words.txt", "--layers", "1,2"),
            "words.parquet": ("usages", "--words", "words.txt"),
        }.items():
            command = (options[0], "text.txt", name, *options[1:], "--model", str(TINY))
            assert elmo(*command).exit_code == 0
    return folder


def damage(originals: Path, name: str, changes: dict[str, Any]) -> Path:
    """Copy a file, and change its attributes."""
    path = Path(name)
    shutil.copy(originals / name, path)
    if path.suffix == ".hdf5":
        with h5py.File(path, "r+") as file:
            for attribute, value in changes.items():
                file.attrs.pop(attribute, None)
                if value is not None:
                    file.attrs[attribute] = value
    else:
        table = parquet.read_table(path)
        metadata = json.loads(table.schema.metadata[b"elmo"])
        plain = {
            key: str(value) if isinstance(value, (bytes, np.ndarray, h5py.Empty)) else value
            for key, value in changes.items()
        }
        content = json.dumps({**metadata, **plain})
        parquet.write_table(table.replace_schema_metadata({"elmo": content}), path)
    return path


def assert_says_one_line(result: Result) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert result.exit_code in (0, 1, 2)
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == (result.exit_code != 0)
    if errors:
        assert result.stderr.splitlines()[-1] == errors[0]


COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "neighbours": (
        ("neighbours", "cat", "The cat sat", "FILE"),
        ("neighbours", "--sentence", "The cat sat", "FILE"),
    ),
    "change": (
        ("change", "FILE", "FOLDER/words.parquet", "--words", "FOLDER/words.txt"),
        ("change", "FILE", "FILE"),
    ),
    "plot": (("plot", "cat", "FILE", "cat.svg", "--overwrite"),),
    "embed": (("embed", "FOLDER/text.txt", "FILE", "--model", str(TINY)),),
}
"""Commands that read a damaged FILE; FOLDER has the files that are not damaged."""


def check_command(originals: Path, command: str, name: str, changes: dict[str, Any]) -> None:
    path = damage(originals, name, changes)
    needs_model = command == "neighbours" and changes.get("model") is not None
    for arguments in COMMANDS[command]:
        words = [word.replace("FOLDER", str(originals)) for word in arguments]
        words = [str(path) if word == "FILE" else word for word in words]
        assert_says_one_line(elmo(*words, *(("--model", TINY) if needs_model else ())))


@pytest.mark.parametrize("command", ["neighbours", "change", "embed"])
@often
@given(number=st.integers(0, 3), changes=attributes)
@example(number=0, changes={"mix": "0,1", "gamma": "0,1"})
def test_commands_with_damaged_attributes_say_one_line(
    originals: Path, command: str, number: int, changes: dict[str, Any]
) -> None:
    check_command(originals, command, FILES[number % (2 if command == "embed" else 4)], changes)


@settings(parent=often, max_examples=20)
@given(name=st.sampled_from(FILES), changes=attributes)
def test_plot_of_damaged_attributes_says_one_line(
    originals: Path, name: str, changes: dict[str, Any]
) -> None:
    check_command(originals, "plot", name, changes)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[", "the file is damaged: it is empty or cut."),
        ("[]", "the file is damaged: expected an object, found []."),
        ('{"words": "["}', "the file is damaged: attribute words: expected JSON of words, found"),
        ('{"layers": 3}', "the file is damaged: expected a text, found 3."),
        (None, "column vector: expected lists of floats, found string"),
    ],
)
def test_parquet_that_is_damaged_is_named(
    originals: Path, content: str | None, reason: str
) -> None:
    path = damage(originals, "words.parquet", {})
    table = parquet.read_table(path)
    if content is None:
        texts = pyarrow.array(["x"] * len(table))
        table = table.set_column(table.column_names.index("vector"), "vector", texts)
    else:
        table = table.replace_schema_metadata({"elmo": content})
    parquet.write_table(table, path)
    assert_says_one_line(result := elmo("change", path, path))
    assert f"{path}: {reason}" in result.stderr


def test_tokens_and_positions_that_are_damaged_are_named(originals: Path) -> None:
    for name, value in (("tokens", "[1]"), ("positions", "7"), ("positions", "x")):
        path = damage(originals, "words.hdf5", {})
        with h5py.File(path, "r+") as file:
            file["0"].attrs[name] = value
        result = elmo("change", path, path)
        assert_says_one_line(result)
        assert "the file is damaged" in result.stderr


def test_vectors_that_are_not_finite_are_named(originals: Path) -> None:
    path = damage(originals, "words.hdf5", {})
    with h5py.File(path, "r+") as file:
        for name in ("0", "1", "3"):
            file[name][...] = np.nan
    for command in (("plot", "cat", path, "cat.svg"), ("change", path, path)):
        result = elmo(*command)
        assert "not finite (NaN or infinity)" in result.stderr
        assert_says_one_line(result)
