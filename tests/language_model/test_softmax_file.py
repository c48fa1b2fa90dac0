from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_cli.errors import WeightsError
from elmo_cli.language_model.softmax import (
    check_softmax,
    read_rows,
    read_softmax,
    write_softmax,
)

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=(7, 3)).astype(np.float32)
BIAS = RANDOM.normal(size=7).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "softmax.hdf5"


def message_of(path: Path, n_words: int = 7, dim: int = 3) -> str:
    with pytest.raises(WeightsError) as caught:
        check_softmax(path, n_words, dim)
    assert str(caught.value).startswith(str(path))
    return str(caught.value).removeprefix(str(path))


@pytest.mark.parametrize("name", ["softmax.hdf5", "softmax.safetensors"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str, dtype: str) -> None:
    write_softmax(tmp_path / name, WEIGHT, BIAS, dtype)
    weight, bias = read_softmax(tmp_path / name, 7, 3)
    assert weight.dtype == bias.dtype == np.dtype("float32")
    np.testing.assert_array_equal(weight, WEIGHT.astype(dtype))
    np.testing.assert_array_equal(bias, BIAS.astype(dtype))


def test_the_layout_is_that_of_the_published_file(path: Path) -> None:
    write_softmax(path, WEIGHT, BIAS)
    with h5py.File(path, "r") as file:
        assert list(file) == ["softmax"]
        np.testing.assert_array_equal(file["softmax"]["W"][:], WEIGHT)
        np.testing.assert_array_equal(file["softmax"]["b"][:], BIAS)


@pytest.mark.parametrize("n_rows", [1, 3, 7, 100])
def test_rows_come_in_their_order_however_many_at_once(path: Path, n_rows: int) -> None:
    write_softmax(path, WEIGHT, BIAS)
    parts = list(read_rows(path, n_rows))
    assert [part.first for part in parts] == list(range(0, 7, n_rows))
    assert all(len(part.bias) == len(part.weight) <= n_rows for part in parts)
    np.testing.assert_array_equal(np.concatenate([part.weight for part in parts]), WEIGHT)
    np.testing.assert_array_equal(np.concatenate([part.bias for part in parts]), BIAS)


def test_a_compressed_file_is_read(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("softmax/W", data=WEIGHT, chunks=(2, 3), compression="gzip")
        file["softmax/b"] = BIAS
    np.testing.assert_array_equal(read_softmax(path, 7, 3)[0], WEIGHT)


def test_every_mismatch_is_named(path: Path) -> None:
    write_softmax(path, WEIGHT, BIAS)
    assert message_of(path, 8, 4) == (
        " does not fit a vocabulary of 8 words and a projection_dim of 4: "
        "softmax/W: expected (8, 4), found (7, 3); softmax/b: expected (8,), found (7,)"
    )


def test_a_softmax_without_biases_is_named(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["softmax/W"] = WEIGHT
    assert message_of(path).endswith(": softmax/b: expected (7,), found nothing")


def test_other_files_are_named(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["char_embed"] = WEIGHT
    assert message_of(path) == ": expected a softmax, found the weights of a biLM"
    with h5py.File(path, "w") as file:
        file["0"] = WEIGHT
    assert message_of(path) == ": expected a softmax (softmax/W and softmax/b), found 0"
    with h5py.File(path, "w") as file:
        file["softmax/W/part"] = WEIGHT
    assert "softmax/W: expected (7, 3), found a group" in message_of(path)
    path.write_text("softmax")
    assert message_of(path) == ": expected a weights file (HDF5), found something else"
    path.unlink()
    assert message_of(path) == ": no such weights file"


def test_a_file_that_is_cut_off_is_named(path: Path) -> None:
    write_softmax(path, WEIGHT, BIAS)
    path.write_bytes(path.read_bytes()[:-8])
    assert message_of(path).startswith(": the weights file is cut off")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(path: Path, value: float) -> None:
    weight = WEIGHT.copy()
    weight[4, 1] = value
    write_softmax(path, weight, BIAS)
    with pytest.raises(WeightsError, match=r"not finite \(NaN or infinity\) in the rows 3 to 5$"):
        list(read_rows(path, 3))
