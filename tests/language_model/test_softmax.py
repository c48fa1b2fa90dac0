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
    wide = weight.astype(float), bias.astype(float)
    rows = [reference.log_probabilities(row, *wide) for row in contexts.double().numpy()]
    expected = np.array(rows)
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
    softmaxes = []
    for held_bytes in (4 * N_WORDS * DIM, 4 * N_WORDS * DIM - 1):
        monkeypatch.setattr(full_softmax, "HELD_BYTES", held_bytes)
        softmaxes.append(FullSoftmax(path, N_WORDS, DIM, CPU))
    held, read = softmaxes
    before = next(held.of_words(contexts))
    write_softmax(path, -weight, bias)
    assert torch.equal(next(held.of_words(contexts)), before)
    assert not torch.equal(next(read.of_words(contexts)), before)


def test_a_gpu_gives_equal_results(tmp_path: Path, gpu: str) -> None:
    weight, bias, contexts = arrays(1)
    write_softmax(tmp_path / "softmax.hdf5", weight, bias)
    there = FullSoftmax(tmp_path / "softmax.hdf5", N_WORDS, DIM, torch.device(gpu))
    here = FullSoftmax(tmp_path / "softmax.hdf5", N_WORDS, DIM, CPU)
    targets, on_gpu = torch.arange(9), contexts.to(gpu)
    for actual, expected in zip(there.of_words(on_gpu), here.of_words(contexts), strict=True):
        assert_allclose(actual, expected, atol=1e-5)
    actual = there.of_targets(on_gpu, targets, with_entropy=True)
    assert_allclose(actual, here.of_targets(contexts, targets, with_entropy=True), atol=1e-5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "softmax.hdf5"


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
    np.testing.assert_equal(reference.read_arrays(path), {"softmax/W": WEIGHT, "softmax/b": BIAS})


MISFIT = " does not fit a vocabulary of 7 words and a projection_dim of 3: softmax"


def read(path: Path) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
    check_softmax(path, 7, 3)
    return list(read_rows(path, 3))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"char_embed": WEIGHT}, ": expected a softmax, found the weights of a biLM"),
        ({"softmax/W": WEIGHT}, f"{MISFIT}/b: expected (7,), found no tensor"),
        (
            {"softmax/W": np.ones((8, 4)), "softmax/b": np.ones(8)},
            f"{MISFIT}/W: expected (7, 3), found (8, 4); softmax/b: expected (7,), found (8,)",
        ),
        (
            {"softmax/W": WEIGHT.astype(int), "softmax/b": BIAS},
            ": softmax/W: expected floats, found int64",
        ),
        *(
            (
                {"softmax/W": WEIGHT, "softmax/b": np.where(np.arange(7) == 4, value, BIAS)},
                ": values that are not finite (NaN or infinity) in the rows 3 to 5",
            )
            for value in (np.nan, np.inf)
        ),
    ],
)
def test_a_file_with_a_fault_is_reported(
    path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    with pytest.raises(WeightsError) as caught:
        read(path)
    assert str(caught.value) == f"{path}{message}"
