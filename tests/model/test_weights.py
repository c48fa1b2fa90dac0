"""Files of weights: good ones, those with a fault, and tensors that are mapped."""

import dataclasses
import io
import re
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import numpy as np
import pytest
import reference
import torch
from conftest import GOLDEN
from hypothesis import given, settings
from numpy.testing import assert_allclose
from strategies import RandomModel, make_model, models, small_architecture

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.errors import InputError, ModelError, OutputError, WeightsError
from elmo_cli.model import weights
from elmo_cli.model.model_options import read_options
from elmo_cli.model.weights import TensorFile, read_weights, write_weights
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.pretrained.find import describe_model, find_model, load_bilm

CELL = "RNN_{}/RNN/MultiRNNCell/Cell{}/LSTMCell/{}"
MODEL = GOLDEN / "tanh-clip"


CONTENT = small_architecture()


def assert_agrees_with_reference(
    files: ModelFiles,
    content: dict[str, Any] = CONTENT,
    *,
    weights_file: Path | None = None,
    atol: float = 1e-5,
) -> None:
    bilm = load_bilm(dataclasses.replace(files, weights=weights_file or files.weights))
    assert {values.dtype for values in bilm.state_dict().values()} == {torch.float32}
    sentence = ["the", "cat", "naïve"]
    layers = bilm(bilm.token_encoder.token_ids(sentence)[None]).layers[:, 0]
    expected, _ = reference.bilm(sentence, content, reference.read_arrays(files.weights))
    assert_allclose(layers, expected, atol=atol, rtol=1e-5)


def message_of(path: Path) -> str:
    """Return the error for a weights file, without its path."""
    with pytest.raises(WeightsError) as caught:
        read_weights(path, read_options(MODEL / "options.json"))
    message = str(caught.value)
    assert message.startswith(f"{path}")
    return message[len(str(path)) :]


@pytest.mark.parametrize("kind", ["no projection", "no highway", "neither highway nor projection"])
def test_parts_of_a_model_may_be_missing(tmp_path: Path, kind: str) -> None:
    if kind == "no projection":  # The LSTM's sizes are equal.
        content = small_architecture(dim=3, projection_dim=3, cell_clip=0.3, proj_clip=0.1)
        files = make_model(content, 2, tmp_path, projects=False)
    else:
        content = small_architecture(projection_dim=6)
        del content["char_cnn"]["n_highway"], content["lstm"]["n_layers"]
        files = make_model(content, 2, tmp_path, projects_features=kind == "no highway")
    assert_agrees_with_reference(files, content)
    n_expected = sum(map(np.size, reference.read_arrays(files.weights).values()))
    assert describe_model(str(tmp_path))["parameters"] == n_expected
    fast = ElmoEmbedder(files.options, files.weights).embed_sentence(["the", "cat"])
    readable = load_bilm(files)
    expected = readable(readable.sentence_ids([["the", "cat"]])).layers[:, 0, 1:-1]
    assert_allclose(fast, expected, atol=1e-5)


@settings(max_examples=10)
@given(model=models())
def test_written_weights_equal_the_weights_read(model: RandomModel) -> None:
    weights = model.files.weights
    write_weights(weights.with_name("copy.hdf5"), load_bilm(model.files))
    copy = reference.read_arrays(weights.with_name("copy.hdf5"))
    np.testing.assert_equal(copy, reference.read_arrays(weights))


def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    bilm = load_bilm(find_model(MODEL))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    try:
        with pytest.raises(OutputError, match=r"hdf5: cannot be written: File too large$"):
            write_weights(tmp_path / "weights.hdf5", bilm)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", ["deep", "wide", "activations"])
def test_absurd_numbers_of_groups_are_refused(
    tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "_MAX_ITEMS", 400)
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "w", libver="latest") as file:
        group = file.id
        for number in range(600):
            if shape == "activations":
                file.create_dataset(str(number), (1, 2), "f4")
            else:
                made = h5py.h5g.create(group, b"g%d" % number)
                group = made if shape == "deep" else group
    assert message_of(path).startswith(": not a model's weights: it has more than 400 datasets")
    if shape == "deep":  # No activations either.
        with pytest.raises(InputError, match=r"weights.hdf5: expected activations"):
            open_activations(path)


def test_a_word_level_model_without_its_vocabulary_is_reported(tmp_path: Path) -> None:
    files = make_model({"lstm": small_architecture()["lstm"]}, 3, tmp_path)
    message = (
        r"a word-level model \(without char_cnn\) requires its vocabulary. Add vocab.txt next to"
    )
    with pytest.raises(ModelError, match=rf"^{files.options}: {message} {files.weights}\.$"):
        load_bilm(ModelFiles(files.name, files.options, files.weights))


def test_a_damaged_weights_file_is_a_weights_error(tmp_path: Path) -> None:
    good = (MODEL / "weights.hdf5").read_bytes()
    options = read_options(MODEL / "options.json")
    random = np.random.default_rng(0)
    path = tmp_path / "weights.hdf5"
    messages = ""
    for _ in range(60):
        content = bytearray(good)
        for position in random.integers(100, 3000, size=5):
            content[position] = random.integers(256)
        path.write_bytes(content)
        try:
            read_weights(path, options)  # bytes between the structures may well not matter
        except WeightsError as error:
            messages += str(error)
    assert "not a valid weights file: " in messages


