"""Files of weights: good ones, those with a fault, and tensors that are mapped."""

import dataclasses
import io
import re
import resource
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.errors.exceptions import InputError, ModelError, OutputError, WeightsError
from elmo_cli.model import tensor_files
from elmo_cli.model.options_json import read_architecture
from elmo_cli.model.weights import read_weights, write_weights
from elmo_cli.pretrained.describe import describe_model
from elmo_cli.pretrained.find_model import find_files_by_name
from elmo_cli.pretrained.load_bilm import load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from tests.support import reference
from tests.support.golden import GOLDEN
from tests.support.strategies import RandomModel, make_model, models, small_architecture

MODEL = GOLDEN / "tanh-clip"
ARCHITECTURE = read_architecture(MODEL / "options.json")
WHOLE = (MODEL / "weights.hdf5").read_bytes()
ACTIVATIONS = (MODEL / "allennlp-all.hdf5").read_bytes()
BIAS = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"
CONTENT = small_architecture()
EQUAL_SIZES = small_architecture(dim=3, projection_dim=3, cell_clip=0.3, proj_clip=0.1)
DEFAULTS = small_architecture(projection_dim=6)
del DEFAULTS["char_cnn"]["n_highway"]
del DEFAULTS["lstm"]["n_layers"]
SENTENCE = ["the", "cat", "naïve"]


def assert_agrees_with_reference(
    files: ModelFiles,
    content: Any = CONTENT,
    *,
    path: Path | None = None,
    atol: float = 1e-5,
) -> None:
    bilm = load_bilm(dataclasses.replace(files, weights=path or files.weights))
    for values in bilm.state_dict().values():
        assert values.dtype == torch.float32
    ids = bilm.token_encoder.token_ids(SENTENCE)
    layers = bilm(ids[None]).layers[:, 0]
    arrays = reference.read_arrays(files.weights)
    expected, _ = reference.bilm(SENTENCE, content, arrays)
    assert_allclose(layers, expected, atol=atol, rtol=1e-5)


def message_of(path: Path) -> str:
    """Return the error for a weights file, without its path."""
    with pytest.raises(WeightsError) as caught:
        read_weights(path, ARCHITECTURE)
    message = str(caught.value)
    assert message.startswith(f"{path}")
    return message[len(str(path)) :]


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        (EQUAL_SIZES, {"projects": False}),
        (DEFAULTS, {}),
        (DEFAULTS, {"projects_features": False}),
    ],
    ids=["no projection", "no highway", "neither highway nor projection"],
)
def test_parts_of_a_model_may_be_missing(
    tmp_path: Path, content: Any, settings: Any
) -> None:
    files = make_model(content, 2, tmp_path, **settings)
    assert_agrees_with_reference(files, content)
    arrays = reference.read_arrays(files.weights)
    n_parameters = sum(values.size for values in arrays.values())
    assert describe_model(str(tmp_path))["parameters"] == n_parameters
    fast = ElmoEmbedder(files.options, files.weights).embed_sentence(SENTENCE)
    layers, _ = reference.bilm(SENTENCE, content, arrays)
    assert_allclose(fast, layers[:, 1:-1], atol=1e-5)


@settings(max_examples=10)
@given(model=models())
def test_written_weights_equal_the_weights_read(model: RandomModel) -> None:
    weights = model.files.weights
    copy = weights.with_name("copy.hdf5")
    write_weights(copy, load_bilm(model.files))
    expected = reference.read_arrays(weights)
    np.testing.assert_equal(reference.read_arrays(copy), expected)


def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    bilm = load_bilm(find_files_by_name(MODEL))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    message = r"hdf5: cannot be written: File too large$"
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OutputError, match=message):
            write_weights(tmp_path / "weights.hdf5", bilm)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", ["deep", "wide", "activations"])
def test_a_file_of_absurdly_many_groups_is_an_error(
    tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_files, "MAX_ITEMS", 400)
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "w", libver="latest") as file:
        group = file.id
        for number in range(600):
            if shape == "activations":
                file.create_dataset(str(number), (1, 2), "f4")
            else:
                made = h5py.h5g.create(group, b"g%d" % number)
                if shape == "deep":
                    group = made
    message = ": not a model's weights: it has more than 400 datasets"
    assert message_of(path).startswith(message)
    if shape == "deep":  # No activations either.
        with pytest.raises(InputError, match=r"weights.hdf5: expected activations"):
            open_activations(path)


