"""The component `elmo` of a spaCy pipeline gives the vectors of ElmoEmbedder, batched."""

import importlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import ElmoEmbedder
from elmo_cli.analysis.similarity import cosine
from elmo_cli.errors.exceptions import ElmoError
from tests.support.golden import GOLDEN

spacy = pytest.importorskip("spacy")

TEXT = "We sat by the bank.\n She went to the bank ."
TOKENS = [
    ["We", "sat", "by", "the", "bank", "."],
    ["She", "went", "to", "the", "bank", "."],
]
ROWS = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]
"""Indices of the tokens of TEXT that are no white space."""


def pipeline(*before: str, **config: Any) -> Any:
    nlp = spacy.blank("en")
    for name in before:
        nlp.add_pipe(name)
    nlp.add_pipe("elmo", config={"model": str(GOLDEN / "relu"), **config})
    return nlp


def test_tokens_have_their_vectors_in_their_sentences(tiny: ElmoEmbedder) -> None:
    doc = pipeline("sentencizer")(TEXT)
    assert (doc.tensor.shape, doc.tensor.dtype) == ((13, 32), np.float32)
    expected = np.concatenate([tiny.embed_sentence(s).mean(axis=0) for s in TOKENS])
    assert_allclose(doc.tensor[ROWS], expected, atol=1e-6)
    assert doc[6].is_space
    assert not doc.tensor[6].any()
    assert [token.has_vector for token in doc[5:8]] == [True, False, True]
    assert_array_equal(doc[4].vector, doc.tensor[4])
    assert_allclose(doc[5:9].vector, doc.tensor[[5, 7, 8]].mean(axis=0), atol=1e-6)
    assert_allclose(doc.vector, expected.mean(axis=0), atol=1e-6)
    # Without bounds, a document is one sentence.
    expected = tiny.embed_sentence([*TOKENS[0], *TOKENS[1]]).mean(axis=0)
    assert_allclose(pipeline()(TEXT).tensor[ROWS], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("layers", "width"), [("top", 32), ("0,2", 64), ("word_emb", 16)]
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
    assert one.text == other.text == "bank"
    assert one.similarity(other) == pytest.approx(cosine(doc.tensor[4], doc.tensor[11]))
    assert one.similarity(other) < 0.9999
    assert one.similarity(one) == pytest.approx(1)
    assert doc[3:5].similarity(doc[10:12]) < 0.9999
    _, second = doc.sents
    assert doc.similarity(second) == pytest.approx(cosine(doc.vector, second.vector))
    assert doc[6].similarity(one) == 0


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
    for n_calls, batch_size in ((1, 100), (2, 4)):
        docs = list(nlp.pipe(texts, batch_size=batch_size))
        assert (len(calls), [doc.text for doc in docs]) == (n_calls, texts)
        for doc, tensor in zip(docs, expected, strict=True):
            assert_allclose(doc.tensor, tensor, atol=1e-6)
    assert [tensor.shape for tensor in expected[1:4:2]] == [(0, 32), (1, 32)]


def test_it_survives_the_disk_and_pickle_without_weights(tmp_path: Path) -> None:
    nlp = pipeline("sentencizer", layers="top")
    doc = nlp(TEXT)
    nlp.to_disk(tmp_path / "pipeline")
    assert sum(f.stat().st_size for f in (tmp_path / "pipeline").rglob("elmo*")) == 0
    pickled = pickle.dumps(nlp)
    assert len(pickled) < 300_000  # the rules of the tokenizer
    for again in (spacy.load(tmp_path / "pipeline"), pickle.loads(pickled)):
        assert_array_equal(again(TEXT).tensor, doc.tensor)
    restored = pickle.loads(pickle.dumps(doc))
    assert restored[4].similarity(restored[11]) == doc[4].similarity(doc[11])
    # A document from bytes gets its hooks back.
    with pytest.warns(UserWarning, match="Unable to save user hooks"):
        restored = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert_array_equal(restored.tensor, doc.tensor)
    assert restored[4].similarity(restored[11]) == 1  # spaCy's own: the same form
    importlib.import_module("elmo_cli.integrations.spacy_component").add_hooks(restored)
    assert restored[4].similarity(restored[11]) == doc[4].similarity(doc[11])


@pytest.mark.filterwarnings("ignore")  # lost hooks, and fork with threads
def test_two_processes_give_equal_results() -> None:
    nlp = pipeline("sentencizer")
    texts = [TEXT, "A cat."]
    for doc, text in zip(nlp.pipe(texts, n_process=2), texts, strict=True):
        assert_allclose(doc.tensor, nlp(text).tensor, atol=1e-6)


def test_a_wrong_setting_is_refused_when_it_is_added() -> None:
    for config, message in (
        ({"model": "no such model"}, "no such model"),
        ({"layers": "9"}, "9"),
        ({"state": "cold"}, "^state 'cold': expected zero, warm or carry\\.$"),
    ):
        with pytest.raises(ElmoError, match=message):
            pipeline(**config)
