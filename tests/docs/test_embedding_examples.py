"""The examples for flair and sentence-transformers run, where these are installed."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN
from numpy.testing import assert_allclose

from elmo_cli import ElmoEmbedder

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = str(GOLDEN / "relu")
TEXTS = ["A cat sat .", "The dog"]

pytestmark = pytest.mark.filterwarnings("ignore")  # The libraries themselves warn.


def vectors(layers: str, **settings: Any) -> list[np.ndarray]:
    sentences = [text.split() for text in TEXTS]
    return list(ElmoEmbedder(model=MODEL).embed_sentences(sentences, layers=layers, **settings))


def test_tokens_of_flair_have_the_vectors_of_their_sentence() -> None:
    flair = pytest.importorskip("flair")
    from flair.embeddings.base import load_embeddings

    example = runpy.run_path(str(EXAMPLES / "flair_embeddings.py"))
    embeddings = example["ElmoTokenEmbeddings"](MODEL, "1,2")
    assert embeddings.embedding_length == 64
    assert not embeddings.training
    again = load_embeddings(embeddings.save_embeddings(use_state_dict=False))
    assert not again.training
    for sentences in ([flair.data.Sentence(text) for text in TEXTS] for _ in range(2)):
        again.embed(sentences)
        for sentence, values in zip(sentences, vectors("1,2"), strict=True):
            expected = np.concatenate(list(values), axis=1)
            token_vectors = np.array([token.embedding.numpy() for token in sentence])
            assert_allclose(token_vectors, expected, atol=1e-6)


def test_a_sentence_transformer_encodes_and_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = pytest.importorskip("sentence_transformers")
    monkeypatch.syspath_prepend(EXAMPLES)
    from elmo_sentence_transformer import ElmoModule

    model = library.SentenceTransformer(modules=[ElmoModule(MODEL, "top")], device="cpu")
    assert model.get_embedding_dimension() == 32
    expected = vectors("top", pooling="mean")
    assert_allclose(model.encode(TEXTS), expected, atol=1e-6)
    model.save(str(tmp_path / "saved"))
    saved = sum(file.stat().st_size for file in (tmp_path / "saved").rglob("*"))
    assert saved < 50_000
    again = library.SentenceTransformer(str(tmp_path / "saved"), trust_remote_code=True)
    assert_allclose(again.encode(TEXTS), expected, atol=1e-6)