def test_a_word_level_model_without_its_vocabulary_is_reported(tmp_path: Path) -> None:
    files = make_model({"lstm": small_architecture()["lstm"]}, 3, tmp_path)
    message = (
        f"{files.options}: a word-level model (without char_cnn) requires its "
        f"vocabulary. Add vocab.txt next to {files.weights}."
    )
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        load_bilm(ModelFiles(files.name, files.options, files.weights))


def test_a_damaged_weights_file_is_a_weights_error(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    messages = ""
    path = tmp_path / "weights.hdf5"
    for _ in range(60):
        content = bytearray(WHOLE)
        for position in random.integers(100, 3000, size=5):
            content[position] = random.integers(256)
        path.write_bytes(content)
        try:
            # Bytes between the structures may well not matter.
            read_weights(path, ARCHITECTURE)
        except WeightsError as error:
            messages += str(error)
    assert "not a valid weights file: " in messages


def test_a_bug_is_not_reported_as_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    fails = Mock(side_effect=TypeError("a bug"))
    monkeypatch.setattr("elmo_cli.model.weights.torch.from_numpy", fails)
    with pytest.raises(TypeError, match="a bug"):
        read_weights(MODEL / "weights.hdf5", ARCHITECTURE)


def with_one(value: float, *shape: int) -> NDArray[np.float32]:
    values = np.zeros(shape, np.float32)
    values.flat[7] = value
    return values


def test_large_weights_are_finite(tmp_path: Path) -> None:
    path = tmp_path / "weights.hdf5"
    path.write_bytes(WHOLE)
    with h5py.File(path, "r+") as file:
        file[BIAS][:2] = 3e38
    bias = read_weights(path, ARCHITECTURE).state_dict()["forward_layers.0.gates.bias"]
    assert not bias.sum().isfinite()
    assert bias.isfinite().all()


W_PROJ = "CNN_proj/W_proj"
B_PROJ = "CNN_proj/b_proj"
MISFIT = " does not fit the options: "
NO_PROJECTION = (
    f"{MISFIT}{W_PROJ}: expected (27, 10), found no tensor; {B_PROJ}: expected (10,), "
    "found no tensor"
)
NOT_FINITE = f": values that are not finite (NaN or infinity) in ['{W_PROJ}', '{BIAS}']"
NO_FLOATS = f": {W_PROJ}: expected floats, found "
EXTERNAL = {
    "shape": (261, 5),
    "dtype": "f4",
    "external": [(str(MODEL / "weights.hdf5"), 0, 5220)],
}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"CNN/b_cnn_1": None, "char_embed": np.zeros((262, 5), np.float32)},
            f"{MISFIT}char_embed: expected (261, 5), found (262, 5); "
            "CNN/b_cnn_1: expected (9,), found no tensor",
        ),
        (
            {W_PROJ: with_one(np.nan, 27, 10), BIAS: with_one(np.nan, 96)},
            NOT_FINITE,
        ),
        (
            {W_PROJ: with_one(-np.inf, 27, 10), BIAS: with_one(-np.inf, 96)},
            NOT_FINITE,
        ),
        ({W_PROJ: np.ones((27, 10), "int64")}, f"{NO_FLOATS}int64"),
        ({W_PROJ: np.ones((27, 10), "uint8")}, f"{NO_FLOATS}uint8"),
        ({W_PROJ: np.ones((27, 10), "bool")}, f"{NO_FLOATS}bool"),
        ({W_PROJ: np.ones((27, 10), "complex64")}, f"{NO_FLOATS}complex64"),
        ({W_PROJ: np.ones((27, 10), "|S3")}, f"{NO_FLOATS}|S3"),
        (
            {"char_embed": h5py.Empty("f4")},
            f"{MISFIT}char_embed: expected (261, 5), found a dataset without values",
        ),
        # Nothing that leads to other files is followed.
        (
            {"char_embed": EXTERNAL},
            f"{MISFIT}char_embed: expected (261, 5), found a dataset in other files",
        ),
        ({"CNN_proj": h5py.ExternalLink("other.hdf5", "CNN_proj")}, NO_PROJECTION),
        ({"CNN_proj": h5py.SoftLink("/CNN_high_0")}, NO_PROJECTION),
    ],
)
def test_a_fault_in_a_file_is_reported(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    for name in ("weights.hdf5", "other.hdf5"):
        (tmp_path / name).write_bytes(WHOLE)
    with h5py.File(tmp_path / "weights.hdf5", "r+") as file:
        for name, value in values.items():
            del file[name]
            if isinstance(value, dict):
                file.create_dataset(name, **value)
            elif value is not None:
                file[name] = value
    assert message_of(tmp_path / "weights.hdf5") == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, ": no such file"),
        (
            WHOLE[:-1],
            ": the file is incomplete. Copy or download it again.",
        ),
        (b"", ": the file is empty. Copy or download it again."),
        (
            ACTIVATIONS,
            ": expected the weights .*, found activations, .*\\. Choose weights.hdf5.*",
        ),
        (
            ["softmax/W", "softmax/b"],
            ": expected the weights of a biLM, found a softmax. Choose weights.hdf5 .*",
        ),
        (
            ["images", "labels"],
            ": expected the weights of a biLM, found images, labels. Choose .*",
        ),
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


