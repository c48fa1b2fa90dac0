"""Weights that are pages of their file: the same numbers, and private where they are written to."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import numpy as np
import pytest
import reference
import torch
from numpy.testing import assert_allclose
from strategies import make_model, small_architecture

from elmo_cli.errors import WeightsError
from elmo_cli.model.weights import TensorFile, write_weights
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.pretrained.find import load_bilm

CONTENT = small_architecture()

pytestmark = pytest.mark.usefixtures("small_weights_are_mapped")


@pytest.fixture
def memmap(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Count the tensors that are mapped."""
    memmap = Mock(wraps=np.memmap)
    monkeypatch.setattr("elmo_cli.model.weights.np.memmap", memmap)
    return memmap


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    return make_model(CONTENT, 1, tmp_path)


def assert_agrees_with_reference(
    files: ModelFiles, weights: Path | None = None, atol: float = 1e-5
) -> None:
    bilm = load_bilm(replace(files, weights=weights or files.weights))
    assert {values.dtype for values in bilm.state_dict().values()} == {torch.float32}
    sentence = ["the", "cat", "naïve"]
    layers = bilm(bilm.sentence_ids([sentence])).layers[:, 0]
    expected, _ = reference.bilm(sentence, CONTENT, reference.read_arrays(files.weights))
    assert_allclose(layers, expected, atol=atol)


def written_again(files: ModelFiles, file: dict[str, Any], **tensor: Any) -> Path:
    """Write the weights to another HDF5 file, with settings of the file and of its tensors."""
    path = files.weights.with_name("again.hdf5")
    with h5py.File(path, "w", **file) as target:
        for name, values in reference.read_arrays(files.weights).items():
            target.create_dataset(name, data=values, **{"dtype": "float32", **tensor})
            target[f"odd/{name}"] = np.zeros(3, np.int8)  # after which no place is even
    return path


def test_contiguous_float32_tensors_are_mapped(files: ModelFiles, memmap: Mock) -> None:
    assert_agrees_with_reference(files)
    n_tensors = len(reference.read_arrays(files.weights))
    assert memmap.call_count == n_tensors
    pytest.importorskip("safetensors")
    path = files.weights.with_suffix(".safetensors")
    write_weights(path, load_bilm(files))
    memmap.reset_mock()
    assert_agrees_with_reference(files, path)
    assert memmap.call_count == n_tensors


@pytest.mark.parametrize(
    ("file", "tensor"),
    [
        ({}, {}),
        ({"userblock_size": 512}, {}),
        ({}, {"chunks": True}),
        ({}, {"compression": "gzip"}),
        *(({}, {"dtype": dtype}) for dtype in (">f4", "float16", "float64")),
    ],
)
def test_tensors_stored_otherwise_are_read(
    files: ModelFiles, file: dict[str, Any], tensor: dict[str, Any], memmap: Mock
) -> None:
    path = written_again(files, file, **tensor)
    assert_agrees_with_reference(files, path, atol=0.02 if "float16" in tensor.values() else 1e-5)
    n_mapped = memmap.call_count
    assert n_mapped < len(reference.read_arrays(files.weights))  # some are at odd places
    assert (n_mapped > 0) == (not tensor)


def test_files_are_read_if_the_file_system_cannot_map(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = Mock(side_effect=OSError(19, "No such device"))
    monkeypatch.setattr("elmo_cli.model.weights.np.memmap", refuse)
    assert_agrees_with_reference(files)


def test_small_tensors_are_read(
    files: ModelFiles, memmap: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.model.weights.MIN_MAPPED_BYTES", 4 * 261 * 2)
    assert_agrees_with_reference(files)
    assert memmap.call_count == 1


def test_changes_of_mapped_weights_are_private(files: ModelFiles) -> None:
    content = files.weights.read_bytes()
    bilm, other = load_bilm(files), load_bilm(files)
    for parameter in bilm.parameters():
        parameter.mul_(2)
    for name, values in other.state_dict().items():
        assert torch.equal(bilm.state_dict()[name], 2 * values)
    assert files.weights.read_bytes() == content


def test_a_file_that_is_replaced_changes_no_weight(
    files: ModelFiles, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bilm = load_bilm(files)
    before = {name: values.clone() for name, values in bilm.state_dict().items()}
    other = load_bilm(make_model(CONTENT, 2, tmp_path_factory.mktemp("other")))
    write_weights(files.weights, other)
    for name, values in bilm.state_dict().items():
        assert torch.equal(values, before[name])


def test_a_weight_is_saved_alone(files: ModelFiles) -> None:
    for parameter in load_bilm(files).parameters():
        file = io.BytesIO()
        torch.save(parameter, file)
        assert file.tell() < 4 * parameter.numel() + 2000


def test_a_tensor_beyond_the_end_of_its_file_is_an_error_at_once(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = files.weights.read_bytes()
    with h5py.File(files.weights) as file:
        offset = file["char_embed"].id.get_offset().to_bytes(8, "little")
    files.weights.write_bytes(content.replace(offset, (len(content) - 8).to_bytes(8, "little")))
    message = r"^[^\n]*: not a valid weights file: [^\n]*\. Download it again\.$"
    with pytest.raises(WeightsError, match=message):
        load_bilm(files)
    # Whether HDF5 sees that depends on its version.
    files.weights.write_bytes(content)
    monkeypatch.setattr(TensorFile, "_offset", lambda self, name: len(content) - 8)
    with pytest.raises(WeightsError, match=message):
        load_bilm(files)
