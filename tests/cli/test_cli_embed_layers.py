from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from commands import TINY, elmo
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from elmo_cli import ElmoEmbedder

TINY_MODEL = ("--model", str(TINY))
TOLERANCE = 1e-5
MIX = ("--mix", "0.2,-0.3,0.5", "--gamma", "1.2")


@pytest.fixture(autouse=True)
def text(folder: Path) -> None:
    """Write a text into the current folder."""
    Path("text").write_text("The cat sat\n\nbank\nThe cat sat on the mat\n")


def embed(*options: str) -> tuple[list[Any], dict[str, str]]:
    """Return the datasets and attributes that `elmo embed` writes with these options."""
    result = elmo("embed", "text", "out.hdf5", *options, *TINY_MODEL)
    assert result.exit_code == 0, result.stderr
    with h5py.File("out.hdf5") as file:
        return [file[str(line)][()] for line in range(4)], dict(file.attrs)


@pytest.fixture(scope="module")
def layers() -> NDArray[np.float32]:
    """Return all layers of the first line."""
    return ElmoEmbedder(model=TINY).embed_sentence(["The", "cat", "sat"])


@pytest.mark.parametrize(
    ("name", "index", "width"), [("word_emb", 0, 16), ("lstm1", 1, 32), ("lstm2", 2, 32)]
)
def test_layers_have_the_names_of_tf_hubs_outputs(
    name: str, index: int, width: int, layers: NDArray[np.float32]
) -> None:
    datasets, attributes = embed("--layers", name)
    assert [values.shape for values in datasets] == [(n, width) for n in (3, 0, 1, 6)]
    assert_allclose(datasets[0], layers[index, :, :width], atol=TOLERANCE)
    assert attributes["layers"] == name
    assert not {"mix", "gamma", "pooling"} & set(attributes)


def test_a_trained_mix_is_applied(layers: NDArray[np.float32]) -> None:
    weights = np.exp([0.2, -0.3, 0.5]) / np.exp([0.2, -0.3, 0.5]).sum()
    datasets, attributes = embed(*MIX)
    assert [values.shape for values in datasets] == [(3, 32), (0, 32), (1, 32), (6, 32)]
    assert_allclose(datasets[0], 1.2 * np.einsum("l,ltw->tw", weights, layers), atol=TOLERANCE)
    assert attributes.items() >= {"layers": "mix", "mix": MIX[1], "gamma": "1.2"}.items()
    assert "pooling" not in attributes
    # A mix may start with a minus, and gamma is 1.
    datasets, attributes = embed("--mix", "-1e3,-1e3, -1e3", "--overwrite")
    averages, _ = embed("--average", "--overwrite")
    assert_allclose(datasets[0], averages[0], atol=TOLERANCE)
    assert attributes["gamma"] == "1.0"


@pytest.mark.parametrize(
    ("pooling", "function"),
    [
        ("mean", lambda values: values.mean(axis=-2)),
        ("max", lambda values: values.max(axis=-2)),
        ("first", lambda values: values[..., 0, :]),
        ("last", lambda values: values[..., -1, :]),
    ],
)
@pytest.mark.parametrize("choice", [(), ("--layers", "0,2"), ("--layers", "word_emb"), MIX])
def test_a_sentence_may_be_one_vector(pooling: str, function: Any, choice: tuple[str, ...]) -> None:
    tokens, _ = embed(*choice)
    datasets, attributes = embed(*choice, "--pooling", pooling, "--overwrite")
    for pooled, all_tokens in zip(datasets, tokens, strict=True):
        n_tokens = all_tokens.shape[-2]
        expected = function(all_tokens) if n_tokens else np.zeros_like(function(tokens[0]))
        assert pooled.shape == expected.shape
        assert_allclose(pooled, expected, atol=TOLERANCE)
    assert attributes["pooling"] == pooling


def test_the_tokens_of_pooled_sentences_are_counted() -> None:
    result = elmo("embed", "text", "out.hdf5", "--pooling", "mean", *TINY_MODEL)
    assert result.stderr.splitlines()[-1].startswith("Wrote out.hdf5: 4 sentences, 10 tokens, ")
