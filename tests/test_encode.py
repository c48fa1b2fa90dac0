"""`ElmoEmbedder.encode`: texts to vectors."""

from typing import Any

import numpy as np
import pytest
import torch
from commands import TINY
from numpy.testing import assert_allclose, assert_array_equal
from runs import assert_same_values

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import InputError
from elmo_cli.inference.batching import BATCH_TOKENS

TEXTS = ["The bank, I'd say.", "", "A bank."]
TOKENS = [["The", "bank", ",", "I", "'d", "say", "."], [], ["A", "bank", "."]]


@pytest.fixture(scope="module")
def embedder() -> ElmoEmbedder:
    return ElmoEmbedder(TINY / "options.json", TINY / "weights.hdf5")


@pytest.fixture(scope="module")
def layers(embedder: ElmoEmbedder) -> list[np.ndarray[Any, Any]]:
    return embedder.embed_batch(TOKENS)


def test_a_text_is_the_mean_of_the_average_of_its_layers(
    embedder: ElmoEmbedder, layers: list[np.ndarray[Any, Any]]
) -> None:
    vectors = embedder.encode(TEXTS)
    assert isinstance(vectors, np.ndarray)
    assert (vectors.shape, str(vectors.dtype)) == ((3, 32), "float32")
    for vector, values in zip(vectors, layers, strict=True):
        expected = values.mean(axis=(0, 1)) if values.shape[1] else np.zeros(32)
        assert_allclose(vector, expected, atol=1e-6)


def test_one_text_is_one_vector_and_tokens_are_taken_as_they_are(embedder: ElmoEmbedder) -> None:
    expected = embedder.encode(TEXTS)
    assert_same_values(embedder.encode(TEXTS[0]), expected[0])
    assert_same_values(embedder.encode(TOKENS), expected)
    by_white_space = embedder.encode(["A bank ."], tokenizer="whitespace")
    assert_same_values(by_white_space, expected[2:])


@pytest.mark.parametrize(("choice", "shape"), [("all", (3, 32)), ("top", (32,)), ("0,2", (2, 32))])
def test_layers_are_an_axis_of_their_own(
    embedder: ElmoEmbedder, choice: str, shape: tuple[int, ...]
) -> None:
    for texts in (TEXTS, []):
        vectors = embedder.encode(texts, layers=choice)
        assert isinstance(vectors, np.ndarray)
        assert vectors.shape == (len(texts), *shape)


def test_without_pooling_a_text_has_a_vector_a_token(
    embedder: ElmoEmbedder, layers: list[np.ndarray[Any, Any]]
) -> None:
    activations = embedder.encode(TEXTS, layers="all", pooling=None)
    assert isinstance(activations, list)
    values: Any
    for values, expected in zip(activations, layers, strict=True):
        assert_allclose(values, expected, atol=1e-6)
    assert embedder.encode([], pooling=None) == []
    assert_allclose(embedder.encode(TEXTS[2], pooling=None, layers="all"), layers[2], atol=1e-6)


def test_vectors_may_have_length_one(embedder: ElmoEmbedder) -> None:
    plain, normalized = embedder.encode(TEXTS), embedder.encode(TEXTS, normalize_embeddings=True)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert_allclose(normalized, plain / np.maximum(lengths, 1e-12), atol=1e-6)
    assert_array_equal(normalized[1], np.zeros(32))


def test_tensors_and_a_bar_may_be_had(
    embedder: ElmoEmbedder, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = embedder.encode(TEXTS)
    assert capsys.readouterr().err == ""
    vectors = embedder.encode(TEXTS, convert_to_tensor=True, show_progress_bar=True, device="cpu")
    assert isinstance(vectors, torch.Tensor)
    assert_array_equal(vectors.numpy(), expected)
    assert "3/3" in capsys.readouterr().err


class Table(list[str]):
    """Stand-in for a table of pandas, which yields the names of its columns."""

    columns = ("text",)


def test_what_cannot_be_encoded_is_an_error(embedder: ElmoEmbedder) -> None:
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        ([3], {}, r"^texts\[0\]: expected a string or a list of tokens, found 3\.$"),
        (["a", None], {}, r"^texts\[1\]: expected a string or a list of tokens, found None\.$"),
        (["a", float("nan")], {}, r"^texts\[1\]: .*, found nan\.$"),
        (["a", b"b"], {}, r"^texts\[1\]: .*, found bytes\. Decode them first"),
        (["a", ["b", 2]], {}, r"^texts\[1\]\[1\]: expected a string, found 2\.$"),
        ({"tokens": TEXTS}, {}, "^texts: expected a list, found a value of type dict. Give one"),
        ([{"text": "a"}], {}, r"^texts\[0\]: .*, found a value of type dict\.$"),
        ({"a", "b"}, {}, "^texts: expected a list, found a value of type set. Make a list.$"),
        (None, {}, "^texts: expected a list, found None. Make a list.$"),
        (b"The cat", {}, "^texts: expected a list, found bytes. Put it into a list.$"),
        (Table(), {}, "^texts: expected a list, found a value of type Table. Choose one of"),
        (TEXTS, {"tokenizer": "words"}, "--tokenizer 'words': unknown. Use whitespace"),
        (TEXTS, {"layers": "middle"}, "--layers 'middle': expected all"),
        (TEXTS, {"pooling": "sum"}, "pooling 'sum': unknown. Use mean"),
    ]
    for texts, options, message in wrong:
        with pytest.raises(InputError, match=message):
            embedder.encode(texts, **options)
    with pytest.raises(InputError, match="'tpu': unknown"):
        embedder.encode(TEXTS, device="tpu")


@pytest.mark.parametrize("batch_tokens", [7, None])
def test_another_device_has_the_same_settings(
    batch_tokens: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = ElmoEmbedder(
        model=TINY, state="warm", precision="bfloat16", batch_tokens=batch_tokens
    )
    monkeypatch.setattr("elmo_cli.engine.choose_device", lambda name: torch.device("cpu", 0))
    monkeypatch.setitem(BATCH_TOKENS, "cpu", 9)  # default of the other device
    other = embedder.engine.on_device("another")
    assert other is not embedder.engine
    expected = ("warm", "bfloat16", batch_tokens or 9)
    assert (other.state, other.settings.precision, other.batch_tokens) == expected


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_another_device_gives_equal_vectors(embedder: ElmoEmbedder, gpu: str, pooling: str) -> None:
    vectors = embedder.encode(TEXTS, device=gpu, pooling=pooling, convert_to_tensor=True)
    assert isinstance(vectors, torch.Tensor)
    assert vectors.device.type == gpu
    assert_allclose(vectors.cpu(), embedder.encode(TEXTS, pooling=pooling), atol=1e-5)


def test_an_embedder_shows_its_model_and_how_it_runs() -> None:
    embedder = ElmoEmbedder(model="mini", state="warm", precision="bfloat16")
    expected = "ElmoEmbedder(model='mini', state='warm', precision='bfloat16', device='cpu')"
    assert repr(embedder) == expected