def test_integers_in_safetensors_are_an_error(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "weights.safetensors"
    arrays = reference.read_arrays(MODEL / "weights.hdf5")
    arrays[B_PROJ] = arrays[B_PROJ].astype(np.int64)
    safetensors.save_file(arrays, path)
    assert message_of(path) == f": {B_PROJ}: expected floats, found I64"


@pytest.fixture
def memmap(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Count the tensors that are mapped."""
    memmap = Mock(wraps=np.memmap)
    monkeypatch.setattr("elmo_cli.model.tensor_files.np.memmap", memmap)
    return memmap


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFiles:
    """Return a model whose small weights are mapped from files, as large ones are."""
    monkeypatch.setattr(tensor_files, "MIN_MAPPED_BYTES", 1)
    return make_model(CONTENT, 1, tmp_path)


def written_again(files: ModelFiles, userblock_size: int = 0, **settings: Any) -> Path:
    """Write the weights to another HDF5 file, with settings of its tensors."""
    path = files.weights.with_name("again.hdf5")
    with h5py.File(path, "w", userblock_size=userblock_size) as target:
        for name, values in reference.read_arrays(files.weights).items():
            target.create_dataset(name, data=values, **{"dtype": "float32", **settings})
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
    assert_agrees_with_reference(files, path=path)
    assert memmap.call_count == n_tensors


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"userblock_size": 512},
        {"chunks": True},
        {"compression": "gzip"},
        {"dtype": ">f4"},
        {"dtype": "float16"},
        {"dtype": "float64"},
    ],
)
def test_tensors_stored_otherwise_are_read(
    files: ModelFiles, settings: dict[str, Any], memmap: Mock
) -> None:
    atol = 0.02 if settings.get("dtype") == "float16" else 1e-5
    assert_agrees_with_reference(
        files, path=written_again(files, **settings), atol=atol
    )
    n_mapped = memmap.call_count
    # Some arrays are at odd places, and are read.
    assert n_mapped < len(reference.read_arrays(files.weights))
    assert (n_mapped > 0) == (settings.keys() <= {"userblock_size"})


def test_files_are_read_if_the_file_system_cannot_map(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = Mock(side_effect=OSError(19, "No such device"))
    monkeypatch.setattr("elmo_cli.model.tensor_files.np.memmap", refuse)
    assert_agrees_with_reference(files)


def test_small_tensors_are_read(
    files: ModelFiles, memmap: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.model.tensor_files.MIN_MAPPED_BYTES", 4 * 261 * 2)
    assert_agrees_with_reference(files)
    assert memmap.call_count == 1


def test_changes_of_mapped_weights_are_private(files: ModelFiles) -> None:
    content = files.weights.read_bytes()
    bilm = load_bilm(files)
    other = load_bilm(files)
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
    files.weights.write_bytes(
        content.replace(offset, (len(content) - 8).to_bytes(8, "little"))
    )
    message = (
        r"^[^\n]*: not a valid weights file: [^\n]*\. Copy or download it again\.$"
    )
    with pytest.raises(WeightsError, match=message):
        load_bilm(files)
    # Whether HDF5 sees that depends on its version.
    files.weights.write_bytes(content)
    monkeypatch.setattr(
        np, "memmap", Mock(side_effect=ValueError("longer than the file"))
    )
    with pytest.raises(WeightsError, match=message):
        load_bilm(files)
