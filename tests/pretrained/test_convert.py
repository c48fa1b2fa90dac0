"""`elmo convert`, and weights as safetensors wherever weights are taken."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmo_cli
from elmo_cli import ElmoEmbedder
from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.errors.optional_imports import install_command
from elmo_cli.model.options_json import read_architecture
from elmo_cli.model.weights import read_weights
from elmo_cli.pretrained.checksums import sha256
from elmo_cli.pretrained.convert import convert_weights
from elmo_cli.pretrained.find_model import find_files_by_name
from tests.support import reference
from tests.support.commands import TINY, assert_fails, elmo
from tests.support.runs import content
from tests.support.strategies import make_language_model, small_architecture
from tests.support.website import folder_with

safetensors = pytest.importorskip("safetensors")

WEIGHTS = TINY / "weights.hdf5"
OPTIONS = TINY / "options.json"
SENTENCE = ["The", "cat", "sat", "."]


@pytest.fixture
def converted(tmp_path: Path) -> Path:
    """Return the weights of a golden model as safetensors."""
    path = tmp_path / "weights.safetensors"
    convert_weights(WEIGHTS, path)
    return path


def datasets(path: Path) -> dict[str, tuple[Any, bytes]]:
    """Return the type and the bytes of each dataset of an HDF5 file."""
    return {
        name: (values.dtype, values.tobytes())
        for name, values in content(path)[2].items()
    }


def test_hdf5_to_safetensors_and_back_is_equal_to_the_bit(tmp_path: Path) -> None:
    files = make_language_model(small_architecture(), 0, tmp_path)
    there = tmp_path / "there.safetensors"
    back = tmp_path / "back.h5"
    for path in filter(None, (files.weights, files.softmax)):
        convert_weights(path, there, overwrite=True)
        convert_weights(there, back, overwrite=True)
        assert datasets(back) == datasets(path)


def test_the_file_records_its_source(tmp_path: Path, converted: Path) -> None:
    version = {"elmo_cli_version": elmo_cli.__version__}
    with safetensors.safe_open(converted, framework="numpy") as file:
        assert file.metadata() == version | {
            "source_sha256": sha256(WEIGHTS),
            "dtype": "float32",
        }
    convert_weights(converted, tmp_path / "half.hdf5", "float16")
    attributes, *_ = content(tmp_path / "half.hdf5")
    assert attributes == version | {
        "source_sha256": sha256(converted),
        "dtype": "float16",
    }


@pytest.mark.parametrize("suffix", [".hdf5", ".safetensors"])
def test_float16_takes_half_the_bytes_and_is_precise(
    tmp_path: Path, suffix: str
) -> None:
    full = tmp_path / f"full{suffix}"
    half = tmp_path / f"half{suffix}"
    convert_weights(WEIGHTS, full)
    convert_weights(WEIGHTS, half, "float16")
    n_values = sum(values.size for values in reference.read_arrays(WEIGHTS).values())
    assert full.stat().st_size - half.stat().st_size == pytest.approx(
        2 * n_values, rel=0.01
    )
    expected = ElmoEmbedder(OPTIONS, full).embed_sentence(SENTENCE)
    activations = ElmoEmbedder(OPTIONS, half).embed_sentence(SENTENCE)
    assert activations.dtype == np.float32
    assert not np.array_equal(activations, expected)
    assert_allclose(activations, expected, atol=2e-3)


def test_bfloat16_is_read(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    target = tmp_path / "weights.hdf5"
    header = b'{"char_embed": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}'
    path.write_bytes(bytes([len(header)]) + bytes(7) + header + b"\x80\x3f" * 3)
    convert_weights(path, target)
    assert datasets(target) == {
        "char_embed": (np.float32, np.ones(3, np.float32).tobytes())
    }


OTHER_FILE = {
    "shape": (261, 4),
    "dtype": "f4",
    "external": [(str(WEIGHTS), 0, 4176)],
}
VIRTUAL = h5py.VirtualLayout((261, 4), "f4")
VIRTUAL[:] = h5py.VirtualSource(str(WEIGHTS), "char_embed", shape=(261, 4))


@pytest.mark.parametrize(
    ("name", "item", "found"),
    [
        (
            "char_embed",
            h5py.ExternalLink(str(WEIGHTS), "char_embed"),
            "an external link",
        ),
        ("CNN_proj", h5py.ExternalLink(str(WEIGHTS), "CNN_proj"), "an external link"),
        ("CNN_proj", h5py.SoftLink("/CNN_high_0"), "a soft link"),
        ("char_embed", h5py.Empty("f4"), "a dataset without values"),
        ("char_embed", np.dtype("f4"), "a data type"),
        ("char_embed", OTHER_FILE, "a dataset in other files"),
        ("char_embed", VIRTUAL, "a virtual dataset"),
        ("char_embed", None, "an empty group"),
    ],
)
def test_a_tensor_that_cannot_be_converted_is_an_error(
    tmp_path: Path, name: str, item: Any, found: str
) -> None:
    path = tmp_path / "weights.hdf5"
    shutil.copy(WEIGHTS, path)
    with h5py.File(path, "r+") as file:
        del file[name]
        if item is None:
            file.create_group(name)
        elif isinstance(item, dict):
            file.create_dataset(name, **item)
        elif isinstance(item, h5py.VirtualLayout):
            file.create_virtual_dataset(name, item)
        else:
            file[name] = item
    message = f"{path}: {name}: expected a tensor in this file, found {found}"
    assert_fails(elmo("convert", path, tmp_path / "out.hdf5"), message)
    assert os.listdir(tmp_path) == ["weights.hdf5"]


def test_equal_conversions_write_equal_files(tmp_path: Path) -> None:
    # The package safetensors writes metadata in a random order.
    contents = set()
    for number in range(10):
        path = tmp_path / f"{number}.safetensors"
        convert_weights(WEIGHTS, path)
        contents.add(path.read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize(
    "name", ["weights.safetensors", "model.safetensors", "elmo.safetensors"]
)
def test_a_folder_with_safetensors_is_a_model(
    tmp_path: Path, converted: Path, name: str
) -> None:
    folder = folder_with(tmp_path / "model", "softmax.safetensors")
    shutil.copy(OPTIONS, folder)
    shutil.copy(converted, folder / name)
    files = find_files_by_name(folder)
    assert files.weights == folder / name
    assert files.softmax == folder / "softmax.safetensors"
    expected = ElmoEmbedder(OPTIONS, WEIGHTS).embed_sentence(SENTENCE)
    assert_array_equal(ElmoEmbedder(model=folder).embed_sentence(SENTENCE), expected)
    shutil.copy(WEIGHTS, folder / "elmo.hdf5" if name.startswith("elmo") else folder)
    assert (
        find_files_by_name(folder).weights.suffix == ".hdf5"
    )  # HDF5 needs no other package.


def test_a_missing_package_is_an_error_with_its_installation(
    tmp_path: Path, converted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    command = install_command("safetensors")
    expected = (
        f"{converted} needs safetensors, which is not installed. Install it with "
        f"{command}."
    )
    assert_fails(elmo("convert", converted, tmp_path / "out.hdf5"), expected)
    assert os.listdir(tmp_path) == ["weights.safetensors"]


def test_a_damaged_file_is_reported(converted: Path) -> None:
    whole = converted.read_bytes()
    message = (
        rf"^{converted}: not a valid weights file: .*\. Copy or download it again\.$"
    )
    for damaged in (
        whole[:-1],
        b"<html>404</html>",
        whole.replace(b"[261,", b"[262,", 1),
    ):
        converted.write_bytes(damaged)
        with pytest.raises(WeightsError, match=message):
            read_weights(converted, read_architecture(OPTIONS))


def test_the_command_logs_one_line(tmp_path: Path) -> None:
    target = tmp_path / "weights.safetensors"
    result = elmo("convert", WEIGHTS, target)
    size = f"{len(datasets(WEIGHTS))} tensors, float32, {target.stat().st_size:,} bytes"
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert result.stderr == f"Wrote {target}: {size}\n"
    assert elmo("convert", WEIGHTS, target, "--overwrite", "-q").stderr == ""
    (tmp_path / "other").touch()
    assert target.stat().st_mode == (tmp_path / "other").stat().st_mode
    assert set(os.listdir(tmp_path)) == {"weights.safetensors", "other"}
