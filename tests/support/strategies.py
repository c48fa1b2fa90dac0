"""Random small models and odd sentences, for hypothesis and for single tests."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, NamedTuple

import h5py
import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.pretrained.model_files import ModelFiles

WORDS = ("<S>", "</S>", "<UNK>", "the", "cat", "sat", "naïve", "東京")
"""The vocabulary of word-level models."""

seeds = st.integers(0, 2**32 - 1)
_CLIPS = st.sampled_from([None, 0, 0.05, 0.2, 0.6, 3])
_LSTMS = st.fixed_dictionaries(
    {
        "dim": st.integers(1, 6),
        "projection_dim": st.integers(1, 5),
        "n_layers": st.integers(1, 3),
        "use_skip_connections": st.booleans(),
    },
    optional={"cell_clip": _CLIPS, "proj_clip": _CLIPS},
)


@st.composite
def architectures(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the content of an options.json of a character model."""
    longest = draw(st.sampled_from([50, 50, 12]))
    widths = st.one_of(st.integers(1, 7), st.just(longest))
    char_cnn: dict[str, Any] = {
        "activation": draw(st.sampled_from(["relu", "tanh"])),
        "embedding": {"dim": draw(st.integers(1, 4))},
        "filters": draw(
            st.lists(
                st.tuples(widths, st.integers(1, 4)).map(list), min_size=1, max_size=3
            )
        ),
        "n_highway": draw(st.integers(0, 2)),
        "max_characters_per_token": longest,
        "n_characters": draw(st.sampled_from([261, 262])),
    }
    return {"lstm": draw(_LSTMS), "char_cnn": char_cnn}


def word_architectures() -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for the content of an options.json of a word-level model."""
    return st.fixed_dictionaries({"lstm": _LSTMS})


odd_tokens = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
    st.text("xé東🙂", min_size=10, max_size=60),
    st.sampled_from(
        [".", "a", "<S>", "</S>", "<UNK>", "the", "cat", "naïve", "東京", "x" * 48]
    ),
)
"""Tokens of all scripts, some longer than a row of characters, some special."""


def sentences(min_size: int = 0, max_size: int = 6) -> st.SearchStrategy[list[str]]:
    """Return a strategy for sentences of odd tokens."""
    return st.lists(odd_tokens, min_size=min_size, max_size=max_size)


def batches(max_size: int = 4) -> st.SearchStrategy[list[list[str]]]:
    """Return a strategy for batches of sentences, some of them without tokens."""
    return st.lists(sentences(), min_size=1, max_size=max_size)


def small_architecture(**lstm: Any) -> dict[str, Any]:
    """Return a small character model for any test, with keys of `lstm` replaced."""
    return {
        "lstm": {
            "dim": 5,
            "projection_dim": 3,
            "n_layers": 2,
            "use_skip_connections": True,
        }
        | lstm,
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 2},
            "filters": [[1, 2], [3, 4]],
            "n_highway": 1,
            "n_characters": 262,
        },
    }


def make_model(
    content: dict[str, Any],
    seed: int,
    folder: Path,
    *,
    projects: bool = True,
    projects_features: bool = True,
    dtype: str = "float32",
    words: Sequence[str] = WORDS,
) -> ModelFiles:
    """Write a model with random weights in bilm-tf's layout.

    The weights are large enough that gates open and close and that small clips are
    reached. The file has no W_P_0 without `projects`, and no CNN_proj without
    `projects_features`.
    """
    random = np.random.default_rng(seed)
    (folder / "options.json").write_text(json.dumps(content), encoding="utf-8")
    word_level = "char_cnn" not in content
    if word_level:
        (folder / "vocab.txt").write_text(
            "".join(f"{word}\n" for word in words), encoding="utf-8"
        )
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in _shapes(content, len(words), projects=projects).items():
            if projects_features or not name.startswith("CNN_proj"):
                file.create_dataset(name, data=_values(random, shape).astype(dtype))
    return ModelFiles(
        name="a random model",
        options=folder / "options.json",
        weights=folder / "weights.hdf5",
        vocabulary=folder / "vocab.txt" if word_level else None,
    )


def make_language_model(
    content: dict[str, Any],
    seed: int,
    folder: Path,
    *,
    words: Sequence[str] = WORDS,
    weight: NDArray[Any] | None = None,
    bias: NDArray[Any] | None = None,
) -> ModelFiles:
    """Write a model with its softmax and vocabulary, as training does.

    The softmax is random where it is not given, and sharp enough to tell words apart.
    """
    files = make_model(content, seed, folder)
    random = np.random.default_rng(seed + 1)
    (folder / "vocab.txt").write_text(
        "".join(f"{word}\n" for word in words), encoding="utf-8"
    )
    shape = (len(words), content["lstm"]["projection_dim"])
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        file["softmax/W"] = np.float32(
            random.normal(size=shape) * 3 if weight is None else weight
        )
        file["softmax/b"] = np.float32(
            random.normal(size=shape[0]) if bias is None else bias
        )
    return replace(
        files, vocabulary=folder / "vocab.txt", softmax=folder / "softmax.hdf5"
    )


class RandomModel(NamedTuple):
    """A model, and the content of its options.json."""

    files: ModelFiles
    content: dict[str, Any]


_FOLDER = TemporaryDirectory(prefix="elmo-cli-")


@st.composite
def models(draw: st.DrawFn) -> RandomModel:
    """Draw a random small model of characters or of words."""
    content = draw(architectures() | word_architectures())
    projects_features = "char_cnn" not in content or draw(st.booleans())
    if not projects_features:
        content["lstm"]["projection_dim"] = sum(
            n for _, n in content["char_cnn"]["filters"]
        )
    projects = content["lstm"]["dim"] != content["lstm"]["projection_dim"] or draw(
        st.booleans()
    )
    folder = Path(mkdtemp(dir=_FOLDER.name))
    files = make_model(
        content,
        draw(seeds),
        folder,
        projects=projects,
        projects_features=projects_features,
    )
    return RandomModel(files, content)


def padded(sentences: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return numbers of tokens as rows, padded with -1."""
    tokens = np.full((len(sentences), max(map(len, sentences))), -1)
    for row, sentence in zip(tokens, sentences, strict=True):
        row[: len(sentence)] = sentence
    return tokens