def test_a_bug_is_not_reported_as_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    fails = Mock(side_effect=TypeError("a bug"))
    monkeypatch.setattr("elmo_cli.model.weights.torch.from_numpy", fails)
    with pytest.raises(TypeError, match="a bug"):
        read_weights(MODEL / "weights.hdf5", read_options(MODEL / "options.json"))


def replace(name: str, values: Any) -> Callable[[h5py.File], None]:
    """Return a function that replaces a dataset, a group or a link of a file."""

    def edit(file: h5py.File) -> None:
        del file[name]
        file[name] = values

    return edit


def lose_and_reshape(file: h5py.File) -> None:
    del file["CNN/b_cnn_1"]
    replace("char_embed", np.zeros((262, 5), np.float32))(file)


def refer_elsewhere(file: h5py.File) -> None:
    del file["char_embed"]
    external = [(str(MODEL / "weights.hdf5"), 0, 261 * 5 * 4)]
    file.create_dataset("char_embed", (261, 5), "f4", external=external)


def infinite(value: float) -> Callable[[h5py.File], None]:
    def edit(file: h5py.File) -> None:
        file["CNN_proj/W_proj"][3, 2] = value
        file[CELL.format(0, 0, "B")][7] = value

    return edit


NO_TENSOR = " does not fit the options: {}: expected {}, found no tensor"
NO_PROJECTION = NO_TENSOR.format("CNN_proj/W_proj", "(27, 10)")
NO_BIAS = "CNN_proj/b_proj: expected (10,), found no tensor"
NOT_FINITE = ": values that are not finite (NaN or infinity) in ['CNN_proj/W_proj', '{}']"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lose_and_reshape,
            " does not fit the options: char_embed: expected (261, 5), found (262, 5); "
            "CNN/b_cnn_1: expected (9,), found no tensor",
        ),
        *((infinite(x), NOT_FINITE.format(CELL.format(0, 0, "B"))) for x in (np.nan, -np.inf)),
        *(
            (
                replace("CNN_proj/W_proj", np.ones((27, 10), kind)),
                f": CNN_proj/W_proj: expected floats, found {'|S3' if kind == 'S3' else kind}",
            )
            for kind in ("int64", "uint8", "bool", "complex64", "S3")
        ),
        # What leads to other files is not followed.
        (refer_elsewhere, NO_TENSOR.format("char_embed", "(261, 5)")),
        *(
            (replace("CNN_proj", link), f"{NO_PROJECTION}; {NO_BIAS}")
            for link in (h5py.ExternalLink("other.hdf5", "CNN_proj"), h5py.SoftLink("/CNN_high_0"))
        ),
    ],
)
def test_a_fault_in_a_file_is_reported(
    tmp_path: Path, edit: Callable[[h5py.File], None], message: str
) -> None:
    for name in ("weights.hdf5", "other.hdf5"):
        shutil.copy(MODEL / "weights.hdf5", tmp_path / name)
    with h5py.File(tmp_path / "weights.hdf5", "r+") as file:
        edit(file)
    assert message_of(tmp_path / "weights.hdf5") == message


WHOLE = (MODEL / "weights.hdf5").read_bytes()
ACTIVATIONS = (MODEL / "allennlp-all.hdf5").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, ": no such file."),
        (WHOLE[:-1], ": not a valid weights file: .*truncated file: .* Download it again."),
        (b"", ": not a valid weights file: .* Download it again."),
        (ACTIVATIONS, ": expected the weights .*, found activations, as `elmo embed` writes them"),
        (["softmax/W", "softmax/b"], ": expected the weights of a biLM, found a softmax"),
        (["images", "labels"], ": expected the weights of a biLM, found images, labels"),
    ],
)
def test_other_files_are_reported(
    tmp_path: Path, content: bytes | list[str] | None, message: str
) -> None:
    path = tmp_path / "weights.hdf5"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content:
        with h5py.File(path, "w") as file:
            for name in content:
                file[name] = np.zeros(3)
    assert re.fullmatch(message, message_of(path))


def test_integers_in_safetensors_are_refused(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = reference.read_arrays(MODEL / "weights.hdf5")
    arrays["CNN_proj/b_proj"] = arrays["CNN_proj/b_proj"].astype(np.int64)
    safetensors.save_file(arrays, tmp_path / "weights.safetensors")
    message = ": CNN_proj/b_proj: expected floats, found I64"
    assert message_of(tmp_path / "weights.safetensors") == message


@pytest.fixture
def memmap(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Count the tensors that are mapped."""
    memmap = Mock(wraps=np.memmap)
    monkeypatch.setattr("elmo_cli.model.weights.np.memmap", memmap)
    return memmap


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFiles:
    """Return a model whose small weights are mapped from their file, as large ones are."""
    monkeypatch.setattr(weights, "MIN_MAPPED_BYTES", 1)
    return make_model(CONTENT, 1, tmp_path)


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
    assert_agrees_with_reference(files, weights_file=path)
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
    assert_agrees_with_reference(
        files, weights_file=path, atol=0.02 if "float16" in tensor.values() else 1e-5
    )
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
