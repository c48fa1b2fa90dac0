"""Files of vectors with damaged attributes: commands say one line."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow
import pytest
from click.testing import Result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests.support.commands import TINY, elmo

VALUES: list[Any] = [
    "",
    "x",
    "all",
    "top",
    "0,1",
    "1,,2",
    "0,1,2,9",
    "nan",
    "1,2,3",
    "3/2",
    "-1",
    "9" * 5000,
    "[",
    "null",
    "{}",
    '{"a": 1}',
    '{"cat": "cat"}',
    "[" * 20_000,
    "a\nb",
    "mean",
    "packed",
    3,
    0.5,
    True,
    np.array([1, 2]),
    np.array(["a", "b"], "S1"),
    h5py.Empty("f"),
    b"\xff",
    None,
]
"""Values of an attribute; None removes it."""
NAMES = (
    "model",
    "model_sha256",
    "state",
    "layers",
    "mix",
    "gamma",
    "pooling",
    "format",
    "layout",
    "records",
    "input_records",
    "shard",
    "words",
    "compression",
    "sentence_keys",
    "tokenizer",
    "keys",
    "normalize",
    "dtype",
    "normalization",
)
FILES = ("all.hdf5", "packed.hdf5", "words.hdf5", "words.parquet")
attributes = st.dictionaries(
    *map(st.sampled_from, (NAMES, VALUES)), min_size=1, max_size=2
)
often = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with undamaged files."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("text.txt").write_text("The cat sat\nA cat ran off\n\nMy cat is old\n")
        Path("words.txt").write_text("cat\nsat\n")
        for command in (
            "embed text.txt all.hdf5",
            "embed text.txt packed.hdf5 --layout packed --tokenizer moses",
            "occurrences text.txt words.hdf5 --words words.txt --layers 1,2",
            "occurrences text.txt words.parquet --words words.txt",
        ):
            assert elmo(*command.split(), "--model", TINY).exit_code == 0
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
        content = json.dumps({**metadata, **changes}, default=str)
        parquet.write_table(table.replace_schema_metadata({"elmo": content}), path)
    return path


def assert_says_one_line(result: Result) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        result.output
    )
    assert result.exit_code in (0, 1, 2)
    lines = result.stderr.splitlines()
    errors = [line for line in lines if line.startswith("Error: ")]
    assert errors == (lines[-1:] if result.exit_code else [])


def check_command(
    originals: Path, command: str, name: str, changes: dict[str, Any]
) -> None:
    """Run a command in its forms that read a damaged file."""
    path = damage(originals, name, changes)
    whole = (originals / "words.parquet", "--words", originals / "words.txt")
    forms: dict[str, list[tuple[str | Path, ...]]] = {
        "neighbours": [
            ("cat", "The cat sat", path),
            ("--sentence", "The cat sat", path),
        ],
        "change": [(path, *whole), (path, path)],
        "plot": [("cat", path, "cat.svg", "--overwrite")],
        "embed": [(originals / "text.txt", path, "--model", TINY)],
    }
    needs_model = command == "neighbours" and changes.get("model") is not None
    for arguments in forms[command]:
        model = ("--model", TINY) if needs_model else ()
        assert_says_one_line(elmo(command, *arguments, *model))


@pytest.mark.parametrize("command", ["neighbours", "change", "embed"])
@often
@given(number=st.integers(0, 3), changes=attributes)
@example(number=0, changes={"mix": "0,1", "gamma": "0,1"})
@example(number=1, changes={"sentence_keys": "x", "layout": ""})
def test_commands_with_damaged_attributes_say_one_line(
    originals: Path, command: str, number: int, changes: dict[str, Any]
) -> None:
    check_command(
        originals, command, FILES[number % (2 if command == "embed" else 4)], changes
    )


@settings(parent=often, max_examples=20)
@given(name=st.sampled_from(FILES), changes=attributes)
def test_plot_of_damaged_attributes_says_one_line(
    originals: Path, name: str, changes: dict[str, Any]
) -> None:
    check_command(originals, "plot", name, changes)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[", "the file is damaged: it is empty or cut"),
        ("[]", "the file is damaged: expected an object, found []"),
        (
            '{"words": "["}',
            "the file is damaged: attribute words: expected JSON of words, found",
        ),
        ('{"layers": 3}', "the file is damaged: expected a text, found 3"),
        (None, "column vector: expected lists of floats, found string"),
    ],
)
def test_parquet_that_is_damaged_is_named(
    originals: Path, content: str | None, reason: str
) -> None:
    path = Path("words.parquet")
    table = parquet.read_table(originals / "words.parquet")
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
        assert_says_one_line(result := elmo("change", path, path))
        assert "the file is damaged" in result.stderr


def test_vectors_that_are_not_finite_are_named(originals: Path) -> None:
    path = damage(originals, "words.hdf5", {})
    with h5py.File(path, "r+") as file:
        for name in ("0", "1", "3"):
            file[name][...] = np.nan
    for command in (("plot", "cat", path, "cat.svg"), ("change", path, path)):
        assert_says_one_line(result := elmo(*command))
        assert "not finite (NaN or infinity)" in result.stderr
