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
def layers(tiny: ElmoEmbedder) -> list[np.ndarray[Any, Any]]:
    return tiny.embed_batch(TOKENS)


def test_a_text_is_the_mean_of_the_average_of_its_layers(
    tiny: ElmoEmbedder, layers: list[np.ndarray[Any, Any]]
) -> None:
    vectors = tiny.encode(TEXTS)
    assert isinstance(vectors, np.ndarray)
    assert (vectors.shape, str(vectors.dtype)) == ((3, 32), "float32")
    for vector, values in zip(vectors, layers, strict=True):
        expected = values.mean(axis=(0, 1)) if values.shape[1] else np.zeros(32)
        assert_allclose(vector, expected, atol=1e-6)


def test_one_text_is_one_vector_and_tokens_are_taken_as_they_are(tiny: ElmoEmbedder) -> None:
    expected = tiny.encode(TEXTS)
    assert_same_values(tiny.encode(TEXTS[0]), expected[0])
    assert_same_values(tiny.encode(TOKENS), expected)
    by_white_space = tiny.encode(["A bank ."], tokenizer="whitespace")
    assert_same_values(by_white_space, expected[2:])


@pytest.mark.parametrize(("choice", "shape"), [("all", (3, 32)), ("top", (32,)), ("0,2", (2, 32))])
def test_layers_are_an_axis_of_their_own(
    tiny: ElmoEmbedder, choice: str, shape: tuple[int, ...]
) -> None:
    for texts in (TEXTS, []):
        vectors = tiny.encode(texts, layers=choice)
        assert isinstance(vectors, np.ndarray)
        assert vectors.shape == (len(texts), *shape)


def test_without_pooling_a_text_has_a_vector_a_token(
    tiny: ElmoEmbedder, layers: list[np.ndarray[Any, Any]]
) -> None:
    activations = tiny.encode(TEXTS, layers="all", pooling=None)
    assert isinstance(activations, list)
    values: Any
    for values, expected in zip(activations, layers, strict=True):
        assert_allclose(values, expected, atol=1e-6)
    assert tiny.encode([], pooling=None) == []
    assert_allclose(tiny.encode(TEXTS[2], pooling=None, layers="all"), layers[2], atol=1e-6)


def test_vectors_may_have_length_one(tiny: ElmoEmbedder) -> None:
    plain, normalized = tiny.encode(TEXTS), tiny.encode(TEXTS, normalize_embeddings=True)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert_allclose(normalized, plain / np.maximum(lengths, 1e-12), atol=1e-6)
    assert_array_equal(normalized[1], np.zeros(32))


def test_tensors_and_a_bar_may_be_had(
    tiny: ElmoEmbedder, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = tiny.encode(TEXTS)
    assert capsys.readouterr().err == ""
    vectors = tiny.encode(TEXTS, convert_to_tensor=True, show_progress_bar=True, device="cpu")
    assert isinstance(vectors, torch.Tensor)
    assert_array_equal(vectors.numpy(), expected)
    assert "3/3" in capsys.readouterr().err


class Table(list[str]):
    """Stand-in for a table of pandas, which yields the names of its columns."""

    columns = ("text",)


TEXT_OR_TOKENS = "expected a string or a list of tokens, found"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([3], f"[0]: {TEXT_OR_TOKENS} 3."),
        (["a", None], f"[1]: {TEXT_OR_TOKENS} None."),
        (["a", float("nan")], f"[1]: {TEXT_OR_TOKENS} nan."),
        (["a", b"b"], f"[1]: {TEXT_OR_TOKENS} bytes. Decode them first, for example by .decode()."),
        (["a", ["b", 2]], "[1][1]: expected a string, found 2."),
        ([["a"], [b"b"]], "[1][0]: expected a string, found bytes."),
        ([{"text": "a"}], f"[0]: {TEXT_OR_TOKENS} a value of type dict."),
        (
            {"tokens": TEXTS},
            ": expected a list, found a value of type dict. Give one of its values. Only HubElmo "
            "takes the mapping of TF-Hub.",
        ),
        ({"a", "b"}, ": expected a list, found a value of type set. Make a list."),
        (None, ": expected a list, found None. Make a list."),
        (b"The cat", ": expected a list, found bytes. Put it into a list."),
        (Table(), ": expected a list, found a value of type Table. Choose one of its columns."),
    ],
)
def test_texts_that_cannot_be_encoded_are_an_error(
    tiny: ElmoEmbedder, texts: Any, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        tiny.encode(texts)
    assert str(caught.value) == f"texts{message}"


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
def test_another_device_gives_equal_vectors(tiny: ElmoEmbedder, gpu: str, pooling: str) -> None:
    vectors = tiny.encode(TEXTS, device=gpu, pooling=pooling, convert_to_tensor=True)
    assert isinstance(vectors, torch.Tensor)
    assert vectors.device.type == gpu
    assert_allclose(vectors.cpu(), tiny.encode(TEXTS, pooling=pooling), atol=1e-5)
