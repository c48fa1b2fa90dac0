"""Cosines, words in sentences, and exact search, compared with all cosines in numpy."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmo_cli import ElmoEmbedder, ElmoError, neighbours, open_activations
from elmo_cli.analysis import neighbours as module
from elmo_cli.analysis.occurrences import Occurrence, find_occurrence
from elmo_cli.analysis.similarity import cosine
from elmo_cli.analysis.vector_files import as_files
from elmo_cli.analysis.word_neighbours import word_neighbours
from elmo_cli.engine import load_engine
from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import LAYOUTS
from elmo_cli.records.record import Record
from tests.support.commands import TINY
from tests.support.layouts import Corpus, layouts, line_record, write

Array = NDArray[Any]


def corpus(lengths: list[int], seed: int = 0, layers: str = "top") -> Corpus:
    """Return lines of random vectors. All tokens differ."""
    random = np.random.default_rng(seed)
    n_layers = {"all": (3,), "0,2": (2,)}.get(layers, ())
    texts = [
        " ".join(f"w{line}.{i}" for i in range(n)) for line, n in enumerate(lengths)
    ]
    values = [random.normal(size=(*n_layers, n, 4)).astype(np.float32) for n in lengths]
    return Corpus(list(map(line_record, texts)), values, {"layers": layers})


def embed(
    path: Path, text: str, layers: str, embedder: ElmoEmbedder, **options: Any
) -> None:
    """Embed lines, or JSON lines."""
    source = path.with_name("text.jsonl" if text.startswith("{") else "text.txt")
    source.write_text(text)
    embedder.embed_file(source, path, layers, **options)


def cosines(query: Array, vectors: Array) -> Any:
    a = query.astype(np.float64)
    b = vectors.astype(np.float64)
    return b @ a / np.linalg.norm(a) / np.linalg.norm(b, axis=1)


@given(st.lists(st.integers(0, 5), max_size=12), st.sampled_from(LAYOUTS), st.data())
def test_the_nearest_tokens_have_the_largest_cosines(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    layout: str,
    data: st.DataObject,
) -> None:
    top, block, seed = (data.draw(st.integers(1, 9)) for _ in range(3))
    path = tmp_path_factory.mktemp("search") / "v.hdf5"
    there = corpus(lengths, seed=seed)
    write(there, path, layout)
    queries = np.random.default_rng(99).normal(size=(data.draw(st.integers(1, 3)), 4))
    with pytest.MonkeyPatch.context() as patch, open_activations(path) as activations:
        patch.setattr(module, "BLOCK_TOKENS", block)
        result = neighbours(activations, queries, top)
    places = [(line, i) for line, n in enumerate(lengths) for i in range(n)]
    vectors = np.concatenate([np.empty((0, 4)), *there.values])
    for query, nearest in zip(queries, result.nearest, strict=True):
        expected = cosines(query, vectors)
        order = np.argsort(-expected)[:top]
        assert [(hit.record, hit.index) for hit in nearest] == [
            places[i] for i in order
        ]
        np.testing.assert_allclose(
            [hit.cosine for hit in nearest], expected[order], atol=1e-6
        )
        assert all(hit.token == f"w{hit.record}.{hit.index}" for hit in nearest)
    if len(places) > 1:
        pairs = np.array([cosines(vector, vectors) for vector in vectors])
        mean = pairs[~np.eye(len(pairs), dtype=bool)].mean()
        assert result.mean_cosine == pytest.approx(mean, abs=1e-6)
    else:
        assert result.mean_cosine is None


@layouts
@pytest.mark.parametrize(
    ("stored", "layers", "rows"),
    [
        ("all", None, [1, 2]),
        ("all", "0", [0]),
        ("all", "2,0", [0, 2]),
        ("0,2", None, [1]),
        ("0,2", "2", [1]),
    ],
)
def test_the_mean_of_the_lstm_layers_is_compared_by_default(
    tmp_path: Path, layout: str, stored: str, layers: str | None, rows: list[int]
) -> None:
    there = corpus([3, 2], layers=stored)
    write(there, tmp_path / "v.hdf5", layout)
    query = np.ones((1, 4))
    with open_activations(tmp_path / "v.hdf5") as activations:
        (nearest,) = neighbours(activations, query, 5, layers=layers).nearest
    vectors = np.concatenate([values[rows].mean(axis=0) for values in there.values])
    expected = sorted(cosines(query[0], vectors), reverse=True)
    np.testing.assert_allclose([hit.cosine for hit in nearest], expected, atol=1e-6)


def test_equal_vectors_keep_the_order_of_the_file(tmp_path: Path) -> None:
    there = corpus([2, 2, 2])
    write(there._replace(values=[there.values[0]] * 3), tmp_path / "v.hdf5", "packed")
    with open_activations(tmp_path / "v.hdf5") as activations:
        (nearest,) = neighbours(activations, there.values[0][:1], 2).nearest
    assert [(hit.record, hit.index) for hit in nearest] == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    "layers", ["all", "0,2", "top", "average", "lstm1", "word_emb"]
)
@pytest.mark.parametrize("state", ["zero", "warm"])
def test_a_query_is_embedded_as_its_file_was(
    tmp_path: Path, layers: str, state: Any
) -> None:
    path = tmp_path / "v.hdf5"
    text = "the cat sat\na dog ran off\n\nthe cat sat\n"
    embed(path, text, layers, ElmoEmbedder(model=TINY, state=state), layout="packed")
    with open_activations(path) as activations:
        settings = ModelSettings.from_attributes(activations.attributes)
        query = [
            Occurrence(["the", "cat", "sat", "."], 1),
            Occurrence(["the", "cat", "sat"], 1),
        ]
        with_itself = ElmoEmbedder.from_engine(load_engine(settings))
        nearest = word_neighbours(with_itself, activations, query, 20).nearest
    assert settings == ModelSettings(str(TINY), state=state)
    # A word before the end: only the backward half differs. A sentence never finds itself.
    assert [hit.token for hit in nearest[0]].count("cat") == 2
    assert [hit.record for hit in nearest[1]] == [1] * 4


def test_the_word_and_its_sentence_can_be_excluded(
    tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    path = tmp_path / "v.hdf5"
    embed(path, "The cat sat\nthe cat ran\nA Cat sat\n", "top", tiny, layout="packed")
    query = [Occurrence(["the", "cat", "ran"], 1)]
    with open_activations(path) as activations:
        all_uses = word_neighbours(tiny, activations, query)
        others = word_neighbours(tiny, activations, query, other_words=True)
    assert {hit.token for hit in all_uses.nearest[0]} == {
        "The",
        "cat",
        "sat",
        "A",
        "Cat",
    }
    assert {hit.token for hit in others.nearest[0]} == {"The", "sat", "A"}
    assert {hit.record for hit in all_uses.nearest[0]} == {0, 2}


def test_sentences_are_found_where_tokens_are_pooled(
    tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    path = tmp_path / "v.hdf5"
    embed(
        path, "the cat sat\n\na dog ran off\nthe dog sat\n", "all", tiny, pooling="mean"
    )
    sentence = ["the", "cat", "ran"]
    (vector,) = tiny.embed_sentences([sentence], layers="1,2", pooling="mean")
    with open_activations(path) as activations:
        as_files(activations).check_pooling(pooled=True)
        (nearest,) = word_neighbours(
            tiny, activations, [Occurrence(sentence, 0)]
        ).nearest
        pooled = np.stack([values[1:].mean(axis=0) for values in activations])
        with pytest.raises(
            ElmoError, match=r"v\.hdf5: the file has one vector per sentence"
        ):
            as_files(activations).check_pooling(pooled=False)
    expected = cosines(vector.mean(axis=0), pooled[[0, 2, 3]])  # without the blank line
    by_record = {hit.record: hit.cosine for hit in nearest}
    assert by_record == pytest.approx(
        dict(zip((0, 2, 3), expected, strict=True)), abs=1e-6
    )


@layouts
def test_records_with_keys_are_searched_by_their_tokens(
    tmp_path: Path, layout: str, tiny: ElmoEmbedder
) -> None:
    path = tmp_path / "v.hdf5"
    text = '{"tokens": ["the", "cat"], "id": "b"}\n{"text": "a cat", "id": "a"}\n'
    embed(path, text, "all", tiny, layout=layout)
    with open_activations(path) as activations:
        query = [Occurrence(["my", "cat"], 1)]
        (nearest,) = word_neighbours(tiny, activations, query).nearest
        tokens_of_records = {(hit.location.name, hit.token) for hit in nearest}
    assert tokens_of_records == {("b", "the"), ("b", "cat"), ("a", "a"), ("a", "cat")}


@pytest.mark.parametrize(
    ("changes", "layers", "message"),
    [
        ({}, "1", " has only top."),
        ({"attributes": {"layers": "0,2"}}, "1", " has only layers 0 and 2."),
        ({"attributes": {}}, None, ": the file does not record which layer it has"),
        (
            {"records": [Record("a b c", [*"abc"])]},
            None,
            ", line 1: the sentence has 3 tokens",
        ),
        ({}, None, ": the file does not contain the tokens"),
    ],
)
def test_a_file_that_cannot_answer_a_query_is_refused(
    changes: dict[str, Any], layers: str | None, message: str, tmp_path: Path
) -> None:
    there = corpus([2])._replace(**changes)
    path = tmp_path / "v.hdf5"
    write(there, path, "packed", forget_sentences=message.endswith("the tokens"))
    with open_activations(path) as activations, pytest.raises(ElmoError) as error:
        neighbours(activations, np.ones((1, 4)), layers=layers)
    assert f"{path}{message}" in str(error.value)


def test_a_query_of_another_shape_is_refused(tmp_path: Path) -> None:
    write(corpus([2]), tmp_path / "v.hdf5")
    for shape, message in (
        (
            (4,),
            "expected vectors of the shape .Q, W. and top 1 or more, found the shape .4,.",
        ),
        ((1, 3), r"v\.hdf5: expected vectors of width 3, as the query has, found 4"),
    ):
        with (
            open_activations(tmp_path / "v.hdf5") as file,
            pytest.raises(ElmoError, match=message),
        ):
            neighbours(file, np.ones(shape))


def test_the_cosine_of_planted_vectors() -> None:
    one = np.array([3, 4], np.float32)
    other = np.array([4, 3], np.float32)
    assert cosine(one, other) == pytest.approx(24 / 25)
    assert cosine(one, 10 * one) == pytest.approx(1)
    assert cosine(one, -one) == pytest.approx(-1)
    assert cosine(one, np.array([-4, 3], np.float32)) == 0
    assert cosine(one, np.zeros(2, np.float32)) == 0


def test_a_word_is_found_or_an_error_with_the_tokens() -> None:
    twice = ["bank", "after", "bank"]
    times = "'bank' occurs 2 times in 'bank after bank'"
    assert find_occurrence("We sat by the river bank.", "bank").index == 5
    assert [find_occurrence(twice, "bank", number).index for number in (1, 2)] == [0, 2]
    for sentence, word, number, message in (
        (twice, "bank", None, f"{times}. Choose one with a number, 1 to 2."),
        (twice, "bank", 3, f"{times}, not 3 times."),
        (["We", "sat"], "We", 2, "'We' occurs once in 'We sat', not 2 times."),
        (
            "the banks",
            "bank",
            2,
            "'bank' is not a token of 'the banks'. Did you mean 'banks'?",
        ),
        ([], "bank", None, "'bank' is not a token of an empty sentence"),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            find_occurrence(sentence, word, number)