def _values(random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw values that keep a matrix's sums near 1, as trained weights do."""
    inputs = 1 if len(shape) == 1 else int(np.prod(shape[:-1]))
    return random.normal(scale=1.5 / np.sqrt(inputs), size=shape)


def _shapes(
    content: dict[str, Any], n_words: int, *, projects: bool
) -> dict[str, tuple[int, ...]]:
    lstm = content["lstm"]
    size = lstm["projection_dim"]
    dim = lstm["dim"]
    shapes: dict[str, tuple[int, ...]] = {"embedding": (n_words, size)}
    if "char_cnn" in content:
        shapes = _encoder_shapes(content["char_cnn"], size)
    for direction in (0, 1):
        for layer in range(lstm.get("n_layers", 1)):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes[f"{cell}/W_0"] = (2 * size, 4 * dim)
            shapes[f"{cell}/B"] = (4 * dim,)
            if projects:
                shapes[f"{cell}/W_P_0"] = (dim, size)
    return shapes


def _encoder_shapes(char_cnn: dict[str, Any], size: int) -> dict[str, tuple[int, ...]]:
    n_filters = sum(count for _, count in char_cnn["filters"])
    shapes: dict[str, tuple[int, ...]] = {
        "char_embed": (261, char_cnn["embedding"]["dim"])
    }
    for i, (width, count) in enumerate(char_cnn["filters"]):
        shapes[f"CNN/W_cnn_{i}"] = (1, width, char_cnn["embedding"]["dim"], count)
        shapes[f"CNN/b_cnn_{i}"] = (count,)
    for k in range(char_cnn.get("n_highway") or 0):
        for gate in ("carry", "transform"):
            shapes[f"CNN_high_{k}/W_{gate}"] = (n_filters, n_filters)
            shapes[f"CNN_high_{k}/b_{gate}"] = (n_filters,)
    shapes["CNN_proj/W_proj"] = (n_filters, size)
    shapes["CNN_proj/b_proj"] = (size,)
    return shapes


def random_tensor(*shape: int, seed: int = 0) -> Tensor:
    """Return normal values, float32, equal in each call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
