"""The spaCy component `elmo` gives the vectors of ElmoEmbedder, in batches."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import ElmoEmbedder
from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.inference.similarity import cosine_similarity
from tests.support.golden import GOLDEN

spacy = pytest.importorskip("spacy")

TEXT = "We sat by the bank.\n She went to the bank ."
TOKENS = [
    ["We", "sat", "by", "the", "bank", "."],
    ["She", "went", "to", "the", "bank", "."],
]
ROWS = [*range(6), *range(7, 13)]
"""Indices of the tokens of TEXT that are no white space."""


def pipeline(*before: str, **config: Any) -> Any:
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    model = str(GOLDEN / "relu")
    nlp.add_pipe("elmo", config={"model": model, **config})
    return nlp


def test_tokens_have_their_vectors_in_their_sentences(tiny: ElmoEmbedder) -> None:
    doc = pipeline("sentencizer")(TEXT)
    assert doc.tensor.shape == (13, 32)
    assert doc.tensor.dtype == np.float32
    averages = [tiny.embed_sentence(tokens).mean(axis=0) for tokens in TOKENS]
    expected = np.concatenate(averages)
    assert_allclose(doc.tensor[ROWS], expected, atol=1e-6)
    assert doc[6].is_space
    assert not doc.tensor[6].any()
    assert [token.has_vector for token in doc[5:8]] == [True, False, True]
    assert_array_equal(doc[4].vector, doc.tensor[4])
    of_span = doc.tensor[[5, 7, 8]].mean(axis=0)
    assert_allclose(doc[5:9].vector, of_span, atol=1e-6)
    assert_allclose(doc.vector, expected.mean(axis=0), atol=1e-6)


def test_a_document_without_bounds_is_one_sentence(tiny: ElmoEmbedder) -> None:
    doc = pipeline()(TEXT)
    first, second = TOKENS
    expected = tiny.embed_sentence(first + second).mean(axis=0)
    assert_allclose(doc.tensor[ROWS], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("layers", "width"),
    [
        ("top", 32),
        ("0,2", 64),
        ("word_emb", 16),
    ],
)
def test_layers_stand_side_by_side(tiny: ElmoEmbedder, layers: str, width: int) -> None:
    doc = pipeline("sentencizer", layers=layers)(TEXT)
    [values] = tiny.embed_sentences(TOKENS[:1], layers=layers)
    if layers == "0,2":
        values = np.concatenate([values[0], values[1]], axis=1)
    assert doc.tensor.shape == (13, width)
    assert_allclose(doc.tensor[:6], values, atol=1e-6)


@pytest.mark.filterwarnings("error")
def test_tokens_of_one_form_compare_by_their_vectors() -> None:
    doc = pipeline("sentencizer")(TEXT)
    one = doc[4]
    other = doc[11]
    assert one.text == "bank"
    assert other.text == "bank"
    expected = cosine_similarity(doc.tensor[4], doc.tensor[11])
    assert one.similarity(other) == pytest.approx(expected)
    assert one.similarity(other) < 0.9999
    assert one.similarity(one) == pytest.approx(1)
    span = doc[3:5]
    assert span.similarity(doc[10:12]) < 0.9999
    _, second = doc.sents
    expected = cosine_similarity(doc.vector, second.vector)
    assert doc.similarity(second) == pytest.approx(expected)
    space = doc[6]
    assert space.similarity(one) == 0


def test_a_stream_is_batched_through_to_the_embedder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nlp = pipeline("sentencizer")
    texts = [TEXT, "", "A cat.", " \n", TEXT, "No. Yes."]
    expected = [nlp(text).tensor for text in texts]
    calls = []
    embed = ElmoEmbedder.embed_sentences

    def counted(self: ElmoEmbedder, sentences: Any, **settings: Any) -> Any:
        calls.append(list(sentences))
        return embed(self, calls[-1], **settings)

    monkeypatch.setattr(ElmoEmbedder, "embed_sentences", counted)
    for batch_size in (100, 4):
        docs = list(nlp.pipe(texts, batch_size=batch_size))
        assert [doc.text for doc in docs] == texts
        for doc, tensor in zip(docs, expected, strict=True):
            assert_allclose(doc.tensor, tensor, atol=1e-6)
        if batch_size == 100:
            assert len(calls) == 1
    assert len(calls) == 2
    empty = expected[1]
    blank = expected[3]
    assert empty.shape == (0, 32)
    assert blank.shape == (1, 32)


def test_a_pipeline_is_saved_and_pickled_without_weights(tmp_path: Path) -> None:
    nlp = pipeline("sentencizer", layers="top")
    doc = nlp(TEXT)
    folder = tmp_path / "pipeline"
    nlp.to_disk(folder)
    assert sum(path.stat().st_size for path in folder.rglob("elmo*")) == 0
    pickled = pickle.dumps(nlp)
    assert len(pickled) < 300_000  # the rules of the tokenizer
    for again in (spacy.load(folder), pickle.loads(pickled)):
        assert_array_equal(again(TEXT).tensor, doc.tensor)


def test_a_document_that_is_pickled_keeps_its_similarities() -> None:
    doc = pipeline("sentencizer", layers="top")(TEXT)
    restored = pickle.loads(pickle.dumps(doc))
    assert restored[4].similarity(restored[11]) == doc[4].similarity(doc[11])


def test_a_document_from_bytes_gets_its_similarities_from_hooks() -> None:
    nlp = pipeline("sentencizer", layers="top")
    doc = nlp(TEXT)
    with pytest.warns(UserWarning, match="Unable to save user hooks"):
        content = doc.to_bytes()
    restored = spacy.tokens.Doc(nlp.vocab).from_bytes(content)
    assert_array_equal(restored.tensor, doc.tensor)
    assert restored[4].similarity(restored[11]) == 1  # spaCy's own: the same form
    nlp.get_pipe("elmo").add_hooks(restored)
    assert restored[4].similarity(restored[11]) == doc[4].similarity(doc[11])


@pytest.mark.filterwarnings("ignore")  # lost hooks, and fork with threads
def test_two_processes_give_equal_results() -> None:
    nlp = pipeline("sentencizer")
    texts = [TEXT, "A cat."]
    for doc, text in zip(nlp.pipe(texts, n_process=2), texts, strict=True):
        assert_allclose(doc.tensor, nlp(text).tensor, atol=1e-6)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model": "no such model"}, "no such model"),
        ({"layers": "9"}, "9"),
        ({"state": "cold"}, r"^state: expected zero, warm or carry, found 'cold'$"),
    ],
)
def test_a_wrong_setting_is_an_error_when_the_component_is_added(
    config: dict[str, str], message: str
) -> None:
    with pytest.raises(ElmoError, match=message):
        pipeline(**config)
