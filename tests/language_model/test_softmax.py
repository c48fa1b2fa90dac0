from pathlib import Path

import h5py
import numpy as np
import pytest
import reference
import torch
from cell_formulas import WAYS, processor
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from strategies import seeds

from elmo_cli.errors import WeightsError
from elmo_cli.language_model import softmax as full_softmax
from elmo_cli.language_model.softmax import FullSoftmax, check_softmax, read_rows, write_softmax

CPU = torch.device("cpu")
N_WORDS, DIM = 23, 4
RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=(7, 3)).astype(np.float32)
BIAS = RANDOM.normal(size=7).astype(np.float32)


def arrays(seed: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    random = np.random.default_rng(seed)
    weight = (scale * random.normal(size=(N_WORDS, DIM))).astype(np.float32)
    bias = (scale * random.normal(size=N_WORDS)).astype(np.float32)
    contexts = torch.from_numpy(random.normal(size=(9, DIM)).astype(np.float32))
    return weight, bias, contexts


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("n", [2, 1024])
@given(seeds, st.integers(1, 30), st.sampled_from([0, 10**9]), st.sampled_from([0.1, 1, 40]))
def test_it_is_the_reference_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    n: int,
    name: str,
    seed: int,
    n_rows: int,
    held: int,
    scale: float,
) -> None:
    path = tmp_path_factory.mktemp("softmax") / "softmax.hdf5"
    weight, bias, contexts = arrays(seed, scale)
    write_softmax(path, weight, bias)
    expected = np.array(
        [
            reference.log_probabilities(context, weight.astype(float), bias.astype(float))
            for context in contexts.numpy().astype(float)
        ]
    )
    targets = torch.from_numpy(np.random.default_rng(seed).integers(N_WORDS, size=9))
    entropies = -(np.exp(expected) * expected).sum(axis=1)
    at_once = {"ROWS": n_rows, "HELD_BYTES": held, "PREDICTIONS": n, "LOGITS": n * N_WORDS}
    with pytest.MonkeyPatch.context() as patch, processor(name):
        for constant, number in at_once.items():
            patch.setattr(full_softmax, constant, number)
        softmax = FullSoftmax(path, N_WORDS, DIM, CPU)
        log_p = torch.stack(list(softmax.of_words(contexts))).numpy()
        scores = softmax.of_targets(contexts, targets, with_entropy=True)
    assert_allclose(log_p, expected, atol=1e-5 * max(1, scale))
    assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-12)
    assert_allclose(scores, [expected[range(9), targets], entropies], atol=1e-5 * max(1, scale))


def test_only_a_large_softmax_is_read_again_per_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight, bias, contexts = arrays(1)
    path = tmp_path / "softmax.hdf5"
    write_softmax(path, weight, bias)
    softmaxes = {}
    for held_bytes in (4 * N_WORDS * DIM, 4 * N_WORDS * DIM - 1):
        monkeypatch.setattr(full_softmax, "HELD_BYTES", held_bytes)
        softmaxes[held_bytes] = FullSoftmax(path, N_WORDS, DIM, CPU)
    held, read = softmaxes.values()
    before = next(held.of_words(contexts))
    write_softmax(path, -weight, bias)
    assert torch.equal(next(held.of_words(contexts)), before)
    assert not torch.equal(next(read.of_words(contexts)), before)


def test_a_gpu_gives_equal_results(tmp_path: Path, gpu: str) -> None:
    weight, bias, contexts = arrays(1)
    write_softmax(tmp_path / "softmax.hdf5", weight, bias)
    there = FullSoftmax(tmp_path / "softmax.hdf5", N_WORDS, DIM, torch.device(gpu))
    here = FullSoftmax(tmp_path / "softmax.hdf5", N_WORDS, DIM, CPU)
    targets = torch.arange(9)
    for actual, expected in zip(
        there.of_words(contexts.to(gpu)), here.of_words(contexts), strict=True
    ):
        assert_allclose(actual, expected, atol=1e-5)
    assert_allclose(
        there.of_targets(contexts.to(gpu), targets, with_entropy=True),
        here.of_targets(contexts, targets, with_entropy=True),
        atol=1e-5,
    )


# The file.


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
@pytest.mark.parametrize("n_rows", [1, 3, 100])
def test_what_is_written_is_read_back_however_many_rows_at_once(
    tmp_path: Path, name: str, dtype: str, n_rows: int
) -> None:
    write_softmax(tmp_path / name, WEIGHT, BIAS, dtype)
    check_softmax(tmp_path / name, 7, 3)
    firsts, weights, biases = zip(*read_rows(tmp_path / name, n_rows), strict=True)
    assert list(firsts) == list(range(0, 7, n_rows))
    assert weights[0].dtype == biases[0].dtype == torch.float32
    np.testing.assert_array_equal(np.concatenate(weights), WEIGHT.astype(dtype))
    np.testing.assert_array_equal(np.concatenate(biases), BIAS.astype(dtype))


def test_the_layout_equals_the_published_file(path: Path) -> None:
    write_softmax(path, WEIGHT, BIAS)
    with h5py.File(path, "r") as file:
        assert list(file) == ["softmax"]
        np.testing.assert_array_equal(file["softmax"]["W"][:], WEIGHT)
        np.testing.assert_array_equal(file["softmax"]["b"][:], BIAS)


def test_every_mismatch_is_reported(path: Path) -> None:
    write_softmax(path, WEIGHT, BIAS)
    assert message_of(path, 8, 4) == (
        " does not fit a vocabulary of 8 words and a projection_dim of 4: "
        "softmax/W: expected (8, 4), found (7, 3); softmax/b: expected (8,), found (7,)"
    )


def test_other_files_are_reported(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["char_embed"] = WEIGHT
    assert message_of(path) == ": expected a softmax, found the weights of a biLM"
    with h5py.File(path, "w") as file:
        file["softmax/W"] = WEIGHT
    assert message_of(path).endswith(": softmax/b: expected (7,), found no tensor")


def test_values_that_are_no_floats_are_refused(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["softmax/W"], file["softmax/b"] = WEIGHT.astype(int), BIAS
    with pytest.raises(WeightsError, match=r"softmax/W: expected floats, found int64$"):
        list(read_rows(path, 3))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(path: Path, value: float) -> None:
    weight = WEIGHT.copy()
    weight[4, 1] = value
    write_softmax(path, weight, BIAS)
    with pytest.raises(WeightsError, match=r"not finite \(NaN or infinity\) in the rows 3 to 5$"):
        list(read_rows(path, 3))
